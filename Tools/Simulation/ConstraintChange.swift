import AnnalsCore

/// A constraint that programs add to a table of a schema, or remove from it, during a run. The columns stay as they are.
struct ConstraintChange: Sendable {
    /// The table in both forms, which have the same name and columns.
    var before: Table
    var after: Table
    /// What a program does first, so that its rows satisfy an added constraint.
    var correction: [String]
    var isAdded: Bool
    /// The constraint as SQL.
    var text: String

    /// Draws a constraint that one table can get or lose; nil if no table can.
    static func draw(_ schema: Schema, _ dice: inout Dice) -> ConstraintChange? {
        let tables = schema.tables.filter { !$0.keyMayBeNull }
        let changes = dice.chance(60) ? tables.flatMap(additions) : tables.flatMap(removals)
        return changes.isEmpty ? nil : dice.one(of: changes)
    }

    /// The statements by which a program gives a table one of the two forms. Indexes that are in both stay.
    ///
    /// - Returns: nil for the declaration if the forms differ only in their indexes.
    static func statements(from old: Table, to new: Table) -> (declaration: String?, indexes: [String]) {
        let dropped = old.uniques.compactMap(\.index).filter { name in !new.uniques.contains { $0.index == name } }
        let added = new.indexSQL.filter { !old.indexSQL.contains($0) }
        let declaration = old.createSQL == new.createSQL ? nil : new.createSQL
        return (
            declaration,
            dropped.map { "DROP INDEX IF EXISTS \($0)" }
                + added.map { $0.replacing("CREATE UNIQUE INDEX", with: "CREATE UNIQUE INDEX IF NOT EXISTS") }
        )
    }

    // MARK: Constraints that can be added

    private static func additions(_ table: Table) -> [ConstraintChange] {
        plainPlaces(table).flatMap { place in [notNull(table, place), check(table, place), unique(table, place)].compactMap { $0 } }
    }

    private static func notNull(_ table: Table, _ place: Int) -> ConstraintChange? {
        let column = table.columns[place]
        guard !column.isNotNull else { return nil }
        var after = table
        after.columns[place].isNotNull = true
        let correction = "UPDATE \(table.name) SET \(column.name) = \(column.domain[0].literal) WHERE \(column.name) IS NULL"
        return ConstraintChange(before: table, after: after, correction: [correction], isAdded: true, text: "\(column.name) NOT NULL")
    }

    private static func check(_ table: Table, _ place: Int) -> ConstraintChange? {
        let column = table.columns[place]
        guard column.kind != .any, table.checks.isEmpty else { return nil }
        let (refused, allowed) = (column.domain[0], column.domain[1])
        guard column.collation.folded(refused) != column.collation.folded(allowed) else { return nil }
        var after = table
        let sql = "\(column.name) <> \(refused.literal)"
        after.checks.append(
            Check(sql: sql) { row in row[place].isNull || column.collation.folded(row[place]) != column.collation.folded(refused) })
        let correction = "UPDATE \(table.name) SET \(column.name) = \(allowed.literal) WHERE \(column.name) = \(refused.literal)"
        return ConstraintChange(before: table, after: after, correction: [correction], isAdded: true, text: "CHECK (\(sql))")
    }

    private static func unique(_ table: Table, _ place: Int) -> ConstraintChange? {
        let column = table.columns[place]
        // A second index over the same column says nothing new.
        guard !table.uniques.contains(where: { $0.parts.map(\.sql) == [column.name] }) else { return nil }
        var after = table
        let part = Part(sql: column.name, collation: column.collation) { $0[place] }
        // In a table without other unique indexes it is a constraint of the table.
        after.uniques.append(Unique(parts: [part], index: table.uniques.isEmpty ? nil : "u_\(table.name)_late"))
        // The first row of several keeps its value.
        func key(_ name: String) -> String { "(" + table.key.map { "\(name).\(table.columns[$0].name)" }.joined(separator: ", ") + ")" }
        let condition = """
            EXISTS (SELECT 1 FROM \(table.name) AS o WHERE o.\(column.name) = \(table.name).\(column.name) AND \(key("o")) < \(key(table.name)))
            """
        let correction =
            column.isNotNull
            ? "DELETE FROM \(table.name) WHERE \(condition)" : "UPDATE \(table.name) SET \(column.name) = NULL WHERE \(condition)"
        return ConstraintChange(before: table, after: after, correction: [correction], isAdded: true, text: "UNIQUE (\(column.name))")
    }

    // MARK: Constraints that can be removed

    private static func removals(_ table: Table) -> [ConstraintChange] {
        var changes: [ConstraintChange] = []
        func remove(_ text: String, _ edit: (inout Table) -> Void) {
            var after = table
            edit(&after)
            changes.append(ConstraintChange(before: table, after: after, correction: [], isAdded: false, text: text))
        }
        for place in plainPlaces(table) where table.columns[place].isNotNull {
            remove("\(table.columns[place].name) NOT NULL") { $0.columns[place].isNotNull = false }
        }
        for (number, check) in table.checks.enumerated() { remove("CHECK (\(check.sql))") { $0.checks.remove(at: number) } }
        for (number, unique) in table.uniques.enumerated()
        where table.uniques.count(where: { $0.parts.map(\.sql) == unique.parts.map(\.sql) }) == 1 {
            remove("UNIQUE (\(unique.parts.map(\.sql).joined(separator: ", ")))") { $0.uniques.remove(at: number) }
        }
        return changes
    }

    /// Columns that belong neither to the key nor to a reference.
    private static func plainPlaces(_ table: Table) -> [Int] {
        let taken = Set(table.key + table.references.flatMap(\.columns))
        return table.columns.indices.filter { !taken.contains($0) && table.columns[$0].domain.count > 1 }
    }
}
