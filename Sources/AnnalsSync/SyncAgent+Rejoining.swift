import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

/// Resyncs a replica from the newest snapshot because the relay no longer has the log after its position. The replica
/// rebases its unpushed transactions on the snapshot and then syncs normally.
///
/// No push is under way at this point: a push that may have been sent was sent again first, and the relay keeps the
/// last counter and digest of each replica forever. So transactions in the purged part of the log are not sent twice
/// (law 7).
extension SyncAgent {
    func rejoin(_ summary: inout Summary) async throws -> ExchangeStatus {
        logger.notice("the relay no longer has the log after this replica's position; resyncing from a snapshot")
        for _ in 0..<SyncLimits.triesToReconcile {
            guard let expired = try await store.expiredReplica() else { break }
            let back: Resynced?
            do {
                back = try await rejoin(expired, from: .snapshot)
            } catch let error as AnnalsError where error.underlying is ViolatedConstraint {
                // Later entries may correct the rows.
                back = try await rejoin(expired, from: .logAfterSnapshot)
            }
            guard let back else { continue }
            summary.cameBack = back.snapshot
            return back.status
        }
        throw AnnalsError(
            .busy, operation: "sync", "this replica cannot resync from a snapshot because other programs keep writing to the file",
            hint: "Run sync again", isRetryable: true)
    }

    private enum Rows {
        case snapshot
        /// The rows at the newest position of the log.
        case logAfterSnapshot
    }

    /// nil if the store changed meanwhile.
    private nonisolated func rejoin(_ expired: ExpiredReplica, from rows: Rows) async throws -> Resynced? {
        guard let joining = try await joining(), let state = try await store.replicaState() else { return nil }
        let description = try await request { [transport] in try await transport.describe() }
        guard description.lineage == state.lineage else { throw AnnalsError.relayRolledBack(operation: "sync") }
        let purpose = Joining.purpose(ofDownload: description)
        return try await joining.withTemporaryFolder(beside: store.path, for: purpose) { folder in
            let copy = try await joining.snapshotReplica(in: folder, description)
            defer { try? copy.close() }
            if rows == .logAfterSnapshot { try await pull(copy, through: description.head) }
            var stamp = try await copy.snapshotStamp()
            stamp.head = max(stamp.head, description.head)
            guard stamp.seen.position > expired.position else { throw Self.noSnapshot }
            if let last = expired.ahead.last, last > stamp.seen.position {
                try await pullOwn(expired.ahead, through: last, into: copy, at: stamp.seen.position)
            }
            return try await store.rejoin(from: copy, at: stamp, expired: expired, relayTime: description.time)
        }
    }

    private static var noSnapshot: AnnalsError {
        AnnalsError(
            .expired, operation: "sync", "the relay no longer has the log after this replica's position, and has no later snapshot",
            hint: "Ask the relay's operator. Nothing was changed")
    }
}
