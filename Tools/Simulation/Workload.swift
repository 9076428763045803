import AnnalsCore

/// Draws statements that often conflict: with few keys and values, and with every way to write a row in SQLite.
struct Workload {
    let schema: Schema
    private let features: Features
    var dice: Dice

    init(schema: Schema, features: Features, dice: Dice) {
        self.schema = schema
        self.features = features
        self.dice = dice
    }

    /// The statements of one transaction; SQLite may refuse some.
    mutating func transaction() -> [String] {
        let special = dice.number(0...99)
        if features.swaps, special < 5 { return swap() }
        if features.rebirths, special < 9 { return rebirth() }
        return (0..<dice.weighted([(55, 1), (25, 2), (15, 3), (5, 5)])).map { _ in statement() }
    }

    /// A row that exists before the space is created.
    mutating func row() -> String {
        insert(dice.one(of: schema.tables), verb: "INSERT")
    }

    private mutating func statement() -> String {
        let table = dice.one(of: schema.tables)
        switch dice.number(0...99) {
        case 0..<27: return insert(table, verb: "INSERT")
        case 27..<33: return insert(table, verb: mayReplace(table) ? "INSERT OR REPLACE" : "INSERT")
        case 33..<36: return insert(table, verb: "INSERT OR IGNORE")
        case 36..<42: return insert(table, verb: "INSERT", suffix: upsert(table))
        case 42..<64: return update(table, verb: "UPDATE", condition: keyCondition(table))
        case 64..<70: return update(table, verb: "UPDATE", condition: condition(table))
        case 70..<74:
            return update(table, verb: mayReplace(table) ? "UPDATE OR REPLACE" : "UPDATE OR IGNORE", condition: keyCondition(table))
        case 74..<81: return features.keyChanges ? changeKey(table) : update(table, verb: "UPDATE", condition: keyCondition(table))
        case 81..<94: return "DELETE FROM \(table.name) WHERE \(keyCondition(table))"
        case 94..<97: return "DELETE FROM \(table.name) WHERE \(condition(table))"
        default: return shift(table)
        }
    }

    private func mayReplace(_ table: Table) -> Bool {
        let isLeaky = table.references.contains { reference in
            let isCleared = [reference.onDelete, reference.onUpdate].contains { [.setNull, .setDefault].contains($0) }
            return isCleared && ancestors(of: reference.parent).contains(table.name)
        }
        return features.replace && (features.replaceInSelfReferences || !isLeaky)
    }

    /// A table and all tables that it refers to, directly or indirectly.
    private func ancestors(of table: String) -> Set<String> {
        var found: Set<String> = []
        var open = [table]
        while let next = open.popLast() {
            guard found.insert(next).inserted else { continue }
            open += schema.table(next)?.references.map(\.parent) ?? []
        }
        return found
    }

    // MARK: Inserts

    private mutating func insert(_ table: Table, verb: String, suffix: String = "") -> String {
        var columnIndexes = Array(table.columns.indices)
        if table.hasIntegerKey, dice.chance(45) { columnIndexes.removeAll { $0 == table.key[0] } }
        columnIndexes.removeAll { columnIndex in
            let column = table.columns[columnIndex]
            return !table.key.contains(columnIndex) && (!column.isNotNull || column.defaultValue != nil) && dice.chance(15)
        }
        if columnIndexes.isEmpty { return "\(verb) INTO \(table.name) DEFAULT VALUES" }
        let rows = (0..<(dice.chance(8) ? 2 : 1)).map { _ in
            "(" + columnIndexes.map { value(table, $0).literal }.joined(separator: ", ") + ")"
        }
        return "\(verb) INTO \(table.name) (\(table.names(columnIndexes))) VALUES \(rows.joined(separator: ", "))\(suffix)"
    }

    private mutating func upsert(_ table: Table) -> String {
        let columnIndexes = changeable(table)
        guard !columnIndexes.isEmpty, dice.chance(75) else { return " ON CONFLICT DO NOTHING" }
        let column = table.columns[dice.one(of: columnIndexes)].name
        return " ON CONFLICT (\(table.names(table.key))) DO UPDATE SET \(column) = excluded.\(column)"
    }

    // MARK: Updates

    private mutating func update(_ table: Table, verb: String, condition: String) -> String {
        let columnIndexes = changeable(table)
        guard !columnIndexes.isEmpty else { return "DELETE FROM \(table.name) WHERE \(condition)" }
        var chosen: [Int] = []
        for _ in 0..<dice.weighted([(70, 1), (30, 2)]) {
            let columnIndex = dice.one(of: columnIndexes)
            if !chosen.contains(columnIndex) { chosen.append(columnIndex) }
        }
        // The columns of one reference are usually set together, because single columns rarely refer to a parent.
        if let reference = table.references.first(where: { $0.columns.contains(chosen[0]) }), dice.chance(80) { chosen = reference.columns }
        let settings = chosen.map { "\(table.columns[$0].name) = \(value(table, $0).literal)" }.joined(separator: ", ")
        return "\(verb) \(table.name) SET \(settings) WHERE \(condition)"
    }

