import AnnalsCore
import AnnalsWire
import Foundation
import GRDB

/// Local transactions that the space has not ordered yet: the working copy that a rebase rewrites. History never is.
///
/// A row moves through three tables: `annals_outbox` (may be rewritten), `annals_push` (the one push under way, whose
/// bytes stay as they are until the relay has given a definite answer), `annals_ahead` (accepted, but beyond this
/// replica's position because others' entries before it have not been pulled).
enum Outbox {
    static let schema = """
        CREATE TABLE annals_outbox (
            sequence INTEGER PRIMARY KEY,
            id BLOB NOT NULL,
            time INTEGER NOT NULL,
            time_counter INTEGER NOT NULL,
            changes INTEGER NOT NULL,
            journal INTEGER NOT NULL,
            footprint BLOB NOT NULL,
            body BLOB NOT NULL
        );
        CREATE TABLE annals_push (
            first_counter INTEGER PRIMARY KEY,
            transactions INTEGER NOT NULL,
            last_sequence INTEGER NOT NULL,
            digests BLOB NOT NULL,
            batch BLOB NOT NULL
        );
        CREATE TABLE annals_ahead (
            position INTEGER PRIMARY KEY
        );
        """

    static let tables = ["annals_outbox", "annals_push", "annals_ahead"]

    /// One row as it is pushed or rewritten.
    struct Row {
        var sequence: Int64
        var id: TransactionID
        var time: HybridTime
        var changes: Int
        /// How many journal entries travel inside.
        var journal: Int
        var footprint: Footprint
        var body: [UInt8]
    }

    static func append(_ db: Database, _ row: Row) throws {
        try run(
            db, row,
            """
            INSERT INTO annals_outbox (id, time, time_counter, changes, journal, footprint, body)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            """)
    }

    /// Puts the rewritten form in the place of the old one.
    static func rewrite(_ db: Database, _ row: Row) throws {
        try run(
            db, row,
            """
            UPDATE annals_outbox SET id = ?1, time = ?2, time_counter = ?3, changes = ?4, journal = ?5, footprint = ?6, body = ?7
            WHERE sequence = \(row.sequence)
            """)
    }

    /// A body can be many megabytes, so it is bound where it lies instead of being copied twice on its way.
    private static func run(_ db: Database, _ row: Row, _ sql: String) throws {
        let statement = try PreparedStatement(db, sql)
        statement.bind(1, .blob(row.id.bytes))
        statement.bind(2, row.time.milliseconds)
        statement.bind(3, Int64(row.time.counter))
        statement.bind(4, Int64(row.changes))
        statement.bind(5, Int64(row.journal))
        statement.bind(6, .blob(row.footprint.encode()))
        try row.body.withUnsafeBytes { try statement.run(lending: 7, $0) }
    }

    static func delete(_ db: Database, through sequence: Int64) throws {
        try db.execute(sql: "DELETE FROM annals_outbox WHERE sequence <= ?", arguments: [sequence])
    }

    static func delete(_ db: Database, sequence: Int64) throws {
        try db.execute(sql: "DELETE FROM annals_outbox WHERE sequence = ?", arguments: [sequence])
    }

    /// Where the accepted entries stand that the position has not passed yet.
    static func ahead(_ db: Database) throws -> Set<Position> {
        Set(try Int64.fetchAll(db, sql: "SELECT position FROM annals_ahead").map { Position($0) })
    }

    /// The position passes an own entry. False when there is none.
    @discardableResult
    static func pass(_ db: Database, _ position: Position) throws -> Bool {
        try db.execute(sql: "DELETE FROM annals_ahead WHERE position = ?", arguments: [position.rawValue])
        return db.changesCount == 1
    }

    static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_outbox") ?? 0
    }

    static func row(_ db: Database, sequence: Int64) throws -> Row? {
        try GRDB.Row.fetchOne(db, sql: "\(select) WHERE sequence = ?", arguments: [sequence]).map(decode)
    }

    /// Visits rows in local order until `visit` says stop.
    static func forEach(_ db: Database, from first: Int64 = 0, through last: Int64 = .max, _ visit: (Row) throws -> Bool) throws {
        let cursor = try GRDB.Row.fetchCursor(
            db, sql: "\(select) WHERE sequence BETWEEN ? AND ? ORDER BY sequence", arguments: [first, last])
        while let row = try cursor.next() {
            if try !visit(decode(row)) { return }
        }
    }

    /// Sequence and footprint of every row in local order: what local certification needs.
    static func footprints(_ db: Database) throws -> [(sequence: Int64, footprint: Footprint)] {
        try GRDB.Row.fetchAll(db, sql: "SELECT sequence, footprint FROM annals_outbox ORDER BY sequence").map { row in
            let bytes: Data = row["footprint"]
            return (row["sequence"], try Footprint.decode([UInt8](bytes)))
        }
    }

    private static let select = "SELECT sequence, id, time, time_counter, changes, journal, footprint, body FROM annals_outbox"

    private static func decode(_ row: GRDB.Row) throws -> Row {
        let id: Data = row["id"]
        let footprint: Data = row["footprint"]
        let body = try row.withUnsafeData(named: "body") { [UInt8]($0 ?? Data()) }
        guard let id = TransactionID(bytes: id) else { throw StoreDamage("annals_outbox.id") }
        return Row(
            sequence: row["sequence"], id: id, time: HybridTime(milliseconds: row["time"], counter: row["time_counter"]),
            changes: row["changes"], journal: row["journal"], footprint: try Footprint.decode([UInt8](footprint)), body: body)
    }
}
