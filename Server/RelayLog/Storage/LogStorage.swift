package import AnnalsCore
internal import AnnalsWire

/// The SQL of spaces, logs and replicas. It stores and finds; the certifier decides what is appended.
///
/// The unit of the log is the *run*: the transactions of one batch that were accepted in one commit. They have
/// consecutive counters and consecutive positions. One row for each run holds the batch's bytes once. The digest and
/// base of each transaction are in the batch's clear part, so they are not stored again. A push of ten thousand
/// transactions costs one row. Only a retry reads old digests, and it parses one header.
package enum LogStorage {
    struct Space: Sendable, Hashable {
        var id: Int64
        var lineage: Lineage
        var head: Position
        /// The log begins after this position.
        var horizon: Position
        /// Bases before this position cannot be certified.
        var floor: Position
        /// Bytes of all batches since the space was created, including purged ones.
        var logBytes: Int64
        /// Purged and voided bytes of these batches.
        var droppedBytes: Int64
        /// The number of changes of buffered parts.
        var partChanges: Int64
        /// The number of changes that invalidate cached owners, quarantines and replica rows.
        var ownerChanges: Int64
    }

    struct Replica: Sendable, Hashable {
        var id: Int64
        var last: LastAccepted
    }

    /// Consecutive transactions of one batch at consecutive positions.
    struct Run: Sendable {
        var firstPosition: Position
        var count: Int
        /// The index of the run's first transaction in the batch.
        var firstIndex: Int
        var received: Int64
        var batch: [UInt8]

        var lastPosition: Position { firstPosition.advanced(by: count - 1) }
    }

    // MARK: Spaces

    /// - Parameter locking: locks the space, so that other writers of the space wait until this transaction ends.
    static func space(_ name: SpaceName, in db: any LogConnection, locking: Bool = false) throws -> Space? {
        let sql = """
            SELECT id, lineage, head, horizon, floor, log_bytes, dropped_bytes, part_changes, owner_changes
            FROM annals_spaces WHERE name = ?1
            """
        guard let row = try db.row(locking ? sql + db.lockingClause : sql, [name]) else { return nil }
        guard let lineage = Lineage(bytes: try row.bytes(1)) else { throw RelayLogError.storage("a space's lineage is corrupt") }
        return Space(
            id: try row.integer(0), lineage: lineage, head: try row.position(2), horizon: try row.position(3), floor: try row.position(4),
            logBytes: try row.number(5), droppedBytes: try row.number(6), partChanges: try row.number(7),
            ownerChanges: try row.number(8))
    }

    /// Returns false if another space with this name exists.
    static func createSpace(
        _ name: SpaceName, lineage: Lineage, at now: Int64, by owner: ReplicaOwner? = nil, in db: any LogConnection
    ) throws -> Bool {
        let sql = """
            INSERT INTO annals_spaces(name, lineage, created, creator) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (name) DO UPDATE SET created = excluded.created WHERE annals_spaces.lineage = excluded.lineage RETURNING id
            """
        return try db.row(sql, [name, lineage, now, owner?.text]) != nil
    }

    static func spaceCount(in db: any LogConnection) throws -> Int {
        Int(try db.integer("SELECT count(*) FROM annals_spaces", []) ?? 0)
    }

    static func spaceCount(of owner: ReplicaOwner, in db: any LogConnection) throws -> Int {
        Int(try db.integer("SELECT count(*) FROM annals_spaces WHERE creator = ?1", [owner.text]) ?? 0)
    }

    static func names(in db: any LogConnection) throws -> [SpaceName] {
        // Databases sort text differently.
        try db.rows("SELECT name FROM annals_spaces", []).compactMap { SpaceName(try $0.text(0)) }.sorted {
            $0.description < $1.description
        }
    }

    static func save(_ space: LoadedSpace, in db: any LogConnection) throws {
        let sql = """
            UPDATE annals_spaces SET head = ?1, floor = CASE WHEN floor > ?2 THEN floor ELSE ?2 END, log_bytes = ?3, part_changes = ?4,
                owner_changes = ?5
            WHERE id = ?6
            """
        let (head, floor) = (space.certifier.head, space.certifier.floor)
        try db.execute(sql, [head, floor, space.logBytes, space.partChanges, space.ownerChanges, space.id])
    }

    /// For writers beside the serving relay: sets the new head and adds the appended and the removed bytes.
    static func save(head: Position, bytes: Int64, dropped: Int64, of space: Int64, in db: any LogConnection) throws {
        let sql =
            "UPDATE annals_spaces SET head = ?1, log_bytes = log_bytes + ?2, dropped_bytes = dropped_bytes + ?3 WHERE id = ?4"
        try db.execute(sql, [head, bytes, dropped, space])
    }

    // MARK: Replicas

    static func replica(_ replica: ReplicaID, of space: Int64, in db: any LogConnection) throws -> Replica? {
        let sql = "SELECT id, counter, digest, last_position FROM annals_replicas WHERE space = ?1 AND replica = ?2"
        guard let row = try db.row(sql, [space, replica]) else { return nil }
        let last = LastAccepted(counter: try row.counter(1), digest: try row.digest(2), position: try row.position(3))
        return Replica(id: try row.integer(0), last: last)
    }

    /// Stores the replica's last transaction, creates its row if it is new, and returns the row id.
    static func setLast(
        _ last: LastAccepted, of replica: ReplicaID, in space: Int64, at now: Int64, db: any LogConnection
    ) throws -> Int64 {
        let sql = """
            INSERT INTO annals_replicas(space, replica, counter, digest, last_position, seen) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (space, replica) DO UPDATE SET counter = excluded.counter, digest = excluded.digest,
                last_position = excluded.last_position,
                seen = CASE WHEN annals_replicas.seen > excluded.seen THEN annals_replicas.seen ELSE excluded.seen END,
                sighted_by = NULL, holds = 1
            RETURNING id
            """
        guard let id = try db.integer(sql, [space, replica, last.counter, last.digest, last.position, now]) else {
            throw RelayLogError.storage("a replica was not stored")
        }
        return id
    }

    /// The same with a known row id.
    static func setLast(_ last: LastAccepted, ofReplica id: Int64, at now: Int64, db: any LogConnection) throws {
        let sql = """
            UPDATE annals_replicas SET counter = ?1, digest = ?2, last_position = ?3, seen = CASE WHEN seen > ?4 THEN seen ELSE ?4 END
            WHERE id = ?5
            """
        try db.execute(sql, [last.counter, last.digest, last.position, now, id])
    }

    /// The newest position that the replica `r` has: what it acknowledged, and what it pushed directly after that.
    static let reached = """
        CASE WHEN EXISTS (
            SELECT 1 FROM annals_runs AS u WHERE u.space = r.space AND u.position = r.position + 1 AND u.replica = r.id
                AND u.position + u.count - 1 = r.last_position) THEN r.last_position ELSE r.position END
        """

    static func replicas(of space: Int64, in db: any LogConnection) throws -> [ReplicaRecord] {
        let sql = """
            SELECT replica, name, counter, position, seen, retired, owner, program, \(reached), holds,
                (SELECT q.since FROM annals_quarantines AS q WHERE q.space = r.space AND q.owner = coalesce(r.owner, r.sighted_by)),
                coalesce(r.owner, r.sighted_by)
            FROM annals_replicas AS r WHERE space = ?1 ORDER BY replica
            """
        return try db.rows(sql, [space]).compactMap { row in
            // The relay's own entries hold back nothing.
            guard let replica = ReplicaID(bytes: try row.bytes(0)), replica != .relay else { return nil }
            let quarantined: Int64? = row.isNull(10) ? nil : try row.number(10)
            return ReplicaRecord(
                replica: replica, name: try row.text(1), counter: try row.counter(2), position: try row.position(3),
                lastSeen: try row.number(4), retired: try row.number(5), owner: row.isNull(6) ? nil : try row.text(6),
                program: try row.text(7), reached: try row.position(8), holdsBack: try row.integer(9) != 0 && quarantined == nil,
                quarantined: quarantined, credential: row.isNull(11) ? nil : try row.text(11))
        }
    }

    // MARK: Runs

    /// - Parameter digest: the log's running digest after the run.
    static func append(_ run: Run, counter: Counter, replica: Int64, digest: Digest, to space: Int64, db: any LogConnection) throws {
        let sql = """
            INSERT INTO annals_runs(space, position, count, first_index, replica, counter, received, log_digest, batch)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            """
        try db.execute(
            sql, [space, run.firstPosition, run.count, run.firstIndex, replica, counter, run.received, digest, run.batch])
    }

    /// Replaces the batch of a voided run by the remaining bytes.
    static func replace(_ batch: [UInt8], at position: Position, of space: Int64, in db: any LogConnection) throws {
        try db.execute("UPDATE annals_runs SET batch = ?1 WHERE space = ?2 AND position = ?3", [batch, space, position])
    }

    /// The position of the relay's newest own entry; nil if there is none.
    static func newestVoid(of space: Int64, in db: any LogConnection) throws -> Position? {
        guard let relay = try replica(.relay, of: space, in: db) else { return nil }
        return relay.last.position
    }

    private static let runColumns = "position, count, first_index, received, batch"

    /// A run has at least one transaction, and at most as many as a batch.
    private static func runCount(_ row: LogRow, _ column: Int) throws -> Int {
        Int(try row.number(column, from: 1, to: Int64(Int32.max)))
    }

    private static func run(_ row: LogRow) throws -> Run {
        Run(
            firstPosition: try row.position(0), count: try runCount(row, 1), firstIndex: Int(try row.number(2, to: Int64(Int32.max))),
            received: try row.number(3), batch: try row.bytes(4))
    }

    /// The run with a replica's transaction, and the counter of the run's first transaction; nil if the log no longer
    /// has it.
    static func run(
        of replica: Int64, holding counter: Counter, in db: any LogConnection
    ) throws -> (run: Run, firstCounter: Counter)? {
        let sql = """
            SELECT \(runColumns), counter FROM annals_runs WHERE replica = ?1 AND counter <= ?2 ORDER BY counter DESC LIMIT 1
            """
        guard let row = try db.row(sql, [replica, counter]) else { return nil }
        let (found, first) = (try run(row), try row.number(5))
        return counter.rawValue - first < Int64(found.count) ? (found, Counter(first)) : nil
    }

    /// The runs after `after`, oldest first: at least one, and up to about `byteLimit` of batches.
    static func runs(of space: Int64, after: Position, byteLimit: Int, in db: any LogConnection) throws -> [Run] {
        try runs(of: space, listed(of: space, after: after, in: db), byteLimit: byteLimit, in: db)
    }

    /// The same runs as frames without their batches, and the lengths of the batches.
    static func outlines(
        of space: Int64, after: Position, byteLimit: Int, in db: any LogConnection
    ) throws -> (frames: [LogFrame], lengths: [Int]) {
        let rows = try fitting(listed(of: space, after: after, in: db), byteLimit: byteLimit)
        let frames = try rows.map { row in
            LogFrame(
                firstPosition: try row.position(0), firstIndex: Int(try row.number(3, to: Int64(Int32.max))),
                acceptedCount: try runCount(row, 2), receivedAt: try row.number(4), batch: [])
        }
        return (frames, try rows.map { Int(try $0.number(1)) })
    }

    /// The runs after `after` without their batches, oldest first.
    private static func listed(of space: Int64, after: Position, in db: any LogConnection) throws -> [LogRow] {
        // The run that contains `after` may also hold later positions.
        let sql = """
            SELECT position, length(batch), count, first_index, received FROM annals_runs
            WHERE space = ?1 AND position >= coalesce(
                (SELECT CASE WHEN position + count - 1 > ?2 THEN position ELSE position + count END
                 FROM annals_runs WHERE space = ?1 AND position <= ?2 ORDER BY position DESC LIMIT 1), ?2 + 1)
            ORDER BY position LIMIT ?3
            """
        return try db.rows(sql, [space, after, lengthsAtOnce])
    }

    /// The number of runs whose lengths are read before the batches of the fitting ones.
    private static let lengthsAtOnce = 4096

    /// The first of the listed runs that fit, at least one.
    private static func runs(of space: Int64, _ listed: [LogRow], byteLimit: Int, in db: any LogConnection) throws -> [Run] {
        let positions = try fitting(listed, byteLimit: byteLimit).map { try $0.position(0) }
        guard let one = positions.first, let other = positions.last else { return [] }
        let order = one <= other ? "ASC" : "DESC"
        let sql = "SELECT \(runColumns) FROM annals_runs WHERE space = ?1 AND position BETWEEN ?2 AND ?3 ORDER BY position \(order)"
        return try db.rows(sql, [space, min(one, other), max(one, other)]).map(run)
    }

    /// The first of the listed runs whose batches have up to `byteLimit` bytes, at least one.
    private static func fitting(_ listed: [LogRow], byteLimit: Int) throws -> ArraySlice<LogRow> {
        var count = 0
        var bytes: Int64 = 0
        for row in listed {
            bytes += try row.number(1)
            if count > 0, bytes > byteLimit { break }
            count += 1
        }
        return listed.prefix(count)
    }

    /// Calls `visit` with the runs from the newest to the oldest, until it returns false.
    static func visitNewestRuns(of space: Int64, in db: any LogConnection, _ visit: (Run) throws -> Bool) throws {
        let sql = "SELECT position, length(batch) FROM annals_runs WHERE space = ?1 AND position < ?2 ORDER BY position DESC LIMIT ?3"
        var before = Position(.max)
        while true {
            let some = try runs(of: space, try db.rows(sql, [space, before, 256]), byteLimit: 1 << 20, in: db)
            for run in some where try !visit(run) { return }
            guard let last = some.last else { return }
            before = last.firstPosition
        }
    }

    /// A run without its batch.
    struct RunHead {
        var firstPosition: Position
        var count: Int
        var logDigest: Digest?
        fileprivate let space: Int64

        var lastPosition: Position { firstPosition.advanced(by: count - 1) }

        func read(_ db: any LogConnection) throws -> Run {
            let sql = "SELECT \(runColumns) FROM annals_runs WHERE space = ?1 AND position = ?2"
            guard let row = try db.row(sql, [space, firstPosition]) else { throw RelayLogError.storage("a run of the log is missing") }
            return try run(row)
        }
    }

    /// The run with a position; nil if the log does not have it.
    static func run(of space: Int64, at position: Position, in db: any LogConnection) throws -> RunHead? {
        let sql = """
            SELECT position, count, log_digest FROM annals_runs WHERE space = ?1 AND position <= ?2 ORDER BY position DESC LIMIT 1
            """
        guard let row = try db.row(sql, [space, position]) else { return nil }
        let head = RunHead(
            firstPosition: try row.position(0), count: try runCount(row, 1), logDigest: row.isNull(2) ? nil : try row.digest(2),
            space: space)
        return head.lastPosition >= position ? head : nil
    }

    /// The name and head of every space.
    package static func heads(in db: any LogConnection) throws -> [(SpaceName, Position)] {
        try db.rows("SELECT name, head FROM annals_spaces", []).compactMap { row in
            try SpaceName(try row.text(0)).map { ($0, try row.position(1)) }
        }
    }

    /// The first positions of all runs, oldest first.
    static func positions(of space: Int64, in db: any LogConnection) throws -> [Position] {
        try db.rows("SELECT position FROM annals_runs WHERE space = ?1 ORDER BY position", [space]).map { try $0.position(0) }
    }
}
