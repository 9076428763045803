import AnnalsCore
import AnnalsReplica
import AnnalsStore
import Logging

extension SyncAgent {
    /// Reports an entry that cannot be applied here to the relay. An agent reports the same entry once. The exchange
    /// does not depend on the success of the report.
    func report(_ error: any Error) async {
        guard var entry = (error as? AnnalsError)?.entry, entry.digest != nil, reported != entry.position, !Task.isCancelled else { return }
        reported = entry.position
        // The relay of a sealed space must not learn names.
        guard let state = try? await store.replicaState() else { return }
        if state.sealedUnder != nil { (entry.table, entry.column, entry.keyColumns) = (nil, nil, []) }
        do throws(TransportError) {
            try await transport.report(entry)
        } catch {
            logger.debug("the entry was not reported", metadata: ["position": "\(entry.position)", "reason": "\(error)"])
        }
    }
}
