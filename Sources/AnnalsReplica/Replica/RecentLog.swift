import AnnalsSchema
import AnnalsSQLite
import AnnalsCore
import AnnalsWire
import Foundation
import GRDB

/// The newest batches of the log that this replica has passed, own batches and others, as they were sent.
///
/// A relay that is restored from a backup has lost the newest part of its log. The replicas send it again from this table: see
/// `FollowingRelay`.
struct RecentLog {
    package let db: Database
    /// The smallest and the largest size of the stored batches, in bytes.
    package let bounds: ClosedRange<Int64>

    init(_ db: Database, _ limits: OutboxLimits) {
        self.db = db
        bounds = limits.recentLog
    }

    /// `digest` is the log's running digest before the row's first entry, if it was known when the batch arrived. `schema` is the space's
    /// schema before the row, if the row changed it.
    package static let schema = """
        CREATE TABLE annals_log (
            position INTEGER PRIMARY KEY,
            first_index INTEGER NOT NULL,
            entries INTEGER NOT NULL,
            digest BLOB,
            schema BLOB,
            batch BLOB NOT NULL
        );
        """

    /// A row without its batch.
    package struct Row {
        package var position: Position
        package var firstIndex: Int
        package var entries: Int
        package var digest: Digest?

        package var last: Position { position.advanced(by: entries - 1) }
    }

    /// Stores a batch of a page.
    ///
    /// - Parameters:
    ///   - indices: The transactions of the batch that are new here.
    ///   - digest: The log's running digest before the first of them.
    package func keep(_ frame: LogFrame, _ indices: Range<Int>, after digest: Digest?) throws {
        guard let position = frame.position(of: indices.lowerBound), frame.batch.count <= bounds.upperBound else {
            return try Self.clear(db)
        }
        let sql = "INSERT OR REPLACE INTO annals_log (position, first_index, entries, digest, batch) VALUES (?1, ?2, ?3, ?4, ?5)"
        let statement = try PreparedStatement(db, sql)
        statement.bind(1, position.rawValue)
        statement.bind(2, Int64(indices.lowerBound))
        statement.bind(3, Int64(indices.count))
        statement.bind(4, digest.map { .blob($0.bytes) } ?? .null)
        try frame.batch.withUnsafeBytes { try statement.run(lending: 5, $0) }
        try makeRoom(for: frame.batch.count)
    }

    /// Stores the buffered parts of a transaction after its last part arrived.
    func keepParts(before position: Position, after digest: Digest?) throws {
        let sizes = "SELECT coalesce(sum(length(batch)), 0) FROM \(BufferedParts.table) WHERE position < ?"
        let bytes = try Int64.fetchOne(db, sql: sizes, arguments: [position.rawValue]) ?? 0
        guard bytes <= bounds.upperBound else { return try Self.clear(db) }
        let sql = """
            INSERT OR REPLACE INTO annals_log (position, first_index, entries, batch)
            SELECT position, 0, 1, batch FROM \(BufferedParts.table) WHERE position < ?
            """
        try db.execute(sql: sql, arguments: [position.rawValue])
        let first = "UPDATE annals_log SET digest = ? WHERE position = (SELECT min(position) FROM \(BufferedParts.table))"
        if bytes > 0 { try db.execute(sql: first, arguments: [digest.map { Data($0.bytes) }]) }
        try makeRoom(for: Int(bytes))
    }

    /// Stores the accepted transactions of a push.
    ///
    /// - Parameters:
    ///   - counter: The first counter of the push, or of one part of it.
    ///   - digest: The log's running digest before the first position, if it is known.
    func keepPushed(_ counter: Counter, _ positions: [Position], after digest: Digest?) throws {
        let sql = "SELECT length(batch) FROM \(Push.table) WHERE first_counter = ?"
        let bytes = try Int.fetchOne(db, sql: sql, arguments: [counter.rawValue]) ?? 0
        guard bytes <= bounds.upperBound else { return try Self.clear(db) }
        var digest = digest
        for run in Self.runs(of: positions) {
            let sql = """
                INSERT OR REPLACE INTO annals_log (position, first_index, entries, digest, batch)
                SELECT ?, ?, ?, ?, batch FROM \(Push.table) WHERE first_counter = ?
                """
            try db.cachedStatement(sql: sql).execute(arguments: [
                positions[run.lowerBound].rawValue, run.lowerBound, run.count, digest.map { Data($0.bytes) }, counter.rawValue,
            ])
            digest = nil
            try makeRoom(for: bytes)
        }
    }

