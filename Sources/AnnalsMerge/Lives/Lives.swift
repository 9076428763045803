package import AnnalsCore

/// Who is meant by what, during one rebase. Gone when it commits: nothing is kept per row or cell for later merges.
///
/// A *life* is one row from its insert to its delete; a key can have several, one after another, and a row can change its
/// key. The outbox calls rows by the names that they had when it was written, and means the lives of then. So it is noted
/// who had a name when the pulled entries began, whom the outbox calls by it since, and whose it is now. Names that
/// nobody touched are not noted, and mean the row that the store holds.
///
/// Two phases write here: first the pulled entries are noted, with marks of who wrote what, then every outbox transaction
/// as it came to lie (merge rules 21 to 23).
package struct Lives: Sendable {
    package struct ID: Hashable, Sendable {
        let number: Int
    }

    package enum State: Sendable {
        case alive(key: [Value])
        case dead(Tombstone)
        /// It was made one with another row.
        case merged(into: Occupant)
        /// A constraint's rule withdrew it.
        case setAside
        /// An earlier transaction of the outbox removed it.
        case gone
    }

    /// A life that ended in the pulled entries.
    package struct Tombstone: Sendable {
        package var table: String
        package var row: [Value]
        package var mark: WriteMark
        /// Whom its foreign keys named when it died, in the order of the table's keys; nil where one named nobody.
        package var parents: [Occupant?]
    }

    /// Who has a name at some moment.
    package enum Occupant: Hashable, Sendable {
        case life(ID)
        /// The row that the store holds under this name: nothing had touched it by then.
        case untouched(RowName)
        case nobody
    }

    package struct Life: Sendable {
        package var state: State
        /// Set when it began in the pulled entries.
        package var birth: WriteMark?
        var cells: [Int: WriteMark] = [:]

        /// The last foreign writer of one cell since the outbox's base.
        package func writer(of column: Int) -> WriteMark? { cells[column] ?? birth }

        /// The latest foreign writer of anything in the row.
        package var latestWriter: WriteMark? {
            (Array(cells.values) + (birth.map { [$0] } ?? [])).max { ($0.time, $0.replica) < ($1.time, $1.replica) }
        }
    }

    /// A row's key, and where in the log it ended.
    private struct Grave: Hashable {
        var key: RowName
        var position: Position
    }

    private(set) var lives: [Life] = []
    /// Who had a name when it was first touched.
    private var originals: [RowName: ID?] = [:]
    /// Whom later outbox transactions call by a name, because an earlier one gave it.
    private var called: [RowName: ID] = [:]
    private var present: [RowName: ID?] = [:]
    private var graves: [Grave: ID] = [:]
    private var endings: [Position: [ID]] = [:]
    private var revivals: [Grave: ID] = [:]

    package init() {}

    // MARK: Looking up

    package subscript(id: ID) -> Life { lives[id.number] }

    /// Whom the outbox means by a name.
    package func meant(by name: RowName) -> Occupant {
        if let id = called[name] { return .life(id) }
        return original(of: name)
    }

    /// Who has the name now.
    package func occupant(of name: RowName) -> Occupant {
        guard let entry = present[name] else { return .untouched(name) }
        return entry.map(Occupant.life) ?? .nobody
    }

    /// Who it is by what is known now: whatever was untouched then may have been touched since.
    package func known(_ occupant: Occupant) -> Occupant {
        if case .untouched(let name) = occupant { return original(of: name) }
        return occupant
    }

    private func original(of name: RowName) -> Occupant {
        guard let entry = originals[name] else { return .untouched(name) }
        return entry.map(Occupant.life) ?? .nobody
    }

    /// The lives that one entry ended.
    package func ended(at position: Position) -> [ID] { endings[position] ?? [] }

    /// The life that the pulled entries brought back, of the row with this key that ended at `position` before them.
    package func revived(_ position: Position, at key: RowName) -> ID? {
        revivals[Grave(key: key, position: position)]
    }

    // MARK: Shared by both phases

    /// The life of a row that the store holds.
    package mutating func life(of side: NotedSide) -> ID {
        if let id = present[side.name] ?? nil { return id }
        let id = begin(Life(state: .alive(key: side.key)))
        for name in side.names where present[name] == nil {
            present[name] = id
            originals[name] = id
        }
        return id
    }

    mutating func begin(_ life: Life) -> ID {
        lives.append(life)
        return ID(number: lives.count - 1)
    }

    mutating func release(_ names: [RowName], of id: ID) {
        for name in names where present[name] == .some(id) { present[name] = .some(nil) }
    }

    mutating func take(_ side: NotedSide, by id: ID) {
        lives[id.number].state = .alive(key: side.key)
        for name in side.names {
            // Whoever called it by this name before means another row, or none.
            if originals[name] == nil { originals[name] = .some(nil) }
            present[name] = id
        }
    }

    mutating func end(_ id: ID, as state: State) {
        lives[id.number].state = state
    }

    mutating func mark(_ id: ID, columns: some Sequence<Int>, by mark: WriteMark) {
        for column in columns { lives[id.number].cells[column] = mark }
    }

    /// What the outbox calls a life from now on.
    package mutating func call(_ id: ID, by names: [RowName]) {
        for name in names { called[name] = id }
    }

    mutating func bury(_ id: ID, as key: RowName, at position: Position) {
        graves[Grave(key: key, position: position)] = id
        endings[position, default: []].append(id)
    }

    /// The life that ended at `position` under this key, in the pulled entries.
    func buried(_ key: RowName, at position: Position) -> ID? {
        graves[Grave(key: key, position: position)]
    }

    mutating func noteRevival(of key: RowName, at position: Position, as id: ID) {
        revivals[Grave(key: key, position: position)] = id
    }
}

/// A row on one side of a change, with everything that it can be called.
package struct NotedSide: Sendable {
    package var row: [Value]
    package var key: [Value]
    /// Its key's name first.
    package var names: [RowName]
    /// The names of the parents that its foreign keys reference; nil where one references nothing.
    package var parents: [RowName?]

    package init(row: [Value], key: [Value], names: [RowName], parents: [RowName?]) {
        precondition(!names.isEmpty, "a row is called by its key at least")
        self.row = row
        self.key = key
        self.names = names
        self.parents = parents
    }

    var name: RowName { names[0] }
}
