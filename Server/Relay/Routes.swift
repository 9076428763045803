internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// The relay's paths and their handlers.
enum Routes {
    typealias Handler = @Sendable (Request, RelayRequestContext) async throws -> Response

    /// Paths with their handlers; variable parts are written `:name`.
    typealias Table = [(String, [(HTTPRequest.Method, Handler)])]

    /// - Parameter identities: the TLS identities, for the expiry in the metrics; nil without TLS.
    static func responder(
        log: RelayLog, configuration: RelayConfiguration, webTokens: WebTokenVerifier? = nil, metrics: RelayMetrics = RelayMetrics(),
        scrapeToken: ScrapeToken? = nil, identities: TLSIdentities? = nil
    ) -> RelayResponder {
        let limits = configuration.limits
        let failures = RateLimit(
            .failedLogins, perSecond: Double(limits.failedLoginsPerMinute) / 60, burst: limits.failedLoginsPerMinute, clock: log.clock)
        let authorizer = Authorizer(
            tokens: log.tokens, isOpen: configuration.noAuthorization, webTokens: webTokens, failures: failures)
        let readiness = Readiness(log: log)
        func newSpaces(anHour: Int) -> RateLimit {
            RateLimit(.newSpaces, perSecond: Double(anHour) / 3600, burst: anHour, clock: log.clock)
        }
        let spaces = SpaceRoutes(
            log: log, readiness: readiness, rate: newSpaces(anHour: limits.newSpacesPerHour),
            addressRate: newSpaces(anHour: limits.newSpacesPerHourOfAddress))
        let silence = (configuration.purge ?? PurgeRules()).silence
        let readings = Readings(log: log, readiness: readiness, identities: identities, silence: silence)
        let told = MetricsRoutes(metrics: metrics, readings: readings, authorizer: authorizer, token: scrapeToken)
        let closed = closed(log: log, limits: limits, authorizer: authorizer, spaces: spaces, metrics: metrics)
        let open = open(spaces: spaces, told: told, isOpen: configuration.noAuthorization)
        let routes = closed + open

        var table = RouteTable()
        for (path, handlers) in routes {
            let methods = handlers.map(\.0)
            table.add(path, methods + (methods.contains(.get) && !methods.contains(.head) ? [.head] : []))
        }
        let router = Router(context: RelayRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware(routes: table, metrics: metrics, proxies: configuration.trustedProxies))
        let publicPaths = Set(open.map(\.0))
        let middleware = AuthorizationMiddleware(authorizer: authorizer, rate: RateLimit(limits: limits, clock: log.clock)) {
            path in
            // The router also ignores a slash at the end.
            publicPaths.contains(path.hasSuffix("/") ? String(path.dropLast()) : path)
        }
        router.add(middleware: middleware)
        for (path, handlers) in routes {
            for (method, handler) in handlers { router.on(RouterPath(path), method: method, use: handler) }
        }
        return RelayResponder(router: router.buildResponder())
    }

    /// Routes without a token check in the middleware: they serve only public information, or check tokens themselves,
    /// like the metrics.
    static func open(spaces: SpaceRoutes, told: MetricsRoutes, isOpen: Bool) -> Table {
        let others: Table = [
            (Endpoints.live, [(.get, { spaces.live($0, $1) })]),
            (Endpoints.ready, [(.get, { try await spaces.ready($0, $1) })]),
            (Endpoints.metrics, [(.get, { try await told.metrics($0, $1) })]),
            (Endpoints.openAPI, [(.get, { request, _ in OpenAPIDocument.answer(request) })]),
        ]
        return PageFile.routes(isOpen: isOpen) + others
    }

    /// Routes that need a token; each handler checks its permissions.
    static func closed(
        log: RelayLog, limits: RelayLimits, authorizer: Authorizer, spaces: SpaceRoutes, metrics: RelayMetrics
    ) -> Table {
        let bodies = BodyReader(budget: limits.bodyBytesInFlight, percents: limits.log.shares)
        let waits = Shares(.waits, total: limits.log.waiters, percents: limits.log.shares, retryAfterSeconds: 5)
        let entries = LogRoutes(log: log, limits: limits, bodies: bodies, waits: waits, metrics: metrics)
        let events = EventRoutes(log: log, limits: limits, authorizer: authorizer, waits: waits, metrics: metrics)
        let snapshots = SnapshotRoutes(log: log, limits: limits, bodies: bodies, metrics: metrics)

        let operators = AdminSpaceRoutes(log: log, bodies: bodies)
        let admin = AdminRoutes(log: log, bodies: bodies)
        let reports = ReportRoutes(log: log, bodies: bodies)

        let space = "\(Endpoints.spaces)/:space"
        let tokens = "\(Endpoints.admin)/\(Endpoints.AdminAction.tokens)"
        return [
            (
                space,
                [
                    (.get, { try await spaces.describe($0, $1) }), (.put, { try await spaces.create($0, $1) }),
                    (.delete, { try await operators.delete($0, $1) }),
                ]
            ),
            ("\(space)/\(Endpoints.Action.push)", [(.post, { try await entries.push($0, $1) })]),
            (
                "\(space)/\(Endpoints.Action.entries)",
                [(.get, { try await entries.entries($0, $1) }), (.head, { try await entries.checkEntries($0, $1) })]
            ),
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
            (
                "\(space)/\(Endpoints.Action.replicas)/:replica/\(Endpoints.Action.release)",
                [(.post, { try await operators.release($0, $1) })]
            ),
            ("\(space)/\(Endpoints.Action.pushes)", [(.get, { try await operators.pushes($0, $1) })]),
            (
                "\(space)/\(Endpoints.Action.reports)",
                [(.get, { try await reports.list($0, $1) }), (.post, { try await reports.report($0, $1) })]
            ),
            ("\(space)/\(Endpoints.Action.snapshot)/\(Endpoints.Action.checks)", [(.post, { try await snapshots.check($0, $1) })]),
            ("\(space)/\(Endpoints.Action.purge)", [(.post, { try await operators.purge($0, $1) })]),
            ("\(Endpoints.admin)/\(Endpoints.AdminAction.access)", [(.get, { try await admin.access($0, $1) })]),
            (tokens, [(.get, { try await admin.tokens($0, $1) }), (.post, { try await admin.makeToken($0, $1) })]),
            ("\(tokens)/:token", [(.delete, { try await admin.revokeToken($0, $1) })]),
            ("\(Endpoints.admin)/\(Endpoints.AdminAction.audit)", [(.get, { try await admin.audit($0, $1) })]),
        ]
    }
}
