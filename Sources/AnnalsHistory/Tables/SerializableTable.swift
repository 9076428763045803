package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// The table of serializable transactions, `annals_serializable`: those that the space orders directly on the state that their writer
/// read, or not at all.
///
/// The footprint of such a transaction has all of each table that it read or wrote, so the relay accepts it only if no other replica
/// has written to these tables since. If such entries are pulled while it waits in the outbox, it is not repeated on them: it is
/// withdrawn, and its writer may run again. One waits at a time. The table keeps what became of the others as long as history has them.
package struct SerializableTable {
    package enum Outcome: Int64, Sendable {
        /// It is in the log, directly on the state that its writer read.
        case ordered = 1
        /// Its rows were undone.
        case withdrawn = 2
        /// It is in the log, perhaps after transactions that its writer did not see: another copy of the file sent it, or it became a
        /// part of another transaction.
        case merged = 3
    }

    package static let schema =
        "CREATE TABLE IF NOT EXISTS main.annals_serializable(number INTEGER PRIMARY KEY, id BLOB NOT NULL, tables TEXT, outcome INTEGER);"

    /// A subquery for the id of the one that waits, which is always the newest one.
    package static let waitingIDSQL = "SELECT id FROM main.annals_serializable WHERE \(isWaiting)"

    private static let isWaiting = "number = (\(newestSQL)) AND outcome IS NULL"
    private static let newestSQL = "SELECT max(number) FROM main.annals_serializable"

    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// The table may not exist, and other connections can create and drop it. GRDB's cache of the schema does not see that.
    private func ifPresent<T>(_ body: () throws -> T?) throws -> T? {
        do {
            return try body()
        } catch let error as DatabaseError where error.message?.hasPrefix("no such table") ?? false {
            return nil
        }
    }

    /// To be called in the SQLite transaction of the write, after it was recorded.
    ///
    /// - Parameter tables: the ids of the tables that it read or wrote; nil if it may depend on anything in the file.
    package func add(_ number: Int64, _ id: TransactionID, reading tables: Set<Int64>?) throws {
        // A replica that an earlier build made does not have the table.
        try db.execute(sql: Self.schema)
        try StoreSchema.noteSchemaVersion(db)
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.annals_serializable(number, id, tables) VALUES (?, ?, ?)",
            arguments: [number, Data(id.bytes), tables.map { tables in tables.sorted().map(String.init).joined(separator: " ") }])
    }

    /// The one that waits; nil if there is none.
    package func waiting() throws -> (number: Int64, id: TransactionID)? {
        let sql = "SELECT number, id FROM main.annals_serializable WHERE \(Self.isWaiting)"
        guard let row = try ifPresent({ try Row.fetchOne(db.cachedStatement(sql: sql)) }) else { return nil }
        let id: Data = try row.value("id")
        guard let id = TransactionID(bytes: id) else { throw Corruption(OwnTables.serializable) }
        return try (row.number("number"), id)
    }

    /// The ids of the tables that transaction `number` read or wrote; nil if it may depend on anything in the file.
    package func tables(of number: Int64) throws -> Set<Int64>? {
        let sql = "SELECT tables FROM main.annals_serializable WHERE number = ?"
        guard let text = try String.fetchOne(db, sql: sql, arguments: [number]) else { return nil }
        return try Set(
            text.split(separator: " ").map { id in
                guard let id = Int64(id) else { throw Corruption("\(OwnTables.serializable).tables") }
                return id
            })
    }

    /// Sets what became of the one that waits.
    package func settle(_ outcome: Outcome) throws {
        try ifPresent {
            try db.execute(
                sql: "UPDATE main.annals_serializable SET outcome = ? WHERE \(Self.isWaiting)", arguments: [outcome.rawValue])
        }
    }

    /// nil if the transaction waits, or was not serializable.
    package func outcome(of number: Int64) throws -> Outcome? {
        let sql = "SELECT outcome FROM main.annals_serializable WHERE number = ?"
        return try ifPresent { try Int64.fetchOne(db.cachedStatement(sql: sql), arguments: [number]) }.flatMap(Outcome.init)
    }

    /// The numbers of those that were withdrawn.
    package func withdrawn() throws -> Set<Int64> {
        let sql = "SELECT number FROM main.annals_serializable WHERE outcome = ?"
        return try ifPresent { try Int64.fetchSet(db, sql: sql, arguments: [Outcome.withdrawn.rawValue]) } ?? []
    }

    /// Forgets those that history does not have any more. The newest one stays, because its writer may still ask for it.
    func delete(through number: Int64) throws {
        try ifPresent {
            try db.execute(
                sql: "DELETE FROM main.annals_serializable WHERE number <= ? AND number < (\(Self.newestSQL))", arguments: [number])
        }
    }
}
