package import AnnalsCore
internal import Synchronization

/// Decides when a space's next snapshot is due, and which replica makes it.
///
/// An answer to a replica that has all entries assigns the job. The replica has it for a limited time, then another one
/// gets it. Jobs are kept in memory only: after a restart two replicas may make the same snapshot, and the first one
/// counts.
package final class SnapshotJobs: Sendable {
    /// The facts about a snapshot that matter for jobs.
    package struct Known: Sendable {
        package var position: Position
        package var byteCount: Int64
        package var logBytes: Int64
        /// Its file is missing or truncated. If it is the newest one, another snapshot is due now.
        package var isLost: Bool
        /// The owner that uploaded it; empty on an open relay.
        var owner = ""
        /// Whether it delays the next snapshot: see `SpaceSnapshots.counts`.
        var counts = true
        /// Whether a replica of another owner should compare it.
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

    /// There was no room for a snapshot of this owner.
    private struct Refusal {
        var owner: ReplicaOwner?
        var pause: Int64
        var until: Int64
    }

    private let limits: RelayLogLimits
    /// Whether the disk has room for a snapshot of this many bytes.
    private let hasRoom: @Sendable (_ bytes: Int64) -> Bool
    private let jobs = Mutex<[SpaceName: Job]>([:])
    private let checks = Mutex<[SpaceName: Job]>([:])
    /// All snapshots of each space, oldest first.
    private let known = Mutex<[SpaceName: [Known]]>([:])
    /// The time of the last lookup for each space, in monotonic milliseconds.
    private let looks = Mutex<[SpaceName: Int64]>([:])
    /// The newest refusals of each space. They are kept for each owner, so that a member cannot stop the snapshots of
    /// others with uploads that nobody has room for.
    private let refusals = Mutex<[SpaceName: [Refusal]]>([:])

    package init(limits: RelayLogLimits, hasRoom: @escaping @Sendable (_ bytes: Int64) -> Bool = { _ in true }) {
        self.limits = limits
        self.hasRoom = hasRoom
    }

    /// Whether this replica, which has everything up to `head`, should make a snapshot now.
    ///
    /// A snapshot that does not count delays only jobs for its own owner, which would upload the same rows again.
    /// Nobody is asked while the disk has no room for another snapshot as large as the newest one. An owner whose
    /// snapshot was refused for want of room is not asked for a while.
    ///
    /// - Parameters:
    ///   - owner: the owner of the replica.
    ///   - logBytes: bytes of all batches since the space was created.
    ///   - now: in monotonic milliseconds.
    package func gives(
        to replica: ReplicaID, by owner: ReplicaOwner? = nil, in space: SpaceName, head: Position, logBytes: Int64, now: Int64
    ) -> Bool {
        guard isDue(by: owner, in: space, head: head, logBytes: logBytes, now: now) else { return false }
        return jobs.withLock { jobs in
            if let job = jobs[space], job.replica != replica, now < job.until { return false }
            jobs[space] = Job(replica: replica, until: now + limits.snapshotLeaseMilliseconds)
            return true
        }
    }

    /// Uses only what is in memory.
    private func isDue(by owner: ReplicaOwner?, in space: SpaceName, head: Position, logBytes: Int64, now: Int64) -> Bool {
        guard let all = known.withLock({ $0[space] }), !all.isEmpty else { return false }
        let newest = all.last { $0.counts || $0.owner == owner?.text }
        guard hasRoom(newest?.byteCount ?? 0), !isPaused(owner, in: space, now: now) else { return false }
        guard let newest, !newest.isLost else { return true }
        guard newest.position < head else { return false }
        let (bytes, positions) = (logBytes - newest.logBytes, head.rawValue - newest.position.rawValue)
        return bytes >= max(limits.snapshotLogBytes, newest.byteCount) || positions >= limits.snapshotLogPositions
    }

    /// Whether an answer to a replica that has everything needs a lookup of the space's snapshots and owners. It does
    /// if the replica may get a job, and at intervals, because another process may have recorded a snapshot.
    func needsLook(for owner: ReplicaOwner?, in space: SpaceName, head: Position, logBytes: Int64, now: Int64) -> Bool {
        let isStale = looks.withLock { looks in looks[space].map { now >= $0 + Self.lookEvery } ?? true }
        return isStale || !knows(space) || isDue(by: owner, in: space, head: head, logBytes: logBytes, now: now)
            || owner.map { mayNeedCheck(by: $0, in: space) } ?? false
    }

    /// Records the time of a lookup.
    func noteLook(in space: SpaceName, at now: Int64) {
        looks.withLock { $0[space] = now }
    }

    /// In milliseconds.
    private static let lookEvery: Int64 = 5_000

    /// Whether this replica should compare the newest snapshot with its rows now. Only one replica at a time gets this
    /// job.
    package func givesCheck(to replica: ReplicaID, in space: SpaceName, now: Int64) -> Bool {
        checks.withLock { checks in
            if let job = checks[space], job.replica != replica, now < job.until { return false }
            checks[space] = Job(replica: replica, until: now + limits.snapshotLeaseMilliseconds)
            return true
        }
    }

    /// Whether a snapshot in memory waits for a check by this owner. Thanks to it most pushes need no lookup.
    func mayNeedCheck(by owner: ReplicaOwner, in space: SpaceName) -> Bool {
        known.withLock { $0[space]?.contains { $0.isToCompare && $0.owner != owner.text } ?? false }
    }

    /// Ends the comparison job: a replica has compared the snapshot, or there is another one.
    package func endCheck(in space: SpaceName) {
        checks.withLock { $0[space] = nil }
    }

    /// Sets the snapshots of a space, oldest first. Without a snapshot none is due, because the store that creates the
    /// space uploads the first one.
    package func note(_ snapshots: [Known], of space: SpaceName) {
        known.withLock { $0[space] = snapshots.isEmpty ? nil : snapshots }
    }

    /// Marks a snapshot that cannot be served any more.
    func noteLoss(of position: Position, in space: SpaceName) {
        known.withLock { known in
            for place in (known[space] ?? []).indices where known[space]?[place].position == position { known[space]?[place].isLost = true }
        }
    }

    /// Ends the job: there is another snapshot.
    package func end(in space: SpaceName) {
        jobs.withLock { $0[space] = nil }
        refusals.withLock { $0[space] = nil }
    }

    /// Notes that there was no room for a snapshot of this owner. Each refusal after a pause doubles the next pause.
    func noteRefusal(of owner: ReplicaOwner?, in space: SpaceName, at now: Int64) {
        refusals.withLock { [limits] refusals in
            var all = refusals[space] ?? []
            var refusal = Refusal(owner: owner, pause: limits.snapshotLeaseMilliseconds, until: 0)
            if let place = all.firstIndex(where: { $0.owner == owner }) {
                let earlier = all.remove(at: place)
                refusal.pause = now < earlier.until ? earlier.pause : min(2 * earlier.pause, limits.snapshotPauseMilliseconds)
            }
            refusal.until = now + refusal.pause
            all.append(refusal)
            refusals[space] = Array(all.suffix(Self.refusalsKept))
        }
    }

    private func isPaused(_ owner: ReplicaOwner?, in space: SpaceName, now: Int64) -> Bool {
        refusals.withLock { $0[space]?.contains { $0.owner == owner && now < $0.until } ?? false }
    }

    private static let refusalsKept = 64

    /// Drops all state of a space that was restored from a backup, or deleted and created again.
    package func forget(_ space: SpaceName) {
        jobs.withLock { $0[space] = nil }
        checks.withLock { $0[space] = nil }
        known.withLock { $0[space] = nil }
        looks.withLock { $0[space] = nil }
        refusals.withLock { $0[space] = nil }
    }

    package func knows(_ space: SpaceName) -> Bool {
        known.withLock { $0[space] != nil }
    }
}
