import AnnalsSQLite
package import AnnalsCore
import AnnalsWire
package import GRDB

/// The parts of transactions that do not fit into the outbox rows.
extension Outbox {
    static let partsSchema = """
        CREATE TABLE annals_outbox_parts (
            id INTEGER PRIMARY KEY,
            sequence INTEGER NOT NULL,
            part INTEGER NOT NULL,
            body BLOB NOT NULL,
            UNIQUE (sequence, part)
        );
        """

    /// Writes the parts of one transaction as they are filled, except the last, which is stored in the outbox row itself. A body
    /// that is too large for a part is cut into pieces, and each piece is a part.
    package final class PartWriter {
        package private(set) var count = 0
        private let db: Database
        private let limits: OutboxLimits
        private var sequence: Int64?

        /// For the row that is appended next.
        package init(_ db: Database, limits: OutboxLimits) {
            self.db = db
            self.limits = limits
        }

        /// For a row with this sequence number.
        package init(_ db: Database, sequence: Int64, limits: OutboxLimits) {
            self.db = db
            self.limits = limits
            self.sequence = sequence
        }

        /// For a row that is rewritten. Its old parts are deleted.
        package init(_ db: Database, inPlaceOf row: Row, limits: OutboxLimits) throws {
            self.db = db
            self.limits = limits
            sequence = row.sequence
            if row.parts > 1 { try Outbox.deleteParts(db, sequence: row.sequence) }
        }

        func isFull(_ byteCount: Int) -> Bool { byteCount >= limits.partBytes }

        /// A journal entry that fits into a row. If it is too large, it loses its base value.
        package func fitting(_ entry: JournalEntry) throws -> JournalEntry {
            guard entry.byteCount > limits.journalEntryBytes else { return entry }
            var entry = entry
            entry.base = nil
            guard entry.byteCount > limits.journalEntryBytes else { return entry }
            throw AnnalsError(
                .tooLarge, operation: "sync",
                "the values of a conflict in \(entry.table) are larger than \(limits.journalEntryBytes / 1_000_000) MB and cannot be stored",
                hint: "Make the value smaller, then call leave(force: true), and join again with existing: .sameKey",
                commandHint: "Make the value smaller, then run annals leave --force and annals join --existing same-key")
        }

        package func write(_ body: [[UInt8]]) throws {
            try BodyPieces.forEach(of: body, pieceBytes: limits.pieceBytes) { part, _ in try insert(part) }
        }

        /// Writes the pieces of the last body that do not belong to the outbox row itself, and returns the last piece.
        func writeLast(_ body: [[UInt8]]) throws -> [[UInt8]] {
            var last: [[UInt8]] = []
            try BodyPieces.forEach(of: body, pieceBytes: limits.pieceBytes) { part, isLast in
                if isLast { last = part } else { try insert(part) }
            }
            return last
        }

        private func insert(_ pieces: [[UInt8]]) throws {
            let sequence = try sequence ?? ((Outbox.last(db) ?? 0) + 1)
            self.sequence = sequence
            let statement = try PreparedStatement(db, "INSERT INTO annals_outbox_parts (sequence, part, body) VALUES (?1, ?2, ?3)")
            statement.bind(1, sequence)
            statement.bind(2, Int64(count))
            statement.bind(3, roomFor: pieces.reduce(0) { $0 + $1.count })
            try statement.run()
            try StoredBlob(db, table: "annals_outbox_parts", column: "body", row: db.lastInsertedRowID, .write).write(pieces)
            count += 1
        }
    }

    static func deleteParts(_ db: Database, sequence: Int64) throws {
        try db.execute(sql: "DELETE FROM annals_outbox_parts WHERE sequence = ?", arguments: [sequence])
    }

    static func deleteParts(_ db: Database, through sequence: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM annals_outbox_parts WHERE sequence <= ?").execute(arguments: [sequence])
    }

    package static func deleteAllParts(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_outbox_parts")
    }

    static func moveParts(_ db: Database, _ sequence: Int64, to target: Int64) throws {
        try db.execute(sql: "UPDATE annals_outbox_parts SET sequence = ? WHERE sequence = ?", arguments: [target, sequence])
    }

    /// A part of a row's body. The last part is the body in the outbox row itself.
    package static func body(_ db: Database, of sequence: Int64, part: Int, parts: Int) throws -> [UInt8] {
        guard part < parts - 1 else { return try body(db, of: sequence).read() }
        let sql = "SELECT id FROM annals_outbox_parts WHERE sequence = ? AND part = ?"
        guard let row = try Int64.fetchOne(db, sql: sql, arguments: [sequence, part]) else { throw Corruption("annals_outbox_parts") }
        return try StoredBlob(db, table: "annals_outbox_parts", column: "body", row: row, .read).read()
    }

    /// The contents of a row. Contents with several parts are read again on each access.
    package static func content(_ db: Database, of row: Row, layouts: [Int: TableLayout]) throws -> TransactionParts {
        guard row.parts > 1 else {
            return TransactionParts(try BodyReader(bytes: body(db, of: row.sequence, part: 0, parts: 1)), layouts: layouts)
        }
        return TransactionParts(count: row.parts) { number in
            let bytes = try body(db, of: row.sequence, part: number, parts: row.parts)
            return TransactionParts.Part(reader: try BodyReader(bytes: bytes), layouts: layouts)
        }
    }
}
