internal import AnnalsCore
internal import AnnalsWire

/// The SQL of the operator's views.
enum SummaryStorage {
    /// - Parameter since: a day, counted from 1970; only growth after this day is included.
    static func summary(of name: SpaceName, since: Int64, in db: any LogConnection) throws -> SpaceSummary? {
        guard let description = try LogStorage.describe(name, in: db) else { return nil }
        let sql = """
            SELECT id, created, log_bytes - dropped_bytes,
                (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM annals_snapshots WHERE space = annals_spaces.id),
                (SELECT count(*) FROM annals_snapshots WHERE space = annals_spaces.id),
                (SELECT count(*) FROM annals_replicas WHERE space = annals_spaces.id AND replica <> ?2),
                (SELECT received FROM annals_runs WHERE space = annals_spaces.id ORDER BY position DESC LIMIT 1)
            FROM annals_spaces WHERE name = ?1
            """
        guard let row = try db.row(sql, [name, ReplicaID.relay]) else { return nil }
        let space = try row.integer(0)
        return SpaceSummary(
            description: description, created: try row.integer(1), logBytes: try row.integer(2), snapshotBytes: try row.integer(3),
            snapshots: try row.integer(4), replicas: try row.integer(5), quarantines: try QuarantineStorage.all(of: space, in: db),
            lastPush: row.isNull(6) ? nil : try row.integer(6), days: try days(of: space, since: since, in: db))
    }

    private static func days(of space: Int64, since: Int64, in db: any LogConnection) throws -> [DayOfGrowth] {
        let sql = "SELECT day, bytes, positions FROM annals_days WHERE space = ?1 AND day > ?2 ORDER BY day"
        return try db.rows(sql, [space, since]).map {
            DayOfGrowth(
                day: try $0.number(0, to: LogRow.reach / DayOfGrowth.milliseconds), bytes: try $0.integer(1), positions: try $0.integer(2))
        }
    }

    /// Adds the growth of one commit to its day.
    static func addGrowth(bytes: Int64, positions: Int64, of space: Int64, at now: Int64, in db: any LogConnection) throws {
        let sql = """
            INSERT INTO annals_days(space, day, bytes, positions) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (space, day) DO UPDATE SET bytes = annals_days.bytes + excluded.bytes,
                positions = annals_days.positions + excluded.positions
            """
        try db.execute(sql, [space, now / DayOfGrowth.milliseconds, bytes, positions])
    }

    static func pushes(
        of space: Int64, after: Position, before: Position, limit: Int, in db: any LogConnection
    ) throws -> [PushRecord] {
        let sql = """
            SELECT u.position, u.count, length(u.batch), u.received, r.replica, r.name
            FROM annals_runs AS u JOIN annals_replicas AS r ON r.id = u.replica
            WHERE u.space = ?1 AND u.position > ?2 AND u.position < ?3 ORDER BY u.position DESC LIMIT ?4
            """
        return try db.rows(sql, [space, after, before, limit]).compactMap { row in
            guard let replica = ReplicaID(bytes: try row.bytes(4)) else { return nil }
            return PushRecord(
                position: try row.position(0), count: try row.integer(1), bytes: try row.integer(2), received: try row.integer(3),
                replica: replica, name: try row.text(5))
        }
    }
}
