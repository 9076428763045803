public import AnnalsCore
import AnnalsStore
import AnnalsWire
import Foundation
import Logging

extension SyncAgent {
    /// Makes the snapshot that the relay asked this replica for. What keeps it from that is no failure of the exchange, which
    /// is done: the relay asks another replica after a while.
    func bringSnapshot(_ summary: inout Summary) async throws {
        do {
            summary.snapshot = try await makeSnapshot()
        } catch let error as CancellationError {
            throw error
        } catch let error as AnnalsError where error.code == .cancelled {
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
        guard let joining = try await joining(), let state = try await store.replicaState() else { return nil }
        let description = try await request { [transport] in try await transport.describe() }
        let newest = description.snapshot?.position ?? .zero
        guard let time = description.time, state.position > newest else { return nil }
        // The replica is named since its log and the relay's are the same, as the exchange before this one has shown.
        let purpose = "snapshot \(state.lineage) \(state.replica)"
        return try await joining.withTemporaryFolder(beside: store.path, for: purpose) { folder -> Position? in
            if let kept = folder.keptSnapshot, kept.position > newest, kept.position <= state.position {
                return try await bring(folder, at: kept.position, kept.digest)
            }
            folder.forget()
            progress(.copying, 0)
            let plain = folder.file("snapshot.db")
            guard let made = try await store.makeSnapshot(at: plain, relayTime: time) else { return nil }
            progress(.compressing, 0)
            let file = try SnapshotPacking.pack(plain, folder.packed) { progress(.compressing, $0) }
            try? FileManager.default.removeItem(atPath: plain)
            folder.note(purpose, of: (made.position, file.digest))
            return try await bring(folder, at: made.position, file.digest)
        }
    }

    /// nil when another replica was quicker.
    private nonisolated func bring(_ folder: WorkFolder, at position: Position, _ digest: Digest) async throws -> Position? {
        let progress = progress
        do {
            try await transport.uploadSnapshot(at: folder.packed, position: position, digest: digest) { progress(.uploading, $0) }
            return position
        } catch {
            if error.code == .snapshotSuperseded { return nil }
            throw error.annalsError
        }
    }

    /// What makes copies of this store's space; nil when it is not joined.
    nonisolated func joining() async throws -> Joining? {
        guard let state = try await store.replicaState() else { return nil }
        return Joining(
            transport: transport, address: state.relay, space: state.space, name: state.name, credentialFile: state.credentialFile,
            configuration: store.configuration, environment: environment,
            progress: progress)
    }
}
