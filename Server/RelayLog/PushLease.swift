internal import AnnalsCore

/// Push leases (merge rule 13). A replica with a long rebase could be refused forever while others push quickly. So
/// after several stale answers in a row it gets a lease to push alone, for a time or one push, whichever ends first;
/// the others get *wait*.
struct PushLease: Sendable {
    private let limits: RelayLogLimits
    private var staleInARow: [ReplicaID: Int] = [:]
    private var holder: (replica: ReplicaID, until: Int64)?

    init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// How many milliseconds a replica must wait for the holder of the lease; nil if it need not wait.
    func wait(for replica: ReplicaID, now: Int64) -> Int64? {
        guard let holder, holder.replica != replica, now < holder.until else { return nil }
        return max(1, min(holder.until - now, limits.waitHintMilliseconds))
    }

    /// Any push of the holder ends the lease, also a refused one.
    mutating func use(by replica: ReplicaID) {
        if holder?.replica == replica { holder = nil }
    }

    /// The holder sends a transaction in parts: each part extends the lease, so it ends with the last part or when no
    /// more parts come.
    mutating func extend(of replica: ReplicaID, now: Int64) {
        guard let current = holder, current.replica == replica, now < current.until else { return }
        holder = (replica, now + limits.pushLeaseMilliseconds)
    }

    mutating func noteAccepted(_ replica: ReplicaID) {
        staleInARow[replica] = nil
    }

    /// Counts a stale answer. `isUrgent`: a schema change conflicts with everything, so it gets the lease after one
    /// stale answer.
    mutating func noteStale(_ replica: ReplicaID, isUrgent: Bool, now: Int64) {
        if staleInARow.count >= limits.replicasCounted, staleInARow[replica] == nil { staleInARow.removeAll() }
        let count = staleInARow[replica, default: 0] + 1
        staleInARow[replica] = count
        guard (isUrgent && count == 1) || count >= limits.staleAnswersBeforeLease else { return }
        if let holder, now < holder.until { return }
        holder = (replica, now + limits.pushLeaseMilliseconds)
        // The count restarts, so that a replica that never succeeds does not keep the lease forever.
        staleInARow[replica] = 1
    }
}
