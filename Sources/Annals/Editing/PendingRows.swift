import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
import GRDB

/// Lets a request see a context's unsaved edits, with its conditions and its order.
///
/// For each table with edits a temporary view takes its name for the time of one access: the stored rows without the edited ones, and
/// the edited and new rows. SQLite still uses the table's indexes for the stored rows. Nothing is written to the file.
struct PendingRows {
    private let edits: EditSet

    init(_ edits: EditSet) {
        self.edits = edits
    }

    /// Runs a request's access. If there are no edits, the access is as it would be without them.
    ///
    /// - Parameter name: the table of the request's records.
    func whileVisible<T>(_ db: Database, in name: String, _ body: () throws -> T) throws -> T {
        try checkKeys(of: name, db)
        let edited = Dictionary(grouping: edits.rows.filter(\.value.hasEdits)) { $0.key.table }
        guard !edited.isEmpty else { return try body() }
        let isQueryOnly = try Bool.fetchOne(db, sql: "PRAGMA query_only") ?? false
        try db.execute(sql: "SAVEPOINT annals_pending; PRAGMA query_only = 0")
        defer {
            // A temporary object is undone with its transaction, too.
            SQLiteStatements.putBack("ROLLBACK TO annals_pending", on: db)
            SQLiteStatements.putBack("RELEASE annals_pending", on: db)
            SQLiteStatements.putBack("PRAGMA query_only = \(isQueryOnly ? 1 : 0)", on: db)
        }
        // GRDB must not see the views: it takes keys and references from its cache of the schema, and ends the process if it needs those of
        // a view. So it reads the schema now, and the views are made without it.
        for name in edited.keys { _ = try db.tableExists(name) }
        for (number, (_, rows)) in edited.sorted(by: { $0.key < $1.key }).enumerated() {
            try Shadow(number: number, table: rows[0].value.table).create(db, rows)
        }
        if isQueryOnly { try db.execute(sql: "PRAGMA query_only = 1") }
        return try body()
    }

    /// Nothing tells a new row from a stored one that has its provisional key.
    private func checkKeys(of table: String, _ db: Database) throws {
        for (identifier, row) in edits.rows where row.hasProvisionalKey && identifier.table.isSameIdentifier(as: table) {
            guard try identifier.fetch(db) != nil else { continue }
            throw AnnalsError.editing(
                "a stored row of \(table) has the provisional key of a new row in this context", hint: "Save first, then fetch again")
        }
    }
}

/// The temporary view of one table.
private struct Shadow {
    let number: Int
    let table: DeclaredTable

    private var rowsName: String { "temp.annals_pending_\(number)" }
    private var keysName: String { "temp.annals_hidden_\(number)" }

    func create(_ db: Database, _ rows: [(key: PersistentIdentifier, value: EditedRow)]) throws {
        let key = table.primaryKey.map { table.columns[$0] }
        let columns = table.columns.map { column in
            "\(SQL.quote(column.name)) \(column.declaredType) COLLATE \(SQL.quote(column.collation))"
        }
        let generated = table.generatedColumns.map { column in
            "\(SQL.quote(column.name))\(column.expression.map { " AS (\($0))" } ?? "")"
        }
        let names = (table.columns.map(\.name) + table.generatedColumns.map(\.name)).map(SQL.quote).joined(separator: ", ")
        let isSame = key.map { "hidden.\(SQL.quote($0.name)) IS stored.\(SQL.quote($0.name))" }.joined(separator: " AND ")
        let keys = key.map { SQL.quote($0.name) }.joined(separator: ", ")
        let statements = [
            "CREATE TEMP TABLE annals_pending_\(number) (\((columns + generated).joined(separator: ", ")))",
            "CREATE TEMP TABLE annals_hidden_\(number) (\(key.map { "\(SQL.quote($0.name)) \($0.declaredType)" }.joined(separator: ", ")))",
            "CREATE INDEX temp.annals_hidden_key_\(number) ON annals_hidden_\(number)(\(keys))",
        ]
        for sql in statements { try SQLiteStatements.run(sql, on: db) }
        for (identifier, row) in rows {
            if row.base != nil {
                try db.execute(
                    sql: "INSERT INTO \(keysName) VALUES (\(identifier.key.map { _ in "?" }.joined(separator: ", ")))",
                    arguments: StatementArguments(identifier.key.map(\.databaseValue)))
            }
            guard let now = row.now else { continue }
            // A column that the record does not write gets its default.
            let values = table.columns.indices.map { now[$0] == nil ? "(\(table.columns[$0].defaultSQL ?? "NULL"))" : "?" }
            try db.execute(
                sql: "INSERT INTO \(rowsName) (\(table.columns.map { SQL.quote($0.name) }.joined(separator: ", "))) "
                    + "VALUES (\(values.joined(separator: ", ")))",
                arguments: StatementArguments(now.compactMap { $0?.databaseValue }))
        }
        try SQLiteStatements.run(
            """
            CREATE TEMP VIEW \(SQL.quote(table.name)) AS
            SELECT \(names) FROM main.\(SQL.quote(table.name)) AS stored
            WHERE NOT EXISTS (SELECT 1 FROM annals_hidden_\(number) AS hidden WHERE \(isSame))
            UNION ALL SELECT \(names) FROM annals_pending_\(number)
            """, on: db)
    }
}
