internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// The relay's addresses and what answers at each.
enum Routes {
    typealias Handler = @Sendable (Request, RelayRequestContext) async throws -> Response

    /// - Parameter identities: whose end is told; nil where the relay has no TLS.
    static func responder(
        log: RelayLog, configuration: RelayConfiguration, metrics: RelayMetrics = RelayMetrics(), scrapeToken: ScrapeToken? = nil,
        identities: TLSIdentities? = nil
    ) -> RelayResponder {
        let limits = configuration.limits
        let authorizer = Authorizer(tokens: log.tokens, isOpen: configuration.noAuthorization)
        let readiness = Readiness(log: log, configuration: configuration)
        let spaces = SpaceRoutes(log: log, readiness: readiness)
        let bodies = BodyReader(budget: limits.bodyBytesInFlight)
        let entries = LogRoutes(log: log, limits: limits, bodies: bodies, metrics: metrics)
        let events = EventRoutes(log: log, limits: limits, authorizer: authorizer, metrics: metrics)
        let snapshots = SnapshotRoutes(log: log, limits: limits, bodies: bodies, metrics: metrics)
        let silence = (configuration.purge ?? PurgeRules()).silence
        let readings = Readings(log: log, readiness: readiness, identities: identities, silence: silence)
        let told = MetricsRoutes(metrics: metrics, readings: readings, authorizer: authorizer, token: scrapeToken)

        let space = "\(Endpoints.spaces)/:space"
        let routes: [(String, [(HTTPRequest.Method, Handler)])] = [
            (Endpoints.live, [(.get, { spaces.live($0, $1) })]),
            (Endpoints.ready, [(.get, { try await spaces.ready($0, $1) })]),
            (Endpoints.metrics, [(.get, { try await told.metrics($0, $1) })]),
            (space, [(.get, { try await spaces.describe($0, $1) }), (.put, { try await spaces.create($0, $1) })]),
            ("\(space)/\(Endpoints.Action.push)", [(.post, { try await entries.push($0, $1) })]),
            ("\(space)/\(Endpoints.Action.entries)", [(.get, { try await entries.entries($0, $1) })]),
            ("\(space)/\(Endpoints.Action.events)", [(.get, { try await events.events($0, $1) })]),
            (
                "\(space)/\(Endpoints.Action.snapshot)",
                [(.get, { try await snapshots.download($0, $1) }), (.put, { try await snapshots.upload($0, $1) })]
            ),
        ]
        var table = RouteTable()
        for (path, handlers) in routes {
            let methods = handlers.map(\.0)
            table.add(path, methods + (methods.contains(.get) ? [.head] : []))
        }
        let router = Router(context: RelayRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware(routes: table, metrics: metrics))
        router.add(middleware: AuthorizationMiddleware(authorizer: authorizer))
        for (path, handlers) in routes {
            for (method, handler) in handlers { router.on(RouterPath(path), method: method, use: handler) }
        }
        return RelayResponder(router: router.buildResponder())
    }
}
