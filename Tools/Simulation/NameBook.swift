/// Maps the keys that an author uses to the rows' current keys. They differ if others moved a row, if a row was renumbered, or if
/// the author's move was refused.
struct NameBook {
    private struct Name: Hashable {
        var table: String
        var key: [Cell]
    }

    private let schema: Schema
    private var names: [Name: [Cell]] = [:]
    private var gone: Set<Name> = []
    private var unclear: Set<String> = []

    init(schema: Schema) {
        self.schema = schema
    }

    /// Records moves and deletes by others.
    mutating func note(others changes: [Change]) {
        for (name, key) in moves(changes) { rename(name, to: key) }
        for change in changes {
            guard let table = schema.table(change.table), case .delete(let row) = change.kind else { continue }
            gone.insert(Name(table: table.name, key: table.key(of: row)))
        }
    }

    /// The row that the author inserted under one key has another key now. A row that moved to the first key is another row.
    mutating func note(_ table: Table, _ key: [Cell], isNow now: [Cell]) {
        names[Name(table: table.name, key: fold(table, key))] = fold(table, now)
    }

    /// Records the moves that the author wrote and the moves that were done. From now on the author uses the keys that it wrote.
    mutating func note(asked: [Change], done: [Change]) {
        let done = moves(done)
        for (name, key) in done { rename(name, to: key) }
        for (name, wanted) in moves(asked) { names[Name(table: name.table, key: wanted)] = names[name] ?? name.key }
    }

    /// It is unknown which rows of these tables the author moved. So it is unknown to which rows its keys refer.
    mutating func noteUnclear(_ tables: Set<String>) {
        unclear.formUnion(tables)
    }

    func isUnclear(_ table: Table) -> Bool { unclear.contains(table.name) }

    /// Changes the current key of all rows that had the old key.
    private mutating func rename(_ name: Name, to key: [Cell]) {
        for (earlier, now) in names where earlier.table == name.table && now == name.key { names[earlier] = key }
        names[name] = key
    }

    private func moves(_ changes: [Change]) -> [(Name, [Cell])] {
        changes.compactMap { change in
            guard let table = schema.table(change.table), case .update(let key, let cells) = change.kind else { return nil }
            var moved = key
            for cell in cells { if let part = table.key.firstIndex(of: cell.column) { moved[part] = cell.new } }
            let (from, to) = (fold(table, key), fold(table, moved))
            return from == to ? nil : (Name(table: table.name, key: from), to)
        }
    }

    // MARK: Queries

    /// The keys that the row may have now, if its author uses `key`.
    func candidates(_ table: Table, _ key: [Cell]) -> [[Cell]] {
        let folded = fold(table, key)
        var candidates = [folded]
        if let now = names[Name(table: table.name, key: folded)] { candidates.append(now) }
        for (columnIndex, now) in renamedParts(table, candidates) {
            for candidate in candidates {
                var other = candidate
                other[columnIndex] = now
                if !candidates.contains(other) { candidates.append(other) }
            }
        }
        return candidates
    }

    /// The possible current values of key parts that are references, because these follow their parents.
    private func renamedParts(_ table: Table, _ candidates: [[Cell]]) -> [(Int, Cell)] {
        table.references.flatMap { reference -> [(Int, Cell)] in
            guard let parent = schema.table(reference.parent) else { return [] }
            return zip(reference.columns, reference.parentColumns).flatMap { columnIndex, parentColumnIndex -> [(Int, Cell)] in
                guard let part = table.key.firstIndex(of: columnIndex), let parentPart = parent.key.firstIndex(of: parentColumnIndex) else {
                    return []
                }
                return candidates.flatMap { candidate in
                    renamed(parent, parentPart, candidate[part]).map { (part, table.columns[columnIndex].collation.folded($0)) }
                }
            }
        }
    }

    /// The values that one part of a key may have now if it was `value`, because the row was renamed or the parent that it refers
    /// to.
    func renamed(_ table: Table, _ part: Int, _ value: Cell) -> Set<Cell> {
        renamed(table, part, value, seen: [])
    }

    private func renamed(_ table: Table, _ part: Int, _ value: Cell, seen: Set<String>) -> Set<Cell> {
        let collation = table.columns[table.key[part]].collation
        let folded = collation.folded(value)
        var renamed = Set(names.filter { $0.key.table == table.name && $0.key.key[part] == folded }.map { $0.value[part] })
        for reference in table.references where !seen.contains(reference.parent) {
            guard let parent = schema.table(reference.parent), let columnIndex = reference.columns.firstIndex(of: table.key[part]),
                let parentPart = parent.key.firstIndex(of: reference.parentColumns[columnIndex])
            else { continue }
            let others = self.renamed(parent, parentPart, value, seen: seen.union([table.name]))
            renamed.formUnion(others.map { collation.folded($0) })
        }
        return renamed
    }

    /// Whether the row with this key is no longer there.
    func isGone(_ table: Table, _ key: [Cell]) -> Bool {
        let name = Name(table: table.name, key: fold(table, key))
        return gone.contains(name) || names[name] != nil
    }

    private func fold(_ table: Table, _ key: [Cell]) -> [Cell] {
        zip(table.key, key).map { table.columns[$0].collation.folded($1) }
    }
}
