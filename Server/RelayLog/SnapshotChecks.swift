package import AnnalsCore
package import AnnalsWire
internal import Logging

/// The owners of a space's replicas, without those in quarantine. They decide which snapshots must be compared.
///
/// A snapshot comes from one owner and holds the rows of all. If there is another owner, one of its replicas must find
/// the same rows before a purge drops the log before the snapshot, and before a clone starts from it. For the
/// comparison a replica makes a clone from the snapshot in a folder, applies the log up to its own position, and
/// compares all rows. This also detects a snapshot with the right digest and wrong rows.
struct Owners: Sendable {
    private let all: Set<String>
    private let quarantined: Set<String>
    /// The owner of the replica that wrote the first entry; nil if it has none, or if the log begins later.
    let ofFirstEntry: String?

    init(_ replicas: [ReplicaRecord], ofFirstEntry: String?) {
        all = Set(replicas.compactMap(\.owner))
        quarantined = []
        self.ofFirstEntry = ofFirstEntry
    }

    init(of space: Int64, in db: any LogConnection) throws {
        // Two are enough, because only the existence of an owner besides the snapshot's own matters.
        let sql = """
            SELECT DISTINCT owner FROM annals_replicas
            WHERE space = ?1 AND owner IS NOT NULL AND owner NOT IN (SELECT owner FROM annals_quarantines WHERE space = ?1) LIMIT 2
            """
        all = Set(try db.rows(sql, [space]).map { try $0.text(0) })
        quarantined = Set(try QuarantineStorage.all(of: space, in: db).map(\.owner))
        ofFirstEntry = try ReportStorage.authorsOwner(of: Position(1), in: space, db)
    }

    func isQuarantined(_ owner: String) -> Bool { quarantined.contains(owner) }

    /// Whether the snapshot's rows can be trusted.
    func trust(_ snapshot: SnapshotRecord) -> Bool {
        if isProven(snapshot) { return true }
        return snapshot.verdict == .unchecked && all.union(snapshot.owner.isEmpty ? [] : [snapshot.owner]).count <= 1
    }

    /// Whether that holds for any number of owners. The owner of the first entry decides the initial rows of a space. A
    /// relay without tokens knows no owners.
    func isProven(_ snapshot: SnapshotRecord) -> Bool {
        snapshot.verdict == .confirmed
            || (snapshot.position <= Position(1) && (snapshot.owner.isEmpty || snapshot.owner == ofFirstEntry))
    }
}

/// The result of a replica's check of a snapshot.
package enum CheckOutcome: Sendable, Hashable {
    /// The check counts. `isDispute`: the replica has different rows.
    case recorded(isDispute: Bool)
    /// The same owner checked the same bytes already; the first check remains.
    case known
    /// The snapshot does not exist any more, or it belongs to the same owner.
    case noSuchSnapshot
}

enum CheckStorage {
    /// The snapshot that a replica of this owner should compare with its rows; nil if it has compared all of them.
    static func open(
        to owner: ReplicaOwner?, of snapshots: SpaceSnapshots, _ space: Int64, in db: any LogConnection
    ) throws -> SnapshotRecord? {
        guard let owner = owner?.text else { return nil }
        let sql = "SELECT count(*) FROM annals_snapshot_checks WHERE space = ?1 AND position = ?2 AND owner = ?3 AND digest = ?4"
        return try snapshots.toCompare.first { snapshot in
            try snapshot.owner != owner && db.integer(sql, [space, snapshot.position, owner, snapshot.digest]) == 0
        }
    }

    /// Confirms a snapshot permanently, because the log begins with it.
    static func confirm(at position: Position, of space: Int64, at now: Int64, in db: any LogConnection) throws {
        guard let snapshot = try LogStorage.snapshot(of: space, atOrBefore: position, in: db), snapshot.position == position else { return }
        let check = SnapshotCheck(position: position, digest: snapshot.digest, isGood: true)
        _ = try record(check, by: ReplicaOwner.relayText, of: space, at: now, in: db)
    }

    /// Records the check of an owner. Returns false if it has checked the same bytes already; the first check remains.
    static func record(
        _ check: SnapshotCheck, by owner: String, of space: Int64, at now: Int64, in db: any LogConnection
    ) throws -> Bool {
        let sql = """
            INSERT INTO annals_snapshot_checks(space, position, owner, digest, good, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (space, position, owner) DO UPDATE SET digest = excluded.digest, good = excluded.good, time = excluded.time
                WHERE annals_snapshot_checks.digest <> excluded.digest
            RETURNING position
            """
        return try db.row(sql, [space, check.position, owner, check.digest, Int64(check.isGood ? 1 : 0), now]) != nil
    }
}

extension RelayDatabase {
    /// Records the result of a replica's comparison of a snapshot with its rows. The first check of each owner counts.
    ///
    /// - Parameter owner: the owner of the replica; nil on an open relay, where no check counts.
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.quarantined`, `.storage`.
    package func check(
        _ check: SnapshotCheck, of name: SpaceName, by owner: ReplicaOwner?, now: Int64, as reporter: Operator? = nil
    ) async throws -> CheckOutcome {
        let line = AuditEntry(.snapshotCheck, by: reporter, space: name, at: now)
        return try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                if let owner, try QuarantineStorage.holds(owner, in: space.id, db: db) { throw RelayLogError.quarantined(owner.text, name) }
                guard let owner = owner?.text,
                    let snapshot = try LogStorage.snapshot(of: space.id, atOrBefore: check.position, in: db),
                    snapshot.position == check.position, snapshot.digest == check.digest, snapshot.owner != owner
                else { return .noSuchSnapshot }
                guard try CheckStorage.record(check, by: owner, of: space.id, at: now, in: db) else { return .known }
                if !check.isGood {
                    let (maker, checker) = (Self.inOneLine(snapshot.owner), Self.inOneLine(owner))
                    try AuditStorage.add(
                        line, subject: "the snapshot at \(check.position), sent by \(maker)",
                        outcome: "\(checker) has different rows or cannot use it", in: db)
                }
                return .recorded(isDispute: !check.isGood)
            }
        }
    }
}

extension RelayDatabase {
    private static func inOneLine(_ owner: String) -> String {
        owner.isEmpty ? "anyone" : owner.split(separator: "\n").joined(separator: " of ")
    }
}

extension RelayLog {
    /// See `RelayDatabase.check`; uses the clock of this relay.
    package func check(
        _ check: SnapshotCheck, of name: SpaceName, by owner: ReplicaOwner?, as reporter: Operator? = nil
    ) async throws -> CheckOutcome {
        let outcome = try await database.check(check, of: name, by: owner, now: clock.wall(), as: reporter)
        await noteChecked(name)
        if outcome == .recorded(isDispute: true) {
            logger.error(
                "a replica has different rows than a snapshot of its space: either the snapshot or the replica is wrong",
                metadata: ["space": "\(name)", "position": "\(check.position)", "by": "\(owner?.text ?? "")"])
        }
        return outcome
    }
}
