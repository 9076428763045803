internal import AnnalsCore
internal import AnnalsWire
internal import CoreMetrics
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// The stream of a space's head, for those who want to know at once.
///
/// A stream costs one waiter and one task, 21 KB with its connection when 5,000 were open (39 over TLS). It is not tied to its
/// connection's end, which would cost 13 KB more: a lost connection shows at the next write, which the heartbeat brings.
struct EventRoutes: Sendable {
    let log: RelayLog
    let limits: RelayLimits
    let authorizer: Authorizer
    let metrics: RelayMetrics
    let streams: Shares
    /// Of waiting pulls and event streams together.
    let waits: Shares

    init(log: RelayLog, limits: RelayLimits, authorizer: Authorizer, waits: Shares, metrics: RelayMetrics) {
        self.log = log
        self.limits = limits
        self.authorizer = authorizer
        self.metrics = metrics
        self.waits = waits
        streams = Shares(
            .eventStreams, total: limits.eventStreams, percents: limits.log.shares, retryAfterSeconds: limits.heartbeatSeconds)
    }

    /// GET /v1/spaces/{space}/events: `event: head` whenever the log grows, beginning with the head as it is unless
    /// Last-Event-ID says that the reader has seen it. What names another head, one beyond it, another log's or nothing at all
    /// is answered with the head as it is: a reader may have missed something, and is never left waiting for what it has not seen.
    func events(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .read)
        try await log.require(space, seen: request.seen())
        let description = try await log.describe(space)
        let seen = HeadStream.seen(request.headers[.lastEventID], lineage: description.lineage)
        // They count from the request on until the stream's writer is gone.
        let leases = [try streams.lease(by: context.taker(space)), try waits.lease(by: context.taker(space))]
        let stream = HeadStream(
            log: log, space: space, lineage: description.lineage, head: description.head, seen: seen,
            heartbeat: .seconds(limits.heartbeatSeconds), expires: context.access.expires
        ) { [authorizer] in
            // A token revoked or expired meanwhile ends the stream.
            (try? await authorizer.access(for: request).allows(.read, in: space)) ?? false
        }
        return Response(
            status: .ok,
            headers: [.contentType: Endpoints.MediaType.events, .cacheControl: "no-store", .accelBuffering: "no"],
            body: .init { [metrics] writer in
                metrics.eventStreams.increment()
                defer { withExtendedLifetime(leases) { metrics.eventStreams.decrement() } }
                try await stream.write(to: &writer)
                try await writer.finish(nil)
            })
    }
}

/// One reader's stream.
struct HeadStream: Sendable {
    let log: RelayLog
    let space: SpaceName
    let lineage: Lineage
    /// The head when the stream was asked for.
    let head: Position
    /// The head that the reader has seen before.
    let seen: Position?
    let heartbeat: Duration
    /// When the reader's token ends by itself, in milliseconds since 1970.
    let expires: Int64?
    let isAllowed: @Sendable () async -> Bool

    init(
        log: RelayLog, space: SpaceName, lineage: Lineage, head: Position, seen: Position?, heartbeat: Duration,
        expires: Int64? = nil, isAllowed: @escaping @Sendable () async -> Bool
    ) {
        self.log = log
        self.space = space
        self.lineage = lineage
        self.head = head
        self.seen = seen
        self.heartbeat = heartbeat
        self.expires = expires
        self.isAllowed = isAllowed
    }

    /// Writes until the relay stops, the reader may no longer read, or its connection fails.
    func write(to writer: inout any ResponseBodyWriter) async throws {
        // Something is written at once, so that the reader has its answer's head.
        try await writer.write(seen == head ? Self.comment : event(head))
        var told = head
        var checked = ContinuousClock.now
        do {
            while true {
                let now = try await log.head(of: space, after: told, known: told, wait: wait)
                // The space was deleted.
                guard now >= told else { return }
                // Once a heartbeat, also where there is something to tell all the while; the token's end is known without asking.
                if now == told || hasExpired || ContinuousClock.now - checked >= heartbeat {
                    guard !hasExpired, await isAllowed() else { return }
                    checked = .now
                }
                if now > told {
                    try await writer.write(event(now))
                    told = now
                } else {
                    try await writer.write(Self.comment)
                }
            }
        } catch RelayLogError.closing {
            return
        }
    }

    private var hasExpired: Bool { expires.map { $0 <= RelayClock.system.wall() } ?? false }

    /// Until the heartbeat, or the token's end.
    private var wait: Duration {
        guard let expires else { return heartbeat }
        return min(heartbeat, .milliseconds(max(0, expires - RelayClock.system.wall())))
    }

    /// What a reader saw last of this log: `HEAD/LINEAGE`, or a bare head as relays once wrote it. nil where it is of another log.
    static func seen(_ lastEventID: String?, lineage: Lineage) -> Position? {
        let parts = lastEventID?.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false) ?? []
        guard let head = parts.first.flatMap({ Int64($0) }) else { return nil }
        return parts.count == 1 || Lineage(String(parts[1])) == lineage ? Position(head) : nil
    }

    private static let comment = ByteBuffer(string: ": \n\n")

    private func event(_ head: Position) -> ByteBuffer {
        var buffer = ByteBuffer(string: "event: \(HeadEvent.name)\nid: \(head)/\(lineage)\ndata: ")
        var data = JSONBody.encode(HeadEvent(head: head, lineage: lineage))
        buffer.writeBuffer(&data)
        buffer.writeString("\n\n")
        return buffer
    }
}
