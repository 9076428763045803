public import AnnalsCore
import AnnalsStore
import AnnalsWire
import Logging

extension SyncAgent {
    /// Makes the snapshot that the relay asked this replica for. What keeps it from that is no failure of the exchange, which
    /// is done: the relay asks another replica after a while. Only that the relay went back meanwhile is told.
    func bringSnapshot(_ summary: inout Summary) async throws {
        do {
            summary.snapshot = try await makeSnapshot()
        } catch let error as CancellationError {
            throw error
        } catch let error as AnnalsError where [.cancelled, .relayWentBack].contains(error.code) {
            throw error
        } catch {
            let reason = (error as? AnnalsError)?.message ?? "\(error)"
            logger.warning("the relay asked for a snapshot of the space, which could not be made: \(reason)")
        }
    }

    /// Makes a snapshot of the space from the log's state and brings it to the relay, which asks for one when it is due: a
    /// clone, or a replica that was away for long, then begins there.
    ///
    /// - Returns: its position; nil when the rows are not what the log has at one position just now, or the relay has it.
    /// - Throws: `AnnalsError`.
    public nonisolated func makeSnapshot() async throws -> Position? {
        guard let joining = try await joining(), let position = try await store.replicaState()?.position else { return nil }
        let description = try await request { [transport] in try await transport.describe() }
        guard description.head >= position else { throw AnnalsError.relayWentBack(operation: "snapshot") }
        guard let time = description.time, position > description.snapshot?.position ?? .zero else { return nil }
        return try await joining.withTemporaryFolder(beside: store.path) { folder -> Position? in
            let (plain, packed) = (folder + "/snapshot.db", folder + "/snapshot.zst")
            guard let made = try await store.makeSnapshot(at: plain, relayTime: time) else { return nil }
            let file = try SnapshotPacking.pack(plain, packed)
            do {
                try await transport.uploadSnapshot(at: packed, seen: made.seen, digest: file.digest) { _ in }
            } catch let error as TransportError {
                // Another one was quicker.
                if error.code == .snapshotSuperseded { return nil }
                throw error.annalsError
            }
            return made.seen.position
        }
    }

    /// What makes copies of this store's space; nil when it is not joined.
    nonisolated func joining() async throws -> Joining? {
        guard let state = try await store.replicaState() else { return nil }
        return Joining(
            transport: transport, address: state.relay, space: state.space, name: state.name, credentialFile: state.credentialFile,
            configuration: store.configuration, environment: environment)
    }
}
