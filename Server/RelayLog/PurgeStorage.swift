internal import AnnalsCore
internal import Foundation
internal import GRDB

/// All SQL of dropping the log's older part.
enum PurgeStorage {
    /// What format 4 added: the digest at which a purged log goes on, the bytes of a log since its beginning, where a replica's
    /// last transaction stands, who was retired, and more than one snapshot of a space.
    static let schema = """
        ALTER TABLE annals_spaces ADD COLUMN horizon_digest BLOB;
        ALTER TABLE annals_spaces ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE annals_replicas ADD COLUMN last_position INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE annals_replicas ADD COLUMN retired INTEGER NOT NULL DEFAULT 0;
        UPDATE annals_spaces SET log_bytes = coalesce((SELECT sum(length(batch)) FROM annals_runs WHERE space = annals_spaces.id), 0);
        UPDATE annals_replicas SET last_position = coalesce(
            (SELECT max(position + count - 1) FROM annals_runs WHERE replica = annals_replicas.id), 0);
        ALTER TABLE annals_snapshots RENAME TO annals_only_snapshots;
        CREATE TABLE annals_snapshots(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            position INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            digest BLOB NOT NULL,
            file TEXT NOT NULL,
            created INTEGER NOT NULL,
            log_bytes INTEGER NOT NULL,
            UNIQUE (space, position)
        ) STRICT;
        INSERT INTO annals_snapshots(space, position, bytes, digest, file, created, log_bytes)
            SELECT space, position, bytes, digest, file, created, coalesce(
                (SELECT sum(length(batch)) FROM annals_runs AS r WHERE r.space = s.space AND r.position <= s.position), 0)
            FROM annals_only_snapshots AS s;
        DROP TABLE annals_only_snapshots;
        """

    /// The last position before the first run that the relay received at `time` or later; the head where there is none.
    static func lastPosition(before time: Int64, in space: LogStorage.Space, _ db: Database) throws -> Position {
        let sql = "SELECT position FROM annals_runs WHERE space = ? AND received >= ? ORDER BY position LIMIT 1"
        let first = try Int64.fetchOne(db, sql: sql, arguments: [space.id, time])
        return first.map { Position($0 - 1) } ?? space.head
    }

    /// The log begins after `position` from now on; what lies before is still to be deleted.
    static func setHorizon(_ position: Position, _ digest: Digest, of space: Int64, in db: Database) throws {
        try db.execute(
            sql: "UPDATE annals_spaces SET horizon = ?, horizon_digest = ?, floor = max(floor, ?) WHERE id = ?",
            arguments: [position.rawValue, Data(digest.bytes), position.rawValue, space])
    }

    /// How many runs, and how many bytes of batches, a log that began after `position` would not have.
    static func size(of space: Int64, through position: Position, in db: Database) throws -> (runs: Int, bytes: Int64) {
        let sql = """
            SELECT count(*) AS runs, coalesce(sum(length(batch)), 0) AS bytes FROM annals_runs
            WHERE space = ?1 AND position <= ?2 AND position + count - 1 <= ?2
            """
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [space, position.rawValue]) else { return (0, 0) }
        return (row["runs"], row["bytes"])
    }

    /// Deletes some of the runs that lie before the horizon, oldest first; nil when there are none left. A run that the
    /// horizon lies in stays whole.
    static func dropRuns(of space: Int64, limits: RelayLogLimits, in db: Database) throws -> Int64? {
        let sql = """
            SELECT r.id, length(r.batch) AS length FROM annals_runs AS r JOIN annals_spaces AS s ON s.id = r.space
            WHERE r.space = ? AND r.position <= s.horizon AND r.position + r.count - 1 <= s.horizon ORDER BY r.position LIMIT ?
            """
        var bytes: Int64 = 0
        var ids: [Int64] = []
        for row in try Row.fetchAll(db, sql: sql, arguments: [space, limits.purgeSliceRuns]) {
            if !ids.isEmpty, bytes + (row["length"] as Int64) > limits.purgeSliceBytes { break }
            bytes += row["length"]
            ids.append(row["id"])
        }
        guard !ids.isEmpty else { return nil }
        let delete = try db.cachedStatement(sql: "DELETE FROM annals_runs WHERE id = ?")
        for id in ids { try delete.execute(arguments: [id]) }
        return bytes
    }

    /// False when there is no such replica.
    static func retire(_ replica: ReplicaID, of space: Int64, at now: Int64, in db: Database) throws -> Bool {
        try db.execute(
            sql: "UPDATE annals_replicas SET retired = max(?, seen) WHERE space = ? AND replica = ?",
            arguments: [now, space, Data(replica.bytes)])
        return db.changesCount > 0
    }
}
