package import AnnalsCore
internal import AnnalsWire

/// The current usage of a relay's storage, for monitoring.
package struct RelayUsage: Sendable {
    package struct Space: Sendable {
        package var space: SpaceName
        package var head: Position
        package var horizon: Position
        /// Bytes of all batches since the space was created, including purged ones.
        package var writtenBytes: Int64
        /// nil if there is no snapshot.
        package var snapshotPosition: Position?
        /// Reported entries that are not void.
        package var reportedEntries: Int64
    }

    /// A replica that is not retired and was seen recently enough.
    package struct LiveReplica: Sendable {
        package var space: SpaceName
        package var replica: ReplicaID
        /// Positions that it lacks, as far as the relay knows.
        package var lag: Int64
        /// Milliseconds since 1970.
        package var lastSeen: Int64
    }

    package var spaceCount: Int64
    package var replicaCount: Int64
    /// The first spaces by name.
    package var spaces: [Space]
    /// The replicas with the largest lag.
    package var replicas: [LiveReplica]
    /// Bytes of the database: all data without snapshots; with PostgreSQL including snapshots.
    package var databaseBytes: Int64
    package var snapshotBytes: Int64
    /// The moment of the newest backup that `annals relay backup` made, in milliseconds since 1970; nil without one.
    package var lastBackup: Int64?
}

extension RelayLog {
    /// The current usage, with at most the given numbers of spaces and replicas. Acknowledgements of the last second
    /// may be missing.
    ///
    /// - Parameter silence: a replica that was not seen for this time is not live, in milliseconds.
    /// - Throws: `RelayLogError`; also `.storage` if there is no answer in time.
    package func usage(spaces: Int, replicas: Int, silence: Int64) async throws -> RelayUsage {
        let since = clock.wall() - silence
        let storage = database.storage
        return try await probe.answer {
            try await RelayLogError.wrapped {
                var usage = try await storage.read { db in
                    try UsageStorage.usage(spaces: spaces, replicas: replicas, since: since, in: db)
                }
                usage.databaseBytes = try await storage.byteCount()
                return usage
            }
        }
    }
}

private enum UsageStorage {
    /// Live replicas, with `?1` as the oldest time; `?2` excludes the relay itself.
    private static let isLive = "(r.retired = 0 OR r.retired < r.seen) AND r.seen > ?1 AND r.replica <> ?2"

    static func usage(spaces: Int, replicas: Int, since: Int64, in db: any LogConnection) throws -> RelayUsage {
        RelayUsage(
            spaceCount: try db.integer("SELECT count(*) FROM annals_spaces", []) ?? 0,
            replicaCount: try db.integer("SELECT count(*) FROM annals_replicas AS r WHERE \(isLive)", [since, ReplicaID.relay]) ?? 0,
            spaces: try self.spaces(spaces, in: db), replicas: try self.replicas(replicas, since: since, in: db), databaseBytes: 0,
            snapshotBytes: try db.integer("SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM annals_snapshots", []) ?? 0,
            lastBackup: try AuditStorage.newest(.relayBackup, in: db))
    }

    private static func spaces(_ count: Int, in db: any LogConnection) throws -> [RelayUsage.Space] {
        let sql = """
            SELECT s.name, s.head, s.horizon, s.log_bytes,
                (SELECT max(position) FROM annals_snapshots WHERE space = s.id),
                (SELECT count(DISTINCT position) FROM annals_reports WHERE space = s.id AND position > s.horizon)
            FROM annals_spaces AS s ORDER BY s.name LIMIT ?1
            """
        return try db.rows(sql, [count]).compactMap { row in
            guard let name = SpaceName(try row.text(0)) else { return nil }
            return RelayUsage.Space(
                space: name, head: try row.position(1), horizon: try row.position(2), writtenBytes: try row.integer(3),
                snapshotPosition: row.isNull(4) ? nil : try row.position(4), reportedEntries: try row.integer(5))
        }
    }

    private static func replicas(_ count: Int, since: Int64, in db: any LogConnection) throws -> [RelayUsage.LiveReplica] {
        let sql = """
            SELECT s.name, r.replica, s.head - \(LogStorage.reached), r.seen
            FROM annals_replicas AS r JOIN annals_spaces AS s ON s.id = r.space
            WHERE \(isLive) ORDER BY 3 DESC, 4 LIMIT ?3
            """
        return try db.rows(sql, [since, ReplicaID.relay, count]).compactMap { row in
            guard let name = SpaceName(try row.text(0)), let replica = ReplicaID(bytes: try row.bytes(1)) else { return nil }
            return RelayUsage.LiveReplica(space: name, replica: replica, lag: max(0, try row.integer(2)), lastSeen: try row.integer(3))
        }
    }
}
