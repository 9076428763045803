import AnnalsCore
import AnnalsSQLite
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog

/// Purges of the log up to a snapshot, and replicas that resync from a snapshot.
extension SimulatedSpace {
    func purgeRelay(_ purge: Step.RelayPurge) async throws {
        // See `Features.relayPurgesAfterRestores`.
        if restoredHead != nil { return }
        try await startRelay()
        var rules = PurgeRules()
        // Entries with the same time are purged, too.
        rules.keep = -1
        rules.silence = purge.silence
        rules.isForced = purge.isForced
        do {
            for number in purge.retired { try await relay.retire(replicas[number].id) }
            let after = try await relay.purge(rules)
            trace.note("+\(time.now) the log begins after \(after)")
        } catch {
            guard !machine.isRunning else { throw error }
        }
        // The purge may be half done.
        if await relayHasDied() { try await startRelay() }
        let description = try await relay.describe()
        guard let snapshot = description.snapshot?.position, snapshot >= description.horizon else {
            throw Violation("horizon", "the log begins after \(description.horizon), and no snapshot holds what was before")
        }
        horizon = description.horizon.rawValue
    }

    /// A snapshot has the log's rows at its position, without the unsent changes of its replica (law 3).
    func checkSnapshot(_ request: Session.Request, of replica: Replica) throws {
        guard case .uploadSnapshot(let packed, let seen, _) = request else { return }
        let position = seen.position
        let path = folder.file("snapshot.db")
        defer { try? FileManager.default.removeItem(atPath: path) }
        let unpacker = try FileUnpacker(packed, to: path, maximumBytes: .max, cipher: spaceKeys?.cipher(for: space))
        try unpacker.take(upTo: .max)
        try unpacker.finish()
        let file = try DatabaseQueue(path: path)
        defer { try? file.close() }
        let rows = try file.unsafeRead { db in try Look.rows(db, plan.schema) }
        let expected = oracle.rows(at: position.rawValue)
        guard rows != expected else { return }
        let differences = expected.differences(to: rows).map(\.text)
        throw Violation("law 3", "\(replica.name)'s snapshot of \(position) does not have the log's rows: \(differences)")
    }

    /// The request for a much later repetition, when its sender's files no longer exist.
    func lasting(_ request: Session.Request, _ step: Int, _ number: Int) -> Session.Request {
        guard case .uploadSnapshot(let path, let seen, let digest) = request else { return request }
        let copy = folder.file("late-\(step)-\(number)")
        try? FileManager.default.copyItem(atPath: path, toPath: copy)
        return .uploadSnapshot(copy, seen, digest)
    }

    /// Whether a replica resynced from a snapshot between two looks.
    func cameBack(_ replica: Replica, _ before: Look, _ now: Look) -> Bool {
        guard let position = replica.downloaded else { return false }
        return before.position < position && now.position >= position
    }

    /// Allows transactions to be in the log twice that a copied file had not pushed when it resynced, and that its other copy had
    /// pushed. No replica can know that the purged log had them.
    func noteRepeatable(_ replica: Replica, _ before: Look, _ now: Look) {
        guard replica.isCopied, cameBack(replica, before, now) else { return }
        for waiting in now.outbox { if oracle.position(of: waiting.id) != nil { oracle.allowRepeating(waiting.id) } }
    }

    /// Whether a replica's rows must be compared with a log that is purged. Then it cannot resync by itself.
    func isStranded(_ replica: Replica) -> Bool { replica.mayHoldUnseen && replica.look.position < horizon }
}

extension SnapshotPlan {
    var limits: RelayLogLimits {
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = positions
        limits.snapshotLeaseMilliseconds = lease
        limits.snapshotsKept = kept
        return limits
    }
}
