internal import AnnalsCore
internal import AnnalsWire
internal import CoreMetrics
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// The stream of a space's head, for clients that follow it without delay.
///
/// A stream costs one waiter and one task: 21 to 22 KB with its connection, measured with 5,000 streams (39 KB over TLS). It
/// does not watch for the end of its connection, which would cost 13 KB more: the next write, at the latest the
/// heartbeat, detects a lost connection.
struct EventRoutes: Sendable {
    let log: RelayLog
    let limits: RelayLimits
    let authorizer: Authorizer
    let metrics: RelayMetrics
    let streams: Shares
    /// Shared by waiting pulls and event streams.
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

    /// GET /v1/spaces/{space}/events: `event: head` whenever the log grows. The stream begins with the current head,
    /// unless Last-Event-ID shows that the reader has seen it. If Last-Event-ID is missing, or names another head, a
    /// later head or another log, the current head is sent: the reader may have missed something.
    func events(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .read)
        try await log.require(space, seen: request.seen())
        let description = try await log.describe(space)
        let seen = HeadStream.seen(request.headers[.lastEventID], lineage: description.lineage)
        // Both leases are held from the request until the writer of the stream is deallocated.
        let leases = [try streams.lease(by: context.taker(space)), try waits.lease(by: context.taker(space))]
        let stream = HeadStream(
            log: log, space: space, lineage: description.lineage, head: description.head, seen: seen,
            heartbeat: .seconds(limits.heartbeatSeconds), expires: context.access.expires
        ) { [authorizer] in
            // The stream ends when its token is revoked or expires.
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

/// The stream of one reader.
struct HeadStream: Sendable {
    let log: RelayLog
    let space: SpaceName
    let lineage: Lineage
    /// The head at the time of the request.
    let head: Position
    /// The head that the reader has seen.
    let seen: Position?
    let heartbeat: Duration
    /// When the reader's token expires, in milliseconds since 1970.
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

    /// Writes until the relay stops, the reader loses its permission, or its connection fails.
    func write(to writer: inout any ResponseBodyWriter) async throws {
        // The first write sends the head of the answer at once.
        try await writer.write(seen == head ? Self.comment : event(head))
        var told = head
        var checked = ContinuousClock.now
        do {
            while true {
                let now = try await log.head(of: space, after: told, known: told, wait: wait)
                // The space was deleted.
                guard now >= told else { return }
                // The permission is checked once for each heartbeat interval, also on a busy stream. The expiry of the
                // token needs no lookup.
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

    /// The time until the next heartbeat or the expiry of the token.
    private var wait: Duration {
        guard let expires else { return heartbeat }
        return min(heartbeat, .milliseconds(max(0, expires - RelayClock.system.wall())))
    }

    /// The head that the reader saw last: `HEAD/LINEAGE`, or a bare head from an older relay. nil if it belongs to
    /// another log.
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