    /// Ranges of indexes with consecutive positions.
    private static func runs(of positions: [Position]) -> [Range<Int>] {
        var runs: [Range<Int>] = []
        for index in positions.indices {
            if let last = runs.last, positions[index] == positions[index - 1].next {
                runs[runs.count - 1] = last.lowerBound..<index + 1
            } else {
                runs.append(index..<index + 1)
            }
        }
        return runs
    }

    /// To be called before the batch at a position changes the space's schema. Stores the earlier schema with that batch.
    static func noteSchema(_ db: Database, before position: Position) throws {
        let sql = """
            UPDATE annals_log SET schema = \(MetaTable.valueSQL(named: "?")) WHERE schema IS NULL
                AND position = (SELECT max(position) FROM annals_log WHERE position <= ?)
            """
        try db.execute(sql: sql, arguments: [Meta.Name.spaceSchema.rawValue, position.rawValue])
    }

    /// The space's schema at a position; nil if it has not changed since.
    package static func schema(_ db: Database, at position: Position) throws -> SpaceSchema? {
        let sql = "SELECT schema FROM annals_log WHERE position > ? AND schema IS NOT NULL ORDER BY position LIMIT 1"
        return try Data.fetchOne(db, sql: sql, arguments: [position.rawValue]).map(SpaceSchema.decode)
    }

    // MARK: Size limit

    /// An eighth of the file, within `bounds`.
    private func limit() throws -> Int64 {
        let pages = try Int64.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0
        let size = try Int64.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0
        return min(max(pages * size / 8, bounds.lowerBound), bounds.upperBound)
    }

    /// Deletes the oldest rows beyond the limit. The total size is stored, because adding it up would read all rows.
    private func makeRoom(for bytes: Int) throws {
        let meta = Meta(db)
        var sum = (try meta.integer(.recentLogBytes) ?? 0) + Int64(bytes)
        let limit = sum > bounds.lowerBound ? try limit() : bounds.lowerBound
        while sum > limit {
            let sql = "DELETE FROM annals_log WHERE position = (SELECT min(position) FROM annals_log) RETURNING length(batch)"
            guard let dropped = try Int64.fetchOne(db, sql: sql) else { break }
            sum -= dropped
        }
        try meta.set(.recentLogBytes, max(sum, 0))
    }

    package static func clear(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_log")
        try Meta(db).set(.recentLogBytes, nil)
    }

    /// To be called when another log continues after a position.
    package static func drop(_ db: Database, after position: Position) throws {
        try db.execute(sql: "DELETE FROM annals_log WHERE position > ?", arguments: [position.rawValue])
        let sum = try Int64.fetchOne(db, sql: "SELECT coalesce(sum(length(batch)), 0) FROM annals_log")
        try Meta(db).set(.recentLogBytes, sum)
    }

    // MARK: Reading

    /// All rows in the order of the log.
    package static func rows(_ db: Database) throws -> [Row] {
        let sql = "SELECT position, first_index, entries, digest FROM annals_log ORDER BY position"
        return try GRDB.Row.fetchAll(db, sql: sql).map { row in
            let digest = (try row.value("digest") as Data?).flatMap { Digest(bytes: [UInt8]($0)) }
            return try Row(
                position: Position(row.number("position", in: SchemaLimits.positions)), firstIndex: row.number("first_index"),
                entries: row.number("entries"), digest: digest)
        }
    }

    package static func batch(_ db: Database, at position: Position) throws -> [UInt8] {
        try StoredBlob(db, table: "annals_log", column: "batch", row: position.rawValue, .read).read()
    }
}
