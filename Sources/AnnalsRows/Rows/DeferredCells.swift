package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// The cells of the log in tables and columns that this store does not have yet, by table and key.
///
/// They follow the log, and the entries of this replica once the relay accepts them: deletes, changes of keys and reinserted
/// rows. So after the store is migrated, its rows equal the log (laws 2 and 3). In a column that the store lacks, a row has the
/// deferred cell as its value. Without a deferred cell it has the column's default.
package final class DeferredCells {
    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_kept (
            name TEXT NOT NULL,
            key BLOB NOT NULL,
            column_name TEXT NOT NULL,
            value,
            PRIMARY KEY (name, key, column_name)
        ) WITHOUT ROWID;
        """

    package let missingSchema: MissingSchema
    private let db: Database
    private let select: PreparedStatement
    private let insert: PreparedStatement
    private let remove: PreparedStatement

    /// nil if the store has the whole schema of the space.
    package static func load(_ db: Database) throws -> DeferredCells? {
        let missingSchema = try MissingSchema.load(db)
        return missingSchema.isEmpty ? nil : try DeferredCells(db, missingSchema)
    }

    package init(_ db: Database, _ missingSchema: MissingSchema) throws {
        self.db = db
        self.missingSchema = missingSchema
        select = try PreparedStatement(db, "SELECT column_name, value FROM annals_kept WHERE name = ?1 AND key = ?2")
        insert = try PreparedStatement(db, "INSERT OR REPLACE INTO annals_kept (name, key, column_name, value) VALUES (?1, ?2, ?3, ?4)")
        remove = try PreparedStatement(db, "DELETE FROM annals_kept WHERE name = ?1 AND key = ?2")
    }

    // MARK: One row

    package func put(_ cells: [(column: String, value: Value)], table: String, key: [Value]) throws {
        let key = Value(storing: key)
        for cell in cells {
            bind(insert, table, key)
            insert.bind(3, Value(folding: cell.column))
            insert.bind(4, cell.value)
            try insert.run()
        }
    }

    /// Removes and returns all deferred cells of a row.
    @discardableResult
    package func take(table: String, key: [Value]) throws -> [(column: String, value: Value)] {
        let key = Value(storing: key)
        bind(select, table, key)
        var cells: [(column: String, value: Value)] = []
        while try select.step() {
            if case .text(let name) = select.value(0), let name = name.string { cells.append((name, select.value(1))) }
        }
        select.reset()
        bind(remove, table, key)
        try remove.run()
        return cells
    }

    private func bind(_ statement: PreparedStatement, _ table: String, _ key: Value) {
        statement.bind(1, Value(folding: table))
        statement.bind(2, key)
    }

    // MARK: All of a table

    /// Visits the rows of a table with their cells by column name.
    package static func forEachRow(_ db: Database, of table: String, _ visit: (_ key: [Value], _ cells: [String: Value]) throws -> Void)
        throws
    {
        let statement = try PreparedStatement(db, "SELECT key, column_name, value FROM annals_kept WHERE name = ?1 ORDER BY key")
        statement.bind(1, Value(folding: table))
        defer { statement.reset() }
        var key: Value?
        var cells: [String: Value] = [:]
        func finish() throws {
            if let stored = try key?.storedKey() { try visit(stored, cells) }
        }
        while try statement.step() {
            let next = statement.value(0)
            if next != key {
                try finish()
                key = next
                cells = [:]
            }
            if case .text(let name) = statement.value(1), let name = name.string { cells[name] = statement.value(2) }
        }
        try finish()
    }

    /// - Parameter columns: nil for all cells of the table.
    package static func forget(_ db: Database, _ table: String, columns: [String]?) throws {
        guard let columns else {
            return try db.execute(sql: "DELETE FROM annals_kept WHERE name = ?", arguments: [table.foldedIdentifier])
        }
        for column in columns {
            try db.execute(
                sql: "DELETE FROM annals_kept WHERE name = ? AND column_name = ?",
                arguments: [table.foldedIdentifier, column.foldedIdentifier])
        }
    }

    package static func clear(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_kept")
    }
}

/// A row's key and a name as Annals' own tables store them.
extension Value {
    package init(storing key: [Value]) {
        var writer = ByteWriter()
        writer.values(key)
        self = .blob(ByteString(writer.bytes))
    }

    package init(folding name: String) { self = .text(ByteString(Array(name.foldedIdentifier.utf8))) }

    /// The key; nil if the value is no blob.
    package func storedKey() throws -> [Value]? {
        guard case .blob(let bytes) = self else { return nil }
        var reader = ByteReader(bytes.bytes, range: nil)
        return try reader.readValues()
    }
}
