package import AnnalsCore

/// The rows that one rebase knows by identity: which row each candidate key refers to. It exists only until the rebase commits.
/// Nothing is stored for each row or cell for later merges.
///
/// A *row identity* (`ID`) is one row from its insert to its delete. A key can belong to several rows, one after
/// another, and a row can change its key. An outbox transaction refers to rows by the keys that they had when it
/// was written. So this type records three facts for each key: the row that had it before the pulled entries, the row
/// that later outbox transactions mean by it, and the row that has it now. A key that nothing touched is not recorded
/// and refers to the stored row.
///
/// Two phases write to it. First the pulled entries are added, with write marks. Then each outbox transaction is added
/// after it was rebased (merge rules 21 to 23).
package struct RowIdentities: Sendable {
    package struct ID: Hashable, Sendable {
        let number: Int
    }

    package enum State: Sendable {
        case alive(key: [Value])
        case dead(Tombstone)
        /// The row was merged into another row.
        case merged(into: Occupant)
        /// The policy of a constraint set the row aside.
        case setAside
        /// An earlier transaction of the outbox deleted it.
        case gone
    }

    /// A row that the pulled entries deleted.
    package struct Tombstone: Sendable {
        package var table: String
        package var row: [Value]
        package var mark: WriteMark
        /// The parents that its foreign keys referred to when it was deleted, in the order of the table's foreign keys.
        /// nil for a foreign key without a reference.
        package var parents: [Occupant?]
    }

    /// The row that has a key at some point of the rebase.
    package enum Occupant: Hashable, Sendable {
        case row(ID)
        /// The stored row with this key. Nothing had touched it at that point.
        case untouched(CandidateKey)
        case nobody
    }

    package struct Row: Sendable {
        package var state: State
        /// Set if the pulled entries inserted the row.
        package var insertedBy: WriteMark?
        var cells: [Int: WriteMark] = [:]

        /// The last writer of one cell on other replicas since the outbox's base.
        package func writer(of column: Int) -> WriteMark? { cells[column] ?? insertedBy }

        /// The latest writer of any cell of the row on other replicas.
        package var latestWriter: WriteMark? {
            (Array(cells.values) + (insertedBy.map { [$0] } ?? [])).max { ($0.time, $0.replica) < ($1.time, $1.replica) }
        }
    }

    /// A row's key, and the position at which it was deleted.
    private struct Grave: Hashable {
        var key: CandidateKey
        var position: Position
    }

    private(set) var rows: [Row] = []
    /// The row that had a key when the key was first touched.
    private var originals: [CandidateKey: ID?] = [:]
    /// The row that later outbox transactions mean by a key, because an earlier one gave the key to it.
    private var called: [CandidateKey: ID] = [:]
    private var present: [CandidateKey: ID?] = [:]
    private var graves: [Grave: ID] = [:]
    private var endings: [Position: [ID]] = [:]
    private var revivals: [Grave: ID] = [:]

    package init() {}

    // MARK: Looking up

    package subscript(id: ID) -> Row { rows[id.number] }

    /// The row that the outbox means by a key.
    package func meant(by name: CandidateKey) -> Occupant {
        if let id = called[name] { return .row(id) }
        return original(of: name)
    }

    /// The row that has the key now.
    package func occupant(of name: CandidateKey) -> Occupant {
        guard let entry = present[name] else { return .untouched(name) }
        return entry.map(Occupant.row) ?? .nobody
    }

    /// The same row by the current records: a row that was untouched at that point may have been touched since.
    package func known(_ occupant: Occupant) -> Occupant {
        if case .untouched(let name) = occupant { return original(of: name) }
        return occupant
    }

    private func original(of name: CandidateKey) -> Occupant {
        guard let entry = originals[name] else { return .untouched(name) }
        return entry.map(Occupant.row) ?? .nobody
    }

    /// The rows that one entry deleted.
    package func ended(at position: Position) -> [ID] { endings[position] ?? [] }

    /// The row that the pulled entries continued, of the row with this key that was deleted at `position`
    /// before them.
    package func revived(_ position: Position, at key: CandidateKey) -> ID? {
        revivals[Grave(key: key, position: position)]
    }

    // MARK: Shared by both phases

    /// The identity of a stored row.
    package mutating func rowID(of side: RowImage) -> ID {
        if let id = present[side.name] ?? nil { return id }
        let id = begin(Row(state: .alive(key: side.key)))
        for name in side.names where present[name] == nil {
            present[name] = id
            originals[name] = id
        }
        return id
    }

    mutating func begin(_ row: Row) -> ID {
        rows.append(row)
        return ID(number: rows.count - 1)
    }

    mutating func release(_ names: [CandidateKey], of id: ID) {
        for name in names where present[name] == .some(id) { present[name] = .some(nil) }
    }

    mutating func take(_ side: RowImage, by id: ID) {
        rows[id.number].state = .alive(key: side.key)
        for name in side.names {
            // Transactions that used this key before mean another row, or no row.
            if originals[name] == nil { originals[name] = .some(nil) }
            present[name] = id
        }
    }

    mutating func end(_ id: ID, as state: State) {
        rows[id.number].state = state
    }

    mutating func mark(_ id: ID, columns: some Sequence<Int>, by mark: WriteMark) {
        for column in columns { rows[id.number].cells[column] = mark }
    }

    /// From now on, outbox transactions mean this row by these keys.
    package mutating func call(_ id: ID, by names: [CandidateKey]) {
        for name in names { called[name] = id }
    }

    mutating func bury(_ id: ID, as key: CandidateKey, at position: Position) {
        graves[Grave(key: key, position: position)] = id
        endings[position, default: []].append(id)
    }

    /// The row with this key that the pulled entries deleted at `position`.
    func buried(_ key: CandidateKey, at position: Position) -> ID? {
        graves[Grave(key: key, position: position)]
    }

    mutating func noteRevival(of key: CandidateKey, at position: Position, as id: ID) {
        revivals[Grave(key: key, position: position)] = id
    }
}

/// The image of a row before or after a change, with all its candidate keys.
package struct RowImage: Sendable {
    package var row: [Value]
    package var key: [Value]
    /// The primary key is first.
    package var names: [CandidateKey]
    /// The keys of the parents that its foreign keys refer to. nil for a foreign key without a reference.
    package var parents: [CandidateKey?]

    package init(row: [Value], key: [Value], names: [CandidateKey], parents: [CandidateKey?]) {
        precondition(!names.isEmpty, "a row has at least its primary key")
        self.row = row
        self.key = key
        self.names = names
        self.parents = parents
    }

    var name: CandidateKey { names[0] }
}
