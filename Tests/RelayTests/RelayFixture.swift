import AnnalsCore
import AnnalsWire
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// The relay's routes over a log of their own, called without a network.
struct RelayFixture {
    let directory: TemporaryDirectory
    let log: RelayLog
    var configuration: RelayConfiguration

    init(noAuthorization: Bool = true, limits: RelayLimits = RelayLimits()) throws {
        directory = try TemporaryDirectory()
        log = try RelayLog(directory: directory.path, limits: limits.log, logger: .silent)
        configuration = RelayConfiguration(dataDirectory: directory.path, noAuthorization: noAuthorization, limits: limits)
    }

    func run(_ body: @escaping @Sendable (RelayClient) async throws -> Void) async throws {
        let application = Application(responder: Routes.responder(log: log, configuration: configuration), logger: .silent)
        try await application.test(.router) { client in try await body(RelayClient(client: client)) }
    }
}

/// Requests as an agent sends them.
struct RelayClient: Sendable {
    let client: any TestClientProtocol
    var token: String?

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
        return try await client.execute(uri: path, method: method, headers: headers, body: body.map { ByteBuffer(bytes: $0) })
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

    func upload(_ content: [UInt8], position: Int64, digest: Digest? = nil, space: SpaceName = .shop) async throws -> TestResponse {
        try await send(
            .put, Endpoints.snapshot(space) + "?position=\(position)",
            headers: [
                .contentType: Endpoints.MediaType.snapshot, .digest: (digest ?? .sha256(content[...])).description,
            ], body: content)
    }
}

extension TestResponse {
    var bytes: [UInt8] { Array(body.readableBytesView) }

    func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONDecoder().decode(type, from: Data(bytes))
    }

    /// Expects a problem of this kind, in every respect that clients rely on.
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
