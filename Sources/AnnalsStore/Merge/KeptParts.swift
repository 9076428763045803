import AnnalsBlobs
import AnnalsCore
import AnnalsWire
import GRDB

/// Parts of a transaction too large for one batch, as they were pulled, until the last of them is here: no reader ever
/// sees half of a transaction (law 6), and no part has to be pulled twice.
///
/// They are the log's entries right after the replica's position, since the relay appends all parts at once.
enum KeptParts {
    static let schema = """
        CREATE TABLE annals_parts (
            position INTEGER PRIMARY KEY,
            batch BLOB NOT NULL
        );
        """

    static let tables = ["annals_parts"]

    /// The newest position that is here; nil when none is.
    static func last(_ db: Database) throws -> Position? {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(position) FROM annals_parts")).map { Position($0) }
    }

    static func keep(_ db: Database, _ frame: LogFrame) throws {
        let statement = try PreparedStatement(db, "INSERT INTO annals_parts (position, batch) VALUES (?1, ?2)")
        statement.bind(1, frame.firstPosition.rawValue)
        statement.bind(2, roomFor: frame.batch.count)
        try statement.run()
        try StoredBlob(db, table: "annals_parts", column: "batch", row: frame.firstPosition.rawValue, .write).write([frame.batch])
    }

    static func batch(_ db: Database, at position: Position) throws -> [UInt8] {
        try StoredBlob(db, table: "annals_parts", column: "batch", row: position.rawValue, .read).read()
    }

    static func clear(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_parts")
    }
}
