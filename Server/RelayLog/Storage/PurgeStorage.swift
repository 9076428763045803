internal import AnnalsCore

/// The SQL of purges.
enum PurgeStorage {
    /// The last position before the first run that the relay received at or after `time`; the head if there is none.
    static func lastPosition(before time: Int64, in space: LogStorage.Space, _ db: any LogConnection) throws -> Position {
        let sql = "SELECT position FROM annals_runs WHERE space = ?1 AND received >= ?2 ORDER BY position LIMIT 1"
        return try db.row(sql, [space.id, time]).map { try $0.position(0).advanced(by: -1) } ?? space.head
    }

    /// Sets the horizon; the runs before it are deleted later.
    static func setHorizon(_ position: Position, _ digest: Digest, of space: Int64, in db: any LogConnection) throws {
        let sql =
            "UPDATE annals_spaces SET horizon = ?1, horizon_digest = ?2, floor = CASE WHEN floor > ?1 THEN floor ELSE ?1 END WHERE id = ?3"
        try db.execute(sql, [position, digest, space])
    }

    /// The number of runs, and the bytes of their batches, that lie completely at or before `position`.
    static func size(of space: Int64, through position: Position, in db: any LogConnection) throws -> (runs: Int, bytes: Int64) {
        let sql = """
            SELECT count(*), CAST(coalesce(sum(length(batch)), 0) AS BIGINT) FROM annals_runs
            WHERE space = ?1 AND position <= ?2 AND position + count - 1 <= ?2
            """
        guard let row = try db.row(sql, [space, position]) else { return (0, 0) }
        return (Int(try row.integer(0)), try row.integer(1))
    }

    /// Deletes some of the runs before the horizon, oldest first; returns nil if none are left. A run that contains the
    /// horizon is kept.
    static func dropRuns(of space: Int64, limits: RelayLogLimits, in db: any LogConnection) throws -> Int64? {
        let sql = """
            SELECT r.position, length(r.batch) FROM annals_runs AS r JOIN annals_spaces AS s ON s.id = r.space
            WHERE r.space = ?1 AND r.position <= s.horizon AND r.position + r.count - 1 <= s.horizon ORDER BY r.position LIMIT ?2
            """
        var bytes: Int64 = 0
        var last: Position?
        for row in try db.rows(sql, [space, limits.purgeSliceRuns]) {
            let length = try row.number(1)
            if last != nil, bytes + length > limits.purgeSliceBytes { break }
            bytes += length
            last = try row.position(0)
        }
        guard let last else { return nil }
        try db.execute("DELETE FROM annals_runs WHERE space = ?1 AND position <= ?2", [space, last])
        try db.execute("UPDATE annals_spaces SET dropped_bytes = dropped_bytes + ?1 WHERE id = ?2", [bytes, space])
        return bytes
    }

    /// Returns the name that the replica gave itself; nil if there is no such replica.
    static func retire(_ replica: ReplicaID, of space: Int64, at now: Int64, in db: any LogConnection) throws -> String? {
        let sql = """
            UPDATE annals_replicas SET retired = CASE WHEN seen > ?1 THEN seen ELSE ?1 END WHERE space = ?2 AND replica = ?3 RETURNING name
            """
        return try db.row(sql, [now, space, replica])?.text(0)
    }
}
