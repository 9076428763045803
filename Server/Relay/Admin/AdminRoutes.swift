internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// Tokens and the audit log. An administrator of one space sees and changes only the data of that space.
struct AdminRoutes: Sendable {
    let log: RelayLog
    let bodies: BodyReader

    /// GET /v1/admin/access: what the sender can administer.
    func access(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        var answer = AccessAnswer(space: try context.administeredSpace()?.description, time: log.clock.wall())
        if case .token(let grant) = context.access { (answer.token, answer.expires) = (grant.id, grant.expires) }
        return JSONBody.response(answer)
    }

    /// GET /v1/admin/tokens
    func tokens(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let records = try await log.tokens.list(of: try context.administeredSpace())
        return JSONBody.response(TokenList(tokens: records.map { TokenAnswer($0) }, time: log.clock.wall()))
    }

    /// POST /v1/admin/tokens: 201 with the secret, which cannot be read again.
    func makeToken(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let administered = try context.administeredSpace()
        let asked = try await bodies.object(TokenRequest.self, of: request).checked()
        guard administered == nil || asked.space == administered else {
            throw ProblemResponse(
                .notPermitted, detail: "This token can administer only one space", hint: "Name that space, or ask the relay's operator")
        }
        try log.reserve.check()
        let (secret, record) = try await log.tokens.create(
            label: asked.label, space: asked.space, scope: asked.scope, lifetimeMilliseconds: asked.lifetimeMilliseconds,
            by: context.operatorName)
        return JSONBody.response(
            TokenAnswer(record, secret: secret), status: .created,
            headers: [.location: "\(Endpoints.admin)/\(Endpoints.AdminAction.tokens)/\(record.id)"])
    }

    /// DELETE /v1/admin/tokens/{token}: 204; the relay refuses the token from now on.
    func revokeToken(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let administered = try context.administeredSpace()
        guard let id = context.parameters.get("token").flatMap({ Int64($0) }), id > 0 else {
            throw ProblemResponse.badRequest("The token in the URL is not a token number", hint: "See the list of tokens")
        }
        guard try await log.tokens.revoke(id, of: administered, by: context.operatorName) else {
            throw ProblemResponse(.notFound, detail: "There is no token \(id), or it is revoked already")
        }
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }

    /// GET /v1/admin/audit?space=NAME&before=N&limit=N: newest first.
    func audit(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let before = try request.number(Endpoints.Query.before) ?? .max
        let limit = try request.listed()
        let lines =
            switch try context.listedSpace(request) {
            case .all: try await log.audit(before: before, limit: limit)
            case .only(let space): try await log.audit(of: space, before: before, limit: limit)
            case .none: [AuditLine]()
            }
        return JSONBody.response(AuditList(lines: lines.map(AuditList.Line.init), time: log.clock.wall()))
    }
}
