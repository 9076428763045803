internal import Hummingbird

/// Answers each request in a task of its own within the connection's.
///
/// A task keeps the memory that its deepest call needed for as long as it lives, and a connection's task lives as long
/// as the connection. The calls that lead to an answer take a dozen kilobytes of it; an event stream or an idle
/// connection then would hold them for nothing.
struct RelayResponder: HTTPResponder {
    let router: RouterResponder<RelayRequestContext>

    func respond(to request: Request, context: RelayRequestContext) async throws -> Response {
        async let response = router.respond(to: request, context: context)
        return try await response
    }
}
