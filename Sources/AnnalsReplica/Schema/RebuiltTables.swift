import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Tables that a migration of this store rebuilds, or removes columns from.
///
/// SQLite changes many things of a table only through a rebuild: a table with another name is created and filled, the old table is
/// dropped, and the new one is renamed. The capture triggers are dropped with the old table, and they prevent `DROP COLUMN`. So before
/// such a statement the rows are copied and the triggers are removed. When the table exists again under its name, the triggers return
/// and the differences of the rows are logged. So history continues. After a rebuild by another program, which Annals did not see,
/// history starts again (`Drift`).
package final class RebuiltTables {
    private struct Aside {
        var list: TrackedTable
        var definition: DeclaredTable
        var copy: String
    }

    private let db: Database
    private var aside: [Aside] = []
    /// Whether a column was dropped, and another one got its name. Unsent work may have values of the dropped one.
    package private(set) var haveRedefinedColumns = false
    /// Findings of repairs of capture on the way.
    package private(set) var drift = Drift.Report()

    package init(_ db: Database) {
        self.db = db
    }

    // MARK: Before the statement

    /// Copies the rows of a tracked table and removes its capture triggers. If rows have, or had, NULL in the key, nothing is copied, and
    /// history starts again as after any rebuild.
    ///
    /// - Parameters:
    ///   - name: The current name of the table. The migration may have changed it.
    ///   - isDropped: The whole table is dropped. If it was renamed before, another table may get its name.
    package func putAside(_ name: String, isDropped: Bool = false) throws {
        guard try StoreSchema.exists(db), var list = try list(of: name), var definition = try SchemaReader(db).table(name) else { return }
        let isMoved = isDropped && !list.name.isSameIdentifier(as: name)
        if !isMoved, try Drift.isSuspected(db) {
            // A repair of a table that was put aside would begin a new history of it.
            let found = try Drift.repairIfNeeded(db, except: aside.map(\.list.id))
            drift.gaps += found.gaps + found.disordered
            drift.dropped += found.dropped
            guard let again = try self.list(of: name), let table = try SchemaReader(db).table(name) else { return }
            (list, definition) = (again, table)
        }
        if definition.columns.map(\.name) == list.columns, try !hasKeylessRows(definition, list) {
            try TableRepair.conclude(db, list, as: definition, .asHappened)
            aside.append(try copy(definition, list))
        }
        try CaptureTriggers.remove(db, id: list.id)
    }

    private func copy(_ definition: DeclaredTable, _ list: TrackedTable) throws -> Aside {
        let name = "annals_aside_\(list.id)"
        let key = zip(definition.primaryKey, definition.primaryKeyCollations).map { columnIndex, collation in
            "\(SQL.quote(definition.columns[columnIndex].name)) COLLATE \(SQL.quote(collation))"
        }
        try db.execute(
            sql: """
                CREATE TEMP TABLE \(name) AS SELECT \(Self.names(definition)) FROM main.\(SQL.quote(definition.name));
                CREATE INDEX temp.\(name)_key ON \(name)(\(key.joined(separator: ", ")))
                """)
        return Aside(list: list, definition: definition, copy: "temp.\(name)")
    }

    /// Whether a row has NULL in the key, or had it within history. Such a row is identified by its rowid, which a rebuild changes.
    private func hasKeylessRows(_ table: DeclaredTable, _ list: TrackedTable) throws -> Bool {
        guard table.keyMayBeNull else { return false }
        if try table.hasKeylessRows(db) { return true }
        func isNull(_ names: [String]) -> String { SQL.balanced(names.map { "\($0) IS NULL" }, operator: "OR") }
        let (old, new) = (list.key.columnIndexes.map { "o\($0)" }, list.key.columnIndexes.map { "n\($0)" })
        let (insert, delete) = (StoreSchema.Operation.insert.rawValue, StoreSchema.Operation.delete.rawValue)
        let sql = """
            SELECT EXISTS(
              SELECT 1 FROM main.\(StoreSchema.changesTable(list.id))
              WHERE (op <> \(delete) AND (\(isNull(new)))) OR (op <> \(insert) AND (\(isNull(old)))))
            """
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// The layout with triggers on the table. The table may have been renamed since the last repair.
    private func list(of name: String) throws -> TrackedTable? {
        let sql = "SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        let triggers = Set(try String.fetchAll(db, sql: sql, arguments: [name]))
        return try TrackedTable.fetchTracked(db).first { triggers.contains(CaptureTriggers.names(id: $0.id)[0]) }
    }

    // MARK: After the statement

    /// Continues the history of a table before it gets another name.
    func takeUp(_ name: String) throws {
        guard let table = aside.first(where: { $0.list.name.isSameIdentifier(as: name) }) else { return }
        if try db.tableExists(table.list.name, in: "main") { try takeUp(table) }
    }

    /// Continues the history of all tables that exist again. The history of the others ends.
    package func finish() throws {
        for table in aside { try takeUp(table) }
    }

    private func takeUp(_ table: Aside) throws {
        defer { aside.removeAll { $0.list.id == table.list.id } }
        var repair = TableRepair(db, table.list)
        if let definition = try SchemaReader(db).table(table.list.name),
            let (list, isNarrowed) = try repair.goOn(as: definition, from: table.definition)
        {
            try compare(table, definition, list)
            if isNarrowed { drift.narrowed.append(list.id) }
        }
        try db.execute(sql: "DROP TABLE \(table.copy)")
    }

    /// Logs the differences between the rows and their copy.
    private func compare(_ table: Aside, _ definition: DeclaredTable, _ list: TrackedTable) throws {
        let tables = try TrackedTables.load(db)
        guard let entry = tables.table(named: definition.name), let layouts = tables.layouts, let old = layouts[table.list.id] else {
            return
        }
        let translation = try LayoutTranslation(db, from: old, to: entry, through: layouts)
        let writer = try HistoryWriter(db, definition, layoutID: list.id)
        let rows = try RowReader(db, definition)
        let count = table.definition.columns.count
        let before = try PreparedStatement(db, "SELECT \(Self.names(table.definition)) FROM \(table.copy)")
        while try before.step() {
            let row = translation.translate(before.values(0..<count))
            guard let now = try rows.row(definition.primaryKey.map { row[$0] }) else {
                try writer.delete(row)
                continue
            }
            if now != row { try writer.update(row, to: now) }
        }
        let was = try PreparedStatement(db, "SELECT 1 FROM \(table.copy) WHERE \(table.definition.keyCondition())")
        while let row = try rows.next() {
            for (number, columnIndex) in definition.primaryKey.enumerated() { was.bind(number + 1, row[columnIndex]) }
            defer { was.reset() }
            if try !was.step() { try writer.insert(row) }
        }
    }

    private static func names(_ table: DeclaredTable) -> String {
        table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
    }
}

// MARK: Statements

extension RebuiltTables {
    /// Prepares for a statement of a script.
    package func prepare(for sql: String) throws {
        var words = SQLToken.all(in: sql)[...]
        func take(_ keywords: String...) -> Bool {
            guard words.count >= keywords.count, zip(words, keywords).allSatisfy({ $0.isWord($1) }) else { return false }
            words = words.dropFirst(keywords.count)
            return true
        }
        let isDropped = take("DROP", "TABLE")
        guard isDropped || take("ALTER", "TABLE") else { return }
        if isDropped { _ = take("IF", "EXISTS") }
        guard var name = words.popFirst()?.name else { return }
        if words.first?.isSymbol(".") ?? false {
            guard name.isSameIdentifier(as: "main"), let second = words.dropFirst().first?.name else { return }
            name = second
            words = words.dropFirst(2)
        }
        if isDropped || take("DROP") { return try putAside(name, isDropped: isDropped) }
        if take("RENAME") { return try takeUp(name) }
        guard take("ADD") else { return }
        _ = take("COLUMN")
        guard let column = words.popFirst()?.name, let table = aside.first(where: { $0.list.name.isSameIdentifier(as: name) }),
            try isRetyped(column, of: table, by: words)
        else { return }
        haveRedefinedColumns = true
        try takeUp(name)
    }

    /// Whether a column gets the name of one that was dropped, and another type. Then the history of the dropped one must end before. With
    /// the same type it is the same column, and its new values are changes. A column of the space keeps its type.
    private func isRetyped(_ column: String, of table: Aside, by declaration: ArraySlice<SQLToken>) throws -> Bool {
        guard let index = table.definition.columnIndex(of: column) else { return false }
        let type = declaration.prefix { token in !Self.constraints.contains(where: token.isWord) }.map(\.text).joined(separator: " ")
        let affinity = Affinity(declaredType: type, isStrict: table.definition.isStrict)
        guard affinity != table.definition.columns[index].affinity else { return false }
        let names = table.list.canonicalNames
        let known = try SpaceSchema.load(db)?.table(named: names?.table ?? table.list.name)
        return known?.columnIndex(of: names?.columns[index] ?? column) == nil
    }

    /// The words that end the type of a column.
    private static let constraints = [
        "CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS",
    ]
}
