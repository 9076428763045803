internal import AnnalsCore

/// Who was there and how far it had come, remembered until it is worth a write.
///
/// A pull changes nothing but this, and a durable write for each would cost more than the pull. What a crash forgets is
/// harmless: a replica then counts as further behind than it is until its next request.
struct Sightings: Sendable {
    struct Key: Hashable, Sendable {
        var space: SpaceName
        var replica: ReplicaID
        /// Who says so; nil on a relay that serves everybody.
        var owner: ReplicaOwner?
    }

    private var unsaved: [Key: Sighting] = [:]
    private var lastSaved: Int64

    /// Whether nothing waits to be saved.
    var isEmpty: Bool { unsaved.isEmpty }

    init(now: Int64) {
        lastSaved = now
    }

    /// Adds a sighting; true when it is time to save. `now` is monotonic.
    mutating func note(_ sighting: Sighting, of key: Key, now: Int64, limits: RelayLogLimits) -> Bool {
        if var known = unsaved[key] {
            known.position = max(known.position, sighting.position)
            known.time = max(known.time, sighting.time)
            known.holdsBack = known.holdsBack || sighting.holdsBack
            if !sighting.name.isEmpty { known.name = sighting.name }
            if !sighting.program.isEmpty { known.program = sighting.program }
            unsaved[key] = known
        } else {
            unsaved[key] = sighting
        }
        return unsaved.count >= limits.unsavedSightings || now - lastSaved >= limits.sightingMilliseconds
    }

    /// What is unsaved, which thereby counts as saved, space by space. Of one credential's replicas that is at most the newest
    /// `limits.sightingsSaved`: a request that names a replica costs the sender nothing, and a row costs a write.
    mutating func take(now: Int64, limits: RelayLogLimits) -> [SpaceName: [(key: Key, sighting: Sighting)]] {
        defer { unsaved = [:] }
        lastSaved = now
        let groups = Dictionary(grouping: unsaved.map { (key: $0.key, sighting: $0.value) }) {
            Sender(space: $0.key.space, owner: $0.key.owner)
        }
        var spaces: [SpaceName: [(key: Key, sighting: Sighting)]] = [:]
        for (sender, group) in groups {
            let isTooMany = sender.owner != nil && group.count > limits.sightingsSaved
            let kept = isTooMany ? Array(group.sorted { $0.sighting.time > $1.sighting.time }.prefix(limits.sightingsSaved)) : group
            spaces[sender.space, default: []] += kept
        }
        return spaces
    }

    private struct Sender: Hashable {
        var space: SpaceName
        var owner: ReplicaOwner?
    }
}
