import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// Rows of this store that got another identifier in a rebase. Another replica used an integer key first, a key contains a
/// reference to such a row, or a row was merged into another.
///
/// The conflict journal has these changes too, but only after the space has ordered them, and without the time of the change in
/// this store. Code that holds an old identifier must know from when on it means another row.
package enum RenumberedRows {
    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_renumbered (
            number INTEGER NOT NULL,
            old TEXT NOT NULL,
            new TEXT NOT NULL,
            PRIMARY KEY (number, old)
        ) WITHOUT ROWID;
        """

    /// An identifier that a rebased transaction uses instead of its author's.
    package struct Renaming {
        package var old: PersistentIdentifier
        package var new: PersistentIdentifier

        package init(old: PersistentIdentifier, new: PersistentIdentifier) {
            self.old = old
            self.new = new
        }
    }

    /// - Parameter number: the transaction of history that has the rows under their new keys.
    package static func note(_ db: Database, _ renamings: [Renaming], in number: Int64) throws {
        guard !renamings.isEmpty else { return }
        if try !db.tableExists("annals_renumbered") {
            // The store joined with a version of Annals that did not create this table.
            try db.execute(sql: schema)
            try StoreSchema.noteSchemaVersion(db)
        }
        let insert = try db.cachedStatement(
            sql: """
                INSERT INTO annals_renumbered (number, old, new) VALUES (?, ?, ?)
                ON CONFLICT (number, old) DO UPDATE SET new = excluded.new
                """)
        for renaming in renamings { try insert.execute(arguments: [number, text(renaming.old), text(renaming.new)]) }
    }

    /// Oldest first. The changes of one transaction are simultaneous.
    package static func load(_ db: Database, after number: Int64) throws -> [RenumberedRow] {
        guard try db.tableExists("annals_renumbered") else { return [] }
        return try GRDB.Row.fetchAll(
            db.cachedStatement(sql: "SELECT number, old, new FROM annals_renumbered WHERE number > ? ORDER BY number"), arguments: [number]
        ).map { row in
            try RenumberedRow(old: row.json("old"), new: row.json("new"), number: row.number("number"))
        }
    }

    package static func purge(_ db: Database, through number: Int64) throws {
        guard try db.tableExists("annals_renumbered") else { return }
        let last = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT max(number) FROM annals_renumbered WHERE number <= ?"), arguments: [number])
        guard let last else { return }
        try Meta(db).set(.renumberedUntil, last)
        try db.cachedStatement(sql: "DELETE FROM annals_renumbered WHERE number <= ?").execute(arguments: [number])
    }

    /// Whether all notes after a point of history are available.
    package static func reach(_ db: Database, after number: Int64) throws -> Bool {
        guard try StoreSchema.exists(db) else { return true }
        return try number >= Meta(db).integer(.renumberedUntil) ?? 0
    }

    /// Called after a store has left its space. Notes belong to history, because code that holds an old identifier still needs
    /// them.
    package static func dropIfEmpty(_ db: Database) throws {
        guard try db.tableExists("annals_renumbered"), try Int.fetchOne(db, sql: "SELECT 1 FROM annals_renumbered LIMIT 1") == nil
        else { return }
        try db.execute(sql: "DROP TABLE annals_renumbered")
    }

    private static func text(_ identifier: PersistentIdentifier) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(identifier), as: UTF8.self)
    }
}
