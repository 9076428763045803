internal import AnnalsBlobs
internal import AnnalsCore
internal import Foundation
internal import GRDB

/// All SQL of spaces, logs and replicas. It stores and finds; what may be appended is the certifier's business.
///
/// The log's unit is the *run*: the transactions of one batch that were accepted in one commit, which therefore have
/// consecutive counters and consecutive positions. One row per run holds the batch's bytes once; digest and base of
/// each transaction are in the batch's clear part, so they are not stored again. A push of ten thousand transactions
/// costs one row, and a retry, the only reader of old digests, parses one header.
enum LogStorage {
    static let schema = """
        -- floor: footprints up to it were dropped once; what was stale for that must stay so, whatever is loaded later.
        CREATE TABLE annals_spaces(
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            lineage BLOB NOT NULL,
            head INTEGER NOT NULL DEFAULT 0,
            horizon INTEGER NOT NULL DEFAULT 0,
            floor INTEGER NOT NULL DEFAULT 0,
            created INTEGER NOT NULL
        ) STRICT;

        -- counter and digest are of the last accepted transaction; position is the newest the replica has acknowledged.
        CREATE TABLE annals_replicas(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            replica BLOB NOT NULL,
            name TEXT NOT NULL DEFAULT '',
            counter INTEGER NOT NULL DEFAULT 0,
            digest BLOB NOT NULL,
            position INTEGER NOT NULL DEFAULT 0,
            seen INTEGER NOT NULL,
            UNIQUE (space, replica)
        ) STRICT;

        CREATE TABLE annals_runs(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            position INTEGER NOT NULL,
            count INTEGER NOT NULL,
            first_index INTEGER NOT NULL,
            replica INTEGER NOT NULL REFERENCES annals_replicas(id),
            counter INTEGER NOT NULL,
            received INTEGER NOT NULL,
            batch BLOB NOT NULL,
            UNIQUE (space, position),
            UNIQUE (replica, counter)
        ) STRICT;

        CREATE TABLE annals_snapshots(
            space INTEGER PRIMARY KEY REFERENCES annals_spaces(id),
            position INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            digest BLOB NOT NULL,
            file TEXT NOT NULL,
            created INTEGER NOT NULL
        ) STRICT;
        """

    struct Space: Sendable, Hashable {
        var id: Int64
        var lineage: Lineage
        var head: Position
        /// The log begins after this position.
        var horizon: Position
        /// Bases before this position cannot be certified any more.
        var floor: Position
        /// Bytes of all batches since the space's beginning, purged ones included.
        var logBytes: Int64
    }

    struct Replica: Sendable, Hashable {
        var id: Int64
        var last: LastAccepted
    }

    /// Consecutive transactions of one batch at consecutive positions.
    struct Run: Sendable {
        var firstPosition: Position
        var count: Int
        /// Which transaction of the batch is the run's first.
        var firstIndex: Int
        var received: Int64
        var batch: [UInt8]

        var lastPosition: Position { firstPosition.advanced(by: count - 1) }
    }

    // MARK: Spaces

    static func space(_ name: SpaceName, in db: Database) throws -> Space? {
        let statement = try db.cachedStatement(sql: "SELECT id, lineage, head, horizon, floor, log_bytes FROM annals_spaces WHERE name = ?")
        guard let row = try Row.fetchOne(statement, arguments: [name.description]) else { return nil }
        guard let lineage = Lineage(bytes: row["lineage"] as Data) else { throw RelayLogError.storage("a space's lineage is damaged") }
        return Space(
            id: row["id"], lineage: lineage, head: Position(row["head"]), horizon: Position(row["horizon"]),
            floor: Position(row["floor"]), logBytes: row["log_bytes"])
    }

    static func createSpace(_ name: SpaceName, lineage: Lineage, at now: Int64, in db: Database) throws {
        try db.execute(
            sql: "INSERT INTO annals_spaces(name, lineage, created) VALUES (?, ?, ?)",
            arguments: [name.description, Data(lineage.bytes), now])
    }

    static func names(in db: Database, limit: Int = -1) throws -> [SpaceName] {
        try String.fetchAll(db, sql: "SELECT name FROM annals_spaces ORDER BY name LIMIT ?", arguments: [limit])
            .compactMap { SpaceName($0) }
    }

