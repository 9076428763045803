package import AnnalsCore
import AnnalsHistory
import AnnalsRows
package import AnnalsSchema
import CAnnalsSQLite
import Foundation
package import GRDB

/// Transactions of this store that left children without parents, because a program wrote with foreign keys off, as the
/// `sqlite3` shell does by default. The actions of the foreign keys are done before these transactions are pushed (law 4).
/// Otherwise every receiver would refuse them.
///
/// They are detected when a transaction is recorded, because only then the rows are as it left them.
package enum UnsettledReferences {
    package static let schema = "CREATE TABLE annals_unsettled (id BLOB PRIMARY KEY) WITHOUT ROWID;"

    /// Checks the rows that a transaction changed, if the store is joined and SQLite did not check them, or not completely.
    package static func note(_ db: Database, _ info: TransactionInfo, _ number: Int64, tables: () throws -> TrackedTables) throws {
        guard try StoreSchema.isReplica(db) else { return }
        let tables = try tables()
        let isChecked = [.local, .undo].contains(info.origin) && annals_sqlite_foreign_keys(db.sqliteConnection) == 1
        if isChecked, !tables.hasUncheckedCircles { return }
        guard tables.entries.contains(where: { !$0.definition.references.isEmpty }) else { return }
        let session = MergeSession(db, registry: tables)
        try NetChanges(db, tables: tables).forEach(in: number) { entry, change in
            let table = try session.table(named: entry.definition.name)
            var change = change
            if !change.leftOut.isEmpty, let new = change.new, let row = try table.row(table.key(of: new)) {
                // Values that history leaves out are still in the row.
                for columnIndex in change.leftOut { change.fill(columnIndex, row[columnIndex]) }
            }
            switch (change.old, change.new) {
            case (nil, let new?): try session.checks.noteNew(table, new)
            case (let old?, nil): session.checks.noteGone(table, old)
            case (let old?, let new?): try session.checks.noteChanged(table, old: old, new: new)
            case (nil, nil): break
            }
        }
        guard try !session.checks.dangling().isEmpty else { return }
        try db.execute(sql: "INSERT OR IGNORE INTO annals_unsettled (id) VALUES (?)", arguments: [Data(info.id.bytes)])
    }

    /// The oldest outbox transaction with such references.
    package static func first(_ db: Database) throws -> Int64? {
        try Outbox.sequences(db, ofIDs: "SELECT id FROM annals_unsettled").first
    }

    package static func settled(_ db: Database, _ id: TransactionID) throws {
        try db.cachedStatement(sql: "DELETE FROM annals_unsettled WHERE id = ?").execute(arguments: [Data(id.bytes)])
    }
}
