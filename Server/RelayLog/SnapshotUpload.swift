package import AnnalsCore
internal import AnnalsWire

/// A snapshot that is being uploaded. End it with `finish` or `abandon`; otherwise the next start removes its bytes.
package actor SnapshotUpload {
    /// A complete file without its final name.
    struct Finished: Sendable {
        var file: any NewSnapshotFile
        var space: SpaceName
        var spaceID: Int64
        var position: Position
        var byteCount: Int64
        var digest: Digest
        /// The owner that uploaded it.
        var owner: ReplicaOwner?
        /// The bytes that were granted to it.
        var granted: Int64
    }

    private let store: SnapshotStore
    private let space: SpaceName
    private let spaceID: Int64
    private let position: Position
    private let limit: Int64
    private let taker: Taker
    private let file: any NewSnapshotFile
    private var hasher = Digest.Hasher()
    private var container: SnapshotContainer
    private var byteCount: Int64 = 0
    /// The bytes that were granted in the space.
    private var granted: Int64 = 0
    /// The bytes of the disk that are promised to it and not written yet.
    private var promised: Int64
    /// Another request is adding bytes, or waits for a grant.
    private var isWriting = false
    /// No more bytes are accepted: the upload has ended or is being recorded. Other requests can run during the
    /// recording.
    private var isClosed = false
    private var isEnded = false
    private let executor = QueueExecutor(label: "annals.relay.upload")

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(
        store: SnapshotStore, space: SpaceName, spaceID: Int64, position: Position, file: any NewSnapshotFile,
        container: consuming SnapshotContainer, limit: Int64, promised: Int64, taker: Taker
    ) {
        self.container = container
        self.taker = taker
        self.store = store
        self.space = space
        self.spaceID = spaceID
        self.position = position
        self.file = file
        self.limit = limit
        self.promised = promised
    }

    package var hasEnded: Bool { isEnded }

    /// The number of received bytes.
    package var offset: Int64 { byteCount }

    /// Adds a part with this digest, and finishes the upload with the last part. Returns whether it was the last.
    ///
    /// Throws `.snapshotPartElsewhere` if `start` is not the number of received bytes; `.snapshotDigestMismatch`, which
    /// keeps the earlier parts; and what `write` and `finish` throw.
    package func add(_ bytes: [UInt8], at start: Int64, partDigest: Digest?, of total: Int64, digest: Digest) async throws -> Bool {
        guard !isClosed, start == byteCount else { throw RelayLogError.snapshotPartElsewhere(offset: isClosed ? 0 : byteCount) }
        if let partDigest, Digest.sha256(bytes[...]) != partDigest { throw RelayLogError.snapshotDigestMismatch }
        try await write(bytes)
        guard byteCount == total else { return false }
        _ = try await finish(digest: digest)
        return true
    }

    /// Adds the next bytes. Throws `.snapshotPartElsewhere` if the upload is closed or another request is adding bytes,
    /// `.snapshotTooLarge`, `.diskFull` or `.storage`. Throws `.badSnapshot`, `.spaceFull` or `.diskReserved`, and
    /// removes the upload then.
    package func write(_ bytes: [UInt8]) async throws {
        guard !isClosed, !isWriting else { throw RelayLogError.snapshotPartElsewhere(offset: isClosed ? 0 : byteCount) }
        guard Int64(bytes.count) <= limit - byteCount else { throw RelayLogError.snapshotTooLarge(limit: limit) }
        isWriting = true
        defer { isWriting = false }
        do {
            try store.reserve.check()
            try promise(Int64(bytes.count))
            try await makeRoom(for: Int64(bytes.count))
        } catch {
            // Others need the space of the received bytes.
            abandon()
            store.noteRefusal(error, in: space, by: taker)
            throw error
        }
        do {
            try file.write(bytes)
        } catch {
            let error = RelayLogError.wrapping(error)
            store.noteRefusal(error, in: space, by: taker)
            throw error
        }
        release(Int64(bytes.count))
        hasher.update(bytes[...])
        byteCount += Int64(bytes.count)
        do {
            try container.write(bytes)
        } catch {
            drop()
            throw RelayLogError.badSnapshot("\(error)")
        }
    }

    /// Without an announced size, each piece is promised when it comes.
    private func promise(_ count: Int64) throws {
        let missing = count - promised
        guard missing > 0 else { return }
        try store.reserve.promise(missing)
        promised += missing
    }

    private func release(_ count: Int64) {
        store.reserve.release(count)
        promised -= count
    }

    private func makeRoom(for count: Int64) async throws {
        let missing = count - (granted - byteCount)
        guard missing > 0 else { return }
        let more = try await store.grant(missing, to: taker, in: spaceID)
        guard !isClosed else {
            store.takeBack(more, in: spaceID)
            throw RelayLogError.snapshotPartElsewhere(offset: 0)
        }
        granted += more
    }

    /// Makes the upload the space's snapshot if its bytes have this digest.
    ///
    /// Throws `.snapshotDigestMismatch`, `.badSnapshot`, `.snapshotSuperseded`, `.quarantined`, `.spaceFull`,
    /// `.diskFull` or `.storage`, and removes the upload then. Throws `.snapshotPartElsewhere` if another request is
    /// adding bytes or has finished it.
    package func finish(digest: Digest) async throws -> SnapshotRecord {
        guard !isClosed, !isWriting else { throw RelayLogError.snapshotPartElsewhere(offset: isClosed ? 0 : byteCount) }
        isClosed = true
        do {
            guard hasher.finish() == digest else { throw RelayLogError.snapshotDigestMismatch }
            do {
                try container.finish()
            } catch {
                throw RelayLogError.badSnapshot("\(error)")
            }
            let finished = Finished(
                file: file, space: space, spaceID: spaceID, position: position, byteCount: byteCount, digest: digest,
                owner: taker.credential, granted: granted)
            let record = try await store.record(finished)
            end()
            return record
        } catch {
            drop()
            store.noteRefusal(error, in: space, by: taker)
            throw error
        }
    }

    /// Removes the upload. It does nothing after the end, or while the snapshot is recorded.
    package func abandon() {
        guard !isClosed else { return }
        drop()
    }

    private func drop() {
        file.abandon()
        end()
    }

    private func end() {
        isClosed = true
        guard !isEnded else { return }
        isEnded = true
        release(promised)
        store.uploadEnded(taker, granted: granted, in: spaceID)
    }
}

/// A snapshot that is being downloaded.
package actor SnapshotFile {
    package nonisolated let record: SnapshotRecord
    private let file: any KeptSnapshotFile
    private let executor = QueueExecutor(label: "annals.relay.download")

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(record: SnapshotRecord, file: any KeptSnapshotFile) {
        self.record = record
        self.file = file
    }

    /// Up to `count` bytes from `offset`; fewer only at the end of the file. Throws `.storage`.
    package func read(at offset: Int64, count: Int) throws -> [UInt8] {
        do {
            return try file.read(at: offset, count: count)
        } catch {
            throw RelayLogError.wrapping(error)
        }
    }
}
