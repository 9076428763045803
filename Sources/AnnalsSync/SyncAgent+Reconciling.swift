import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

extension SyncAgent {
    /// Compares the rows with the log's, if another program may have written rows that no trigger captured. Records the
    /// differences. This costs about as much as a clone.
    func reconcile(_ status: ExchangeStatus, _ summary: inout Summary) async throws -> ExchangeStatus {
        logger.notice("the rows may differ from the log; comparing them with the space's rows")
        var status = status
        for _ in 0..<SyncLimits.triesToReconcile {
            // Entries under way may be in the log or not. This must be known first, because it decides which rows are
            // compared.
            if status.isPushUnderWay {
                status = try await finishPush(&summary)
                continue
            }
            guard let doubt = try await store.unverifiedRows() else { break }
            if let found = try await reconcile(doubt) {
                summary.reconciled += found.changes
                break
            }
            status = try await store.prepareOutbox()
        }
        return try await store.prepareOutbox()
    }

    private func finishPush(_ summary: inout Summary) async throws -> ExchangeStatus {
        var status = try await store.prepareOutbox()
        guard let push = try await store.freezePush() else { return status }
        let answer = try await settle(push, &summary, &status)
        if case .wait(let milliseconds) = answer?.outcome { try await waitForLease(milliseconds, &summary.patience) }
        return status
    }

    private nonisolated func reconcile(_ doubt: UnverifiedRows) async throws -> Reconciled? {
        guard let state = try await store.replicaState(), let joining = try await joining() else { return nil }
        let description = try await request { [transport] in try await transport.describe() }
        guard description.lineage == doubt.lineage else { throw AnnalsError.relayRolledBack(operation: "sync") }
        let purpose = Joining.purpose(ofDownload: description, atOrBefore: doubt.position)
        return try await joining.withTemporaryFolder(beside: store.path, for: purpose) { folder in
            let copy = try await joining.snapshotReplica(in: folder, description, .atOrBefore(doubt.position))
            defer { try? copy.close() }
            guard let snapshot = try await copy.replicaState(), snapshot.position <= doubt.position else { throw Self.tooOld }
            try await pull(copy, through: doubt.position)
            guard try await isSameLog(copy, doubt, state) else { throw AnnalsError.relayRolledBack(operation: "sync") }
            if let last = doubt.ahead.last { try await pullOwn(doubt.ahead, through: last, into: copy, at: doubt.position) }
            return try await store.reconcile(doubt, with: copy)
        }
    }

    /// Whether the log leads to the store's state. A relay that was restored from an older backup may have another log.
    private nonisolated func isSameLog(_ copy: Store, _ doubt: UnverifiedRows, _ state: ReplicaState) async throws -> Bool {
        guard let there = try await copy.replicaState(), there.position == doubt.position else { return false }
        guard state.position == doubt.position, let digest = there.logDigest, let known = state.logDigest else { return true }
        return digest == known
    }

    /// Adds this replica's own entries after a position to a copy at that position, without the entries of others.
    nonisolated func pullOwn(_ ahead: [Position], through last: Position, into copy: Store, at position: Position) async throws {
        // A relay could claim far positions for own entries. The limit keeps the copy from recording all positions
        // before them.
        guard last.rawValue - position.rawValue <= SyncLimits.positionsPassedOver else {
            throw TransportError.badAnswer(.badValue("position")).annalsError
        }
        let own = Set(ahead)
        try await copy.passOver(position.through(last).filter { !own.contains($0) })
        try await pull(copy, through: last, own: store.digestsAhead())
        // A log that ends before the own entries is not the log that accepted them.
        guard let position = try await copy.replicaState()?.position, position >= last else {
            throw AnnalsError.relayRolledBack(operation: "sync")
        }
    }

    nonisolated func pull(_ copy: Store, through last: Position, own: [Position: Digest] = [:]) async throws {
        let log = BoundedLog(last: last, of: transport, own: own)
        try await SyncAgent(store: copy, transport: log, environment: environment, logger: logger).sync(.pullOnly)
    }

    private static var tooOld: AnnalsError {
        AnnalsError(
            .expired, operation: "sync",
            "a table was rebuilt, and the relay no longer has the rows that are needed to find its changes",
            hint: "Call leave(force: true), and join again with existing: .sameKey",
            commandHint: "Run annals leave --force and annals join --existing same-key")
    }
}

extension Position {
    /// The positions after this one, up to `last`.
    fileprivate func through(_ last: Position) -> [Position] {
        last > self ? (rawValue + 1...last.rawValue).map { Position($0) } : []
    }
}
