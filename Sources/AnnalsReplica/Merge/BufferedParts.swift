import AnnalsSQLite
package import AnnalsCore
package import AnnalsWire
package import GRDB

/// The pulled parts of a transaction that is too large for one batch, until its last part is pulled. So no reader sees half of a
/// transaction (law 6), and no part is pulled twice.
///
/// They are the log's entries directly after the replica's position, because the relay appends all parts at once.
package enum BufferedParts {
    static let table = "annals_parts"

    package static let schema = """
        CREATE TABLE annals_parts (
            position INTEGER PRIMARY KEY,
            batch BLOB NOT NULL
        );
        """

    /// The newest buffered part.
    package struct Last {
        package var position: Position
        package var header: BatchHeader

        /// Whether this part and the next one belong to one transaction. They do not if the relay was restored from an older backup
        /// and its log continues differently.
        package func isFollowed(by next: BatchHeader) -> Bool {
            next.replica == header.replica && next.part == BatchPart(number: header.part.number + 1, count: header.part.count)
                && next.firstCounter == header.firstCounter.next && next.previousDigest == header.certificates[0].digest
        }
    }

    /// The position of the newest buffered part; nil if there is none.
    package static func last(_ db: Database) throws -> Position? {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(position) FROM annals_parts")).map { Position($0) }
    }

    package static func keep(_ db: Database, _ frame: LogFrame) throws {
        let statement = try PreparedStatement(db, "INSERT INTO annals_parts (position, batch) VALUES (?1, ?2)")
        statement.bind(1, frame.firstPosition.rawValue)
        statement.bind(2, roomFor: frame.batch.count)
        try statement.run()
        try StoredBlob(db, table: "annals_parts", column: "batch", row: frame.firstPosition.rawValue, .write).write([frame.batch])
    }

    package static func batch(_ db: Database, at position: Position) throws -> [UInt8] {
        try StoredBlob(db, table: "annals_parts", column: "batch", row: position.rawValue, .read).read()
    }

    /// The newest buffered part that a log with this `head` can continue. No log ends within a transaction. So if the parts reach
    /// the head, they belong to a log that the relay lost in a restore from an older backup, and they are deleted.
    package static func last(_ db: Database, inLogUpTo head: Position) throws -> Last? {
        guard let position = try last(db) else { return nil }
        guard position < head else {
            try clear(db)
            return nil
        }
        return Last(position: position, header: try BatchHeader.parse(batch(db, at: position)))
    }

    package static func clear(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_parts")
    }
}
