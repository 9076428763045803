internal import AnnalsCore

/// Acknowledgements of replicas that are not written yet.
///
/// A pull changes nothing else, and a durable write for each pull would cost more than the pull. The loss of these
/// records in a crash is harmless: until its next request a replica counts as further behind than it is.
struct ReplicaAcknowledgements: Sendable {
    struct Key: Hashable, Sendable {
        var space: SpaceName
        var replica: ReplicaID
        /// The owner that named the replica; nil on an open relay.
        var owner: ReplicaOwner?
    }

    private var unsaved: [Key: ReplicaAcknowledgement] = [:]
    private var lastSaved: Int64

    /// Whether there is nothing to write.
    var isEmpty: Bool { unsaved.isEmpty }

    init(now: Int64) {
        lastSaved = now
    }

    /// Adds an acknowledgement; returns true if it is time to write. `now` is monotonic.
    mutating func note(_ acknowledgement: ReplicaAcknowledgement, of key: Key, now: Int64, limits: RelayLogLimits) -> Bool {
        if var known = unsaved[key] {
            known.position = max(known.position, acknowledgement.position)
            known.time = max(known.time, acknowledgement.time)
            known.holdsBack = known.holdsBack || acknowledgement.holdsBack
            if !acknowledgement.name.isEmpty { known.name = acknowledgement.name }
            if !acknowledgement.program.isEmpty { known.program = acknowledgement.program }
            unsaved[key] = known
        } else {
            unsaved[key] = acknowledgement
        }
        return unsaved.count >= limits.unsavedAcknowledgements || now - lastSaved >= limits.acknowledgementMilliseconds
    }

    /// Removes and returns the unwritten acknowledgements, by space. For each owner and space it returns at most the
    /// newest `limits.acknowledgementsSaved`: a request that names a replica costs the sender nothing, but each row costs the
    /// relay a write.
    mutating func take(now: Int64, limits: RelayLogLimits) -> [SpaceName: [(key: Key, acknowledgement: ReplicaAcknowledgement)]] {
        defer { unsaved = [:] }
        lastSaved = now
        let groups = Dictionary(grouping: unsaved.map { (key: $0.key, acknowledgement: $0.value) }) {
            Sender(space: $0.key.space, owner: $0.key.owner)
        }
        var spaces: [SpaceName: [(key: Key, acknowledgement: ReplicaAcknowledgement)]] = [:]
        for (sender, group) in groups {
            let isTooMany = sender.owner != nil && group.count > limits.acknowledgementsSaved
            let newest = isTooMany ? group.sorted { $0.acknowledgement.time > $1.acknowledgement.time } : group
            spaces[sender.space, default: []] += isTooMany ? Array(newest.prefix(limits.acknowledgementsSaved)) : newest
        }
        return spaces
    }

    private struct Sender: Hashable {
        var space: SpaceName
        var owner: ReplicaOwner?
    }
}
