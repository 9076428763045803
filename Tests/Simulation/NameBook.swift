/// Where rows went: which key a row has now that was called otherwise before.
struct NameBook {
    private struct Name: Hashable {
        var table: String
        var key: [Cell]
    }

    private let schema: Schema
    private var names: [Name: [Cell]] = [:]
    private var gone: Set<Name> = []

    init(schema: Schema) {
        self.schema = schema
    }

    /// Notes who moved and who died.
    mutating func note(_ changes: [Change]) {
        var moves: [(Name, [Cell])] = []
        for change in changes {
            guard let table = schema.table(change.table) else { continue }
            switch change.kind {
            case .insert: continue
            case .delete(let row): gone.insert(Name(table: table.name, key: table.key(of: row)))
            case .update(let key, let cells):
                var moved = key
                for cell in cells { if let part = table.key.firstIndex(of: cell.column) { moved[part] = cell.new } }
                let old = fold(table, key)
                if fold(table, moved) != old { moves.append((Name(table: table.name, key: old), fold(table, moved))) }
            }
        }
        for (name, key) in moves { rename(name, to: key) }
    }

    /// Notes that what the author inserted under one key has another now. Who came to the first key by a move is
    /// another row.
    mutating func note(_ table: Table, _ key: [Cell], isNow now: [Cell]) {
        names[Name(table: table.name, key: fold(table, key))] = fold(table, now)
    }

    private mutating func rename(_ name: Name, to key: [Cell]) {
        for (earlier, now) in names where earlier.table == name.table && now == name.key { names[earlier] = key }
        names[name] = key
    }

    /// The keys under which the row may be now that somebody called by `key`.
    func candidates(_ table: Table, _ key: [Cell]) -> [[Cell]] {
        let folded = fold(table, key)
        var candidates = [folded]
        if let now = names[Name(table: table.name, key: folded)] { candidates.append(now) }
        // A key that is a reference follows its parent.
        for reference in table.references {
            guard let parent = schema.table(reference.parent) else { continue }
            for (part, place) in reference.columns.enumerated() {
                guard let keyPart = table.key.firstIndex(of: place),
                    let parentPart = parent.key.firstIndex(of: reference.parentColumns[part])
                else { continue }
                for candidate in candidates {
                    for now in renamed(parent, parentPart, candidate[keyPart]) {
                        var other = candidate
                        other[keyPart] = table.columns[place].collation.folded(now)
                        if !candidates.contains(other) { candidates.append(other) }
                    }
                }
            }
        }
        return candidates
    }

    /// What one part of a key became where it was `value` before.
    func renamed(_ table: Table, _ part: Int, _ value: Cell) -> Set<Cell> {
        let folded = table.columns[table.key[part]].collation.folded(value)
        return Set(names.filter { $0.key.table == table.name && $0.key.key[part] == folded }.map { $0.value[part] })
    }

    func isGone(_ table: Table, _ key: [Cell]) -> Bool {
        let name = Name(table: table.name, key: fold(table, key))
        return gone.contains(name) || names[name] != nil
    }

    private func fold(_ table: Table, _ key: [Cell]) -> [Cell] {
        zip(table.key, key).map { table.columns[$0].collation.folded($1) }
    }
}
