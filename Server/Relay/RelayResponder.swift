internal import Hummingbird

/// Answers each request in its own child task of the connection's task.
///
/// A task keeps the memory of its deepest call until it ends, and a connection's task ends with the connection. The
/// calls for an answer need a dozen kilobytes. Without the child task, an event stream or an idle connection would hold
/// them.
struct RelayResponder: HTTPResponder {
    let router: RouterResponder<RelayRequestContext>

    func respond(to request: Request, context: RelayRequestContext) async throws -> Response {
        async let response = router.respond(to: request, context: context)
        return try await response
    }
}
