import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

extension SyncAgent {
    /// Compares the rows with the log's, where another program may have written some that no trigger saw, and takes up
    /// what differs. It costs about as much as a clone.
    func reconcile(_ status: ExchangeStatus, _ summary: inout Summary) async throws -> ExchangeStatus {
        logger.notice("the rows may not be what the log says: comparing them with the space's")
        var status = status
        for _ in 0..<SyncLimits.triesToReconcile {
            // What is on its way is in the log, or it is not: that decides what the rows are compared with.
            if status.isPushUnderWay {
                status = try await finishPush(&summary)
                continue
            }
            guard let doubt = try await store.rowsInDoubt() else { break }
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
        if case .wait(let milliseconds) = answer?.outcome { try await waitForTurn(milliseconds, &summary.patience) }
        return status
    }

    private nonisolated func reconcile(_ doubt: RowsInDoubt) async throws -> Reconciled? {
        guard let state = try await store.replicaState(), let joining = try await joining() else { return nil }
        let description = try await request { [transport] in try await transport.describe() }
        guard description.lineage == doubt.lineage else { throw AnnalsError.relayWentBack(operation: "sync") }
        let purpose = Joining.purpose(ofDownload: description, atOrBefore: doubt.position)
        return try await joining.withTemporaryFolder(beside: store.path, for: purpose) { folder in
            let copy = try await joining.snapshotReplica(in: folder, description, .atOrBefore(doubt.position))
            defer { try? copy.close() }
            guard let snapshot = try await copy.replicaState(), snapshot.position <= doubt.position else { throw Self.tooOld }
            try await pull(copy, through: doubt.position)
            guard try await isSameLog(copy, doubt, state) else { throw AnnalsError.relayWentBack(operation: "sync") }
            if let last = doubt.ahead.last { try await pullOwn(doubt.ahead, through: last, into: copy, at: doubt.position) }
            return try await store.reconcile(doubt, with: copy)
        }
    }

    /// Whether the log leads to where the store is: a relay that was restored from an older backup may have got another one.
    private nonisolated func isSameLog(_ copy: Store, _ doubt: RowsInDoubt, _ state: ReplicaState) async throws -> Bool {
        guard let there = try await copy.replicaState(), there.position == doubt.position else { return false }
        guard state.position == doubt.position, let digest = there.logDigest, let known = state.logDigest else { return true }
        return digest == known
    }

    /// Brings a copy that stands at a position what is this replica's own after it, and nothing of others.
    nonisolated func pullOwn(_ ahead: [Position], through last: Position, into copy: Store, at position: Position) async throws {
        // A relay that makes up where own entries stand must not have all positions before them written down.
        guard last.rawValue - position.rawValue <= SyncLimits.positionsPassedOver else {
            throw TransportError.badAnswer(.badValue("position")).annalsError
        }
        let own = Set(ahead)
        try await copy.passOver(position.through(last).filter { !own.contains($0) })
        try await pull(copy, through: last, own: store.digestsAhead())
        // A log that ends before them is not the one that took them.
        guard let position = try await copy.replicaState()?.position, position >= last else {
            throw AnnalsError.relayWentBack(operation: "sync")
        }
    }

    private nonisolated func pull(_ copy: Store, through last: Position, own: [Position: Digest] = [:]) async throws {
        let log = LogThrough(last: last, of: transport, own: own)
        try await SyncAgent(store: copy, transport: log, environment: environment, logger: logger).sync(.pullOnly)
    }

    private static var tooOld: AnnalsError {
        AnnalsError(
            .expired, operation: "sync",
            "another program rebuilt a table, and the space's rows of then cannot be had any more to find out what it wrote",
            hint: "Run annals leave --force and annals join --existing same-key")
    }
}

extension Position {
    /// The positions behind this one, up to `last`.
    fileprivate func through(_ last: Position) -> [Position] {
        last > self ? (rawValue + 1...last.rawValue).map { Position($0) } : []
    }
}
