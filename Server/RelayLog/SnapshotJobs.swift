package import AnnalsCore
internal import Synchronization

/// When a space's next snapshot is due, and which replica makes it.
///
/// The job goes along with an answer to a replica that has everything, and is that replica's for a while; then another one
/// gets it. It is kept in memory only: after a restart two replicas may make the same snapshot, and the first one counts.
package final class SnapshotJobs: Sendable {
    /// The newest snapshot, as far as it matters here.
    package struct Newest: Sendable {
        package var position: Position
        package var byteCount: Int64
        package var logBytes: Int64
        /// Its file is gone or cut off: another is due now.
        package var isLost: Bool
        /// Whose it is, where a replica of another owner has yet to confirm it.
        var unconfirmedOwner: String?

        package init(position: Position, byteCount: Int64, logBytes: Int64, isLost: Bool = false, unconfirmedOwner: String? = nil) {
            self.unconfirmedOwner = unconfirmedOwner
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
    private let newest = Mutex<[SpaceName: Newest]>([:])

    package init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// Whether this replica, which has everything up to `head`, is to make a snapshot now.
    ///
    /// - Parameters:
    ///   - logBytes: of all batches up to the head since the space's beginning.
    ///   - now: in monotonic milliseconds.
    package func gives(to replica: ReplicaID, in space: SpaceName, head: Position, logBytes: Int64, now: Int64) -> Bool {
        guard let newest = newest.withLock({ $0[space] }), newest.isLost || newest.position < head else { return false }
        let (bytes, positions) = (logBytes - newest.logBytes, head.rawValue - newest.position.rawValue)
        let isLarge = bytes >= max(limits.snapshotLogBytes, newest.byteCount) || positions >= limits.snapshotLogPositions
        guard newest.isLost || isLarge else { return false }
        return jobs.withLock { jobs in
            if let job = jobs[space], job.replica != replica, now < job.until { return false }
            jobs[space] = Job(replica: replica, until: now + limits.snapshotLeaseMilliseconds)
            return true
        }
    }

    /// Whether this replica is to compare the newest snapshot with its rows now: one replica at a time is asked.
    package func givesCheck(to replica: ReplicaID, in space: SpaceName, now: Int64) -> Bool {
        checks.withLock { checks in
            if let job = checks[space], job.replica != replica, now < job.until { return false }
            checks[space] = Job(replica: replica, until: now + limits.snapshotLeaseMilliseconds)
            return true
        }
    }

    /// Whether the newest snapshot waits for the word of an owner, as far as is remembered here: so that most pushes need no look.
    func mayNeedCheck(by owner: ReplicaOwner, in space: SpaceName) -> Bool {
        newest.withLock { $0[space]?.unconfirmedOwner.map { $0 != owner.text } ?? false }
    }

    /// A replica has compared the newest snapshot, or there is another.
    package func endCheck(in space: SpaceName, isConfirmed: Bool = false) {
        checks.withLock { $0[space] = nil }
        if isConfirmed { newest.withLock { $0[space]?.unconfirmedOwner = nil } }
    }

    /// The newest snapshot that is there, which is an older one than before where that held what is voided. Without one nothing is
    /// due, since the store that makes the space brings the first.
    package func note(_ snapshot: Newest, of space: SpaceName) {
        newest.withLock { $0[space] = snapshot }
    }

    /// The newest snapshot cannot be handed out any more.
    func noteLoss(in space: SpaceName) {
        newest.withLock { $0[space]?.isLost = true }
    }

    /// The job is done.
    package func end(in space: SpaceName) {
        jobs.withLock { $0[space] = nil }
    }

    /// The space's data are others now: those of a backup, or of a new space of the same name.
    package func forget(_ space: SpaceName) {
        jobs.withLock { $0[space] = nil }
        checks.withLock { $0[space] = nil }
        newest.withLock { $0[space] = nil }
    }

    package func knows(_ space: SpaceName) -> Bool {
        newest.withLock { $0[space] != nil }
    }
}
