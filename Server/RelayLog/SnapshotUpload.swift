package import AnnalsCore

/// A snapshot on its way in. End it with `finish` or `abandon`; otherwise its bytes are removed at the next start.
package actor SnapshotUpload {
    /// A whole and durable file that has no lasting name yet.
    struct Finished: Sendable {
        var path: String
        var spaceID: Int64
        var position: Position
        var byteCount: Int64
        var digest: Digest
    }

    private let store: SnapshotStore
    private let spaceID: Int64
    private let position: Position
    private let limit: Int64
    private let file: DurableFile
    private var hasher = Digest.Hasher()
    private var byteCount: Int64 = 0
    private var isEnded = false
    private let executor = QueueExecutor(label: "annals.relay.upload")

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(store: SnapshotStore, space: SpaceName, spaceID: Int64, position: Position, file: DurableFile, limit: Int64) {
        self.store = store
        self.spaceID = spaceID
        self.position = position
        self.file = file
        self.limit = limit
    }

    /// Adds the next bytes. Throws `.snapshotTooLarge`, `.diskFull` or `.storage`.
    package func write(_ bytes: [UInt8]) throws {
        precondition(!isEnded, "an upload that has ended takes no bytes")
        guard byteCount + Int64(bytes.count) <= limit else { throw RelayLogError.snapshotTooLarge(limit: limit) }
        do {
            try bytes.withUnsafeBytes { try file.write($0) }
        } catch {
            throw RelayLogError.wrapping(error)
        }
        hasher.update(bytes[...])
        byteCount += Int64(bytes.count)
    }

    /// Makes the upload the space's snapshot if its bytes have this digest.
    ///
    /// Throws `.snapshotDigestMismatch`, `.snapshotSuperseded`, `.diskFull` or `.storage`; then nothing is left of it.
    package func finish(digest: Digest) async throws -> SnapshotRecord {
        precondition(!isEnded, "an upload ends once")
        do {
            guard hasher.finish() == digest else { throw RelayLogError.snapshotDigestMismatch }
            do { try file.synchronize() } catch { throw RelayLogError.wrapping(error) }
            let finished = Finished(path: file.path, spaceID: spaceID, position: position, byteCount: byteCount, digest: digest)
            let record = try await store.record(finished)
            end()
            return record
        } catch {
            abandon()
            throw error
        }
    }

    /// Removes what has come. Does nothing after the end.
    package func abandon() {
        guard !isEnded else { return }
        DurableFiles.remove(file.path)
        end()
    }

    private func end() {
        isEnded = true
        file.close()
        store.uploadEnded()
    }
}

/// A snapshot on its way out.
package actor SnapshotFile {
    package nonisolated let record: SnapshotRecord
    private let file: DurableFile
    private let executor = QueueExecutor(label: "annals.relay.download")

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(record: SnapshotRecord, file: DurableFile) {
        self.record = record
        self.file = file
    }

    /// Up to `count` bytes from `offset` on; fewer only at the file's end. Throws `.storage`.
    package func read(at offset: Int64, count: Int) throws -> [UInt8] {
        do {
            return try file.read(at: offset, count: count)
        } catch {
            throw RelayLogError.wrapping(error)
        }
    }
}
