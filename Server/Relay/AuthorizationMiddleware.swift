internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// Authentication and rate limit. Every request needs a token that is known, not revoked and not expired. The
/// exceptions are health, the operator's page, the OpenAPI document, and metrics, which have their own check. Each
/// handler checks the permissions of the token. This runs before the router's own answers, so that an unauthenticated
/// client learns nothing.
struct AuthorizationMiddleware: RouterMiddleware {
    let authorizer: Authorizer
    let rate: RateLimit
    /// Whether a path serves only public information.
    let isPublic: @Sendable (_ path: String) -> Bool

    func handle(
        _ request: Request, context: RelayRequestContext, next: (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        if !isPublic(request.uri.path) {
            context.access = try await authorizer.access(for: request, from: context.address)
            try rate.take(context.rateKey)
        }
        return try await next(request, context)
    }
}

/// Maps the credential of a request to its permissions.
struct Authorizer: Sendable {
    let tokens: TokenStore
    let isOpen: Bool
    /// nil without an identity provider.
    var webTokens: WebTokenVerifier?
    /// The limit of failed requests for each address.
    var failures: RateLimit?

    /// The same, with a count of failures for each address. The token is checked before the count. So a valid token is
    /// accepted even if other clients with the same address, for example behind a proxy, fail all the time.
    ///
    /// Throws 401, or `.quota` after too many failures of the address.
    func access(for request: Request, from address: String) async throws -> RelayRequestContext.Access {
        do {
            return try await access(for: request)
        } catch let problem as ProblemResponse where problem.problem.status == Problem.Code.notAuthenticated.status {
            try failures?.take(.address(PeerNetwork.name(of: address) ?? ""))
            throw problem
        }
    }

    /// Throws 401; an open relay throws 403 if the request's host name is not one of this machine.
    func access(for request: Request) async throws -> RelayRequestContext.Access {
        if isOpen {
            try Self.requireOwnName(request.head.authority)
            return .everything
        }
        guard let secret = Self.bearer(request.headers[.authorization]) else {
            throw Self.refusal("No access token was sent", hint: "Send Authorization: Bearer TOKEN")
        }
        if let webTokens, WebTokenVerifier.looksLikeOne(secret) { return .webToken(try await Self.grant(secret, by: webTokens)) }
        switch try await tokens.verify(secret) {
        case .granted(let grant): return .token(grant)
        case .expired: throw Self.refusal("The access token has expired", hint: "Ask the relay's operator for a new one")
        case .revoked: throw Self.refusal("The access token was revoked", hint: "Ask the relay's operator for a new one")
        case .unknown:
            throw Self.refusal(
                "The relay does not know this access token", hint: "Check the token, or ask the relay's operator for a new one")
        }
    }

    /// Protects an open relay against DNS rebinding: a web page can make its own name resolve to this machine and then
    /// send requests that no other origin may send. The host name of such a request is not one of this machine.
    private static func requireOwnName(_ authority: String?) throws {
        guard let authority else { return }
        let name = authority.hasPrefix("[") ? authority.dropFirst().prefix { $0 != "]" } : authority.prefix { $0 != ":" }
        guard !ListenAddress(host: String(name), port: 0).isLoopback else { return }
        throw ProblemResponse(
            .notPermitted, detail: "This relay serves only its own machine, under the names 127.0.0.1, ::1 and localhost",
            hint: "Use one of these names, or create tokens and run the relay without --no-auth")
    }

    private static func grant(_ secret: String, by webTokens: WebTokenVerifier) async throws -> WebTokenGrant {
        do throws(WebTokenRefusal) {
            return try await webTokens.verify(secret)
        } catch {
            switch error {
            case .keysAway(let seconds): throw ProblemResponse.unavailable(error.description, retryAfterSeconds: seconds)
            case .expired: throw Self.refusal(error.description, hint: "Get a new one from the identity provider")
            default: throw Self.refusal(error.description, hint: "Check the token, or ask the operator of the identity provider")
            }
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
