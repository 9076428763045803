import AnnalsCore
import AnnalsWire
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOEmbedded
import RelayLog
import RelayTestSupport
import Synchronization
import Testing

@testable import Relay

/// The relay's routes with a log of their own, called without a network.
struct RelayFixture {
    let directory: TemporaryDirectory
    let log: RelayLog
    var configuration: RelayConfiguration

    init(noAuthorization: Bool = true, limits: RelayLimits = RelayLimits(), clock: RelayClock = .system) throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path, limits: limits.log, clock: clock)
        configuration = RelayConfiguration(storage: .directory(directory.path), noAuthorization: noAuthorization, limits: limits)
    }

    func run(_ body: (RelayClient) async throws -> Void) async throws {
        try await body(RelayClient(responder: Routes.responder(log: log, configuration: configuration)))
    }
}

/// A complete answer.
struct TestResponse: Sendable {
    var status: HTTPResponse.Status
    var headers: HTTPFields
    var bytes: [UInt8]
}

/// Collects the bytes that a response writes.
final class BodyCollector: ResponseBodyWriter, Sendable {
    private let buffer = Mutex(ByteBuffer())

    func write(_ part: ByteBuffer) {
        buffer.withLock { _ = $0.writeImmutableBuffer(part) }
    }

    func finish(_ trailingHeaders: HTTPFields?) {}

    var bytes: [UInt8] { buffer.withLock { Array($0.readableBytesView) } }
}

/// Sends requests as an agent does.
struct RelayClient: Sendable {
    let responder: RelayResponder
    var token: String?
    var authority = "localhost"
    var logger = Logger.silent

    /// The client address of its requests; nil: unknown.
    var address: String?

    init(responder: RelayResponder) {
        self.responder = responder
    }

    func with(token: String?) -> RelayClient {
        var copy = self
        copy.token = token
        return copy
    }

    func send(
        _ method: HTTPRequest.Method, _ path: String, headers: HTTPFields = [:], body: [UInt8]? = nil
    ) async throws -> TestResponse {
        var headers = headers
        if let token { headers[.authorization] = "Bearer \(token)" }
        if let body { headers[.contentLength] = String(body.count) }
        let request = Request(
            head: HTTPRequest(method: method, scheme: "http", authority: authority, path: path, headerFields: headers),
            body: RequestBody(buffer: ByteBuffer(bytes: body ?? [])))
        let channel = NIOAsyncTestingChannel()
        if let address { channel.remoteAddress = try SocketAddress(ipAddress: address, port: 1) }
        let context = RelayRequestContext(source: ApplicationRequestContextSource(channel: channel, logger: logger))
        let response = try await responder.respond(to: request, context: context)
        let collector = BodyCollector()
        try await response.body.write(collector)
        return TestResponse(status: response.status, headers: response.headers, bytes: collector.bytes)
    }

    func create(_ space: SpaceName = .shop) async throws -> SpaceDescription {
        let response = try await send(.put, Endpoints.space(space))
        #expect(response.status == .created)
        return try response.json()
    }

    func push(_ bytes: [UInt8], to space: SpaceName = .shop, headers: HTTPFields = [:]) async throws -> TestResponse {
        var headers = headers
        headers[.contentType] = Endpoints.MediaType.batch
        return try await send(.post, Endpoints.push(space), headers: headers, body: bytes)
    }

    /// Uploads a snapshot with this content.
    func upload(_ content: [UInt8], position: Int64, digest: Digest? = nil, space: SpaceName = .shop) async throws -> TestResponse {
        try await upload(bytes: TestSnapshot.bytes(content), position: position, digest: digest, space: space)
    }

    /// Uploads these bytes as a snapshot.
    func upload(bytes content: [UInt8], position: Int64, digest: Digest? = nil, space: SpaceName = .shop) async throws -> TestResponse {
        try await send(
            .put, Endpoints.snapshot(space) + "?position=\(position)",
            headers: [
                .contentType: Endpoints.MediaType.snapshot, .digest: (digest ?? .sha256(content[...])).description,
            ], body: content)
    }
}

extension TestResponse {
    func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONDecoder().decode(type, from: Data(bytes))
    }

    /// Expects a problem of this kind, in all fields that clients use.
    @discardableResult
    func expectProblem(_ status: Int, _ code: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> Problem {
        #expect(self.status.code == status, sourceLocation: sourceLocation)
        #expect(headers[.contentType] == "application/problem+json", sourceLocation: sourceLocation)
        #expect(headers[.requestID] != nil, sourceLocation: sourceLocation)
        let problem = try json(Problem.self)
        #expect(problem.code == code, sourceLocation: sourceLocation)
        #expect(problem.status == status, sourceLocation: sourceLocation)
        #expect(!problem.title.isEmpty && problem.type == "urn:annals:problem:\(code)", sourceLocation: sourceLocation)
        return problem
    }
}

/// Collects every logged line with its metadata.
struct LogCollector: LogHandler {
    let lines: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    final class Lines: Sendable {
        private let text = Mutex("")

        var all: String { text.withLock { $0 } }

        func add(_ line: String) {
            text.withLock { $0 += line + "\n" }
        }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.add("\(event.level) \(event.message) \(metadata) \(event.metadata ?? [:])")
    }
}
