import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Notifies observers of a connection, such as GRDB's `ValueObservation`, of rows that GRDB did not see. Other programs write such
/// rows, and so do hot loops that use SQLite's C interface. The notice is in the transaction that records the rows in history.
package struct UndetectedChanges {
    private let db: Database
    /// The newest transaction of history at the start; nil if there is no history.
    private let newest: Int64?

    /// - Parameter db: inside the transaction that makes the changes, before the first of them.
    package init(_ db: Database) throws {
        self.db = db
        newest = try StoreSchema.exists(db) ? Self.newest(db) : nil
    }

    private static func newest(_ db: Database) throws -> Int64 {
        let statement = try db.cachedStatement(sql: "SELECT max(number) FROM main.annals_transactions")
        defer { statement.rewind() }
        return try statement.step() ? statement.integer(at: 0) : 0
    }

    /// Notifies observers of the tables that changed since.
    package func tell() throws {
        guard let newest, try StoreSchema.exists(db), try Self.newest(db) > newest else { return }
        try Self.tell(db, after: newest)
    }

    package static func tell(_ db: Database, after number: Int64) throws {
        let lists = try String.fetchAll(
            db, sql: "SELECT DISTINCT tables FROM main.annals_transactions WHERE number > ?", arguments: [number])
        for id in Set(lists.flatMap { $0.split(separator: " ").compactMap { Int64($0) } }).sorted() {
            guard let table = try TrackedTable.fetch(db, id: id), try db.tableExists(table.name, in: "main") else { continue }
            try tell(db, table.name)
            let changes = StoreSchema.changesTable(id)
            if try db.tableExists(changes, in: "main") { try tell(db, changes) }
        }
    }

    /// A statement names the table, because GRDB's own requests do not support quotes in a table's name.
    private static func tell(_ db: Database, _ table: String) throws {
        try db.notifyChanges(in: SQLRequest<Row>(sql: "SELECT * FROM main.\(SQL.quote(table))"))
    }
}