    static func setHead(_ head: Position, floor: Position, logBytes: Int64, of space: Int64, in db: Database) throws {
        try db.cachedStatement(sql: "UPDATE annals_spaces SET head = ?, floor = max(floor, ?), log_bytes = ? WHERE id = ?")
            .execute(arguments: [head.rawValue, floor.rawValue, logBytes, space])
    }

    // MARK: Replicas

    static func replica(_ replica: ReplicaID, of space: Int64, in db: Database) throws -> Replica? {
        let statement = try db.cachedStatement(
            sql: "SELECT id, counter, digest, last_position FROM annals_replicas WHERE space = ? AND replica = ?")
        guard let row = try Row.fetchOne(statement, arguments: [space, Data(replica.bytes)]) else { return nil }
        guard let digest = Digest(bytes: [UInt8](row["digest"] as Data)) else {
            throw RelayLogError.storage("a replica's digest is damaged")
        }
        return Replica(
            id: row["id"], last: LastAccepted(counter: Counter(row["counter"]), digest: digest, position: Position(row["last_position"])))
    }

    /// Notes what the replica has pushed last, making its row where it is new, and returns the row's number.
    static func setLast(_ last: LastAccepted, of replica: ReplicaID, in space: Int64, at now: Int64, db: Database) throws -> Int64 {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO annals_replicas(space, replica, counter, digest, last_position, seen) VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT (space, replica) DO UPDATE SET counter = excluded.counter, digest = excluded.digest,
                    last_position = excluded.last_position, seen = max(seen, excluded.seen)
                RETURNING id
                """)
        let arguments: StatementArguments = [
            space, Data(replica.bytes), last.counter.rawValue, Data(last.digest.bytes), last.position.rawValue, now,
        ]
        guard let id = try Int64.fetchOne(statement, arguments: arguments) else { throw RelayLogError.storage("no replica's row") }
        return id
    }

    /// The same where the row's number is known.
    static func setLast(_ last: LastAccepted, ofReplica id: Int64, at now: Int64, db: Database) throws {
        try db.cachedStatement(
            sql: "UPDATE annals_replicas SET counter = ?, digest = ?, last_position = ?, seen = max(seen, ?) WHERE id = ?"
        )
        .execute(arguments: [last.counter.rawValue, Data(last.digest.bytes), last.position.rawValue, now, id])
    }

    /// Notes that a replica was there; its position only rises.
    static func saveSighting(_ sighting: Sighting, of replica: ReplicaID, in space: SpaceName, db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO annals_replicas(space, replica, name, digest, position, seen)
                SELECT id, ?, ?, ?, min(?, head), ? FROM annals_spaces WHERE name = ?
                ON CONFLICT (space, replica) DO UPDATE SET position = max(position, excluded.position),
                    seen = max(seen, excluded.seen), name = coalesce(nullif(excluded.name, ''), name)
                """)
        try statement.execute(arguments: [
            Data(replica.bytes), sighting.name, Data(Digest.zero.bytes), sighting.position.rawValue, sighting.time, space.description,
        ])
    }

    static func replicas(of space: Int64, in db: Database) throws -> [ReplicaRecord] {
        let sql = "SELECT replica, name, counter, position, seen, retired FROM annals_replicas WHERE space = ? ORDER BY replica"
        return try Row.fetchAll(db, sql: sql, arguments: [space]).compactMap { row in
            guard let replica = ReplicaID(bytes: row["replica"] as Data) else { return nil }
            return ReplicaRecord(
                replica: replica, name: row["name"], counter: Counter(row["counter"]), position: Position(row["position"]),
                lastSeen: row["seen"], retired: row["retired"])
        }
    }

    // MARK: Runs

    /// - Parameter digest: the log's running digest behind the run.
    static func append(_ run: Run, counter: Counter, replica: Int64, digest: Digest, to space: Int64, db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO annals_runs(space, position, count, first_index, replica, counter, received, log_digest, batch)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, zeroblob(?))
                """)
        try statement.execute(arguments: [
            space, run.firstPosition.rawValue, run.count, run.firstIndex, replica, counter.rawValue, run.received, Data(digest.bytes),
            run.batch.count,
        ])
        try batch(ofRun: db.lastInsertedRowID, .write, db).write([run.batch])
    }

    /// A batch can be many megabytes, of which SQLite would make copies.
    private static func batch(ofRun id: Int64, _ access: StoredBlob.Access, _ db: Database) throws -> StoredBlob {
        try StoredBlob(db, table: "annals_runs", column: "batch", row: id, access)
    }

    /// The run that holds a replica's transaction, with the counter of its first; nil where the log no longer has it.
    static func run(of replica: Int64, holding counter: Counter, in db: Database) throws -> (run: Run, firstCounter: Counter)? {
        let statement = try db.cachedStatement(
            sql: """
                SELECT id, position, count, first_index, received, counter FROM annals_runs
                WHERE replica = ? AND counter <= ? ORDER BY counter DESC LIMIT 1
                """)
        guard let row = try Row.fetchOne(statement, arguments: [replica, counter.rawValue]) else { return nil }
        let first: Int64 = row["counter"]
        let count: Int64 = row["count"]
        return counter.rawValue - first < count ? (try run(row, db), Counter(first)) : nil
    }

    /// The runs that hold what follows `after`, up to about `byteLimit` of batches but at least one, oldest first.
    static func runs(of space: Int64, after: Position, byteLimit: Int, in db: Database) throws -> [Run] {
        // The run that `after` lies in may hold later positions too.
        let statement = try db.cachedStatement(
            sql: """
                SELECT id, position, count, first_index, received, length(batch) AS length FROM annals_runs
                WHERE space = ?1 AND position >= coalesce(
                    (SELECT CASE WHEN position + count - 1 > ?2 THEN position ELSE position + count END
                     FROM annals_runs WHERE space = ?1 AND position <= ?2 ORDER BY position DESC LIMIT 1), ?2 + 1)
                ORDER BY position
                """)
        let rows = try Row.fetchCursor(statement, arguments: [space, after.rawValue])
        var runs: [Run] = []
        var bytes = 0
        while let row = try rows.next() {
            // SQLite knows a blob's length without reading it.
            let length: Int = row["length"]
            if !runs.isEmpty, bytes + length > byteLimit { break }
            runs.append(try run(row, db))
            bytes += length
        }
        return runs
    }

    /// Calls `visit` with the runs from the newest back, until it returns false.
    static func visitNewestRuns(of space: Int64, in db: Database, _ visit: (Run) throws -> Bool) throws {
        let rows = try Row.fetchCursor(
            db,
            sql: "SELECT id, position, count, first_index, received FROM annals_runs WHERE space = ? ORDER BY position DESC",
            arguments: [space])
        while let row = try rows.next(), try visit(run(row, db)) {}
    }

    /// A run without its batch.
    struct RunHead {
        var firstPosition: Position
        var count: Int
        var logDigest: Data?
        private let row: Row

        var lastPosition: Position { firstPosition.advanced(by: count - 1) }

        fileprivate init(_ row: Row) {
            firstPosition = Position(row["position"])
            count = row["count"]
            logDigest = row["log_digest"]
            self.row = row
        }

        func read(_ db: Database) throws -> Run { try run(row, db) }
    }

    /// The run that holds a position; nil where the log has none.
    static func run(of space: Int64, at position: Position, in db: Database) throws -> RunHead? {
        let statement = try db.cachedStatement(
            sql: """
                SELECT id, position, count, first_index, received, log_digest FROM annals_runs
                WHERE space = ? AND position <= ? ORDER BY position DESC LIMIT 1
                """)
        let found = try Row.fetchOne(statement, arguments: [space, position.rawValue]).map(RunHead.init)
        return found.flatMap { $0.lastPosition >= position ? $0 : nil }
    }

    static func run(id: Int64, in db: Database) throws -> Run? {
        try Row.fetchOne(db, sql: "SELECT id, position, count, first_index, received FROM annals_runs WHERE id = ?", arguments: [id])
            .map { try run($0, db) }
    }

    private static func run(_ row: Row, _ db: Database) throws -> Run {
        Run(
            firstPosition: Position(row["position"]), count: row["count"], firstIndex: row["first_index"], received: row["received"],
            batch: try batch(ofRun: row["id"], .read, db).read())
    }
}
