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
    /// - Throws: `AnnalsError` with code `usage` if an edited row has columns that its table no longer has.
    func whileVisible<T>(_ db: Database, in name: String, _ body: () throws -> T) throws -> T {
        let edited = Dictionary(grouping: edits.rows.filter(\.value.hasEdits)) { $0.key.table }
        guard !edited.isEmpty else { return try body() }
        try checkKeys(of: name, db)
        let shadows = try edited.sorted { $0.key < $1.key }.enumerated().map { number, rows in
            try Shadow(db, number: number, of: rows.key, rows.value, in: edits.catalog)
        }
        let isQueryOnly = try Bool.fetchOne(db, sql: "PRAGMA query_only") ?? false
        // GRDB must not see the views: it takes keys and references from its cache of the schema, and ends the process if it needs those of
        // a view. So it reads the schema now, and the views are made without it.
        for name in edited.keys { _ = try db.tableExists(name) }
        try SQLiteStatements.run("SAVEPOINT annals_pending", on: db)
        var isDone = false
        defer {
            // A temporary object is undone with its transaction, too. Then SQLite reads the whole schema again.
            if !isDone { SQLiteStatements.putBack("ROLLBACK TO annals_pending", on: db) }
            SQLiteStatements.putBack("RELEASE annals_pending", on: db)
            if isQueryOnly { SQLiteStatements.putBack("PRAGMA query_only = 1", on: db) }
        }
        if isQueryOnly { try SQLiteStatements.run("PRAGMA query_only = 0", on: db) }
        for shadow in shadows { try shadow.create(db) }
        if isQueryOnly { try SQLiteStatements.run("PRAGMA query_only = 1", on: db) }
        let result = try body()
        if isQueryOnly { try SQLiteStatements.run("PRAGMA query_only = 0", on: db) }
        for shadow in shadows { try shadow.drop(db) }
        isDone = true
        return result
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
    let rows: [(key: PersistentIdentifier, value: EditedRow)]
    /// The declared types of the generated columns, by name. Other columns hold stored values, which need no type.
    private let generatedTypes: [String: String]

    private var rowsName: String { "annals_pending_\(number)" }
    private var keysName: String { "annals_hidden_\(number)" }
    private var key: [DeclaredTable.Column] { table.primaryKey.map { table.columns[$0] } }

    init(
        _ db: Database, number: Int, of name: String, _ rows: [(key: PersistentIdentifier, value: EditedRow)], in catalog: TableCatalog
    ) throws {
        guard let table = catalog[name], rows.allSatisfy({ $0.value.table.columns.map(\.name) == table.columns.map(\.name) }) else {
            throw AnnalsError.editing(
                "the table \(name) has lost a column that a row of this context edits", hint: "Discard the edits, and fetch the rows again")
        }
        (self.number, self.table, self.rows) = (number, table, rows)
        var types: [String: String] = [:]
        if !table.generatedColumns.isEmpty {
            let declared = try Row.fetchAll(db, sql: "SELECT name, type FROM pragma_table_xinfo(?, 'main')", arguments: [name])
            for row in declared { types[try row.value("name")] = try row.value("type") }
        }
        generatedTypes = types
    }

    func create(_ db: Database) throws {
        let columns = table.columns.map { "\(SQL.quote($0.name)) \(Self.type($0)) COLLATE \(SQL.quote($0.collation))" }
        let generated = table.generatedColumns.map { column in
            let type = generatedTypes[column.name].map { Self.type(Affinity(declaredType: $0, isStrict: table.isStrict)) } ?? ""
            let value = column.expression.map { " AS (\($0))" } ?? ""
            return "\(SQL.quote(column.name)) \(type) COLLATE \(SQL.quote(column.collation))\(value)"
        }
        let names = (table.columns.map(\.name) + table.generatedColumns.map(\.name)).map(SQL.quote).joined(separator: ", ")
        let keys = key.map { SQL.quote($0.name) }.joined(separator: ", ")
        let isSame = key.map { "hidden.\(SQL.quote($0.name)) IS stored.\(SQL.quote($0.name))" }.joined(separator: " AND ")
        let statements = [
            "CREATE TEMP TABLE \(rowsName) (\((columns + generated).joined(separator: ", ")))",
            "CREATE TEMP TABLE \(keysName) (\(key.map { "\(SQL.quote($0.name)) \(Self.type($0))" }.joined(separator: ", ")))",
            "CREATE INDEX temp.\(keysName)_key ON \(keysName)(\(keys))",
        ]
        for sql in statements { try SQLiteStatements.run(sql, on: db) }
        let hide = try db.makeStatement(
            sql: "INSERT INTO temp.\(keysName) VALUES (\(key.map { _ in "?" }.joined(separator: ", ")))")
        var insert: (written: [Bool], isNew: Bool, statement: Statement)?
        for (identifier, row) in rows {
            let keyValues = identifier.key.map(\.databaseValue)
            if row.base != nil { try hide.execute(arguments: StatementArguments(keyValues)) }
            guard let now = row.now else { continue }
            let written = now.map { $0 != nil }
            if insert.map({ $0.written != written || $0.isNew != (row.base == nil) }) ?? true {
                insert = (written, row.base == nil, try insertion(db, written, isNew: row.base == nil))
            }
            let isRead = row.base == nil || written.allSatisfy(\.self)
            try insert?.statement.execute(
                arguments: StatementArguments((isRead ? [] : keyValues) + now.compactMap { $0?.databaseValue }))
        }
        try SQLiteStatements.run(
            """
            CREATE TEMP VIEW \(SQL.quote(table.name)) AS
            SELECT \(names) FROM main.\(SQL.quote(table.name)) AS stored
            WHERE NOT EXISTS (SELECT 1 FROM \(keysName) AS hidden WHERE \(isSame))
            UNION ALL SELECT \(names) FROM \(rowsName)
            """, on: db)
    }

    func drop(_ db: Database) throws {
        for sql in ["DROP VIEW temp.\(SQL.quote(table.name))", "DROP TABLE temp.\(rowsName)", "DROP TABLE temp.\(keysName)"] {
            try SQLiteStatements.run(sql, on: db)
        }
    }

    /// An INSERT of a row with these columns. Of the others, a new row gets the defaults, and a row that was not read as a whole has the
    /// stored values; then the statement begins with the key.
    private func insertion(_ db: Database, _ written: [Bool], isNew: Bool) throws -> Statement {
        let same = key.enumerated().map { "\(SQL.quote($1.name)) IS ?\($0 + 1)" }.joined(separator: " AND ")
        var number = isNew || written.allSatisfy(\.self) ? 0 : key.count
        let values = table.columns.indices.map { columnIndex -> String in
            let column = table.columns[columnIndex]
            if written[columnIndex] {
                number += 1
                return "?\(number)"
            }
            if isNew { return "(\(column.defaultSQL ?? "NULL"))" }
            return "(SELECT \(SQL.quote(column.name)) FROM main.\(SQL.quote(table.name)) WHERE \(same))"
        }
        return try db.makeStatement(
            sql: "INSERT INTO temp.\(rowsName) (\(table.columns.map { SQL.quote($0.name) }.joined(separator: ", "))) "
                + "VALUES (\(values.joined(separator: ", ")))")
    }

    /// A type that gives a column the same affinity. A declared type may be anything.
    private static func type(_ column: DeclaredTable.Column) -> String { type(column.affinity) }

    private static func type(_ affinity: Affinity) -> String {
        switch affinity {
        case .integer: "INTEGER"
        case .text: "TEXT"
        case .real: "REAL"
        case .numeric: "NUMERIC"
        default: "BLOB"
        }
    }
}
