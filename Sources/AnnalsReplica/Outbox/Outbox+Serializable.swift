import AnnalsHistory
import AnnalsSchema
package import GRDB

extension Outbox {
    /// Whether a transaction waits in the outbox, or is being sent.
    package static func has(_ id: DatabaseValue, _ db: Database) throws -> Bool {
        try !sequences(db, ofIDs: "?", [id]).isEmpty
    }

    /// The row of the serializable transaction that waits; nil if there is none.
    package static func serializable(_ db: Database) throws -> Int64? {
        guard try SerializableTable(db).waiting() != nil else { return nil }
        return try sequences(db, ofIDs: SerializableTable.waitingIDSQL).first
    }

    /// Whether a serializable transaction waits. One that got lost, because history began anew, does not.
    package static func hasSerializable(_ db: Database) throws -> Bool {
        guard let number = try SerializableTable(db).waiting()?.number else { return false }
        if try number > Meta(db).integer(.outboxed) ?? 0 || serializable(db) != nil { return true }
        try SerializableTable(db).settle(.merged)
        return false
    }

    /// Drops the serializable transaction, whose rows are undone.
    static func withdraw(_ db: Database, _ row: Row) throws {
        try delete(db, sequence: row.sequence)
        try UnsettledReferences.settled(db, row.id)
        try SerializableTable(db).settle(.withdrawn)
    }
}
