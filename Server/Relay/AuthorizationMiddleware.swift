internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// Who asks? Everything but health, and metrics, which see to it themselves, needs a token that is known, not revoked and not expired; what it allows is judged
/// by each handler. Comes before routing's own answers, so that a stranger learns nothing.
struct AuthorizationMiddleware: RouterMiddleware {
    let authorizer: Authorizer

    func handle(
        _ request: Request, context: RelayRequestContext, next: (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        if ![Endpoints.live, Endpoints.ready, Endpoints.metrics].contains(request.uri.path) {
            context.access = try await authorizer.access(for: request)
        }
        return try await next(request, context)
    }
}

/// Turns a request's credential into what it allows.
struct Authorizer: Sendable {
    let tokens: TokenStore
    let isOpen: Bool

    /// Throws 401.
    func access(for request: Request) async throws -> RelayRequestContext.Access {
        if isOpen { return .everything }
        guard let secret = Self.bearer(request.headers[.authorization]) else {
            throw Self.refusal("No token was sent", hint: "Send Authorization: Bearer TOKEN")
        }
        switch try await tokens.verify(secret) {
        case .granted(let grant): return .token(grant)
        case .expired: throw Self.refusal("The token has expired", hint: "Ask the relay's operator for a new one")
        case .unknown: throw Self.refusal("The token is not known here", hint: "Check it, or ask the relay's operator for one")
        }
    }

    static func bearer(_ header: String?) -> String? {
        guard let header else { return nil }
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        let secret = parts[1].drop { $0 == " " }
        return secret.isEmpty ? nil : String(secret)
    }

    private static func refusal(_ detail: String, hint: String) -> ProblemResponse {
        ProblemResponse(.notAuthenticated, detail: detail, hint: hint, headers: [.wwwAuthenticate: "Bearer"])
    }
}
