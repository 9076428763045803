package import AnnalsCore
package import AnnalsHistory
package import AnnalsSchema
import AnnalsReplica
import AnnalsSQLite
package import GRDB
import GRDBSQLite

/// Which row and which columns a foreign key refuses. SQLite's own error names neither.
///
/// They are known for tables with history.
package struct RefusedReference: TranslatableError {
    /// SQLite's error; nil if it would have come at the commit.
    package var error: DatabaseError?
    /// The row without a parent, or the parent that other rows still refer to.
    package var row: PersistentIdentifier
    package var columns: [String]
    /// The values of the columns.
    package var values: [Value]
    /// The table at the other end.
    package var other: String
    /// The rows that refer to the parent, with their table; empty if the row lacks its parent.
    package var children: [(table: DeclaredTable, row: [Value])] = []

    package func annalsError(operation: String, path: String) -> AnnalsError {
        let place = columns.map { "\(row.table).\($0)" }.joined(separator: ", ")
        let what =
            children.isEmpty
            ? "no row of \(other) has the value of \(place)"
            : "rows of \(other) refer to \(place) of a row that would be deleted or changed"
        var error = AnnalsError(
            .constraint, operation: operation, "FOREIGN KEY constraint failed: \(what)", hint: "Nothing was changed", underlying: self.error
        )
        error.detail = self
        return error
    }

    /// Runs a caller's writes. If a foreign key refuses one of them, or would refuse the commit, throws this error instead.
    static func naming<T>(_ db: Database, _ schema: SchemaCache, _ updates: (Database) throws -> T) throws -> T {
        do {
            let value = try updates(db)
            if DeferredForeignKeys.areBroken(db), let refused = try? find(db, schema, after: [:]) { throw refused }
            return value
        } catch let error as DatabaseError where error.message == "FOREIGN KEY constraint failed" {
            guard db.isInsideTransaction, var refused = try? repeated(error, db, schema) else { throw error }
            refused.error = error
            throw refused
        }
    }

    /// Runs the refused statement again, with foreign keys checked at the commit, and undoes it. The caller's transaction is lost anyway.
    private static func repeated(_ error: DatabaseError, _ db: Database, _ schema: SchemaCache) throws -> RefusedReference? {
        guard let sql = error.sql else { return nil }
        var found: RefusedReference?
        try db.inSavepoint {
            let before = try UnrecordedRange.fetchAll(db).map { ($0.id, $0.newest) }
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            try db.execute(sql: sql, arguments: error.arguments ?? [])
            found = try find(db, schema, after: Dictionary(before, uniquingKeysWith: max))
            return .rollback
        }
        return found
    }

    /// Looks at the changes of this transaction that history does not have yet.
    private static func find(_ db: Database, _ schema: SchemaCache, after known: [Int64: Int64]) throws -> RefusedReference? {
        let catalog = try schema.catalog(db)
        var found: RefusedReference?
        for open in try UnrecordedRange.fetchAll(db) {
            let first = (known[open.id] ?? open.recorded) + 1
            guard first <= open.newest, let tracked = try TrackedTable.fetch(db, id: open.id), let table = catalog[tracked.name],
                table.columns.map(\.name) == tracked.columns
            else { continue }
            let check = ReferenceCheck(db: db, catalog: catalog, table: table)
            let last = min(open.newest, first + changesLookedAt - 1)
            try RawChangeReader(db, tracked).read(first...last) { change in
                guard found == nil else { return }
                found = try change.new.flatMap(check.lackingParent) ?? change.old.flatMap(check.remainingChildren)
            }
            if found != nil { return found }
        }
        return nil
    }

    private static let changesLookedAt: Int64 = 10_000
}

/// Looks for the other ends of a changed row's references.
private struct ReferenceCheck {
    let db: Database
    let catalog: TableCatalog
    let table: DeclaredTable

    func lackingParent(_ row: [Value]) throws -> RefusedReference? {
        for key in table.foreignKeys {
            let indexes = key.columnIndexes.compactMap(\.self)
            let values = indexes.map { row[$0] }
            guard indexes.count == key.columns.count, !values.contains(where: \.isNull) else { continue }
            // A later change of the transaction may have corrected the row.
            guard try isStored(row), try !exists(key.parentTable, key.parentColumns, values) else { continue }
            return RefusedReference(row: identifier(row), columns: key.columns, values: values, other: key.parentTable)
        }
        return nil
    }

    func remainingChildren(_ row: [Value]) throws -> RefusedReference? {
        for (child, key) in catalog.references(to: table.name) {
            let values = key.parentColumns.compactMap { table.columnIndex(of: $0).map { row[$0] } }
            guard values.count == key.columns.count, !values.isEmpty, try !exists(table.name, key.parentColumns, values) else { continue }
            let children = try Row.fetchAll(
                db, sql: "SELECT * FROM \(SQL.quote(child.name)) WHERE \(Self.condition(key.columns)) LIMIT \(Self.childrenListed)",
                arguments: StatementArguments(values.map(\.databaseValue)))
            guard !children.isEmpty else { continue }
            return RefusedReference(
                row: identifier(row), columns: key.parentColumns, values: values, other: child.name,
                children: children.map { found in (child, child.columns.map { Value(found[$0.name] as DatabaseValue) }) })
        }
        return nil
    }

    private static let childrenListed = 10

    private static func condition(_ columns: [String]) -> String {
        columns.map { "\(SQL.quote($0)) = ?" }.joined(separator: " AND ")
    }

    private func identifier(_ row: [Value]) -> PersistentIdentifier {
        PersistentIdentifier(table: table.name, key: table.primaryKey.map { row[$0] })
    }

    private func isStored(_ row: [Value]) throws -> Bool {
        let referring = table.foreignKeys.flatMap(\.columnIndexes).compactMap(\.self)
        let indexes = Set(table.primaryKey + referring).sorted()
        return try exists(table.name, indexes.map { table.columns[$0].name }, indexes.map { row[$0] })
    }

    private func exists(_ table: String, _ columns: [String], _ values: [Value]) throws -> Bool {
        // NULL is a value here: it is asked only for a row itself.
        let condition = columns.map { "\(SQL.quote($0)) IS ?" }.joined(separator: " AND ")
        return try Row.fetchOne(
            db, sql: "SELECT 1 FROM \(SQL.quote(table)) WHERE \(condition) LIMIT 1",
            arguments: StatementArguments(values.map(\.databaseValue))) != nil
    }
}

/// Foreign keys that SQLite checks only at the commit.
enum DeferredForeignKeys {
    /// Whether one is violated.
    static func areBroken(_ db: Database) -> Bool {
        var current: CInt = 0
        var highest: CInt = 0
        let code = sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return code == SQLITE_OK && current != 0
    }
}
