import AnnalsCore
import AnnalsReplica
import AnnalsStore
import Logging

extension SyncAgent {
    /// Tells the relay of an entry that cannot be applied here; an agent tells of the same entry once. What becomes of the report
    /// changes nothing in the exchange.
    func report(_ error: any Error) async {
        guard var entry = (error as? AnnalsError)?.entry, entry.digest != nil, reported != entry.position, !Task.isCancelled else { return }
        reported = entry.position
        // The relay of a sealed space learns no names.
        guard let state = try? await store.replicaState() else { return }
        if state.sealedUnder != nil { (entry.table, entry.column, entry.keyColumns) = (nil, nil, []) }
        do throws(TransportError) {
            try await transport.report(entry)
        } catch {
            logger.debug("the entry was not reported", metadata: ["position": "\(entry.position)", "reason": "\(error)"])
        }
    }
}
