internal import AnnalsCore
internal import AnnalsWire
internal import CoreMetrics
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import RelayLog

/// Pushing batches and pulling the log.
struct LogRoutes: Sendable {
    let log: RelayLog
    let limits: RelayLimits
    let bodies: BodyReader
    /// Shared by waiting pulls and event streams.
    let waits: Shares
    let metrics: RelayMetrics
    private let parsing = BatchParsing()

    init(log: RelayLog, limits: RelayLimits, bodies: BodyReader, waits: Shares, metrics: RelayMetrics) {
        self.log = log
        self.limits = limits
        self.bodies = bodies
        self.waits = waits
        self.metrics = metrics
    }

    /// POST /v1/spaces/{space}/push: a `PushAnswer`, definite or *wait*; a problem is no answer to the push.
    func push(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .write)
        try request.requireContentType(Endpoints.MediaType.batch)
        return try await bodies.withBody(of: request, limit: limits.batch.batchBytes, by: context.taker(space)) { batch in
            let arrival = log.clock.monotonic()
            let header = try await parsing.header(of: batch, limits: limits.batch)
            let answer = try await log.push(
                batch, header: header, to: space, as: request.replicaName, program: request.program, by: context.access.owner,
                seen: request.mark())
            metrics.notePush(answer.outcome.word, transactions: answer.positions.count)
            if !answer.positions.isEmpty { metrics.commits.recordMilliseconds(log.clock.monotonic() - arrival) }
            noteContradiction(answer.outcome, by: header.replica, in: space, context)
            var headers = Self.headers(Endpoints.MediaType.answer)
            if let task = Self.snapshotTask(isDue: answer.isSnapshotDue, toCheck: answer.snapshotToCheck) { headers[.snapshot] = task }
            return Response(status: .ok, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: try Self.bytes(of: answer))))
        }
    }

    /// An operator must learn that the relay or a replica was restored from a backup, or that two programs write as one replica.
    private func noteContradiction(
        _ outcome: PushAnswer.Outcome, by replica: ReplicaID, in space: SpaceName, _ context: RelayRequestContext
    ) {
        switch outcome {
        case .logRolledBack, .gap, .identityConflict:
            context.logger.warning(
                "a replica and this relay have different logs",
                metadata: ["space": "\(space)", "replica": "\(replica)", "outcome": "\(outcome.word)"])
        default: break
        }
    }

    /// A failure to encode an answer is a bug of the relay, so it is no problem of the batch.
    private static func bytes(of answer: PushAnswer) throws -> [UInt8] {
        do {
            return try answer.encode()
        } catch {
            throw RelayLogError.storage("an answer cannot be encoded: \(error)")
        }
    }

    /// GET /v1/spaces/{space}/entries?after=N&limit=BYTES&wait=SECONDS: a `Page`, or 304 if the sender has it already.
    func entries(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let pull = try Pull(request, context, limits)
        if request.headers[.ifNoneMatch] != nil, let response = try await unmodified(request, pull, context) { return response }
        let lease = pull.waitSeconds > 0 ? try waits.lease(by: context.taker(pull.space)) : nil
        let arrival = log.clock.wall()
        defer { withExtendedLifetime(lease) {} }
        let (page, outline) = try await log.pullOutlined(
            from: pull.space, after: pull.after, byteLimit: pull.limit, seen: pull.seen, wait: .seconds(pull.waitSeconds),
            by: pull.mayWrite ? context.access.owner : nil)
        if !page.frames.isEmpty { metrics.pulledPages.increment() }
        if let delay = Self.delay(of: page, since: arrival, now: log.clock.wall()) { metrics.deliveries.recordMilliseconds(delay) }
        note(pull, request, context)
        var headers = PageCaching.headers(of: outline)
        if let task = Self.snapshotTask(isDue: page.isSnapshotDue, toCheck: page.snapshotToCheck) { headers[.snapshot] = task }
        return Response(status: .ok, headers: headers, body: Self.body(of: page))
    }

    /// HEAD /v1/spaces/{space}/entries: the status and the headers of the page that a pull would get now. A proxy asks this
    /// before it sends a page from its cache. It reads no batches and does not wait, and it acknowledges what a pull does.
    func checkEntries(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let pull = try Pull(request, context, limits)
        if let response = try await unmodified(request, pull, context) { return response }
        let outline = try await log.outline(of: pull.space, after: pull.after, byteLimit: pull.limit, seen: pull.seen)
        note(pull, request, context)
        var headers = PageCaching.headers(of: outline)
        headers[.contentLength] = String(outline.byteCount)
        return Response(status: .ok, headers: headers)
    }

    /// 304 if the condition of the request says that the sender has the page already; otherwise nil.
    private func unmodified(_ request: Request, _ pull: Pull, _ context: RelayRequestContext) async throws -> Response? {
        guard let condition = request.headers[.ifNoneMatch].map(IfNoneMatch.init) else { return nil }
        let outline = try await log.outline(of: pull.space, after: pull.after, byteLimit: pull.limit, seen: pull.seen)
        guard condition.holds(PageCaching.tag(of: outline)) else { return nil }
        note(pull, request, context)
        var headers = PageCaching.headers(of: outline)
        headers[.contentType] = nil
        headers[.contentLength] = String(outline.byteCount)
        return Response(status: .notModified, headers: headers)
    }

    /// How long ago the relay received the first transaction of a page, in milliseconds; nil if a pull that arrived at `arrival` did not wait
    /// for it. Another relay of the same database may have received it by its own clock.
    static func delay(of page: Page, since arrival: Int64, now: Int64) -> Int64? {
        guard let first = page.frames.first, first.receivedAt > arrival else { return nil }
        return max(0, now - first.receivedAt)
    }

    /// A pull after a position acknowledges everything up to there.
    private func note(_ pull: Pull, _ request: Request, _ context: RelayRequestContext) {
        guard let replica = pull.replica else { return }
        log.note(
            replica, named: request.replicaName, program: request.program, at: pull.after, in: pull.space, by: context.access.owner,
            mayWrite: pull.mayWrite)
    }

    /// What a request for a page asks for.
    private struct Pull {
        var space: SpaceName
        var after: Position
        /// In bytes of batches.
        var limit: Int
        var waitSeconds: Int64
        var replica: ReplicaID?
        /// A sender without write permission cannot upload a snapshot, so it gets no request for one.
        var mayWrite: Bool
        var seen: LogMark?

        init(_ request: Request, _ context: RelayRequestContext, _ limits: RelayLimits) throws {
            space = try context.space(for: .read)
            guard let after = try request.number(Endpoints.Query.after).map({ Position($0) }) else {
                throw ProblemResponse.badRequest("after is missing", hint: "Send the position to pull after; 0 is the beginning")
            }
            self.after = after
            limit = try request.number(Endpoints.Query.limit).map { Int(min($0, Int64(limits.pageBytes))) } ?? WireLimits.pageTargetBytes
            waitSeconds = try request.number(Endpoints.Query.wait).map { min($0, Int64(limits.waitSeconds)) } ?? 0
            replica = try request.replica()
            mayWrite = context.access.allows(.write, in: space)
            seen = try mayWrite ? request.mark() : request.seen()
        }
    }

    /// Sends the batches in pieces as the client reads them, without a copy of the whole page.
    private static func body(of page: Page) -> ResponseBody {
        let head = page.encodeHead()
        let length = page.frames.reduce(head.count) { $0 + $1.batch.count }
        return ResponseBody(contentLength: length) { writer in
            try await writer.write(ByteBuffer(bytes: head))
            for frame in page.frames {
                for start in stride(from: 0, to: frame.batch.count, by: RelayLimits.pagePieceBytes) {
                    let end = min(start + RelayLimits.pagePieceBytes, frame.batch.count)
                    try await writer.write(ByteBuffer(bytes: frame.batch[start..<end]))
                }
            }
            try await writer.finish(nil)
        }
    }

    /// The snapshot job for the replica in the answer's header.
    private static func snapshotTask(isDue: Bool, toCheck position: Position?) -> String? {
        isDue ? Endpoints.snapshotDue : position.map { "\(Endpoints.snapshotCheck) \($0)" }
    }

    private static func headers(_ type: String) -> HTTPFields {
        [.contentType: type, .cacheControl: "no-store"]
    }
}

extension PushAnswer.Outcome {
    /// The label in the metrics.
    var word: String {
        switch self {
        case .accepted: "accepted"
        case .stale: "stale"
        case .identityConflict: "identity-conflict"
        case .gap: "gap"
        case .logRolledBack: "log-rolled-back"
        case .wait: "wait"
        case .partsMissing: "parts-missing"
        }
    }

    /// The labels of all outcomes.
    static let words = [Self.accepted, .stale(at: nil), .identityConflict, .gap, .logRolledBack, .wait(milliseconds: 0), .partsMissing].map(
        \.word)
}
