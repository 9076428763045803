import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

extension SyncAgent {
    /// Applies a page. If rows at its end violate a constraint that only this store has, later entries may correct them. Then the pages
    /// after it are applied together with it.
    func applyThroughCorrections(_ page: Page, _ summary: inout Summary) async throws -> AppliedPage {
        var page = page
        while true {
            do {
                return try await applyTryingOlderSnapshots(page, &summary)
            } catch let error as AnnalsError {
                let after = page.lastPosition
                guard error.underlying is ViolatedConstraint, after < page.head,
                    page.frames.reduce(0, { $0 + $1.batch.count }) < SyncLimits.bytesWithCorrections,
                    let seen = try await store.replicaState()?.seen
                else { throw error }
                let next = try await request(&summary.patience) { [transport] in
                    try await transport.pull(after: after, seen: seen, byteLimit: SyncLimits.pageBytes, wait: nil)
                }
                guard next.after == after, next.lineage == page.lineage, next.lastPosition > after else { throw error }
                page.frames += next.frames
                (page.head, page.isLast) = (next.head, next.isLast)
            }
        }
    }
}
