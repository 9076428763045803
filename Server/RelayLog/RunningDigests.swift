internal import AnnalsCore
internal import AnnalsWire
internal import Foundation
internal import GRDB

/// The running digest of a log behind each run: by it a replica is told that the log is not the one it saw before, since the
/// relay was restored from an older backup and went on from there (MERGE's rule 41).
enum RunningDigests {
    static let schema = "ALTER TABLE annals_runs ADD COLUMN log_digest BLOB;"

    /// Behind the newest run of a space.
    static func newest(of space: Int64, in db: Database) throws -> Digest {
        let sql = "SELECT log_digest FROM annals_runs WHERE space = ? ORDER BY position DESC LIMIT 1"
        if let bytes = try Data.fetchOne(db, sql: sql, arguments: [space]) { return try digest(bytes) }
        return try atHorizon(of: space, in: db).digest
    }

    /// Where the log begins, and its running digest there: what is purged still counts.
    static func atHorizon(of space: Int64, in db: Database) throws -> (position: Position, digest: Digest) {
        let statement = try db.cachedStatement(sql: "SELECT horizon, horizon_digest FROM annals_spaces WHERE id = ?")
        guard let row = try Row.fetchOne(statement, arguments: [space]) else { return (.zero, .zero) }
        return (Position(row["horizon"]), try (row["horizon_digest"] as Data?).map(digest) ?? .zero)
    }

    /// Behind a position; nil where the log no longer goes back that far.
    static func at(_ position: Position, of space: Int64, in db: Database) throws -> Digest? {
        guard position > .zero else { return .zero }
        let horizon = try atHorizon(of: space, in: db)
        guard position > horizon.position else { return position == horizon.position ? horizon.digest : nil }
        guard let found = try LogStorage.run(of: space, at: position, in: db) else { return nil }
        if found.lastPosition == position { return try found.logDigest.map(digest) }
        // Within what one batch brought: few replicas ever stand there.
        let start = max(found.firstPosition.advanced(by: -1), horizon.position)
        guard let before = try at(start, of: space, in: db) else { return nil }
        let run = try found.read(db)
        let skipped = Int(start.rawValue - run.firstPosition.rawValue) + 1
        let certificates = try run.header().certificates[(run.firstIndex + skipped)...]
        return certificates.prefix(Int(position.rawValue - start.rawValue)).reduce(before) { $0.following($1.digest) }
    }

    /// Behind the first transactions of a run.
    static func behind(_ before: Digest, _ run: LogStorage.Run, count: Int) throws -> Digest {
        let certificates = try run.header().certificates[run.firstIndex...]
        return certificates.prefix(count).reduce(before) { $0.following($1.digest) }
    }

    /// Computes what logs of an older format lack.
    static func fill(_ db: Database) throws {
        for space in try Int64.fetchAll(db, sql: "SELECT id FROM annals_spaces") {
            var digest = Digest.zero
            for id in try Int64.fetchAll(db, sql: "SELECT id FROM annals_runs WHERE space = ? ORDER BY position", arguments: [space]) {
                guard let run = try LogStorage.run(id: id, in: db) else { continue }
                digest = try behind(digest, run, count: run.count)
                try db.execute(sql: "UPDATE annals_runs SET log_digest = ? WHERE id = ?", arguments: [Data(digest.bytes), id])
            }
        }
    }

    private static func digest(_ bytes: Data) throws -> Digest {
        guard let digest = Digest(bytes: [UInt8](bytes)) else { throw RelayLogError.storage("a running digest is damaged") }
        return digest
    }
}
