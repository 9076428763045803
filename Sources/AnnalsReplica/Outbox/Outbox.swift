import AnnalsSQLite
package import AnnalsCore
import AnnalsWire
import Foundation
package import GRDB

/// Local transactions that the relay has not accepted. A rebase rewrites them here. It never rewrites history.
///
/// A transaction moves through three tables. In `annals_outbox` it may be rewritten. `annals_push` has the one push under way, with
/// bytes that do not change until the relay gives a definite answer. `annals_ahead` has accepted entries beyond this replica's
/// position: entries of other replicas before them were not pulled yet.
///
/// A transaction that is too large for one batch is stored in the parts in which it is sent: all but the last in
/// `annals_outbox_parts`. The bytes of its push are stored in one row for each part.
package enum Outbox {
    package static let schema = """
        CREATE TABLE annals_outbox (
            sequence INTEGER PRIMARY KEY,
            id BLOB NOT NULL,
            time INTEGER NOT NULL,
            time_counter INTEGER NOT NULL,
            changes INTEGER NOT NULL,
            journal INTEGER NOT NULL,
            conflicts INTEGER NOT NULL,
            footprint BLOB NOT NULL,
            parts INTEGER NOT NULL DEFAULT 1,
            body BLOB NOT NULL
        );
        CREATE TABLE annals_ahead (
            position INTEGER PRIMARY KEY,
            digest BLOB
        );
        """

    /// The contents of a new or rewritten row.
    package struct Draft {
        package var id: TransactionID
        package var time: HybridTime
        package var changes: Int
        /// The number of journal entries in the transaction.
        package var journal: Int
        /// The number of conflicts among them. A row that got another key is an entry and no conflict.
        package var conflicts: Int
        package var footprint: Footprint
        /// The number of parts. All but the last are written already.
        package var parts = 1
        /// The whole body or the last part. It is in pieces, since it can have some megabytes.
        package var body: [[UInt8]]

        package init(
            id: TransactionID, time: HybridTime, changes: Int, journal: Int = 0, conflicts: Int = 0, footprint: Footprint, parts: Int = 1,
            body: [[UInt8]]
        ) {
            self.id = id
            self.time = time
            self.changes = changes
            self.journal = journal
            self.conflicts = conflicts
            self.footprint = footprint
            self.parts = parts
            self.body = body
        }
    }

    /// One row without its body, as it is undone, verified or sent.
    package struct Row {
        package var sequence: Int64
        package var id: TransactionID
        package var time: HybridTime
        package var changes: Int
        /// The number of journal entries in the transaction.
        package var journal: Int
        package var footprint: Footprint
        package var parts: Int
    }

    package static func append(_ db: Database, _ draft: Draft) throws {
        try run(
            db, draft,
            """
            INSERT INTO annals_outbox (id, time, time_counter, changes, journal, footprint, body, parts, conflicts)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            """)
        try fillBody(db, draft, sequence: db.lastInsertedRowID)
    }

    /// Adds a row with a given sequence number, which must be free.
    package static func insert(_ db: Database, _ draft: Draft, at sequence: Int64) throws {
        try run(
            db, draft,
            """
            INSERT INTO annals_outbox (sequence, id, time, time_counter, changes, journal, footprint, body, parts, conflicts)
            VALUES (\(sequence), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            """)
        try fillBody(db, draft, sequence: sequence)
    }

    /// Replaces a row with its rewritten form.
    static func rewrite(_ db: Database, sequence: Int64, _ draft: Draft) throws {
        try run(
            db, draft,
            """
            UPDATE annals_outbox SET id = ?1, time = ?2, time_counter = ?3, changes = ?4, journal = ?5, footprint = ?6,
                body = ?7, parts = ?8, conflicts = ?9
            WHERE sequence = \(sequence)
            """)
        try fillBody(db, draft, sequence: sequence)
    }

    /// A body of one piece is bound without a copy. For several pieces only the space is reserved.
    private static func run(_ db: Database, _ draft: Draft, _ sql: String) throws {
        let statement = try PreparedStatement(db, sql)
        statement.bind(1, .blob(draft.id.bytes))
        statement.bind(2, draft.time.milliseconds)
        statement.bind(3, Int64(draft.time.counter))
        statement.bind(4, Int64(draft.changes))
        statement.bind(5, Int64(draft.journal))
        statement.bind(6, .blob(draft.footprint.encode()))
        statement.bind(8, Int64(draft.parts))
        statement.bind(9, Int64(draft.conflicts))
        if draft.body.count == 1 {
            try draft.body[0].withUnsafeBytes { try statement.run(lending: 7, $0) }
        } else {
            statement.bind(7, roomFor: draft.body.reduce(0) { $0 + $1.count })
            try statement.run()
        }
    }

    private static func fillBody(_ db: Database, _ draft: Draft, sequence: Int64) throws {
        guard draft.body.count > 1 else { return }
        try body(db, of: sequence, .write).write(draft.body)
    }

    /// The body of a row. If the row has several parts, it is the last part.
    static func body(_ db: Database, of sequence: Int64, _ access: StoredBlob.Access = .read) throws -> StoredBlob {
        try StoredBlob(db, table: "annals_outbox", column: "body", row: sequence, access)
    }

    package static func delete(_ db: Database, through sequence: Int64) throws {
        try deleteParts(db, through: sequence)
        try db.cachedStatement(sql: "DELETE FROM annals_outbox WHERE sequence <= ?").execute(arguments: [sequence])
    }

    package static func delete(_ db: Database, sequence: Int64) throws {
        try deleteParts(db, sequence: sequence)
        try db.cachedStatement(sql: "DELETE FROM annals_outbox WHERE sequence = ?").execute(arguments: [sequence])
    }

    package static func delete(_ db: Database, after sequence: Int64) throws {
        try db.execute(sql: "DELETE FROM annals_outbox WHERE sequence > ?", arguments: [sequence])
    }

    /// Gives a row and its parts another sequence number, which must be free.
    static func move(_ db: Database, _ sequence: Int64, to target: Int64) throws {
        try db.execute(sql: "UPDATE annals_outbox SET sequence = ? WHERE sequence = ?", arguments: [target, sequence])
        try moveParts(db, sequence, to: target)
    }

    /// The positions of accepted entries that are ahead.
    package static func ahead(_ db: Database) throws -> Set<Position> {
        Set(try Int64.fetchAll(db.cachedStatement(sql: "SELECT position FROM annals_ahead")).map { Position($0) })
    }

    /// The digests of the entries that are ahead, if they are known.
    package static func digestsAhead(_ db: Database) throws -> [Position: Digest] {
        var digests: [Position: Digest] = [:]
        let statement = try db.cachedStatement(sql: "SELECT position, digest FROM annals_ahead WHERE digest IS NOT NULL")
        for row in try GRDB.Row.fetchAll(statement) { digests[Position(try row.value("position"))] = try digest(row) }
        return digests
    }

    private static func digest(_ row: GRDB.Row) throws -> Digest? {
        try (row.value("digest") as Data?).flatMap { Digest(bytes: [UInt8]($0)) }
    }

    /// The last position of an entry that is ahead; nil if there is none.
    static func lastAhead(_ db: Database) throws -> Position? {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(position) FROM annals_ahead")).map { Position($0) }
    }

    /// - Parameter digest: The entry's digest; nil if it is not known.
    package static func noteAhead(_ db: Database, _ position: Position, _ digest: Digest?) throws {
        try db.cachedStatement(sql: "INSERT INTO annals_ahead (position, digest) VALUES (?, ?)")
            .execute(arguments: [position.rawValue, digest.map { Data($0.bytes) }])
    }

    /// Removes an entry that is ahead, because the position passes it. Returns nil if there is none at that position.
    @discardableResult
    package static func pass(_ db: Database, _ position: Position) throws -> (position: Position, digest: Digest?)? {
        let statement = try db.cachedStatement(sql: "DELETE FROM annals_ahead WHERE position = ? RETURNING digest")
        guard let row = try GRDB.Row.fetchOne(statement, arguments: [position.rawValue]) else { return nil }
        return try (position, digest(row))
    }

    /// Removes all entries that are ahead up to a position.
    static func passAll(_ db: Database, through position: Position) throws {
        try db.execute(sql: "DELETE FROM annals_ahead WHERE position <= ?", arguments: [position.rawValue])
    }

    package static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db.cachedStatement(sql: "SELECT count(*) FROM annals_outbox")) ?? 0
    }

    /// The number of conflicts that transactions of the outbox carry. They get into the journal when the relay accepts the transactions.
    package static func conflicts(_ db: Database) throws -> Int {
        try Int.fetchOne(db.cachedStatement(sql: "SELECT total(conflicts) FROM annals_outbox")) ?? 0
    }

    /// The sequence number of the oldest row; nil if there is none.
    static func first(_ db: Database) throws -> Int64? { try Int64.fetchOne(db, sql: "SELECT min(sequence) FROM annals_outbox") }

    /// The sequence number of the newest row; nil if there is none.
    static func last(_ db: Database) throws -> Int64? { try Int64.fetchOne(db, sql: "SELECT max(sequence) FROM annals_outbox") }

    static func sequencesFromNewest(_ db: Database) throws -> [Int64] {
        try Int64.fetchAll(db, sql: "SELECT sequence FROM annals_outbox ORDER BY sequence DESC")
    }

    /// The sequence numbers of the rows whose ids a query returns, in local order.
    static func sequences(_ db: Database, ofIDs query: String, _ arguments: StatementArguments = []) throws -> [Int64] {
        let sql = "SELECT sequence FROM annals_outbox WHERE id IN (\(query)) ORDER BY sequence"
        return try Int64.fetchAll(db.cachedStatement(sql: sql), arguments: arguments)
    }

    /// The id of the oldest row, not decoded; nil if there is none.
    static func firstID(_ db: Database) throws -> DatabaseValue? {
        try DatabaseValue.fetchOne(db, sql: "SELECT id FROM annals_outbox ORDER BY sequence LIMIT 1")
    }

    package static func row(_ db: Database, sequence: Int64) throws -> Row? {
        try GRDB.Row.fetchOne(db, sql: "\(select) WHERE sequence = ?", arguments: [sequence]).map(decode)
    }

    static func firstRow(_ db: Database) throws -> Row? {
        try GRDB.Row.fetchOne(db.cachedStatement(sql: "\(select) ORDER BY sequence LIMIT 1")).map(decode)
    }

    /// A row without its body and the metadata of the body.
    package struct Head {
        package var sequence: Int64
        /// The time of the transaction, in milliseconds since 1970.
        package var time: Int64
        package var changes: Int
        package var journal: Int
        package var parts: Int
    }

    package static func heads(_ db: Database, through last: Int64, limit: Int) throws -> [Head] {
        let sql = "SELECT sequence, time, changes, journal, parts FROM annals_outbox WHERE sequence <= ? ORDER BY sequence LIMIT ?"
        return try GRDB.Row.fetchAll(db.cachedStatement(sql: sql), arguments: [last, limit])
            .map {
                try Head(
                    sequence: $0.value("sequence"), time: $0.value("time"), changes: $0.number("changes"), journal: $0.number("journal"),
                    parts: $0.number("parts"))
            }
    }

    /// All rows from one on, in local order, without their bodies.
    package static func rows(_ db: Database, from first: Int64 = .min) throws -> [Row] {
        let cursor = try GRDB.Row.fetchCursor(
            db.cachedStatement(sql: "\(select) WHERE sequence >= ? ORDER BY sequence"), arguments: [first])
        var rows: [Row] = []
        while let row = try cursor.next() { rows.append(try decode(row)) }
        return rows
    }

    /// The sequence number and footprint of every row, in local order. Local certification needs them.
    package static func footprints(_ db: Database) throws -> [(sequence: Int64, footprint: Footprint)] {
        var footprints: [(sequence: Int64, footprint: Footprint)] = []
        try forEachFootprint(db) { sequence, _, footprint in
            footprints.append((sequence, footprint))
            return true
        }
        return footprints
    }

    /// Visits the sequence number, number of parts and footprint of the rows, in local order, until `visit` returns false.
    static func forEachFootprint(_ db: Database, _ visit: (_ sequence: Int64, _ parts: Int, Footprint) throws -> Bool) throws {
        let sql = "SELECT sequence, parts, footprint FROM annals_outbox ORDER BY sequence"
        let cursor = try GRDB.Row.fetchCursor(db.cachedStatement(sql: sql))
        while let row = try cursor.next() {
            let bytes: Data = try row.value("footprint")
            if try !visit(row.value("sequence"), row.number("parts"), Footprint.decode([UInt8](bytes))) { return }
        }
    }

    private static let select = "SELECT sequence, id, time, time_counter, changes, journal, footprint, parts FROM annals_outbox"

    private static func decode(_ row: GRDB.Row) throws -> Row {
        let id: Data = try row.value("id")
        let footprint: Data = try row.value("footprint")
        guard let id = TransactionID(bytes: id) else { throw Corruption("annals_outbox.id") }
        return try Row(
            sequence: row.value("sequence"), id: id, time: HybridTime(milliseconds: row.value("time"), counter: row.value("time_counter")),
            changes: row.number("changes"), journal: row.number("journal"), footprint: Footprint.decode([UInt8](footprint)),
            parts: row.number("parts"))
    }
}
