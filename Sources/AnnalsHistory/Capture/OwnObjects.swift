import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Divides the objects of a file's schema whose names begin with `annals_` into those of Annals and those of other programs.
package enum OwnObjects {
    package struct Object: Hashable {
        package var type: String
        package var name: String
    }

    /// Creates the tables and the view that every store has, if they are missing.
    package static func createCommonTables(_ db: Database) throws {
        let tables = [MetaTable.schema, TrackedTable.schema, TransactionTable.schema, SpanTable.schema, NamedWriters.schema]
        for sql in tables { try db.execute(sql: sql) }
        _ = try NamedWriters.repair(db)
    }

    /// The objects of Annals, in the order in which they can be dropped.
    package static func all(_ db: Database) throws -> [Object] { try prefixed(db).filter(\.isOwn).map(\.object) }

    /// Objects of other programs with the prefix of Annals.
    package static func taken(_ db: Database) throws -> [Object] { try prefixed(db).filter { !$0.isOwn }.map(\.object) }

    private static func prefixed(_ db: Database) throws -> [(object: Object, isOwn: Bool)] {
        try ["trigger", "view", "index", "table"].flatMap { type in
            let sql = "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE type = ? AND sql IS NOT NULL"
            return try Row.fetchAll(db, sql: sql, arguments: [type]).compactMap { row -> (object: Object, isOwn: Bool)? in
                let (name, table): (String, String) = try (row.value("name"), row.value("tbl_name"))
                guard StoreSchema.isOwnName(name) else { return nil }
                let isOwn = try isOwn(type, name, of: table) || NamedWriters.owns(type, name, sql: row.value("sql"))
                return (Object(type: type, name: name), isOwn)
            }
        }
    }

    private static func isOwn(_ type: String, _ name: String, of table: String) -> Bool {
        switch type {
        case "table": isOwnTable(name)
        case "index": isOwnTable(table)
        case "trigger":
            NotesTable.owns(name)
                || name.split(separator: "_").dropFirst().first.flatMap { Int64($0) }.map { CaptureTriggers.names(id: $0) }?.contains(name)
                    ?? false
        default: false
        }
    }

    private static func isOwnTable(_ name: String) -> Bool {
        if OwnTables.all.contains(name) { return true }
        return NotesTable.owns(name) || name.split(separator: "_").last.flatMap { Int64($0) }.map(StoreSchema.changesTable) == name
    }
}
