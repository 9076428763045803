public import AnnalsCore
public import AnnalsHTTP
public import AnnalsWire
import Foundation

/// The transport to a relay over HTTP, for one space and one replica.
///
///     let transport = try HTTPRelay(address: relay, space: address.space, client: HTTPClient())
///     print(try await transport.describe().head)
public struct HTTPRelay: RelayTransport {
    /// The identity that a replica shows to the relay.
    public struct Identity: Sendable {
        /// The name that the relay shows to its operator.
        public var name: String
        /// The bearer token. It is never logged, printed or put into a URL.
        public var credential: String?
        /// Returns the current token for each request. Tokens may be valid for only a few minutes, and an agent may run
        /// longer. If this closure is nil or returns nil, `credential` is sent.
        public var renewal: (@Sendable () -> String?)?

        public init(name: String = "", credential: String? = nil, renewal: (@Sendable () -> String?)? = nil) {
            self.name = name
            self.credential = credential
            self.renewal = renewal
        }
    }

    private let address: String
    let space: SpaceName
    private let identity: Identity
    let client: HTTPClient
    /// The slowest allowed rate of bodies.
    var slowest = HTTPLimits.slowestBody
    /// Returns the free bytes in the file system of a folder. nil if they are not known.
    var freeBytes: @Sendable (_ folder: String) -> Int64? = DiskSpace.freeBytes

    /// - Parameters:
    ///   - address: the relay's base address, `http` or `https`.
    ///   - space: the space.
    ///   - identity: the identity for the relay.
    ///   - client: sends the requests.
    /// - Throws: `AnnalsError` with code `usage` if `address` is not such an address.
    public init(address: String, space: SpaceName, identity: Identity = Identity(), client: HTTPClient) throws(AnnalsError) {
        guard address.hasPrefix("http://") || address.hasPrefix("https://"), let url = URL(string: address), url.host?.isEmpty == false,
            url.user == nil, url.query == nil
        else {
            throw AnnalsError(
                .usage, operation: "connect", "\(address.isEmpty ? "an empty text" : address) is not a valid relay address",
                hint: "Use an address such as http://127.0.0.1:8640")
        }
        self.address = address.hasSuffix("/") ? String(address.dropLast()) : address
        self.space = space
        self.identity = identity
        self.client = client
    }

    public func describe() async throws(TransportError) -> SpaceDescription {
        try description(of: await send("GET", Endpoints.space(space)))
    }

    public func create() async throws(TransportError) -> SpaceDescription {
        try description(of: await send("PUT", Endpoints.space(space)))
    }

