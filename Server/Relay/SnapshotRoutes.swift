internal import AnnalsCore
internal import AnnalsWire
internal import CoreMetrics
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import RelayLog

/// Snapshots are streamed in both directions: a transfer of any size holds one piece in memory.
struct SnapshotRoutes: Sendable {
    let log: RelayLog
    let limits: RelayLimits
    let bodies: BodyReader
    let metrics: RelayMetrics

    /// PUT /v1/spaces/{space}/snapshot?position=N: 201 when it is complete, verified and durable.
    func upload(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .write)
        try request.requireContentType(Endpoints.MediaType.snapshot)
        guard let position = try request.number(Endpoints.Query.position).map({ Position($0) }) else {
            throw ProblemResponse.badRequest("position is missing", hint: "Send the position of the snapshot's rows")
        }
        guard let digest = request.headers[.digest].flatMap({ Hexadecimal.decode($0) }).flatMap({ Digest(bytes: $0) }) else {
            throw ProblemResponse.badRequest(
                "\(Endpoints.Header.digest) is not a SHA-256", hint: "Send the body's digest in hexadecimal")
        }
        // Checked for each part, because the relay may have been restored from a backup since the last one.
        try await log.require(space, seen: request.seen())
        if let text = request.headers[.contentRange] {
            guard let range = PartRange(text), range.total <= limits.log.snapshotBytes else {
                throw ProblemResponse.badRequest(
                    "Content-Range is not a part of a snapshot", hint: "Send bytes FIRST-LAST/ALL, or bytes */ALL")
            }
            return try await takePart(request, context.taker(space), space, position, digest, range)
        }
        let total = try request.announcedLength(limit: limits.log.snapshotBytes)
        let upload = try await log.snapshots.begin(
            space, position: position, of: total, lineage: try request.lineage(), by: context.taker(space))
        do {
            var chunks = request.body.makeAsyncIterator()
            while let chunk = try await BodyReader.next(&chunks) { try await upload.write(Array(chunk.readableBytesView)) }
            _ = try await upload.finish(digest: digest)
        } catch {
            await upload.abandon()
            throw error
        }
        metrics.snapshotsReceived.increment()
        return JSONBody.response(
            try await log.describe(space), status: .created, headers: [.location: Endpoints.snapshot(space)])
    }

    /// Takes a part of a snapshot: 202 with the number of received bytes, 201 for the last part, 416 if the part does
    /// not continue the received bytes. A request without a part asks for the number of received bytes.
    private func takePart(
        _ request: Request, _ taker: Taker, _ space: SpaceName, _ position: Position, _ digest: Digest, _ range: PartRange
    ) async throws -> Response {
        let uploads = log.snapshots
        let limit = WireLimits.maximumSnapshotPartBytes
        let isDone = try await bodies.withBody(of: request, limit: limit, by: taker) { bytes in
            guard let first = range.first else { return false }
            guard bytes.count == range.count else {
                throw ProblemResponse.badRequest("The part has \(bytes.count) bytes, which is not the size of its range")
            }
            let upload = try await uploads.uploadInParts(
                space, position: position, digest: digest, of: range.total, lineage: try request.lineage(), by: taker)
            let partDigest = request.headers[.partDigest].flatMap { Hexadecimal.decode($0) }.flatMap { Digest(bytes: $0) }
            do {
                let isDone = try await upload.add(bytes, at: first, partDigest: partDigest, of: range.total, digest: digest)
                if isDone { uploads.endParts(space, position: position, digest: digest) }
                return isDone
            } catch {
                if await upload.hasEnded { uploads.endParts(space, position: position, digest: digest) }
                throw error
            }
        }
        if isDone {
            metrics.snapshotsReceived.increment()
            return JSONBody.response(try await log.describe(space), status: .created, headers: [.location: Endpoints.snapshot(space)])
        }
        let offset = try await uploads.progress(
            space, position: position, digest: digest, of: range.total, lineage: try request.lineage(), by: taker)
        return JSONBody.response(["status": "incomplete"], status: .accepted, headers: [.offset: String(offset)])
    }

    /// GET /v1/spaces/{space}/snapshot: the newest snapshot, or with position=N the newest that is not after N; the
    /// whole file, or the part that Range requests.
    ///
    /// The ETag is the digest. A client that continues a broken transfer sends it in If-Range, so it never joins parts
    /// of two snapshots.
    func download(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .read)
        try await log.require(space, seen: request.seen())
        let exact = try request.number(Endpoints.Query.at).map { Position($0) }
        let position = try exact ?? request.number(Endpoints.Query.position).map { Position($0) }
        let file = try await log.snapshots.open(space, atOrBefore: position, exact: exact != nil)
        let record = file.record
        let tag = "\"\(record.digest)\""
        var headers: HTTPFields = [
            .contentType: Endpoints.MediaType.snapshot, .position: String(record.position.rawValue), .digest: record.digest.description,
            .eTag: tag, .acceptRanges: "bytes", .cacheControl: "no-store",
        ]
        let isSame = request.headers[.ifRange].map { $0 == tag } ?? true
        switch ByteRange(header: isSame ? request.headers[.range] : nil, byteCount: record.byteCount) {
        case .whole:
            return Response(status: .ok, headers: headers, body: body(file, 0..<record.byteCount))
        case .part(let range):
            headers[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(record.byteCount)"
            return Response(status: .partialContent, headers: headers, body: body(file, range))
        case .notSatisfiable:
            throw ProblemResponse(
                .rangeNotSatisfiable, detail: "The snapshot has \(record.byteCount) bytes",
                headers: [.contentRange: "bytes */\(record.byteCount)"])
        }
    }

    /// POST /v1/spaces/{space}/snapshot/checks: 204. Needs write permission.
    func check(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .write)
        guard let check = try await bodies.object(SnapshotCheckRequest.self, of: request).check else {
            throw ProblemResponse.badRequest("position or digest is not valid")
        }
        switch try await log.check(check, of: space, by: context.access.owner, as: context.operatorName) {
        case .recorded(let isDispute):
            if isDispute { metrics.snapshotsRefuted.increment() }
            return Response(status: .noContent, headers: [.cacheControl: "no-store"])
        case .known:
            return Response(status: .noContent, headers: [.cacheControl: "no-store"])
        case .noSuchSnapshot:
            throw ProblemResponse(.notFound, detail: "There is no such snapshot of another owner at position \(check.position)")
        }
    }

    private func body(_ file: SnapshotFile, _ range: Range<Int64>) -> ResponseBody {
        ResponseBody(contentLength: Int(range.count)) { [chunk = limits.snapshotChunkBytes, metrics] writer in
            // This does not run for HEAD.
            metrics.snapshotsSent.increment()
            var offset = range.lowerBound
            while offset < range.upperBound {
                let bytes = try await file.read(at: offset, count: Int(min(Int64(chunk), range.upperBound - offset)))
                // If the file is shorter than recorded, the answer ends early, before its announced length.
                guard !bytes.isEmpty else { throw RelayLogError.storage("the file of a snapshot is truncated") }
                try await writer.write(ByteBuffer(bytes: bytes))
                offset += Int64(bytes.count)
            }
            try await writer.finish(nil)
        }
    }
}

/// The range of a part of an upload: `bytes FIRST-LAST/ALL`, or `bytes */ALL` for a query.
struct PartRange: Hashable {
    /// nil for a query.
    var first: Int64?
    var count: Int
    var total: Int64

    init?(_ text: String) {
        guard text.hasPrefix("bytes ") else { return nil }
        let halves = text.dropFirst("bytes ".count).split(separator: "/", omittingEmptySubsequences: false)
        guard halves.count == 2, let total = Int64(halves[1]), total > 0 else { return nil }
        self.total = total
        count = 0
        if halves[0] == "*" { return }
        let ends = halves[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Int64(ends[0]), let last = Int64(ends[1]), first >= 0, first <= last, last < total else {
            return nil
        }
        self.first = first
        count = Int(last - first) + 1
    }
}

extension SnapshotCheckRequest: AdminRequest {}
