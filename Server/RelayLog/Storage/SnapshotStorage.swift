internal import AnnalsCore

/// The SQL of snapshot records.
extension LogStorage {
    private static let snapshotColumns = """
        position, bytes, digest, file, log_bytes, owner, (
            SELECT max(good) FROM annals_snapshot_checks AS c
            WHERE c.space = annals_snapshots.space AND c.position = annals_snapshots.position AND c.digest = annals_snapshots.digest
                AND c.owner <> annals_snapshots.owner
                AND c.owner NOT IN (SELECT q.owner FROM annals_quarantines AS q WHERE q.space = annals_snapshots.space))
        """

    /// The newest snapshot, or the newest one that is not after `position`.
    static func snapshot(of space: Int64, atOrBefore position: Position? = nil, in db: any LogConnection) throws -> SnapshotRecord? {
        let sql = "SELECT \(snapshotColumns) FROM annals_snapshots WHERE space = ?1 AND position <= ?2 ORDER BY position DESC LIMIT 1"
        return try db.row(sql, [space, position ?? Position(.max)]).map(record)
    }

    /// All snapshots, oldest first.
    static func snapshots(of space: Int64, in db: any LogConnection) throws -> [SnapshotRecord] {
        try db.rows("SELECT \(snapshotColumns) FROM annals_snapshots WHERE space = ?1 ORDER BY position", [space]).map(record)
    }

    /// The snapshots with a file of the recorded length, oldest first. A snapshot with a missing or truncated file is
    /// left out. Its record is kept, because a disk may be unavailable for a while.
    static func snapshots(of space: Int64, in db: any LogConnection, keptIn files: any SnapshotFiles) throws -> [SnapshotRecord] {
        try snapshots(of: space, in: db).filter { files.byteCount(of: $0.file, in: db) == $0.byteCount }
    }

    private static func record(_ row: LogRow) throws -> SnapshotRecord {
        SnapshotRecord(
            position: try row.position(0), byteCount: try row.number(1), digest: try row.digest(2), file: try row.text(3),
            logBytes: try row.number(4, from: -LogRow.reach), owner: try row.text(5),
            verdict: row.isNull(6) ? .unchecked : try row.integer(6) > 0 ? .confirmed : .refuted)
    }

    /// Replaces a snapshot of the same position.
    static func addSnapshot(
        _ snapshot: SnapshotRecord, of space: Int64, at now: Int64, in db: any LogConnection
    ) throws -> SnapshotRecord {
        var snapshot = snapshot
        let size = """
            SELECT log_bytes - (SELECT CAST(coalesce(sum(length(batch)), 0) AS BIGINT) FROM annals_runs WHERE space = ?1 AND position > ?2)
            FROM annals_spaces WHERE id = ?1
            """
        snapshot.logBytes = try db.integer(size, [space, snapshot.position]) ?? 0
        let sql = """
            INSERT INTO annals_snapshots(space, position, bytes, digest, file, created, log_bytes, owner)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            ON CONFLICT (space, position) DO UPDATE SET bytes = excluded.bytes, digest = excluded.digest, file = excluded.file,
                created = excluded.created, log_bytes = excluded.log_bytes, owner = excluded.owner
            """
        try db.execute(
            sql, [space, snapshot.position, snapshot.byteCount, snapshot.digest, snapshot.file, now, snapshot.logBytes, snapshot.owner])
        return snapshot
    }

    static func dropSnapshot(at position: Position, of space: Int64, in db: any LogConnection) throws {
        try db.execute("DELETE FROM annals_snapshots WHERE space = ?1 AND position = ?2", [space, position])
        try db.execute("DELETE FROM annals_snapshot_checks WHERE space = ?1 AND position = ?2", [space, position])
    }

    /// Drops snapshots that are not needed: see `SnapshotRetention`. Returns the files that no record uses any more.
    static func dropOldSnapshots(of space: Int64, limits: RelayLogLimits, in db: any LogConnection) throws -> [String] {
        var retention = try retention(of: space, in: db)
        retention.dropUnneeded(kept: limits.snapshotsKept)
        return try drop(retention.dropped, of: space, in: db)
    }

    /// The same after a snapshot was recorded. It keeps the new one, and also drops dispensable snapshots until all
    /// have at most `bytes`.
    ///
    /// - Returns: nil if the other snapshots have more bytes; then nothing is dropped.
    static func dropOldSnapshots(
        of space: Int64, behind new: SnapshotRecord, to bytes: Int64, limits: RelayLogLimits, in db: any LogConnection
    ) throws -> [String]? {
        var retention = try retention(of: space, coming: (new.position, new.owner), in: db)
        retention.dropUnneeded(kept: limits.snapshotsKept)
        return try retention.shrink(to: bytes) ? drop(retention.dropped, of: space, in: db) : nil
    }

    /// Drops dispensable snapshots until the others have at most `bytes`, for an upload under way. The upload may fail,
    /// so no more is dropped than necessary.
    ///
    /// - Returns: nil if the other snapshots have more bytes; then nothing is dropped.
    static func shrinkSnapshots(of space: Int64, to bytes: Int64, for owner: String, in db: any LogConnection) throws -> [String]? {
        var retention = try retention(of: space, coming: (nil, owner), in: db)
        return try retention.shrink(to: bytes) ? drop(retention.dropped, of: space, in: db) : nil
    }

    /// Drops the snapshots that do not count, for a push to a full space.
    static func dropUncounted(of space: Int64, in db: any LogConnection) throws -> [String] {
        var retention = try retention(of: space, in: db)
        retention.dropUncounted()
        return try drop(retention.dropped, of: space, in: db)
    }

    static func retention(
        of space: Int64, coming: (position: Position?, owner: String)? = nil, in db: any LogConnection
    ) throws -> SnapshotRetention {
        let horizon = try RunningDigests.atHorizon(of: space, in: db).position
        return SnapshotRetention(try SpaceSnapshots(of: space, horizon: horizon, in: db), coming: coming)
    }

    private static func drop(_ snapshots: [SnapshotRecord], of space: Int64, in db: any LogConnection) throws -> [String] {
        for snapshot in snapshots { try dropSnapshot(at: snapshot.position, of: space, in: db) }
        return snapshots.map(\.file)
    }

    static func snapshotBytes(of space: Int64, in db: any LogConnection) throws -> Int64 {
        try db.integer("SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM annals_snapshots WHERE space = ?1", [space]) ?? 0
    }

    static func snapshotFiles(in db: any LogConnection) throws -> [String] {
        try db.rows("SELECT file FROM annals_snapshots", []).map { try $0.text(0) }
    }
}
