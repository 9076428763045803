import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Tells those who observe a connection, GRDB's `ValueObservation` among them, of rows that were written past GRDB: by other programs,
/// and by hot loops that use SQLite's C interface. They are told in the transaction that records such rows in history.
package struct UndetectedChanges {
    private let db: Database
    /// History's newest transaction before; nil where there is no history.
    private let newest: Int64?

    /// - Parameter db: in the transaction whose changes are meant, before the first of them.
    package init(_ db: Database) throws {
        self.db = db
        newest = try StoreSchema.exists(db) ? TransactionTable(db).newest() ?? 0 : nil
    }

    /// Tells of the tables that were changed since.
    package func tell() throws {
        guard let newest, try StoreSchema.exists(db), try TransactionTable(db).newest() ?? 0 > newest else { return }
        try Self.tell(db, after: newest)
    }

    package static func tell(_ db: Database, after number: Int64) throws {
        for id in try TransactionTable(db).lists(after: number) {
            guard let table = try TrackedTable.fetch(db, id: id), try db.tableExists(table.name, in: "main") else { continue }
            try tell(db, table.name)
            let changes = StoreSchema.changesTable(id)
            if try db.tableExists(changes, in: "main") { try tell(db, changes) }
        }
    }

    /// By a statement, since GRDB's own requests do not take quotes in a table's name.
    private static func tell(_ db: Database, _ table: String) throws {
        try db.notifyChanges(in: SQLRequest<Row>(sql: "SELECT * FROM main.\(SQL.quote(table))"))
    }
}