    private mutating func changeKey(_ table: Table) -> String {
        let columnIndex = dice.one(of: table.key)
        return
            "UPDATE \(table.name) SET \(table.columns[columnIndex].name) = \(value(table, columnIndex).literal) WHERE \(keyCondition(table))"
    }

    /// Changes many rows at once.
    private mutating func shift(_ table: Table) -> String {
        guard let columnIndex = changeable(table).first(where: { table.columns[$0].kind == .integer }) else {
            return update(table, verb: "UPDATE OR IGNORE", condition: "1")
        }
        let name = table.columns[columnIndex].name
        return "UPDATE OR IGNORE \(table.name) SET \(name) = 1 + \(name) % 6 WHERE \(condition(table))"
    }

    /// Two rows swap a value through a third value.
    private mutating func swap() -> [String] {
        let table = dice.one(of: schema.tables)
        let columnIndexes = changeable(table)
        guard !columnIndexes.isEmpty else { return [statement()] }
        let columnIndex = dice.one(of: columnIndexes)
        let name = table.columns[columnIndex].name
        let (first, second) = (keyCondition(table), keyCondition(table))
        let spare = table.columns[columnIndex].isNotNull ? value(table, columnIndex) : .null
        let (left, right) = (value(table, columnIndex), value(table, columnIndex))
        return [
            "UPDATE \(table.name) SET \(name) = \(spare.literal) WHERE \(first)",
            "UPDATE \(table.name) SET \(name) = \(left.literal) WHERE \(second)",
            "UPDATE \(table.name) SET \(name) = \(right.literal) WHERE \(first)",
        ]
    }

    /// Deletes a row and inserts another one under the same key.
    private mutating func rebirth() -> [String] {
        let table = dice.one(of: schema.tables)
        let key = table.key.map { value(table, $0) }
        let isKey = zip(table.key, key).map { "\(table.columns[$0].name) = \($1.literal)" }.joined(separator: " AND ")
        let values = table.columns.indices.map { columnIndex in
            (table.key.firstIndex(of: columnIndex).map { key[$0] } ?? value(table, columnIndex)).literal
        }
        let columns = table.names(Array(table.columns.indices))
        return [
            "DELETE FROM \(table.name) WHERE \(isKey)",
            "INSERT INTO \(table.name) (\(columns)) VALUES (\(values.joined(separator: ", ")))",
        ]
    }

    // MARK: Policies

    /// A conflict policy for columns, for whole rows, or for constraints.
    mutating func policy() -> PolicySetting {
        let table = dice.chance(80) ? dice.one(of: schema.tables) : nil
        var setting = PolicySetting(table: table?.name, aspect: .update, policy: "")
        switch dice.number(0...99) {
        case 0..<50:
            let columnIndexes = table.map(changeable) ?? []
            if let table, !columnIndexes.isEmpty { setting.column = table.columns[dice.one(of: columnIndexes)].name }
            setting.policy = dice.one(of: [
                "lastWriterWins", "mergeByPropertyStoreTrump", "mergeByPropertyObjectTrump", "sum", "sum", "min", "max", "union", "json",
                "text",
                "sql: max(:stored, :incoming)",
            ])
        case 50..<65: setting.policy = dice.one(of: ["overwrite", "rollback", "manual"])
        case 65..<75: (setting.aspect, setting.policy) = (.delete, dice.one(of: ["lastWriterWins", "deleteWins", "updateWins", "manual"]))
        case 75..<85: (setting.aspect, setting.policy) = (.unique, dice.one(of: ["keepFirst", "keepLast", "mergeRows"]))
        case 85..<92: (setting.aspect, setting.policy) = (.key, dice.one(of: ["renumber", "mergeRows"]))
        default: (setting.aspect, setting.policy) = (.whole, dice.one(of: ["yes", "yes", "no"]))
        }
        if dice.chance(8) { setting.policy = "" }
        return setting
    }

    // MARK: Parts

    private mutating func keyCondition(_ table: Table) -> String {
        table.key.map { "\(table.columns[$0].name) = \(keyValue(table, $0).literal)" }.joined(separator: " AND ")
    }

    private mutating func condition(_ table: Table) -> String {
        let columnIndex = dice.number(0...table.columns.count - 1)
        let sign = dice.one(of: ["=", "IS", "<"])
        return "\(table.columns[columnIndex].name) \(sign) \(value(table, columnIndex).literal)"
    }

    private func changeable(_ table: Table) -> [Int] {
        table.columns.indices.filter { !table.key.contains($0) }
    }

    private mutating func keyValue(_ table: Table, _ columnIndex: Int) -> Cell {
        dice.one(of: table.columns[columnIndex].domain)
    }

    mutating func value(_ table: Table, _ columnIndex: Int) -> Cell {
        let column = table.columns[columnIndex]
        if !column.isNotNull || dice.chance(3), !table.key.contains(columnIndex), dice.chance(25) { return .null }
        return dice.one(of: column.domain)
    }
}
