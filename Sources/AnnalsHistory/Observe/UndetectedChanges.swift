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
        newest = try StoreSchema.exists(db) ? TransactionTable(db).newest() ?? 0 : nil
    }

    /// Notifies observers of the tables that changed since.
    package func notify() throws {
        guard let newest, try StoreSchema.exists(db), try TransactionTable(db).newest() ?? 0 > newest else { return }
        try Self.notify(db, after: newest)
    }

    package static func notify(_ db: Database, after number: Int64) throws {
        for id in try TransactionTable(db).lists(after: number) {
            guard let table = try TrackedTable.fetch(db, id: id), try db.tableExists(table.name, in: "main") else { continue }
            try notify(db, table.name)
            let changes = StoreSchema.changesTable(id)
            if try db.tableExists(changes, in: "main") { try notify(db, changes) }
        }
    }

    /// A statement names the table, because GRDB's own requests do not support quotes in a table's name.
    private static func notify(_ db: Database, _ table: String) throws {
        try db.notifyChanges(in: SQLRequest<Row>(sql: "SELECT * FROM main.\(SQL.quote(table))"))
    }
}
