package import AnnalsCore

/// The SQL of replica owners.
///
/// Owners that a relay has in memory are valid while the space's `owner_changes` is unchanged. A replica gets another
/// owner only under the lock of the space, and the change is counted there.
enum OwnerStorage {
    /// nil if the replica has no owner.
    static func owner(ofReplica id: Int64, in db: any LogConnection) throws -> String? {
        guard let row = try db.row("SELECT owner FROM annals_replicas WHERE id = ?1", [id]), !row.isNull(0) else { return nil }
        return try row.text(0)
    }

    static func setOwner(_ owner: ReplicaOwner, ofReplica id: Int64, in db: any LogConnection) throws {
        try db.execute("UPDATE annals_replicas SET owner = ?1, sighted_by = NULL, holds = 1 WHERE id = ?2", [owner.text, id])
    }

    /// The number of an owner's replicas that were seen since `time` and are not retired.
    static func liveCount(of owner: ReplicaOwner, in space: Int64, since time: Int64, _ db: any LogConnection) throws -> Int64 {
        let sql = """
            SELECT count(*) FROM annals_replicas WHERE space = ?1 AND owner = ?2 AND seen > ?3 AND (retired = 0 OR retired < seen)
            """
        return try db.integer(sql, [space, owner.text, time]) ?? 0
    }

    /// Whether an owner still holds its replicas. A subject always does; a token does until it, and every token that
    /// renews it, is revoked or expired.
    static func isHeld(by owner: String, at now: Int64, in db: any LogConnection) throws -> Bool {
        guard owner.hasPrefix(ReplicaOwner.tokenPrefix) else { return true }
        guard let id = Int64(owner.dropFirst(ReplicaOwner.tokenPrefix.count)) else { return false }
        let sql = """
            SELECT count(*) FROM annals_tokens
            WHERE (id = ?1 OR holder = ?1) AND revoked IS NULL AND (expires IS NULL OR expires > ?2)
            """
        return try db.integer(sql, [id, now]) ?? 0 > 0
    }

    /// The token that holds the replicas of a token valid in a space: the token itself, or the one that it renews. nil
    /// if there is none.
    static func holder(ofToken id: Int64, for space: SpaceName, in db: any LogConnection) throws -> Int64? {
        let sql = "SELECT coalesce(holder, id) FROM annals_tokens WHERE id = ?1 AND (space IS NULL OR space = ?2)"
        return try db.integer(sql, [id, space])
    }

    /// A condition for the upsert of a replica's row. It is true if the owner is `?7`, NULL, or a token that is not
    /// valid at `?5`. `?7` is empty on an open relay.
    ///
    /// CASE, because a database may evaluate the operands of AND in any order, and a subject has no token number.
    static let mayNote = """
        ?7 = '' OR annals_replicas.owner IS NULL OR annals_replicas.owner = ?7
            OR CASE WHEN annals_replicas.owner LIKE '\(ReplicaOwner.tokenPrefix)%' THEN NOT EXISTS (
                SELECT 1 FROM annals_tokens AS t
                WHERE (t.id = \(tokenNumber) OR t.holder = \(tokenNumber))
                    AND t.revoked IS NULL AND (t.expires IS NULL OR t.expires > ?5)) ELSE 1 = 0 END
        """

    private static let tokenNumber = "CAST(substr(annals_replicas.owner, \(ReplicaOwner.tokenPrefix.count + 1)) AS BIGINT)"

    /// Returns the name that the replica gave itself; nil if there is no such replica.
    static func release(_ replica: ReplicaID, of space: Int64, in db: any LogConnection) throws -> String? {
        let sql = "UPDATE annals_replicas SET owner = NULL WHERE space = ?1 AND replica = ?2 RETURNING name"
        guard let name = try db.row(sql, [space, replica])?.text(0) else { return nil }
        try db.execute("UPDATE annals_spaces SET owner_changes = owner_changes + 1 WHERE id = ?1", [space])
        return name
    }
}

extension RelayDatabase {
    /// Releases a replica: the next owner that pushes as this replica gets it. Returns false if there is no such
    /// replica.
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
