internal import AnnalsCore
internal import AnnalsWire

/// The SQL of buffered parts.
enum PartStorage {
    static func append(_ header: BatchHeader, _ batch: [UInt8], to space: Int64, at now: Int64, db: any LogConnection) throws {
        let sql = """
            INSERT INTO annals_parts(space, replica, part, counter, digest, received, batch) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            """
        try db.execute(
            sql, [space, header.replica, header.part.number, header.firstCounter, header.certificates[0].digest, now, batch])
    }

    static func drop(of replica: ReplicaID, in space: Int64, db: any LogConnection) throws {
        try db.execute("DELETE FROM annals_parts WHERE space = ?1 AND replica = ?2", [space, replica])
    }

    /// Unfinished transactions without a new part since `time`.
    static func stale(before time: Int64, in db: any LogConnection) throws -> [(space: Int64, replica: ReplicaID)] {
        let sql = "SELECT space, replica FROM annals_parts GROUP BY space, replica HAVING max(received) < ?1"
        return try db.rows(sql, [time]).compactMap { row in
            guard let replica = ReplicaID(bytes: try row.bytes(1)) else { return nil }
            return (try row.integer(0), replica)
        }
    }

    /// Drops the parts of an unfinished transaction, unless a new part came meanwhile. Relays that have the space in
    /// memory notice the changed count of `part_changes`.
    static func dropStale(of replica: ReplicaID, in space: Int64, before time: Int64, db: any LogConnection) throws {
        // Lock the space before the query, because a push in a commit holds this lock.
        guard try db.row("SELECT id FROM annals_spaces WHERE id = ?1" + db.lockingClause, [space]) != nil else { return }
        let newest = try db.row("SELECT max(received) FROM annals_parts WHERE space = ?1 AND replica = ?2", [space, replica])
        guard let newest, !newest.isNull(0), try newest.integer(0) < time else { return }
        try drop(of: replica, in: space, db: db)
        try db.execute("UPDATE annals_spaces SET part_changes = part_changes + 1 WHERE id = ?1", [space])
    }

    /// Moves a part to the log as a run. The database copies one part at a time.
    ///
    /// - Parameter digest: the log's running digest after the part.
    static func move(
        _ part: Int, of replica: ReplicaID, row: Int64, in space: Int64, to position: Position, digest: Digest, at now: Int64,
        db: any LogConnection
    ) throws {
        let sql = """
            INSERT INTO annals_runs(space, position, count, first_index, replica, counter, received, log_digest, batch)
            SELECT space, ?1, 1, 0, ?2, counter, ?3, ?4, batch FROM annals_parts WHERE space = ?5 AND replica = ?6 AND part = ?7
            """
        try db.execute(sql, [position, row, now, digest, space, replica, part])
    }

    /// The buffered parts of a space. Parts of a transaction are ignored if its first part cannot be read.
    static func load(of space: Int64, in db: any LogConnection) throws -> [ReplicaID: PendingParts] {
        let sql = "SELECT replica, part, digest, length(batch) FROM annals_parts WHERE space = ?1 ORDER BY replica, part"
        var pending: [ReplicaID: PendingParts] = [:]
        for row in try db.rows(sql, [space]) {
            guard let replica = ReplicaID(bytes: try row.bytes(0)), let digest = try? row.digest(2) else { continue }
            let byteCount = Int(try row.number(3))
            if try row.integer(1) > 0 {
                pending[replica]?.append(digest, byteCount: Int64(byteCount))
            } else if let header = try header(of: replica, in: space, db) {
                pending[replica] = PendingParts(first: header, byteCount: byteCount)
            }
        }
        return pending
    }

    private static func header(of replica: ReplicaID, in space: Int64, _ db: any LogConnection) throws -> BatchHeader? {
        let sql = "SELECT batch FROM annals_parts WHERE space = ?1 AND replica = ?2 AND part = 0"
        guard let batch = try db.row(sql, [space, replica])?.bytes(0) else { return nil }
        return try? BatchHeader.parse(batch, limits: BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max))
    }
}
