package import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// The transaction of a store that the space orders directly on the state that its writer read, or not at all.
///
/// Its footprint conflicts with everything, so the relay accepts it only if no other replica has written since. If entries of others
/// are pulled while it waits in the outbox, it is not repeated on them: it is withdrawn, and its writer may run again. A store has one
/// at a time.
package enum SerializableWrite {
    /// Whether one waits in the outbox, or is not there yet.
    package static func isWaiting(_ db: Database) throws -> Bool {
        guard let number = try Meta(db).integer(.serializable) else { return false }
        return try isWaiting(number, db)
    }

    /// Whether a transaction waits in the outbox, or is not there yet.
    package static func isWaiting(_ number: Int64, _ db: Database) throws -> Bool {
        if try number > Meta(db).integer(.outboxed) ?? 0 { return true }
        guard let row = try TransactionTable(db).row(number) else { return false }
        return try Outbox.has(row.value("id"), db)
    }

    /// To be called in the SQLite transaction of the write, after it was recorded.
    package static func begin(_ number: Int64, _ db: Database) throws {
        try Meta(db).set(.serializable, number)
    }

    static func isSerializable(_ number: Int64, _ db: Database) throws -> Bool {
        try Meta(db).integer(.serializable) == number
    }

    /// The id of the one that waits; nil if there is none.
    static func id(_ db: Database) throws -> TransactionID? {
        guard let number = try Meta(db).integer(.serializable), let row = try TransactionTable(db).row(number) else { return nil }
        let id: Data = try row.value("id")
        return TransactionID(bytes: id)
    }

    /// Its rows were undone, and are not repeated.
    static func withdraw(_ row: Outbox.Row, _ db: Database) throws {
        try Outbox.delete(db, sequence: row.sequence)
        try UnsettledReferences.settled(db, row.id)
        let meta = Meta(db)
        try meta.set(.withdrawn, meta.integer(.serializable))
        try meta.set(.serializable, nil)
    }

    /// The log has it. From now on it is a transaction as all others.
    static func end(_ db: Database) throws {
        try Meta(db).set(.serializable, nil)
    }

    package static func isWithdrawn(_ number: Int64, _ db: Database) throws -> Bool {
        try Meta(db).integer(.withdrawn) == number
    }
}
