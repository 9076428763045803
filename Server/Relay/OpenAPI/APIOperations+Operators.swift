internal import AnnalsWire
internal import HTTPTypes

extension APIOperations {
    /// The operators' views of spaces and actions on them.
    static let operators = [
        APIOperation(
            method: .get, path: Endpoints.spaces, id: "listSpaces", tag: .operators, summary: "List spaces",
            description: "The spaces that the token administers, by name.", scope: "admin",
            parameters: [
                Components.query(Endpoints.Query.space, Components.spaceName, "Only this space, if it exists"),
                Components.query(Endpoints.Query.after, Components.spaceName, "Only spaces with names after this one"),
                Components.listed,
            ], answers: [answer("The spaces, with their sizes and growth", "SpaceList")]),
        APIOperation(
            method: .delete, path: space, id: "deleteSpace", tag: .operators, summary: "Delete a space permanently",
            description: "Deletes its log, snapshots and replicas; its tokens remain.", scope: "admin",
            parameters: [Components.query(Endpoints.Query.confirm, Components.spaceName, "The space's name again", required: true)],
            answers: [.init(status: 204, description: "The space is deleted", headers: ["Cache-Control"])], problems: [.spaceNotFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.replicas)", id: "listReplicas", tag: .operators,
            summary: "List a space's replicas", scope: "admin",
            answers: [answer("The replicas, with their positions and when each was last seen", "ReplicaList")], problems: [.spaceNotFound]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.replicas)/{replica}/\(Endpoints.Action.retire)", id: "retireReplica",
            tag: .operators, summary: "Retire a replica, so that it holds back no purge",
            description: """
                If it returns, it loads the newest snapshot, rebases its outbox on it, and is live again. If the sender's token pushed \
                as this replica, the scope read is enough.
                """, scope: "admin",
            answers: [.init(status: 204, description: "It is retired", headers: ["Cache-Control"])], problems: [.spaceNotFound, .notFound]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.replicas)/{replica}/\(Endpoints.Action.release)", id: "releaseReplica",
            tag: .operators, summary: "Release a replica, so that it can continue with another token",
            description: "The next token that pushes as this replica owns it.", scope: "admin",
            answers: [.init(status: 204, description: "Released", headers: ["Cache-Control"])], problems: [.spaceNotFound, .notFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.reports)", id: "listReports", tag: .operators,
            summary: "List entries that receivers cannot apply", scope: "admin", parameters: [Components.listed],
            answers: [answer("The reported entries that are not void, newest first", "ReportList")], problems: [.spaceNotFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.pushes)", id: "listPushes", tag: .operators,
            summary: "List the newest pushes", description: "Newest first; the event stream announces new ones.", scope: "admin",
            parameters: [
                Components.query(Endpoints.Query.after, Components.position, "Only pushes that begin after this position"),
                Components.query(Endpoints.Query.before, Components.position, "Only pushes that begin before this position"),
                Components.listed,
            ], answers: [answer("The pushes, with author and time", "PushList")], problems: [.spaceNotFound]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.purge)", id: "purge", tag: .operators,
            summary: "Drop the older part of a space's log",
            description: "Drops only entries that a snapshot covers. With `dryRun` it only reports what would be dropped.",
            scope: "admin", body: [json: Components.ref("Purge")],
            answers: [answer("What was dropped, or would be dropped", "PurgeOutcome")], problems: [.spaceNotFound]),
    ]

    static let admin = [
        APIOperation(
            method: .get, path: "\(Endpoints.admin)/\(Endpoints.AdminAction.access)", id: "access", tag: .operators,
            summary: "Get the spaces that the token can administer", scope: "admin",
            answers: [answer("A space; all spaces if none is named", "Access")]),
        APIOperation(
            method: .get, path: tokens, id: "listTokens", tag: .operators, summary: "List tokens",
            description: "The answer does not contain their secrets.", scope: "admin", answers: [answer("The tokens", "TokenList")]),
        APIOperation(
            method: .post, path: tokens, id: "makeToken", tag: .operators, summary: "Create a token",
            description: "An administrator of one space can create tokens only for that space.", scope: "admin",
            body: [json: Components.ref("TokenToMake")],
            answers: [
                .init(
                    status: 201, description: "The token with its secret, which cannot be read again", mediaType: json,
                    schema: Components.ref("NewToken"), headers: ["Location", "Cache-Control"])
            ]),
        APIOperation(
            method: .delete, path: "\(tokens)/{token}", id: "revokeToken", tag: .operators, summary: "Revoke a token", scope: "admin",
            answers: [.init(status: 204, description: "The token is revoked", headers: ["Cache-Control"])], problems: [.notFound]),
        APIOperation(
            method: .get, path: "\(Endpoints.admin)/\(Endpoints.AdminAction.audit)", id: "audit", tag: .operators,
            summary: "List the audit log", description: "Newest first. The lines contain no secrets.", scope: "admin",
            parameters: [
                Components.query(Endpoints.Query.space, Components.spaceName, "Only actions on this space"),
                Components.query(Endpoints.Query.before, Components.size, "Only lines with lower numbers"), Components.listed,
            ], answers: [answer("Who did what, when, and the outcome", "AuditList")]),
    ]

    private static let tokens = "\(Endpoints.admin)/\(Endpoints.AdminAction.tokens)"

    private static func answer(_ description: String, _ schema: String) -> APIOperation.Answer {
        .init(status: 200, description: description, mediaType: json, schema: Components.ref(schema), headers: ["Cache-Control"])
    }
}
