internal import AnnalsCore

/// The SQL of acknowledgements.
///
/// A replica that never pushed has a row only because a request named it. `sighted_by` is the credential of that
/// request, so that the rows of one credential can be limited. `holds` says whether the replica holds back purges and
/// voids; a read-only credential never sets it. A push clears `sighted_by` and sets `holds`.
enum AcknowledgementStorage {
    /// Stores that a replica was seen. Its position only rises. A request of another owner than the replica's changes
    /// nothing.
    static func save(_ acknowledgement: ReplicaAcknowledgement, of key: ReplicaAcknowledgements.Key, db: any LogConnection) throws {
        let sql = """
            INSERT INTO annals_replicas(space, replica, name, digest, position, seen, program, sighted_by, holds)
            SELECT id, ?1, ?2, ?3, CASE WHEN ?4 < head THEN ?4 ELSE head END, ?5, ?8, nullif(?7, ''), ?9
            FROM annals_spaces WHERE name = ?6
            ON CONFLICT (space, replica) DO UPDATE SET
                position = CASE WHEN annals_replicas.position > excluded.position THEN annals_replicas.position ELSE excluded.position END,
                seen = CASE WHEN annals_replicas.seen > excluded.seen THEN annals_replicas.seen ELSE excluded.seen END,
                name = coalesce(nullif(excluded.name, ''), annals_replicas.name),
                program = coalesce(nullif(excluded.program, ''), annals_replicas.program),
                sighted_by = CASE WHEN excluded.holds > annals_replicas.holds THEN excluded.sighted_by ELSE annals_replicas.sighted_by END,
                holds = CASE WHEN excluded.holds > annals_replicas.holds THEN excluded.holds ELSE annals_replicas.holds END
            WHERE \(OwnerStorage.mayNote)
            """
        let owner = key.owner?.text ?? ""
        try db.execute(
            sql,
            [
                key.replica, acknowledgement.name, Digest.zero, acknowledgement.position, acknowledgement.time, key.space, owner,
                acknowledgement.program,
                acknowledgement.holdsBack ? 1 : 0,
            ])
    }

    /// Deletes the oldest rows of replicas that never pushed, above the limit for one credential and the one for all
    /// readers together.
    static func trim(_ name: SpaceName, of owners: Set<ReplicaOwner>, limits: RelayLogLimits, db: any LogConnection) throws {
        guard let space = try db.integer("SELECT id FROM annals_spaces WHERE name = ?1", [name]) else { return }
        var dropped = 0
        for owner in owners {
            dropped += try db.rows(deletion("sighted_by = ?2"), [space, owner.text, limits.sightedReplicas]).count
        }
        dropped += try db.rows(deletion("holds = ?2"), [space, 0, limits.readersPerSpace]).count
        // Relays that have the space in memory may hold the ids of the deleted rows.
        if dropped > 0 { try db.execute("UPDATE annals_spaces SET owner_changes = owner_changes + 1 WHERE id = ?1", [space]) }
    }

    private static func deletion(_ condition: String) -> String {
        """
        DELETE FROM annals_replicas WHERE id IN (
            SELECT id FROM annals_replicas
            WHERE space = ?1 AND \(condition) AND sighted_by IS NOT NULL AND counter = 0 AND owner IS NULL
            ORDER BY seen DESC, id DESC LIMIT \(Int32.max) OFFSET ?3)
        RETURNING id
        """
    }
}
