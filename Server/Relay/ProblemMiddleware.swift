internal import AnnalsWire
internal import CoreMetrics
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import RelayLog

/// The outermost middleware. It finds the client's address, converts each error to problem details, adds the request's
/// id to each answer, and writes one line for each request to the log, without bodies, secrets or queries.
struct ProblemMiddleware: RouterMiddleware {
    let routes: RouteTable
    let metrics: RelayMetrics
    var proxies = TrustedProxies()

    func handle(
        _ request: Request, context: RelayRequestContext, next: (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        let start = ContinuousClock.now
        var context = context
        context.address = proxies.client(of: context.peer, forwarded: request.headers[values: .forwardedFor])
        var response: Response
        var reason: String?
        var isContradiction = false
        do {
            response = try await next(request, context)
        } catch let failure as BodyFailure {
            context.logger.info("client disconnected during a request", metadata: ["method": "\(request.method)"])
            metrics.broken.increment()
            throw failure.underlying
        } catch {
            let problem = answer(to: error, request: request, context: context)
            reason = problem.problem.code
            isContradiction = problem.isContradiction
            if let (quota, bound) = problem.quota { metrics.noteRefusal(quota, bound) }
            response = problem.response()
        }
        response.headers[.requestID] = context.requestID
        if isContradiction { metrics.contradictions.increment() }
        let level: Logger.Level = response.status.kind == .serverError ? .error : isContradiction ? .warning : .info
        note(request, response, reason, context, at: level, took: ContinuousClock.now - start)
        return response
    }

    private func answer(to error: any Error, request: Request, context: RelayRequestContext) -> ProblemResponse {
        switch error {
        case let error as ProblemResponse: return error
        case let error as WireError: return ProblemResponse(error)
        case let error as RelayLogError:
            if case .storage(let reason) = error { context.logger.error("storage failed", metadata: ["reason": "\(reason)"]) }
            if case .databaseAway(let reason) = error { context.logger.error("database away", metadata: ["reason": "\(reason)"]) }
            return ProblemResponse(error)
        case is CancellationError: return ProblemResponse(.closing)
        case let error as any HTTPResponseError where error.status == .notFound:
            let allowed = routes.methods(at: request.uri.path)
            return allowed.isEmpty ? ProblemResponse(.notFound) : .methodNotAllowed(allowed)
        case let error as any HTTPResponseError where error.status.kind == .clientError: return .badRequest(error.status.reasonPhrase)
        default:
            context.logger.error("internal error", metadata: ["error": "\(String(reflecting: type(of: error)))"])
            return ProblemResponse(.defect, hint: "The relay's log has the reason under this request's id")
        }
    }

    /// A contradiction between logs is a warning: it needs an operator, although the request is answered as it should be.
    private func note(
        _ request: Request, _ response: Response, _ reason: String?, _ context: RelayRequestContext, at level: Logger.Level, took: Duration
    ) {
        let route = context.endpointPath ?? "none"
        let mayWait = request.uri.queryParameters.get(Endpoints.Query.wait) != nil
        metrics.noteRequest(
            request.method, route: mayWait ? route + "?wait" : route, status: response.status.code, problem: reason, took: took)
        guard context.logger.logLevel <= level else { return }
        var metadata: Logger.Metadata = [
            "method": "\(request.method)", "status": "\(response.status.code)", "microseconds": "\(Int(took / .microseconds(1)))",
        ]
        metadata["route"] = context.endpointPath.map { "\($0)" }
        metadata["bytes"] = response.body.contentLength.map { "\($0)" }
        metadata["space"] = context.parameters.get("space").map { "\(LogText.of($0))" }
        metadata["code"] = reason.map { "\($0)" }
        metadata.merge(Self.sender(of: request, context)) { $1 }
        context.logger.log(level: level, "request", metadata: metadata)
    }

    /// Who sent the request: the number of the token or the subject, the replica, the address and the program. A client
    /// can name any replica and program.
    private static func sender(of request: Request, _ context: RelayRequestContext) -> Logger.Metadata {
        var metadata: Logger.Metadata = [:]
        switch context.access {
        case .none, .everything: break
        case .token(let grant): metadata["token"] = "\(grant.id)"
        case .webToken(let grant): metadata["subject"] = "\(LogText.of(grant.subject))"
        }
        if let replica = try? request.replica() { metadata["replica"] = "\(replica)" }
        if !context.address.isEmpty { metadata["peer"] = "\(context.address)" }
        if context.peer != context.address { metadata["proxy"] = "\(context.peer)" }
        metadata["program"] = request.headers[.userAgent].map { "\(LogText.of($0))" }
        return metadata
    }
}

/// The methods of each path, for the answer to other methods.
struct RouteTable: Sendable {
    private var routes: [(components: [Substring], methods: [HTTPRequest.Method])] = []

    mutating func add(_ path: String, _ methods: [HTTPRequest.Method]) {
        routes.append((path.split(separator: "/"), methods))
    }

    func methods(at path: String) -> [HTTPRequest.Method] {
        let components = path.split(separator: "/")
        return routes.first { route in
            route.components.count == components.count
                && zip(route.components, components).allSatisfy { $0.hasPrefix(":") || $0 == $1 }
        }?.methods ?? []
    }
}
