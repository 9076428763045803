internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// The operator's views of spaces and actions on them. They use the same functions as the operator's commands, so each
/// rule exists once.
struct AdminSpaceRoutes: Sendable {
    let log: RelayLog
    let bodies: BodyReader

    /// GET /v1/spaces?space=NAME&after=NAME&limit=N: the spaces that the sender administers, or only the named one of
    /// them.
    func list(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let after = try request.spaceName(Endpoints.Query.after)
        let limit = try request.listed()
        let (spaces, isLast) =
            switch try context.listedSpace(request) {
            case .all: try await log.summaries(after: after, limit: limit)
            case .only(let space): try await log.summaries(only: space, after: after, limit: limit)
            case .none: ([SpaceSummary](), true)
            }
        let backup = try await context.administeredSpace() == nil ? log.lastBackup() : nil
        return JSONBody.response(
            SpaceList(spaces: spaces.map(SpaceList.Space.init), isLast: isLast, backup: backup, time: log.clock.wall()))
    }

    /// GET /v1/spaces/{space}/replicas
    func replicas(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .admin)
        let records = try await log.replicas(of: space)
        let head = try await log.describe(space).head
        return JSONBody.response(ReplicaList(head: head, replicas: records.map { .init($0, head: head) }, time: log.clock.wall()))
    }

    /// POST /v1/spaces/{space}/replicas/{replica}/retire: 204. An operator can retire any replica; a member can retire
    /// its own when it leaves.
    func retire(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .read)
        guard !context.access.allows(.admin, in: space) else { return try await change(context, log.retire) }
        let replica = try replica(context)
        guard let owner = context.access.owner?.text,
            try await log.replicas(of: space).contains(where: { $0.replica == replica && $0.credential == owner })
        else {
            throw ProblemResponse(
                .notPermitted, detail: "This needs the scope admin in the space \(space), or a replica of the sender",
                hint: "Ask the relay's operator to retire the replica")
        }
        return try await change(context, for: .read, log.retire)
    }

    /// POST /v1/spaces/{space}/replicas/{replica}/release: 204.
    func release(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        try await change(context, log.release)
    }

    /// DELETE /v1/spaces/{space}?confirm=NAME: 204; the space and all its data are deleted.
    func delete(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .admin)
        let hint = "Send DELETE with ?confirm=NAME; this deletes the log permanently"
        guard let confirmed = try request.spaceName(Endpoints.Query.confirm) else {
            throw ProblemResponse.badRequest("confirm is missing; nothing was deleted", hint: hint)
        }
        guard confirmed == space else {
            throw ProblemResponse(.notPermitted, detail: "confirm is not the space's name; nothing was deleted", hint: hint)
        }
        _ = try await log.deleteSpace(space, by: context.operatorName)
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }

    /// Runs an action on the replica in the URL.
    private func change(
        _ context: RelayRequestContext, for scope: TokenScope = .admin, _ body: (ReplicaID, SpaceName, Operator?) async throws -> Bool
    ) async throws -> Response {
        let space = try context.space(for: scope)
        guard try await body(try replica(context), space, context.operatorName) else {
            throw ProblemResponse(.notFound, detail: "The space \(space) has no such replica")
        }
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }

    private func replica(_ context: RelayRequestContext) throws -> ReplicaID {
        guard let replica = context.parameters.get("replica").flatMap({ ReplicaID($0) }) else {
            throw ProblemResponse.badRequest("The replica in the URL is not a replica id", hint: "It is a UUID")
        }
        return replica
    }

    /// GET /v1/spaces/{space}/pushes?after=N&before=N&limit=N: newest first.
    func pushes(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .admin)
        let after = try request.number(Endpoints.Query.after).map { Position($0) } ?? .zero
        let before = try request.number(Endpoints.Query.before).map { Position($0) } ?? Position(.max)
        let pushes = try await log.pushes(of: space, after: after, before: before, limit: try request.listed())
        return JSONBody.response(PushList(pushes: pushes.map(PushList.Push.init), time: log.clock.wall()))
    }

    /// POST /v1/spaces/{space}/purge: what was dropped, or would be dropped.
    func purge(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .admin)
        let asked = try await bodies.object(PurgeRequest.self, of: request)
        let dryRun = asked.dryRun ?? false
        let outcome = try await log.purge(space, try asked.checked(), commits: !dryRun, by: context.operatorName)
        return JSONBody.response(PurgeAnswer(outcome, dryRun: dryRun))
    }
}
