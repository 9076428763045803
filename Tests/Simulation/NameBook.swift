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

    mutating func note(_ table: Table, _ key: [Cell], isNow now: [Cell]) {
        rename(Name(table: table.name, key: fold(table, key)), to: fold(table, now))
    }

    private mutating func rename(_ name: Name, to key: [Cell]) {
        for (earlier, now) in names where earlier.table == name.table && now == name.key { names[earlier] = key }
        names[name] = key
    }

    /// The keys under which the row may be now that somebody called by `key`.
    func candidates(_ table: Table, _ key: [Cell]) -> [[Cell]] {
        let folded = fold(table, key)
        guard let now = names[Name(table: table.name, key: folded)], now != folded else { return [folded] }
        return [folded, now]
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
