import AnnalsSQLite
package import AnnalsCore
package import AnnalsWire
package import GRDB

/// Parts of a transaction too large for one batch, as they were pulled, until the last of them is here: no reader ever
/// sees half of a transaction (law 6), and no part has to be pulled twice.
///
/// They are the log's entries right after the replica's position, since the relay appends all parts at once.
package enum BufferedParts {
    static let table = "annals_parts"

    package static let schema = """
        CREATE TABLE annals_parts (
            position INTEGER PRIMARY KEY,
            batch BLOB NOT NULL
        );
        """

    /// The newest of them.
    package struct Last {
        package var position: Position
        package var header: BatchHeader

        /// Whether it and what comes next are of one transaction. They are not where the relay was put back to an older
        /// backup meanwhile, and has another log behind it.
        package func isFollowed(by next: BatchHeader) -> Bool {
            next.replica == header.replica && next.part == BatchPart(number: header.part.number + 1, count: header.part.count)
                && next.firstCounter == header.firstCounter.next && next.previousDigest == header.certificates[0].digest
        }
    }

    /// The newest position that is here; nil when none is.
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

    /// Those that may be continued by a log that ends at `head`. No log ends within a transaction, so where these reach its
    /// end, they are of a log that the relay lost when it was put back to an older backup, and go.
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
