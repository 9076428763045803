import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging
import Synchronization

/// What a replica knows of an author from a snapshot alone can be made up by the snapshot's maker. Where the log contradicts it, an older
/// snapshot and the log after it show who is right: the log's own batches then say what the author's newest entry was.
extension SyncAgent {
    /// Applies a page; where it contradicts nothing but the snapshot that this replica began with, what is known of the authors is learnt
    /// anew first.
    func applyTryingOlderSnapshots(_ page: Page, _ summary: inout Summary) async throws -> TakenPage {
        var before: Position?
        while true {
            do {
                return try await store.apply(page)
            } catch let error as AnnalsError {
                guard let doubt = error.underlying as? DoubtfulSnapshot, !(transport is LogThrough),
                    before.map({ doubt.snapshot < $0 }) ?? true,
                    try await learnAuthors(before: doubt.snapshot)
                else { throw error }
                before = doubt.snapshot
                logger.warning(
                    """
                    the snapshot of the space at position \(doubt.snapshot), with which this store began, says otherwise than the log what \
                    the newest entries of authors were; the log is right
                    """)
                summary.snapshotToCheck = summary.snapshotToCheck ?? doubt.snapshot
            }
        }
    }

    /// Learns the authors' newest entries from the newest usable snapshot before a position.
    ///
    /// - Returns: false where there is none, or what it comes to is not what this store has.
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
                    let log = LogThrough(last: state.position, of: transport)
                    try await SyncAgent(store: copy, transport: log, environment: environment).sync(.pullOnly)
                    return try await store.takeAuthors(from: copy, scratch: folder.file("standing"))
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
    private static let isGone: Set<AnnalsError.Code> = [.spaceUnfinished, .expired, .relayWentBack]
}
