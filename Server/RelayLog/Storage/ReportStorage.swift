internal import AnnalsCore
internal import AnnalsWire

/// The SQL of reports about refused entries.
enum ReportStorage {
    /// Stores a report; returns false if the same owner reported the entry already.
    static func add(_ report: EntryReport, by owner: String, of space: Int64, at now: Int64, in db: any LogConnection) throws -> Bool {
        let sql = """
            INSERT INTO annals_reports(space, position, owner, digest, rule, table_name, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT (space, position, owner) DO NOTHING RETURNING position
            """
        let arguments: [any Storable] = [space, report.position, owner, report.digest, report.rule.rawValue, report.table, now]
        return try db.row(sql, arguments) != nil
    }

    /// The rule in an owner's report of an entry; nil if there is none.
    static func rule(of position: Position, by owner: String, of space: Int64, in db: any LogConnection) throws -> String? {
        let sql = "SELECT rule FROM annals_reports WHERE space = ?1 AND position = ?2 AND owner = ?3"
        return try db.row(sql, [space, position, owner])?.text(0)
    }

    static func forget(_ position: Position, by owner: String, of space: Int64, in db: any LogConnection) throws {
        try db.execute("DELETE FROM annals_reports WHERE space = ?1 AND position = ?2 AND owner = ?3", [space, position, owner])
    }

    /// The owners whose reports of an entry count, by name. Reports on an open relay, reports of a missing key, and
    /// reports of quarantined owners do not count.
    static func reporters(of position: Position, in space: Int64, _ db: any LogConnection) throws -> [String] {
        let sql = """
            SELECT owner FROM annals_reports
            WHERE space = ?1 AND position = ?2 AND owner <> '' AND rule <> ?3
                AND owner NOT IN (SELECT owner FROM annals_quarantines WHERE space = ?1)
            """
        return try db.rows(sql, [space, position, RefusedEntry.Rule.missingKey.rawValue]).map { try $0.text(0) }.sorted()
    }

    /// The owner of the replica that wrote the entry at a position; nil if it has none.
    static func authorsOwner(of position: Position, in space: Int64, _ db: any LogConnection) throws -> String? {
        let sql = """
            SELECT r.owner FROM annals_runs AS u JOIN annals_replicas AS r ON r.id = u.replica
            WHERE u.space = ?1 AND u.position <= ?2 ORDER BY u.position DESC LIMIT 1
            """
        guard let row = try db.row(sql, [space, position]), !row.isNull(0) else { return nil }
        return try row.text(0)
    }

    /// The number of reports of a space, and of one owner in it.
    static func count(by owner: String, of space: Int64, in db: any LogConnection) throws -> (all: Int64, own: Int64) {
        let own = try db.integer("SELECT count(*) FROM annals_reports WHERE space = ?1 AND owner = ?2", [space, owner]) ?? 0
        return (try db.integer("SELECT count(*) FROM annals_reports WHERE space = ?1", [space]) ?? 0, own)
    }

    static func forget(_ position: Position, of space: Int64, in db: any LogConnection) throws {
        try db.execute("DELETE FROM annals_reports WHERE space = ?1 AND position = ?2", [space, position])
    }

    /// Deletes the reports of purged entries.
    static func forget(through horizon: Position, of space: Int64, in db: any LogConnection) throws {
        try db.execute("DELETE FROM annals_reports WHERE space = ?1 AND position <= ?2", [space, horizon])
    }

    /// Reported positions of the kept log, newest first.
    static func positions(of space: Int64, after horizon: Position, in db: any LogConnection) throws -> [Position] {
        let sql = "SELECT DISTINCT position FROM annals_reports WHERE space = ?1 AND position > ?2 ORDER BY position DESC"
        return try db.rows(sql, [space, horizon]).map { try $0.position(0) }
    }

    /// Reported entries, newest first.
    static func entries(of space: Int64, after horizon: Position, limit: Int, in db: any LogConnection) throws -> [ReportedEntry] {
        try positions(of: space, after: horizon, in: db).prefix(limit).compactMap { position in
            let sql = "SELECT rule, table_name, time, owner FROM annals_reports WHERE space = ?1 AND position = ?2 ORDER BY time, owner"
            let reports = try db.rows(sql, [space, position])
            guard let first = reports.first else { return nil }
            let author = try db.row(
                """
                SELECT r.replica, r.name FROM annals_runs AS u JOIN annals_replicas AS r ON r.id = u.replica
                WHERE u.space = ?1 AND u.position <= ?2 ORDER BY u.position DESC LIMIT 1
                """, [space, position])
            return ReportedEntry(
                position: position, author: try author.flatMap { ReplicaID(bytes: try $0.bytes(0)) }, name: try author?.text(1) ?? "",
                rule: try first.text(0), table: first.isNull(1) ? nil : try first.text(1), reporters: try reports.map { try $0.text(3) },
                time: try first.integer(2))
        }
    }

    /// First positions of an author's runs that end at or after `from`, newest first.
    static func runs(of author: ReplicaID, in space: Int64, from: Position, _ db: any LogConnection) throws -> [Position] {
        let sql = """
            SELECT u.position FROM annals_runs AS u JOIN annals_replicas AS r ON r.id = u.replica
            WHERE u.space = ?1 AND r.replica = ?2 AND u.position + u.count > ?3 ORDER BY u.position DESC
            """
        return try db.rows(sql, [space, author, from]).map { try $0.position(0) }
    }

    /// First positions of runs that overlap a range, newest first, without the relay's own.
    static func runs(in range: ClosedRange<Position>, of space: Int64, _ db: any LogConnection) throws -> [Position] {
        let sql = """
            SELECT u.position FROM annals_runs AS u JOIN annals_replicas AS r ON r.id = u.replica
            WHERE u.space = ?1 AND r.replica <> ?4 AND u.position + u.count > ?2 AND u.position <= ?3 ORDER BY u.position DESC
            """
        return try db.rows(sql, [space, range.lowerBound, range.upperBound, ReplicaID.relay]).map { try $0.position(0) }
    }
}
