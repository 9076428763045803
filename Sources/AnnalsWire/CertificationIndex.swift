package import AnnalsCore

/// What the relay keeps of the log for certification. Certification costs one look-up for each hash, however old the
/// base is.
///
/// For each hash the index keeps the newest position, and the newest position of any other replica. So an author's own
/// entries never conflict with it. For coarse footprints the index keeps the same pair for each table, for each
/// combination of rules and key, and for all entries.
///
/// Memory is bounded. Hashes are in two generations. When the younger one is full, the older one is dropped as a whole,
/// and `floor` rises to its last position. This causes no pause at any size.
package struct CertificationIndex: Sendable {
    /// Bases below this position cannot be certified any more. The relay answers them as stale.
    package private(set) var floor: Position
    /// The newest position recorded.
    package private(set) var last: Position

    private let generationHashes: Int
    private var young = Generation()
    private var old = Generation()

    /// - Parameters:
    ///   - maximumHashes: how many hashes and tables are kept. Each takes about 50 to 100 bytes of memory.
    ///   - floor: the position where the index begins. Zero if it will have the log from the beginning.
    package init(maximumHashes: Int, floor: Position = .zero) {
        precondition(maximumHashes >= 2, "maximumHashes must be at least 2")
        generationHashes = maximumHashes / 2
        self.floor = floor
        last = floor
    }

    /// The current number of hashes, tables and keys.
    package var count: Int { young.count + old.count }

    /// From now on, bases before this position are stale.
    package mutating func raiseFloor(to position: Position) {
        floor = max(floor, min(position, last))
    }

    /// Adds an accepted transaction. Positions must ascend.
    package mutating func record(_ footprint: Footprint, replica: ReplicaID, position: Position) {
        precondition(position > last, "entries are recorded in the order of the log")
        let cost = footprint.hashCount + footprint.groups.count + 1
        if young.count + cost > generationHashes, young.count > 0 {
            if let dropped = old.last { floor = dropped }
            old = young
            young = Generation()
        }
        // A footprint that is larger than a generation is stored as whole tables, or as everything. It then conflicts with more,
        // never less.
        if cost <= generationHashes {
            young.record(footprint, replica: replica, position: position)
        } else if footprint.groups.count < generationHashes {
            young.record(footprint.coarse, replica: replica, position: position)
        } else {
            young.record(
                Footprint(rules: footprint.rules, keyID: footprint.keyID, everything: true), replica: replica, position: position)
        }
        last = position
    }

    /// The newest entry after `base` by another replica that `footprint` conflicts with. nil if the transaction may be accepted.
    ///
    /// For a base below the floor the result is at least the floor, because the entries in between are not kept.
    package func conflict(of footprint: Footprint, base: Position, replica: ReplicaID) -> Position? {
        var found = max(
            young.newest(conflictingWith: footprint, replica: replica), old.newest(conflictingWith: footprint, replica: replica))
        if base < floor { found = max(found, floor) }
        return found > base ? found : nil
    }
}

/// The newest entry, and the newest entry of any replica other than its author.
private struct Newest: Sendable {
    var position: Position
    var replica: ReplicaID
    var positionOfOthers = Position.zero

    init(_ position: Position, _ replica: ReplicaID) {
        self.position = position
        self.replica = replica
    }

    mutating func update(_ position: Position, _ replica: ReplicaID) {
        if replica != self.replica { positionOfOthers = self.position }
        self.position = position
        self.replica = replica
    }

    func byOther(than replica: ReplicaID) -> Position {
        replica == self.replica ? positionOfOthers : position
    }
}

extension Newest? {
    mutating func note(_ position: Position, _ replica: ReplicaID) {
        if self == nil { self = Newest(position, replica) } else { self?.update(position, replica) }
    }

    /// Zero if there is none. No base is below zero.
    func byOther(than replica: ReplicaID) -> Position {
        self?.byOther(than: replica) ?? .zero
    }
}

/// The index of a run of entries.
private struct Generation: Sendable {
    /// Rules and key. Footprints with different rules or keys cannot be compared.
    struct Kind: Hashable, Sendable {
        var rules: UInt16
        var keyID: UInt64
    }

    struct Table: Sendable {
        var wholeWrites: Newest?
        var wholeReads: Newest?
        /// All entries that write to this table, with single hashes or as a whole.
        var allWrites: Newest?
        var allReads: Newest?
    }

    static let maximumKinds = 16

    private var writes: [UInt64: Newest] = [:]
    private var reads: [UInt64: Newest] = [:]
    private var tables: [UInt64: Table] = [:]
    private var kinds: [Kind: Newest] = [:]
    private var everything: Newest?
    private var all: Newest?
    private(set) var last: Position?

    var count: Int { writes.count + reads.count + tables.count + kinds.count }

    mutating func record(_ footprint: Footprint, replica: ReplicaID, position: Position) {
        last = position
        all.note(position, replica)
        // A space has one kind, or a few while its keys change. With more kinds each look-up would take longer, so
        // footprints of further kinds conflict with all others.
        let kind = Kind(rules: footprint.rules, keyID: footprint.keyID)
        let isKnown = kinds[kind] != nil || kinds.count < Self.maximumKinds
        if isKnown { kinds[kind].note(position, replica) }
        if footprint.everything || !isKnown { everything.note(position, replica) }
        for group in footprint.groups {
            var table = tables[group.table] ?? Table()
            if group.writesWhole { table.wholeWrites.note(position, replica) }
            if group.readsWhole { table.wholeReads.note(position, replica) }
            if group.hasWrites { table.allWrites.note(position, replica) }
            if group.hasReads { table.allReads.note(position, replica) }
            tables[group.table] = table
            for hash in group.writes { writes[hash].note(position, replica) }
            for hash in group.reads { reads[hash].note(position, replica) }
        }
    }

    func newest(conflictingWith footprint: Footprint, replica: ReplicaID) -> Position {
        if footprint.everything { return all.byOther(than: replica) }
        var found = everything.byOther(than: replica)
        let kind = Kind(rules: footprint.rules, keyID: footprint.keyID)
        for (other, newest) in kinds where other != kind { found = max(found, newest.byOther(than: replica)) }
        for group in footprint.groups { found = max(found, newest(conflictingWith: group, replica: replica)) }
        return found
    }

    private func newest(conflictingWith group: Footprint.Group, replica: ReplicaID) -> Position {
        guard let table = tables[group.table] else { return .zero }
        var found = Position.zero
        func note(_ newest: Newest?) { found = max(found, newest.byOther(than: replica)) }
        if group.hasWrites || group.hasReads { note(table.wholeWrites) }
        if group.hasWrites { note(table.wholeReads) }
        if group.writesWhole || group.readsWhole { note(table.allWrites) }
        if group.writesWhole { note(table.allReads) }
        // A hash covers the name of its table, so one dictionary is enough for all tables.
        for hash in group.writes {
            note(writes[hash])
            note(reads[hash])
        }
        for hash in group.reads { note(writes[hash]) }
        return found
    }
}

extension Footprint {
    /// The same tables, each as a whole.
    fileprivate var coarse: Footprint {
        var coarse = self
        coarse.groups = groups.map { Group(table: $0.table, writesWhole: $0.hasWrites, readsWhole: $0.hasReads) }
        return coarse
    }
}
