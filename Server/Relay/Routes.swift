internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// The relay's addresses and what answers at each.
enum Routes {
    typealias Handler = @Sendable (Request, RelayRequestContext) async throws -> Response

    static func responder(
        log: RelayLog, configuration: RelayConfiguration, webTokens: WebTokenVerifier? = nil
    ) -> RelayResponder {
        let limits = configuration.limits
        let authorizer = Authorizer(tokens: log.tokens, isOpen: configuration.noAuthorization, webTokens: webTokens)
        let closed = closed(log: log, limits: limits, authorizer: authorizer)
        let open = open(log: log, isOpen: configuration.noAuthorization)
        let routes = closed + open

        var table = RouteTable()
        for (path, handlers) in routes {
            let methods = handlers.map(\.0)
            table.add(path, methods + (methods.contains(.get) ? [.head] : []))
        }
        let router = Router(context: RelayRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware(routes: table))
        let publicPaths = Set(open.map(\.0))
        let middleware = AuthorizationMiddleware(authorizer: authorizer, rate: RateLimit(limits: limits, clock: log.clock)) { path in
            // To the router a slash at the end makes no difference either.
            publicPaths.contains(path.hasSuffix("/") ? String(path.dropLast()) : path)
        }
        router.add(middleware: middleware)
        for (path, handlers) in routes {
            for (method, handler) in handlers { router.on(RouterPath(path), method: method, use: handler) }
        }
        return RelayResponder(router: router.buildResponder())
    }

    /// Paths, with `:name` for what varies, and what answers there.
    typealias Table = [(String, [(HTTPRequest.Method, Handler)])]

    /// What needs no token, and says nothing that everybody may not know.
    static func open(log: RelayLog, isOpen: Bool) -> Table {
        let spaces = SpaceRoutes(log: log)
        let others: Table = [
            (Endpoints.live, [(.get, { spaces.live($0, $1) })]),
            (Endpoints.ready, [(.get, { try await spaces.ready($0, $1) })]),
            (Endpoints.openAPI, [(.get, { request, _ in OpenAPIDocument.answer(request) })]),
        ]
        return PageFile.routes(isOpen: isOpen) + others
    }

    /// What needs a token, which each handler judges.
    static func closed(log: RelayLog, limits: RelayLimits, authorizer: Authorizer) -> Table {
        let spaces = SpaceRoutes(log: log)
        let bodies = BodyReader(budget: limits.bodyBytesInFlight)
        let entries = LogRoutes(log: log, limits: limits, bodies: bodies)
        let events = EventRoutes(log: log, limits: limits, authorizer: authorizer)
        let snapshots = SnapshotRoutes(log: log, limits: limits, bodies: bodies)

        let operators = AdminSpaceRoutes(log: log, bodies: bodies)
        let admin = AdminRoutes(log: log, bodies: bodies)

        let space = "\(Endpoints.spaces)/:space"
        let tokens = "\(Endpoints.admin)/\(Endpoints.AdminAction.tokens)"
        return [
            (space, [(.get, { try await spaces.describe($0, $1) }), (.put, { try await spaces.create($0, $1) })]),
            ("\(space)/\(Endpoints.Action.push)", [(.post, { try await entries.push($0, $1) })]),
            ("\(space)/\(Endpoints.Action.entries)", [(.get, { try await entries.entries($0, $1) })]),
            ("\(space)/\(Endpoints.Action.events)", [(.get, { try await events.events($0, $1) })]),
            (
                "\(space)/\(Endpoints.Action.snapshot)",
                [(.get, { try await snapshots.download($0, $1) }), (.put, { try await snapshots.upload($0, $1) })]
            ),
            (Endpoints.spaces, [(.get, { try await operators.list($0, $1) })]),
            ("\(space)/\(Endpoints.Action.replicas)", [(.get, { try await operators.replicas($0, $1) })]),
            (
                "\(space)/\(Endpoints.Action.replicas)/:replica/\(Endpoints.Action.retire)",
                [(.post, { try await operators.retire($0, $1) })]
            ),
            ("\(space)/\(Endpoints.Action.pushes)", [(.get, { try await operators.pushes($0, $1) })]),
            ("\(space)/\(Endpoints.Action.purge)", [(.post, { try await operators.purge($0, $1) })]),
            ("\(Endpoints.admin)/\(Endpoints.AdminAction.access)", [(.get, { try await admin.access($0, $1) })]),
            (tokens, [(.get, { try await admin.tokens($0, $1) }), (.post, { try await admin.makeToken($0, $1) })]),
            ("\(tokens)/:token", [(.delete, { try await admin.revokeToken($0, $1) })]),
            ("\(Endpoints.admin)/\(Endpoints.AdminAction.audit)", [(.get, { try await admin.audit($0, $1) })]),
        ]
    }
}
