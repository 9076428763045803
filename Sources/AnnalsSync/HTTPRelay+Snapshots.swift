public import AnnalsCore
import AnnalsHTTP
public import AnnalsWire
import Foundation
import Synchronization

/// Upload and download of snapshots. A broken connection loses only the part under way. A download resumes if the
/// snapshot is still the same. An upload is sent in parts, and the relay keeps complete parts. Both also work after a
/// restart of the process, as long as the file exists.
extension HTTPRelay {
    public func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await download("", to: path, progress)
    }

    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await download("?\(Endpoints.Query.position)=\(position)", to: path, progress)
    }

    public func downloadSnapshot(
        at position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        let found = try await download("?\(Endpoints.Query.at)=\(position)", to: path, progress)
        guard found == position else { throw .notARelay("it sent a snapshot of another position") }
    }

    public func report(_ check: SnapshotCheck) async throws(TransportError) {
        guard let body = try? JSONEncoder().encode(SnapshotCheckRequest(check)) else { return }
        _ = try await send(
            "POST", Endpoints.snapshotChecks(space), headers: [("Content-Type", Endpoints.MediaType.json)], body: .bytes([UInt8](body)))
    }

    private func download(
        _ query: String, to path: String, _ progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        let earlier = PartialDownload(at: path)
        let state = Mutex((tag: earlier?.tag, length: earlier?.length ?? 0))
        let told = Mutex<(tag: String?, length: Int64)?>(nil)
        let running = Mutex(RunningDigest())
        var mayBeOther = earlier != nil
        var patience = TransferPatience()
        while true {
            // The last received byte is requested again, so that the request for a complete file gets a normal answer.
            let (tag, start) = state.withLock { $0.tag == nil ? (nil, 0) : ($0.tag, max(0, $0.length - 1)) }
            do {
                let request = request("GET", Endpoints.snapshot(space) + query, headers: tag.map { [("If-Range", $0)] } ?? [], timeout: nil)
                let response = try accepted(
                    await answer { () async throws(HTTPError) in
                        try await client.download(
                            request, to: .path(path), startingAt: start,
                            accept: { headers, length throws(HTTPError) in
                                let before = told.withLock { told in
                                    defer { told = (headers["ETag"], length) }
                                    return told
                                }
                                // The same snapshot cannot grow. Its first length limits all attempts together.
                                if let before, before.tag == headers["ETag"], before.length != length {
                                    throw HTTPError(.protocolError, "the snapshot has \(length) bytes, and had \(before.length) before")
                                }
                                try checkHead(headers, length, for: path)
                            },
                            onPiece: { piece, offset in running.withLock { $0.take(piece, at: offset) } }
                        ) { headers, length in
                            let tag = headers["ETag"]
                            let isNew = state.withLock { state in
                                defer { state = (tag, length) }
                                return state.tag != tag
                            }
                            if isNew { PartialDownload.note(tag, of: path) }
                            progress(length)
                        }
                    })
                return try check(response, running.withLock { $0.digest } ?? (try? FileDigest.sha256(path)))
            } catch {
                let (tag, length) = state.withLock { $0 }
                // The requested range is beyond the end of the file, so the relay has another snapshot now. Or the
                // bytes of an earlier process belong to another snapshot.
                let isOther = error.code == .rangeNotSatisfiable && tag != nil
                if isOther || (error.isBadChecksum && mayBeOther) {
                    mayBeOther = false
                    state.withLock { $0 = (nil, 0) }
                } else if !error.isWorthRetrying {
                    throw error
                }
                try await patience.wait(after: error, moved: length - start >= Int64(slowest.bytes))
            }
        }
    }

    /// Refuses an answer that is not a snapshot, or that does not fit on the disk, before anything is written. The
    /// length is only the relay's claim, but no byte beyond it is written.
    private func checkHead(_ headers: HTTPHeaders, _ length: Int64, for path: String) throws(HTTPError) {
        guard headers.mediaType == Endpoints.MediaType.snapshot, headers[Endpoints.Header.digest] != nil,
            headers[Endpoints.Header.position] != nil
        else { throw HTTPError(.protocolError, "its answer is not a snapshot") }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        let present = (try? Self.size(of: path)) ?? 0
        guard let free = freeBytes(folder), free < max(0, length - present) + SyncLimits.bytesLeftFree else { return }
        throw HTTPError(
            .localFile, "the snapshot has \(length) bytes, and the disk has \(free) free", systemError: ENOSPC)
    }

    private func check(_ response: HTTPResponse, _ received: Digest?) throws(TransportError) -> Position {
        try expect(response, Endpoints.MediaType.snapshot)
        let position = try snapshotPosition(response)
        guard let digest = response.headers[Endpoints.Header.digest] else {
            throw .notARelay("it sent a snapshot without a digest")
        }
        guard received?.description == digest else { throw .badAnswer(.badChecksum) }
        return position
    }

    func snapshotPosition(_ response: HTTPResponse) throws(TransportError) -> Position {
        guard let position = response.headers[Endpoints.Header.position].flatMap({ Int64($0) }).flatMap(Position.init(fromElsewhere:))
        else {
            throw .notARelay("it sent a snapshot without a position")
        }
        return position
    }

    // MARK: Upload

    public func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        let size = try Self.size(of: path)
        let upload = Upload(path: path, size: size, seen: seen, digest: digest)
        // An earlier process may have sent parts of it.
        var offset: Int64? = size > WireLimits.snapshotPartBytes ? nil : 0
        var furthest: Int64 = 0
        var patience = TransferPatience()
        while true {
            do {
                guard let start = offset else {
                    // It is unknown whether the relay has the last part or parts of an earlier attempt.
                    offset = try await send(nil, of: upload)
                    continue
                }
                progress(start)
                let part = start..<min(start + Int64(WireLimits.snapshotPartBytes), size)
                guard let next = try await send(part, of: upload) else { return progress(size) }
                if next > furthest {
                    furthest = next
                    patience = TransferPatience()
                } else if next <= start {
                    try await patience.wait(after: .notARelay("it does not store the parts of a snapshot"), moved: false)
                }
                offset = next
            } catch {
                guard error.isWorthRetrying || error.code == .rangeNotSatisfiable else { throw error }
                try await patience.wait(after: error, moved: false)
                offset = nil
            }
        }
    }

    /// The file of a snapshot upload.
    private struct Upload {
        var path: String
        var size: Int64
        var seen: LogMark
        var digest: Digest
    }

    /// Sends a part. Without a part it asks the relay for its state. Returns how many bytes the relay has, or nil if it
    /// has all.
    private func send(_ part: Range<Int64>?, of upload: Upload) async throws(TransportError) -> Int64? {
        let path = "\(Endpoints.snapshot(space))?\(Endpoints.Query.position)=\(upload.seen.position)"
        let part = part.flatMap { $0.isEmpty ? nil : $0 }
        let range = part.map { "\($0.lowerBound)-\($0.upperBound - 1)" } ?? "*"
        let headers =
            Self.headers(upload.seen) + [
                (Endpoints.Header.digest, upload.digest.description), ("Content-Type", Endpoints.MediaType.snapshot),
                ("Content-Range", "bytes \(range)/\(upload.size)"),
                (Endpoints.Header.partDigest, try Self.digest(of: upload.path, part ?? 0..<0).description),
            ]
        let body = part.map { HTTPRequest.Body.file(path: upload.path, range: $0) } ?? .bytes([])
        let response = try accepted(
            await answer { () async throws(HTTPError) in
                try await client.send(
                    request("PUT", path, headers: headers, body: body, timeout: nil), maximumBody: SyncLimits.answerBytes)
            })
        guard response.status == 202 else { return nil }
        guard let offset = response.headers[Endpoints.Header.offset].flatMap({ Int64($0) }), (0..<upload.size).contains(offset) else {
            throw .notARelay("it did not say how many bytes of a snapshot it has")
        }
        return offset
    }

    private static func size(of path: String) throws(TransportError) -> Int64 {
        guard let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64 else { throw unreadable }
        return size
    }

    private static func digest(of path: String, _ range: Range<Int64>) throws(TransportError) -> Digest {
        do {
            return try FileDigest.sha256(path, range)
        } catch {
            throw unreadable
        }
    }

    private static var unreadable: TransportError { .localFile("the snapshot cannot be read", isDiskFull: false) }
}

extension TransportError {
    fileprivate var isBadChecksum: Bool {
        if case .badAnswer(.badChecksum) = self { true } else { false }
    }
}

/// Limits the attempts and pauses of an interrupted transfer. The count restarts whenever the transfer makes progress.
private struct TransferPatience {
    private var tries = 0
    private var backoff = Backoff()
    private var time = ExchangePatience()

    mutating func wait(after error: TransportError, moved: Bool) async throws(TransportError) {
        tries = moved ? 1 : tries + 1
        if moved {
            backoff.reset()
            time.renew()
        }
        guard tries < error.tries else { throw error }
        let pause = max(error.retryAfter ?? .zero, backoff.next { Double.random(in: 0..<1) })
        guard time.allows(pause) else { throw error }
        do { try await ContinuousClock().sleep(for: pause) } catch { throw .cancelled }
    }
}
