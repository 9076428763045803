package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Capture triggers without the tables of Annals. Another program dropped these tables, for example a migration tool that treats
/// them as leftovers. Every write to the program's tables then fails.
///
/// If the store still has history, `Drift` and `Repair` handle its triggers.
package struct OrphanedTriggers {
    /// The triggers' names by table.
    private let names: [String: [String]]

    /// Finds nothing if the file has history.
    package init(_ db: Database) throws {
        guard try !StoreSchema.exists(db) else {
            names = [:]
            return
        }
        var names: [String: [String]] = [:]
        for own in try OwnObjects.all(db) where own.type == "trigger" {
            let sql = "SELECT tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' AND name = ?"
            guard let row = try GRDB.Row.fetchOne(db, sql: sql, arguments: [own.name]),
                let id = own.name.split(separator: "_").dropFirst().first.flatMap({ Int64($0) })
            else { continue }
            // A program's own trigger may have such a name.
            let (table, statement): (String, String) = try (row.value("tbl_name"), row.value("sql"))
            let changes = StoreSchema.changesTable(id)
            guard statement.contains(changes), try !db.tableExists(changes) else { continue }
            names[table, default: []].append(own.name)
        }
        self.names = names
    }

    /// The tables to which writes fail.
    package var tables: [String] { names.keys.sorted() }

    package func findings() -> [Finding] {
        tables.map {
            Finding(.trigger, "the table \($0) cannot be written: another program dropped Annals' tables and left its triggers", table: $0)
        }
    }

    /// Removes the triggers, and the view that other programs kept.
    package func remove(_ db: Database) throws {
        if try !StoreSchema.exists(db) { try NamedWriters.removeView(db) }
        for name in names.values.joined() { try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(name)") }
    }
}
