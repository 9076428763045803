import AnnalsCore
import AnnalsRows
import AnnalsStore
import GRDB

/// An in-memory store with the user's triggers, and rows applied to it as a merge applies them.
struct TriggerStore {
    let queue: DatabaseQueue
    let tracked: Set<String>

    init(tracked: Set<String>, _ schema: String, configuration: Configuration = Configuration()) throws {
        self.queue = try DatabaseQueue(configuration: configuration)
        self.tracked = tracked
        try queue.write { try $0.execute(sql: schema) }
    }

    /// Runs the statements with the persistent triggers off.
    func apply(_ sql: String) throws {
        try queue.writeWithoutTransaction { db in
            let triggers = try UserTriggers.plan(db, tracked: tracked)
            try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                try db.inTransaction {
                    try db.execute(sql: sql)
                    return .commit
                }
            }
        }
    }

    func writeLocally(_ sql: String) throws {
        try queue.write { try $0.execute(sql: sql) }
    }

    /// The number of triggers that have to run.
    func count() throws -> Int {
        try queue.writeWithoutTransaction { db in
            try UserTriggers.plan(db, tracked: tracked).install(db)
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM temp.sqlite_master") ?? -1
            try UserTriggers.plan(db, tracked: tracked).remove(db)
            return count
        }
    }

    /// The first column of every row, as text.
    func rows(_ sql: String) throws -> [String] {
        try queue.read { db in
            try Row.fetchAll(db, sql: sql).map { row in
                let value: DatabaseValue = row[0]
                return String.fromDatabaseValue(value) ?? value.description
            }
        }
    }

    /// The error if applying is refused; nil if it is not.
    func refusal(_ sql: String = "SELECT 1") throws -> AnnalsError? {
        do {
            try apply(sql)
            return nil
        } catch let error as AnnalsError {
            return error
        }
    }
}
