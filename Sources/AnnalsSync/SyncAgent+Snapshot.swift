package import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import AnnalsWire
import Foundation
import Logging

extension SyncAgent {
    /// Makes the snapshot that the relay asked this replica for. A failure does not fail the exchange, which is
    /// complete: the relay asks another replica after some time. Only a restored relay, and a cancellation, are
    /// thrown.
    func bringSnapshot(_ summary: inout Summary) async throws {
        do {
            summary.snapshot = try await makeSnapshot()
        } catch let error as CancellationError {
            throw error
        } catch let error as AnnalsError where error.code == .relayRolledBack {
            throw error
        } catch {
            let known = error as? AnnalsError
            let reason = known?.message ?? "\(error)"
            logger.warning("cannot make the snapshot that the relay asked for: \(reason)", metadata: known?.logMetadata)
        }
    }

    /// Makes a snapshot of the space from the log's state and uploads it. The relay asks for one when it is due.
    /// Clones, and replicas that lack the purged log, begin with it.
    ///
    /// - Returns: the position of the snapshot. nil if the rows do not match the log at one position at the moment, or
    ///   if the relay has the snapshot already.
    /// - Throws: `AnnalsError`.
    package nonisolated func makeSnapshot() async throws -> Position? {
        guard let joining = try await joining(), let state = try await store.replicaState() else { return nil }
        let description = try await request { [transport] in try await transport.describe() }
        guard description.head >= state.position else { throw AnnalsError.relayRolledBack(operation: "snapshot") }
        let newest = description.snapshot?.position ?? .zero
        guard let time = description.time, state.position > newest else { return nil }
        let purpose = "snapshot \(state.lineage) \(state.replica)"
        return try await joining.withTemporaryFolder(beside: store.path, for: purpose) { folder -> Position? in
            if let (seen, digest) = folder.keptSnapshot(of: state.lineage), seen.position > newest, seen.position <= state.position {
                return try await bring(folder, seen, digest)
            }
            folder.forget()
            progress(.copying, 0)
            let plain = folder.file("snapshot.db")
            guard let made = try await store.makeSnapshot(at: plain, relayTime: time) else { return nil }
            progress(.compressing, 0)
            let sealer = try joining.spaceKeys?.cipher(for: state.space).sealer(of: made.seen)
            let file = try SnapshotPacking.pack(plain, folder.packed, sealer: sealer) { progress(.compressing, $0) }
            try? FileManager.default.removeItem(atPath: plain)
            folder.note(purpose, of: (made.seen, file.digest))
            return try await bring(folder, made.seen, file.digest)
        }
    }

    /// nil if another replica was faster.
    private nonisolated func bring(_ folder: WorkFolder, _ seen: LogMark, _ digest: Digest) async throws -> Position? {
        let progress = progress
        do {
            try await transport.uploadSnapshot(at: folder.packed, seen: seen, digest: digest) { progress(.uploading, $0) }
            return seen.position
        } catch {
            if error.code == .snapshotSuperseded { return nil }
            throw error.thrown
        }
    }

    /// Makes copies of this store's space. nil if the store is not joined.
    nonisolated func joining() async throws -> Joining? {
        guard let state = try await store.replicaState() else { return nil }
        return Joining(
            transport: transport, address: state.relay, space: state.space, name: state.name, credentialFile: state.credentialFile,
            spaceKeys: try await store.spaceKeys(), spaceKeyFile: state.spaceKeyFile, configuration: store.configuration,
            environment: environment,
            progress: progress)
    }
}
