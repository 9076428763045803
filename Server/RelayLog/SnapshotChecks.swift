package import AnnalsCore
package import AnnalsWire
internal import Logging

/// The owners of a space's replicas, without those in quarantine, and which snapshots they need to have compared.
///
/// A snapshot is one owner's word for the rows of all. Where there is another owner, one of its replicas has to find the same rows
/// before a purge drops what they came from, and before a clone begins with it: a replica makes a clone from the snapshot in a folder,
/// applies the log up to its own position and compares all rows. So a snapshot that states the right digest and holds other rows is
/// found out, too.
struct Owners: Sendable {
    private let all: Set<String>
    private let quarantined: Set<String>
    /// Whose the replica is that wrote the log's first entry; nil where it is nobody's, or the log begins later.
    let ofFirstEntry: String?

    init(_ replicas: [ReplicaRecord], ofFirstEntry: String?) {
        all = Set(replicas.compactMap(\.owner))
        quarantined = []
        self.ofFirstEntry = ofFirstEntry
    }

    init(of space: Int64, in db: any LogConnection) throws {
        // Two are as good as more: whether there is one beside a snapshot's own is all that matters.
        let sql = """
            SELECT DISTINCT owner FROM annals_replicas
            WHERE space = ?1 AND owner IS NOT NULL AND owner NOT IN (SELECT owner FROM annals_quarantines WHERE space = ?1) LIMIT 2
            """
        all = Set(try db.rows(sql, [space]).map { try $0.text(0) })
        quarantined = Set(try QuarantineStorage.all(of: space, in: db).map(\.owner))
        ofFirstEntry = try ReportStorage.authorsOwner(of: Position(1), in: space, db)
    }

    func isQuarantined(_ owner: String) -> Bool { quarantined.contains(owner) }

    /// Whether the rows of a snapshot may be believed.
    func trust(_ snapshot: SnapshotRecord) -> Bool {
        if isProven(snapshot) { return true }
        return snapshot.verdict == .unchecked && all.union(snapshot.owner.isEmpty ? [] : [snapshot.owner]).count <= 1
    }

    /// Whether that is so however many owners there are. The rows with which a space begins are those of the owner of its first entry; a
    /// relay without tokens knows no owners.
    func isProven(_ snapshot: SnapshotRecord) -> Bool {
        snapshot.verdict == .confirmed
            || (snapshot.position <= Position(1) && (snapshot.owner.isEmpty || snapshot.owner == ofFirstEntry))
    }
}

/// What became of a replica's word about a snapshot.
package enum CheckOutcome: Sendable, Hashable {
    /// It counts. `isDispute`: the rows of two owners differ.
    case recorded(isDispute: Bool)
    /// The same owner said something about the same bytes before, which stays.
    case known
    /// There is no such snapshot any more, or it is of the same owner.
    case noSuchSnapshot
}

enum CheckStorage {
    /// The snapshot that a replica of this owner is to compare with its rows; nil where there is none that it has not compared.
    static func open(
        to owner: ReplicaOwner?, of snapshots: SpaceSnapshots, _ space: Int64, in db: any LogConnection
    ) throws -> SnapshotRecord? {
        guard let owner = owner?.text else { return nil }
        let sql = "SELECT count(*) FROM annals_snapshot_checks WHERE space = ?1 AND position = ?2 AND owner = ?3 AND digest = ?4"
        return try snapshots.toCompare.first { snapshot in
            try snapshot.owner != owner && db.integer(sql, [space, snapshot.position, owner, snapshot.digest]) == 0
        }
    }

    /// Has a snapshot count as confirmed for good: the log begins with it.
    static func confirm(at position: Position, of space: Int64, at now: Int64, in db: any LogConnection) throws {
        guard let snapshot = try LogStorage.snapshot(of: space, atOrBefore: position, in: db), snapshot.position == position else { return }
        let check = SnapshotCheck(position: position, digest: snapshot.digest, isGood: true)
        _ = try record(check, by: ReplicaOwner.relayText, of: space, at: now, in: db)
    }

    /// Writes an owner's word; false where there is one about the same bytes, which stays.
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
    /// Records what a replica found when it compared a snapshot with its rows. The first word of an owner counts.
    ///
    /// - Parameter owner: whose replica it is; nil at a relay that is open to everybody, where no word counts.
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
                        outcome: "\(checker) has other rows or cannot use it", in: db)
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
    /// See `RelayDatabase.check`; by this relay's clock.
    package func check(
        _ check: SnapshotCheck, of name: SpaceName, by owner: ReplicaOwner?, as reporter: Operator? = nil
    ) async throws -> CheckOutcome {
        let outcome = try await database.check(check, of: name, by: owner, now: clock.wall(), as: reporter)
        await noteChecked(name)
        if outcome == .recorded(isDispute: true) {
            logger.error(
                "a replica has other rows than a snapshot of its space: the snapshot's maker or that replica is wrong",
                metadata: ["space": "\(name)", "position": "\(check.position)", "by": "\(owner?.text ?? "")"])
        }
        return outcome
    }
}
