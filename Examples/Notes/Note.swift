import Annals
import Foundation

/// A note: a normal GRDB record. Its key is random, so notes made on two machines at the same time are two notes.
struct Note: Codable, Identifiable, Hashable, Sendable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "note"

    var id = UUID().uuidString
    var title: String
    var isDone = false
    /// Seconds since 1970. New notes are last in the list.
    var created = Date().timeIntervalSince1970

    /// The order of the list. The id decides between equal times, so every machine shows the same order.
    static let inOrder = Query<Note>.all.ascending("created", "id")

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("note") { db in
            try db.create(table: "note") { table in
                table.primaryKey("id", .text)
                table.column("title", .text).notNull()
                table.column("isDone", .boolean).notNull()
                table.column("created", .double).notNull()
            }
        }
        return migrator
    }
}
