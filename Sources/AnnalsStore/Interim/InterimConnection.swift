import CAnnalsSQLite
import GRDB

enum MergeConnection {
    static func withTriggersAndForeignKeysOff<T>(_ db: Database, userTriggers: UserTriggers, _ body: () throws -> T) throws -> T {
        try db.execute(sql: "PRAGMA foreign_keys = OFF")
        _ = annals_sqlite_set_triggers(db.sqliteConnection, 0)
        defer {
            _ = annals_sqlite_set_triggers(db.sqliteConnection, 1)
            try? db.execute(sql: "PRAGMA foreign_keys = ON")
        }
        return try body()
    }
}
