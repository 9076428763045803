internal import AnnalsCore
internal import AnnalsWire

/// The running digest of a log after each run. With it a replica detects another log than the one it saw: the relay was
/// restored from an older backup and has appended other entries since (merge rule 41).
enum RunningDigests {
    /// The digest after the newest run of a space.
    static func newest(of space: Int64, in db: any LogConnection) throws -> Digest {
        let sql = "SELECT log_digest FROM annals_runs WHERE space = ?1 ORDER BY position DESC LIMIT 1"
        if let row = try db.row(sql, [space]) { return try row.digest(0) }
        return try atHorizon(of: space, in: db).digest
    }

    /// The horizon, and the running digest there, which includes the purged entries.
    static func atHorizon(of space: Int64, in db: any LogConnection) throws -> (position: Position, digest: Digest) {
        guard let row = try db.row("SELECT horizon, horizon_digest FROM annals_spaces WHERE id = ?1", [space]) else {
            return (.zero, .zero)
        }
        return (try row.position(0), row.isNull(1) ? .zero : try row.digest(1))
    }

    /// The digest after a position; nil if the log does not go back that far.
    static func at(_ position: Position, of space: Int64, in db: any LogConnection) throws -> Digest? {
        guard position > .zero else { return .zero }
        let horizon = try atHorizon(of: space, in: db)
        guard position > horizon.position else { return position == horizon.position ? horizon.digest : nil }
        guard let found = try LogStorage.run(of: space, at: position, in: db) else { return nil }
        if found.lastPosition == position { return found.logDigest }
        // The position lies within a batch, which is rare.
        let start = max(found.firstPosition.advanced(by: -1), horizon.position)
        guard let before = try at(start, of: space, in: db) else { return nil }
        let run = try found.read(db)
        // The found run contains the position, and `start` lies in it or directly before it. `header` throws if the
        // batch has fewer transactions than the run.
        let skipped = Int(start.rawValue - run.firstPosition.rawValue) + 1
        guard run.firstPosition == found.firstPosition, skipped >= 0, skipped <= run.count else {
            throw RelayLogError.storage("the runs at position \(position) are corrupt")
        }
        let certificates = try run.header().certificates[(run.firstIndex + skipped)...]
        return certificates.prefix(Int(position.rawValue - start.rawValue)).reduce(before) { $0.following($1.digest) }
    }

    /// The digest after the first `count` transactions of a run.
    static func behind(_ before: Digest, _ run: LogStorage.Run, count: Int) throws -> Digest {
        let certificates = try run.header().certificates[run.firstIndex...]
        return certificates.prefix(count).reduce(before) { $0.following($1.digest) }
    }

    /// Computes the digests that logs of an older format lack.
    static func fill(_ db: any LogConnection) throws {
        for space in try db.rows("SELECT id FROM annals_spaces", []).map({ try $0.integer(0) }) {
            var digest = Digest.zero
            for position in try LogStorage.positions(of: space, in: db) {
                guard let run = try LogStorage.run(of: space, at: position, in: db)?.read(db) else { continue }
                digest = try behind(digest, run, count: run.count)
                try db.execute("UPDATE annals_runs SET log_digest = ?1 WHERE space = ?2 AND position = ?3", [digest, space, position])
            }
        }
    }
}
