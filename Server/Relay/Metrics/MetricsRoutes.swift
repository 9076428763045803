internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// GET /metrics, for Prometheus.
struct MetricsRoutes: Sendable {
    let metrics: RelayMetrics
    let readings: Readings
    let authorizer: Authorizer
    /// nil: only an operator's token is accepted.
    let token: ScrapeToken?

    static let mediaType = "text/plain; version=0.0.4; charset=utf-8"

    /// Requires the metrics token, or admin permission for all spaces.
    func metrics(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        try await require(request, context)
        let text = metrics.exporter.text(with: await readings.samples())
        return Response(
            status: .ok, headers: [.contentType: Self.mediaType, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: text)))
    }

    private func require(_ request: Request, _ context: RelayRequestContext) async throws {
        if let token, let secret = Authorizer.bearer(request.headers[.authorization]), token.matches(secret) { return }
        guard try await access(for: request, from: context.address).isOperator else {
            throw ProblemResponse(
                .notPermitted, detail: "Metrics need a token with the scope admin for all spaces, or the metrics token",
                hint: "Ask the relay's operator for a token")
        }
    }

    /// The sender's permissions, with a time limit, because an operator's token needs a lookup in the storage.
    private func access(for request: Request, from address: String) async throws -> RelayRequestContext.Access {
        guard !authorizer.isOpen else { return try await authorizer.access(for: request) }
        do {
            return try await readings.log.answerInTime { try await authorizer.access(for: request, from: address) }
        } catch RelayLogError.storage {
            throw ProblemResponse.unavailable("The storage does not answer", retryAfterSeconds: 5)
        }
    }
}

extension RelayRequestContext.Access {
    /// Whether the sender can administer the whole relay.
    var isOperator: Bool {
        switch self {
        case .everything: true
        case .token(let grant): grant.space == nil && grant.scope == .admin
        case .webToken(let grant): grant.everywhere == .admin
        case .none: false
        }
    }
}
