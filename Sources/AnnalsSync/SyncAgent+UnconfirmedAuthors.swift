import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging
import Synchronization

/// A replica may know an author's newest entry only from a snapshot, and the replica that made the snapshot may have
/// stated it falsely. If the log contradicts the snapshot, an older snapshot and the log after it show which is right,
/// because the log's own batches then state the author's newest entry.
extension SyncAgent {
    /// Applies a page. If the page contradicts only the snapshot with which this replica began, the authors' newest
    /// entries are first determined again.
    func applyTryingOlderSnapshots(_ page: Page, _ summary: inout Summary) async throws -> AppliedPage {
        var before: Position?
        while true {
            do {
                return try await store.apply(page)
            } catch let error as AnnalsError {
                guard let doubt = error.underlying as? SuspectSnapshot, !(transport is BoundedLog),
                    before.map({ doubt.snapshot < $0 }) ?? true,
                    try await learnAuthors(before: doubt.snapshot)
                else { throw error }
                before = doubt.snapshot
                logger.warning(
                    """
                    the snapshot at position \(doubt.snapshot), with which this store began, states other newest entries of authors than \
                    the log; the log is right
                    """)
                summary.snapshotToCheck = summary.snapshotToCheck ?? doubt.snapshot
            }
        }
    }

    /// Determines the authors' newest entries from the newest usable snapshot before a position and the log after it.
    ///
    /// - Returns: false if there is no such snapshot, or if it leads to another state than this store's.
    private nonisolated func learnAuthors(before snapshot: Position) async throws -> Bool {
        guard let joining = try await joining(), let state = try await store.replicaState() else { return false }
        let description = try await request { [transport] in try await transport.describe() }
        return try await joining.withTemporaryFolder(beside: store.path) { folder in
            var latest = snapshot
            for _ in 0..<SyncLimits.snapshotsPassedOver where latest > Position.first {
                latest = latest.advanced(by: -1)
                let tried = Mutex<Position?>(nil)
                do {
                    let copy = try await joining.snapshotReplica(in: folder, description, .atOrBefore(latest)) { position in
                        tried.withLock { $0 = position }
                    }
                    defer { try? copy.close() }
                    let log = BoundedLog(last: state.position, of: transport)
                    try await SyncAgent(store: copy, transport: log, environment: environment).sync(.pullOnly)
                    return try await store.adoptAuthors(from: copy, scratch: folder.file("standing"))
                } catch let error as AnnalsError where Joining.isOfSnapshot(error) {
                    guard let position = tried.withLock({ $0 }), position <= latest else { return false }
                    latest = position
                    folder.clear()
                } catch let error as AnnalsError where Self.isGone.contains(error.code) {
                    return false
                }
            }
            return false
        }
    }

    /// There is no older snapshot, or no log after it.
    private static let isGone: Set<AnnalsError.Code> = [.spaceUnfinished, .expired, .relayRolledBack]
}
