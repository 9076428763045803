internal import AnnalsCore

/// Merge rule 13: with a long rebase and quick neighbours one replica could lose for ever. After some stale answers in a row
/// it gets the turn, for a while or one push, whichever is first; the others are told to wait.
struct Turns: Sendable {
    private let limits: RelayLogLimits
    private var staleInARow: [ReplicaID: Int] = [:]
    private var holder: (replica: ReplicaID, until: Int64)?

    init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// How long another replica than the holder is to wait, in milliseconds; nil when it need not.
    func wait(for replica: ReplicaID, now: Int64) -> Int64? {
        guard let holder, holder.replica != replica, now < holder.until else { return nil }
        return max(1, min(holder.until - now, limits.waitHintMilliseconds))
    }

    /// A push of the holder's uses the turn up, however it ends.
    mutating func use(by replica: ReplicaID) {
        if holder?.replica == replica { holder = nil }
    }

    /// The holder sends a transaction in parts: its turn lasts until the last of them, unless they stop coming.
    mutating func extend(of replica: ReplicaID, now: Int64) {
        guard let current = holder, current.replica == replica, now < current.until else { return }
        holder = (replica, now + limits.turnMilliseconds)
    }

    mutating func noteAccepted(_ replica: ReplicaID) {
        staleInARow[replica] = nil
    }

    /// Counts a stale answer. `isUrgent`: schema changes, which overlap with everything, ask for the turn at once.
    mutating func noteStale(_ replica: ReplicaID, isUrgent: Bool, now: Int64) {
        if staleInARow.count >= limits.replicasCounted, staleInARow[replica] == nil { staleInARow.removeAll() }
        let count = staleInARow[replica, default: 0] + 1
        staleInARow[replica] = count
        guard (isUrgent && count == 1) || count >= limits.staleAnswersBeforeTurn else { return }
        if let holder, now < holder.until { return }
        holder = (replica, now + limits.turnMilliseconds)
        // Counted anew, so that one that never gets ready does not hold the space for ever.
        staleInARow[replica] = 1
    }
}
