internal import AnnalsCore

/// The SQL of quarantined owners.
///
/// Quarantines that a relay has in memory are valid while the space's `owner_changes` is unchanged.
enum QuarantineStorage {
    /// Returns when the owner was quarantined.
    static func add(_ owner: String, of space: Int64, at now: Int64, in db: any LogConnection) throws -> Int64 {
        let sql = """
            INSERT INTO annals_quarantines(space, owner, since) VALUES (?1, ?2, ?3)
            ON CONFLICT (space, owner) DO UPDATE SET since = annals_quarantines.since RETURNING since
            """
        guard let since = try db.integer(sql, [space, owner, now]) else { throw RelayLogError.storage("a quarantine was not stored") }
        try noteChange(of: space, in: db)
        return since
    }

    /// Returns false if the owner was not quarantined.
    static func remove(_ owner: String, of space: Int64, in db: any LogConnection) throws -> Bool {
        let sql = "DELETE FROM annals_quarantines WHERE space = ?1 AND owner = ?2 RETURNING since"
        guard try db.row(sql, [space, owner]) != nil else { return false }
        try noteChange(of: space, in: db)
        return true
    }

    private static func noteChange(of space: Int64, in db: any LogConnection) throws {
        try db.execute("UPDATE annals_spaces SET owner_changes = owner_changes + 1 WHERE id = ?1", [space])
    }

    static func all(of space: Int64, in db: any LogConnection) throws -> [Quarantine] {
        try db.rows("SELECT owner, since FROM annals_quarantines WHERE space = ?1 ORDER BY since, owner", [space]).map {
            Quarantine(owner: try $0.text(0), since: try $0.number(1))
        }
    }

    static func holds(_ owner: ReplicaOwner?, in space: Int64, db: any LogConnection) throws -> Bool {
        guard let owner else { return false }
        return try db.row("SELECT since FROM annals_quarantines WHERE space = ?1 AND owner = ?2", [space, owner.text]) != nil
    }

    /// All owners of a space: those of replicas, those that only named replicas in requests, and quarantined ones.
    static func owners(in space: Int64, _ db: any LogConnection) throws -> [String] {
        let sql = """
            SELECT owner FROM annals_replicas WHERE space = ?1 AND owner IS NOT NULL
            UNION SELECT sighted_by FROM annals_replicas WHERE space = ?1 AND sighted_by IS NOT NULL
            UNION SELECT owner FROM annals_quarantines WHERE space = ?1
            """
        return try db.rows(sql, [space]).map { try $0.text(0) }.sorted()
    }
}
