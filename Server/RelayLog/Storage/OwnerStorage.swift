package import AnnalsCore

/// The SQL of whose replicas are.
///
/// What a relay knows of owners in memory is true as long as the space's `owner_changes` is what it was: a replica that belongs to
/// somebody is only taken from him under the space's lock, and counted there.
enum OwnerStorage {
    /// nil where the replica is nobody's.
    static func owner(ofReplica id: Int64, in db: any LogConnection) throws -> String? {
        guard let row = try db.row("SELECT owner FROM annals_replicas WHERE id = ?1", [id]), !row.isNull(0) else { return nil }
        return try row.text(0)
    }

    static func setOwner(_ owner: ReplicaOwner, ofReplica id: Int64, in db: any LogConnection) throws {
        try db.execute("UPDATE annals_replicas SET owner = ?1, sighted_by = NULL, holds = 1 WHERE id = ?2", [owner.text, id])
    }

    /// Replicas of an owner that were seen since then and are not retired.
    static func liveCount(of owner: ReplicaOwner, in space: Int64, since time: Int64, _ db: any LogConnection) throws -> Int64 {
        let sql = """
            SELECT count(*) FROM annals_replicas WHERE space = ?1 AND owner = ?2 AND seen > ?3 AND (retired = 0 OR retired < seen)
            """
        return try db.integer(sql, [space, owner.text, time]) ?? 0
    }

    /// Whether an owner still has what is his. A subject always does; a token until it, and what renews it, is revoked or expired.
    static func isHeld(by owner: String, at now: Int64, in db: any LogConnection) throws -> Bool {
        guard owner.hasPrefix(ReplicaOwner.tokenPrefix) else { return true }
        guard let id = Int64(owner.dropFirst(ReplicaOwner.tokenPrefix.count)) else { return false }
        let sql = """
            SELECT count(*) FROM annals_tokens
            WHERE (id = ?1 OR holder = ?1) AND revoked IS NULL AND (expires IS NULL OR expires > ?2)
            """
        return try db.integer(sql, [id, now]) ?? 0 > 0
    }

    /// Whose replicas a token has that is valid in a space: its own, or those of the one that it renews. nil where there is none.
    static func holder(ofToken id: Int64, for space: SpaceName, in db: any LogConnection) throws -> Int64? {
        let sql = "SELECT coalesce(holder, id) FROM annals_tokens WHERE id = ?1 AND (space IS NULL OR space = ?2)"
        return try db.integer(sql, [id, space])
    }

    /// Holds in an upsert of a replica's row where its owner is `?7`, nobody, or a token that is not valid any more at `?5`; an
    /// empty `?7` is a relay that serves everybody.
    ///
    /// CASE, since of two conditions that AND joins a database takes either first, and of a subject there is no number.
    static let mayNote = """
        ?7 = '' OR annals_replicas.owner IS NULL OR annals_replicas.owner = ?7
            OR CASE WHEN annals_replicas.owner LIKE '\(ReplicaOwner.tokenPrefix)%' THEN NOT EXISTS (
                SELECT 1 FROM annals_tokens AS t
                WHERE (t.id = \(tokenNumber) OR t.holder = \(tokenNumber))
                    AND t.revoked IS NULL AND (t.expires IS NULL OR t.expires > ?5)) ELSE 1 = 0 END
        """

    private static let tokenNumber = "CAST(substr(annals_replicas.owner, \(ReplicaOwner.tokenPrefix.count + 1)) AS BIGINT)"

    /// What the replica calls itself; nil when there is no such replica.
    static func release(_ replica: ReplicaID, of space: Int64, in db: any LogConnection) throws -> String? {
        let sql = "UPDATE annals_replicas SET owner = NULL WHERE space = ?1 AND replica = ?2 RETURNING name"
        guard let name = try db.row(sql, [space, replica])?.text(0) else { return nil }
        try db.execute("UPDATE annals_spaces SET owner_changes = owner_changes + 1 WHERE id = ?1", [space])
        return name
    }
}

extension RelayDatabase {
    /// Lets whoever pushes next as this replica have it. False when there is no such replica.
    ///
    /// Throws `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func release(_ replica: ReplicaID, of name: SpaceName, now: Int64, by: Operator? = nil) async throws -> Bool {
        let entry = AuditEntry(.replicaRelease, by: by, space: name, at: now)
        return try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
                let found = try OwnerStorage.release(replica, of: space.id, in: db)
                try AuditStorage.add(
                    entry, subject: AuditEntry.subject(replica, named: found), outcome: found == nil ? "no such replica" : AuditEntry.done,
                    in: db)
                return found != nil
            }
        }
    }
}
