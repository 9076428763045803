package import AnnalsCore
internal import Foundation
internal import GRDB

/// All SQL of snapshots' records.
extension LogStorage {
    private static let snapshotColumns = "position, bytes, digest, file, log_bytes"

    /// The newest snapshot, or the newest that holds no later position than that.
    static func snapshot(of space: Int64, atOrBefore position: Position? = nil, in db: Database) throws -> SnapshotRecord? {
        let statement = try db.cachedStatement(
            sql: "SELECT \(snapshotColumns) FROM annals_snapshots WHERE space = ? AND position <= ? ORDER BY position DESC LIMIT 1")
        return try Row.fetchOne(statement, arguments: [space, position?.rawValue ?? .max]).map(record)
    }

    /// All of them, oldest first.
    static func snapshots(of space: Int64, in db: Database) throws -> [SnapshotRecord] {
        let sql = "SELECT \(snapshotColumns) FROM annals_snapshots WHERE space = ? ORDER BY position"
        return try Row.fetchAll(db, sql: sql, arguments: [space]).map(record)
    }

    private static func record(_ row: Row) throws -> SnapshotRecord {
        guard let digest = Digest(bytes: [UInt8](row["digest"] as Data)) else {
            throw RelayLogError.storage("a snapshot's digest is damaged")
        }
        return SnapshotRecord(
            position: Position(row["position"]), byteCount: row["bytes"], digest: digest, file: row["file"], logBytes: row["log_bytes"])
    }

    /// Takes the place of one that has the same position.
    static func addSnapshot(_ snapshot: SnapshotRecord, of space: Int64, at now: Int64, in db: Database) throws -> SnapshotRecord {
        var snapshot = snapshot
        let sql = """
            SELECT log_bytes - (SELECT coalesce(sum(length(batch)), 0) FROM annals_runs WHERE space = ?1 AND position > ?2)
            FROM annals_spaces WHERE id = ?1
            """
        snapshot.logBytes = try Int64.fetchOne(db, sql: sql, arguments: [space, snapshot.position.rawValue]) ?? 0
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO annals_snapshots(space, position, bytes, digest, file, created, log_bytes)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                space, snapshot.position.rawValue, snapshot.byteCount, Data(snapshot.digest.bytes), snapshot.file, now, snapshot.logBytes,
            ])
        return snapshot
    }

    static func dropSnapshot(at position: Position, of space: Int64, in db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_snapshots WHERE space = ? AND position = ?", arguments: [space, position.rawValue])
    }

    /// Drops what nothing needs any more: snapshots before the horizon, where no log follows them, and of those after it the
    /// ones between that come closest to their neighbours, beyond the number that is kept. The newest and the oldest stay.
    ///
    /// - Returns: the files that no record names any more.
    static func dropOldSnapshots(of space: Int64, limits: RelayLogLimits, in db: Database) throws -> [String] {
        let horizon = try RunningDigests.atHorizon(of: space, in: db).position
        let all = try snapshots(of: space, in: db)
        let old = SnapshotRecord.dispensable(all.map(\.position), horizon: horizon, kept: limits.snapshotsKept)
        for position in old { try dropSnapshot(at: position, of: space, in: db) }
        return all.filter { old.contains($0.position) }.map(\.file)
    }

    static func snapshotFiles(in db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT file FROM annals_snapshots")
    }
}

extension SnapshotRecord {
    /// The positions of snapshots that are not to be kept.
    package static func dispensable(_ positions: [Position], horizon: Position, kept: Int) -> Set<Position> {
        var rest = positions.sorted()
        var dropped: Set<Position> = []
        while rest.count > 1, rest[0] < horizon { dropped.insert(rest.removeFirst()) }
        while rest.count > max(kept, 2) {
            let gap = { (place: Int) in rest[place + 1].rawValue - rest[place - 1].rawValue }
            guard let place = (1..<rest.count - 1).min(by: { gap($0) < gap($1) }) else { break }
            dropped.insert(rest.remove(at: place))
        }
        return dropped
    }
}