    public func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let response = try await send(
            "POST", Endpoints.push(space),
            headers: Self.headers(seen) + [("Content-Type", Endpoints.MediaType.batch)],
            body: .bytes(batch), timeout: nil)
        try expect(response, Endpoints.MediaType.answer)
        do {
            var answer = try PushAnswer.decode(response.body)
            answer.isSnapshotDue = Self.asksForSnapshot(response)
            answer.snapshotToCheck = snapshotToCheck(response)
            return answer
        } catch {
            throw .badAnswer(error)
        }
    }

    public func pull(
        after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?
    ) async throws(TransportError) -> Page {
        var query = "?\(Endpoints.Query.after)=\(position)&\(Endpoints.Query.limit)=\(byteLimit)"
        if let wait { query += "&\(Endpoints.Query.wait)=\(wait.components.seconds)" }
        var request = request(
            "GET", Endpoints.entries(space) + query, headers: Self.headers(seen), timeout: nil,
            silence: SyncLimits.silence + (wait ?? .zero))
        request.isLongPoll = wait != nil
        let response = try await answered(request)
        try expect(response, Endpoints.MediaType.page)
        do {
            var page = try Page.decode(response.body)
            page.isSnapshotDue = Self.asksForSnapshot(response)
            page.snapshotToCheck = snapshotToCheck(response)
            page.relayTime = relayTime(response)
            return page
        } catch {
            throw .badAnswer(error)
        }
    }

    public func report(_ entry: RefusedEntry) async throws(TransportError) {
        guard let digest = entry.digest else { return }
        let request = EntryReportRequest(
            position: entry.position.rawValue, digest: digest.description, rule: entry.rule.rawValue,
            table: entry.table.map { String($0.prefix(EntryReportRequest.tableCharacters)) })
        guard let body = try? JSONEncoder().encode(request) else { return }
        _ = try await send(
            "POST", Endpoints.reports(space), headers: [("Content-Type", Endpoints.MediaType.json)], body: .bytes([UInt8](body)))
    }

    public func retire(_ replica: ReplicaID) async throws(TransportError) {
        _ = try await send("POST", Endpoints.retire(replica, space), timeout: SyncLimits.farewellTimeout)
    }

    func snapshotToCheck(_ response: HTTPResponse) -> Position? {
        let words = response.headers[Endpoints.Header.snapshot]?.split(separator: " ") ?? []
        guard words.count == 2, words[0] == Endpoints.snapshotCheck else { return nil }
        return Int64(words[1]).flatMap(Position.init(fromElsewhere:))
    }

    /// The relay's clock when the answer came, in milliseconds since 1970. nil if the relay did not send a valid time.
    ///
    /// A cache says in Age for how many seconds it has had the answer. Without it, the times of work that waits here would be
    /// limited by the old time.
    func relayTime(_ response: HTTPResponse) -> Int64? {
        let limits = -WireLimits.maximumMilliseconds...WireLimits.maximumMilliseconds
        guard let time = response.headers[Endpoints.Header.time].flatMap({ Int64($0) }), limits.contains(time) else { return nil }
        let age = response.headers["Age"].flatMap { Int64($0) }.map { min(max($0, 0), SyncLimits.cachedSeconds) } ?? 0
        return min(time + age * 1000, limits.upperBound)
    }

    private static func asksForSnapshot(_ response: HTTPResponse) -> Bool {
        response.headers[Endpoints.Header.snapshot] == Endpoints.snapshotDue
    }

    static func headers(_ seen: LogMark) -> [(String, String)] {
        var headers = [(Endpoints.Header.lineage, seen.lineage.description)]
        if let value = seen.headerValue { headers.append((Endpoints.Header.seen, value)) }
        // The id comes from the store with each request. The store may have taken a new id since this transport was
        // created, or it may be a copy without an id.
        if let replica = seen.replica { headers.append((Endpoints.Header.replica, replica.description)) }
        return headers
    }

    // MARK: One request

    func send(
        _ method: String, _ path: String, headers: [(String, String)] = [], body: HTTPRequest.Body = .none,
        timeout: Duration? = SyncLimits.requestTimeout, silence: Duration = SyncLimits.silence
    ) async throws(TransportError) -> HTTPResponse {
        try await answered(request(method, path, headers: headers, body: body, timeout: timeout, silence: silence))
    }

    private func answered(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
        try accepted(
            await answer { () async throws(HTTPError) in try await client.send(request, maximumBody: SyncLimits.answerBytes) })
    }

    func answer(_ exchange: () async throws(HTTPError) -> HTTPResponse) async throws(TransportError) -> HTTPResponse {
        do {
            return try await exchange()
        } catch {
            throw Self.translate(error)
        }
    }

    func request(
        _ method: String, _ path: String, headers: [(String, String)] = [], body: HTTPRequest.Body = .none, timeout: Duration?,
        silence: Duration = HTTPLimits.stallTimeout
    ) -> HTTPRequest {
        var all = headers.map { (name: $0.0, value: $0.1) }
        all.append(("User-Agent", ProgramVersion.userAgent))
        if !identity.name.isEmpty {
            let name = identity.name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            all.append((Endpoints.Header.name, name))
        }
        if let credential = identity.renewal?() ?? identity.credential { all.append(("Authorization", "Bearer \(credential)")) }
        return HTTPRequest(
            method, url: address + path, headers: all, body: body, timeout: timeout, stallTimeout: silence, slowest: slowest)
    }

    func accepted(_ response: HTTPResponse) throws(TransportError) -> HTTPResponse {
        if (200..<300).contains(response.status) { return response }
        guard response.headers.mediaType == Endpoints.MediaType.problem,
            var problem = try? JSONDecoder().decode(Problem.self, from: Data(response.body))
        else {
            if response.status == 429 || response.status >= 500 {
                var failure = Problem(.unavailable, detail: "the address answered with status \(response.status)")
                failure.requestID = Self.requestID(response)
                throw .problem(failure, retryAfter: retryAfter(response))
            }
            guard !Self.redirections.contains(response.status) else {
                throw .notARelay("it redirects to another address, and Annals does not follow redirects")
            }
            throw .notARelay("it answered with status \(response.status)")
        }
        problem.requestID = Self.requestID(response)
        throw .problem(problem, retryAfter: retryAfter(response))
    }

    /// The id of the request in the relay's log. It is printed, so only short plain text is accepted.
    private static func requestID(_ response: HTTPResponse) -> String? {
        guard let id = response.headers["X-Request-ID"], (1...64).contains(id.utf8.count) else { return nil }
        let isPlain = id.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                true
            default: false
            }
        }
        return isPlain ? id : nil
    }

    private static let redirections: Set<Int> = [301, 302, 303, 307, 308]

    func retryAfter(_ response: HTTPResponse) -> Duration? {
        response.headers["Retry-After"].flatMap { Int($0) }.map { .seconds(min(max($0, 0), 300)) }
    }

    func expect(_ response: HTTPResponse, _ type: String) throws(TransportError) {
        guard response.headers.mediaType == type else {
            throw .notARelay("it answered with \(response.headers.mediaType ?? "no media type")")
        }
    }

    private func description(of response: HTTPResponse) throws(TransportError) -> SpaceDescription {
        try expect(response, Endpoints.MediaType.json)
        guard let description = try? JSONDecoder().decode(SpaceDescription.self, from: Data(response.body)) else {
            throw .notARelay("its description of the space cannot be read")
        }
        return description
    }

    static func translate(_ error: HTTPError) -> TransportError {
        if let problem = error.certificate { return .untrusted(error.message, problem) }
        return switch error.kind {
        case .cancelled: .cancelled
        case .protocolError: .notARelay(error.message)
        case .tooLarge: .notARelay(error.message)
        case .timeout, .stalled: .unanswered(error.message)
        case .localFile: .localFile(error.message, isDiskFull: error.systemError == ENOSPC)
        default: .unreachable(error.message, wasSent: error.wasSent)
        }
    }
}
