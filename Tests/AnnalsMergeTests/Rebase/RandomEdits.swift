import AnnalsCore
import AnnalsMerge
import SeededRandom

/// Edits of one transaction, each of another row, with what foreign keys do to the rows that the author sees.
struct RandomEdits {
    private(set) var edits: [RowEdit] = []
    private(set) var isLegal = true
    private let rows: DictionaryRows
    private var touched: Set<CandidateKey> = []

    init(_ rows: DictionaryRows) { self.rows = rows }

    mutating func draw(_ random: inout SeededGenerator) {
        let table = rows[random.one(of: ["team", "person", "person", "tag", "note"])]
        let stored = rows.rows(table.name)
        guard !stored.isEmpty, !random.chance(35) else { return insert(table, &random) }
        let row = random.one(of: stored)
        if random.chance(25) { return delete(row, table) }
        var new = row
        let column = Int.random(in: row.indices, using: &random)
        new[column] = value(table, column, &random)
        if new != row { update(row, to: new, table) }
    }

    private mutating func insert(_ table: MergeTable, _ random: inout SeededGenerator) {
        let row = table.columns.indices.map { value(table, $0, &random) }
        guard rows.row(withKey: table.key(of: row), in: table) == nil else { return }
        add(RowEdit(table: table, old: nil, new: row))
    }

    private func value(_ table: MergeTable, _ column: Int, _ random: inout SeededGenerator) -> Value {
        switch table.name + "." + table.columns[column].name {
        case "team.id": .integer(.random(in: 1...6, using: &random))
        case "team.name", "note.team": random.chance(15) ? .null : random.one(of: ["a", "b", "c", "d"])
        case "person.id", "tag.person": random.one(of: ["p", "q", "r", "s"])
        case "person.email": random.chance(30) ? .null : random.one(of: ["a", "b", "c", "d"])
        case "person.team": random.chance(30) ? .null : .integer(.random(in: 1...6, using: &random))
        case "person.boss": random.chance(50) ? .null : random.one(of: ["p", "q", "r", "s"])
        case "person.n": .integer(.random(in: 0...6, using: &random))
        default: random.one(of: ["red", "blue"])
        }
    }

    private mutating func add(_ edit: RowEdit) {
        let names = [edit.old, edit.new].compactMap { $0.map(edit.table.keyName(of:)) }
        if names.contains(where: touched.contains) { isLegal = false }
        touched.formUnion(names)
        edits.append(edit)
    }

    private mutating func update(_ row: [Value], to new: [Value], _ table: MergeTable) {
        add(RowEdit(table: table, old: row, new: new))
        for (child, childTable, foreignKey) in children(of: row, table) where isLegal {
            var followed = child
            childTable.follow(foreignKey, new, from: row, in: &followed)
            if followed != child { update(child, to: followed, childTable) }
        }
    }

    private mutating func delete(_ row: [Value], _ table: MergeTable) {
        add(RowEdit(table: table, old: row, new: nil))
        for (child, childTable, foreignKey) in children(of: row, table) where isLegal {
            let reference = childTable.references[foreignKey]
            var new = child
            switch reference.onDelete {
            case .cascade: delete(child, childTable)
            case .refuse: isLegal = false
            case .setNull, .setDefault:
                for column in reference.columnIndexes {
                    new[column] = reference.onDelete == .setNull ? .null : rows.defaultValue(of: column, in: childTable)
                }
                if new == child { isLegal = false } else { update(child, to: new, childTable) }
            }
        }
    }

    private func children(of row: [Value], _ table: MergeTable) -> [([Value], MergeTable, Int)] {
        let names = Set(table.names(of: row))
        return ["person", "tag", "note"].map { rows[$0] }.flatMap { child in
            child.references.indices.flatMap { foreignKey in
                rows.rows(child.name).filter { child.parentName(foreignKey, in: $0).map(names.contains) ?? false }
                    .map { ($0, child, foreignKey) }
            }
        }
    }
}

extension MergeTable {
    /// Changes a reference to a row that gets another key, as ON UPDATE CASCADE does.
    fileprivate func follow(_ foreignKey: Int, _ parent: [Value], from old: [Value], in row: inout [Value]) {
        guard let naming = references[foreignKey].parent, naming.index.name(of: parent) != naming.index.name(of: old) else { return }
        for (column, place) in zip(naming.columnIndexes, naming.index.columnIndexes) { row[column] = parent[place] }
    }
}
