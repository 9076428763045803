package import AnnalsCore
internal import Synchronization

/// When a space's next snapshot is due, and which replica makes it.
///
/// The job goes along with an answer to a replica that has everything, and is that replica's for a while; then another one
/// gets it. It is kept in memory only: after a restart two replicas may make the same snapshot, and the first one counts.
package final class SnapshotJobs: Sendable {
    /// A snapshot, as far as it matters here.
    package struct Known: Sendable {
        package var position: Position
        package var byteCount: Int64
        package var logBytes: Int64
        /// Its file is gone or cut off: where it is the newest another is due now.
        package var isLost: Bool
        /// Who sent it; empty at a relay that is open to everybody.
        var owner = ""
        /// Whether it keeps others from being due: see `SpaceSnapshots.counts`.
        var counts = true
        /// A replica of another owner has yet to confirm it.
        var isToCompare = false

        package init(position: Position, byteCount: Int64, logBytes: Int64, isLost: Bool = false) {
            self.position = position
            self.byteCount = byteCount
            self.logBytes = logBytes
            self.isLost = isLost
        }
    }

    private struct Job {
        var replica: ReplicaID
        var until: Int64
    }

    private let limits: RelayLogLimits
    private let jobs = Mutex<[SpaceName: Job]>([:])
    private let checks = Mutex<[SpaceName: Job]>([:])
    /// Of each space all snapshots, oldest first.
    private let known = Mutex<[SpaceName: [Known]]>([:])
    /// When each space's were looked up last, in monotonic milliseconds.
    private let looks = Mutex<[SpaceName: Int64]>([:])

    package init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// Whether this replica, which has everything up to `head`, is to make a snapshot now.
    ///
    /// A snapshot that does not count keeps nobody from making another but its own owner, who would only bring the same rows again.
    ///
    /// - Parameters:
    ///   - owner: whose the replica is.
    ///   - logBytes: of all batches up to the head since the space's beginning.
    ///   - now: in monotonic milliseconds.
    package func gives(
        to replica: ReplicaID, by owner: ReplicaOwner? = nil, in space: SpaceName, head: Position, logBytes: Int64, now: Int64
    ) -> Bool {
        guard isDue(by: owner, in: space, head: head, logBytes: logBytes) else { return false }
        return jobs.withLock { jobs in
            if let job = jobs[space], job.replica != replica, now < job.until { return false }
            jobs[space] = Job(replica: replica, until: now + limits.snapshotLeaseMilliseconds)
            return true
        }
    }

    /// As far as is remembered here.
    private func isDue(by owner: ReplicaOwner?, in space: SpaceName, head: Position, logBytes: Int64) -> Bool {
        guard let all = known.withLock({ $0[space] }), !all.isEmpty else { return false }
        guard let newest = all.last(where: { $0.counts || $0.owner == owner?.text }), !newest.isLost else { return true }
        guard newest.position < head else { return false }
        let (bytes, positions) = (logBytes - newest.logBytes, head.rawValue - newest.position.rawValue)
        return bytes >= max(limits.snapshotLogBytes, newest.byteCount) || positions >= limits.snapshotLogPositions
    }

    /// Whether an answer to a replica that has everything needs a look at the space's snapshots and owners: where it may be asked for
    /// something, and now and then, since another process may have recorded what is not remembered here.
    func needsLook(for owner: ReplicaOwner?, in space: SpaceName, head: Position, logBytes: Int64, now: Int64) -> Bool {
        let isStale = looks.withLock { looks in looks[space].map { now >= $0 + Self.lookEvery } ?? true }
        return isStale || !knows(space) || isDue(by: owner, in: space, head: head, logBytes: logBytes)
            || owner.map { mayNeedCheck(by: $0, in: space) } ?? false
    }

    /// They were looked up at that time.
    func noteLook(in space: SpaceName, at now: Int64) {
        looks.withLock { $0[space] = now }
    }

    /// In milliseconds.
    private static let lookEvery: Int64 = 5_000

    /// Whether this replica is to compare the newest snapshot with its rows now: one replica at a time is asked.
    package func givesCheck(to replica: ReplicaID, in space: SpaceName, now: Int64) -> Bool {
        checks.withLock { checks in
            if let job = checks[space], job.replica != replica, now < job.until { return false }
            checks[space] = Job(replica: replica, until: now + limits.snapshotLeaseMilliseconds)
            return true
        }
    }

    /// Whether a snapshot waits for the word of an owner, as far as is remembered here: so that most pushes need no look.
    func mayNeedCheck(by owner: ReplicaOwner, in space: SpaceName) -> Bool {
        known.withLock { $0[space]?.contains { $0.isToCompare && $0.owner != owner.text } ?? false }
    }

    /// A replica has compared a snapshot, or there is another.
    package func endCheck(in space: SpaceName) {
        checks.withLock { $0[space] = nil }
    }

    /// The snapshots that are there, oldest first. Without any nothing is due, since the store that makes the space brings the first.
    package func note(_ snapshots: [Known], of space: SpaceName) {
        known.withLock { $0[space] = snapshots.isEmpty ? nil : snapshots }
    }

    /// A snapshot cannot be handed out any more.
    func noteLoss(of position: Position, in space: SpaceName) {
        known.withLock { known in
            for place in (known[space] ?? []).indices where known[space]?[place].position == position { known[space]?[place].isLost = true }
        }
    }

    /// The job is done.
    package func end(in space: SpaceName) {
        jobs.withLock { $0[space] = nil }
    }

    /// The space's data are others now: those of a backup, or of a new space of the same name.
    package func forget(_ space: SpaceName) {
        jobs.withLock { $0[space] = nil }
        checks.withLock { $0[space] = nil }
        known.withLock { $0[space] = nil }
        looks.withLock { $0[space] = nil }
    }

    package func knows(_ space: SpaceName) -> Bool {
        known.withLock { $0[space] != nil }
    }
}
