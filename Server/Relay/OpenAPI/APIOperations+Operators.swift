internal import AnnalsWire
internal import HTTPTypes

extension APIOperations {
    /// The operators' views of spaces and actions on them.
    static let operators = [
        APIOperation(
            method: .get, path: Endpoints.spaces, id: "listSpaces", tag: .operators, summary: "List spaces",
            description: "By name; those that the token administers.", scope: "admin",
            parameters: [
                Components.query(Endpoints.Query.space, Components.spaceName, "Only this one, if it is there"),
                Components.query(Endpoints.Query.after, Components.spaceName, "Only spaces whose names come after this one"),
                Components.listed,
            ], answers: [answer("The spaces, with how much they hold and how they grow", "SpaceList")]),
        APIOperation(
            method: .delete, path: space, id: "deleteSpace", tag: .operators, summary: "Delete a space for good",
            description: "Its log, snapshots and replicas go; tokens for it stay.", scope: "admin",
            parameters: [Components.query(Endpoints.Query.confirm, Components.spaceName, "The space's name once more", required: true)],
            answers: [.init(status: 204, description: "It is gone", headers: ["Cache-Control"])], problems: [.spaceNotFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.replicas)", id: "listReplicas", tag: .operators,
            summary: "List a space's replicas", scope: "admin",
            answers: [answer("Who was here, how far each has come and when it was seen", "ReplicaList")], problems: [.spaceNotFound]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.replicas)/{replica}/\(Endpoints.Action.retire)", id: "retireReplica",
            tag: .operators, summary: "Let a replica hold back nothing any more",
            description: """
                Should it come back, it takes the newest snapshot, lays its own work on top, and counts again. Where the sender's token pushed \
                as the replica, the scope read is enough.
                """, scope: "admin",
            answers: [.init(status: 204, description: "It is retired", headers: ["Cache-Control"])], problems: [.spaceNotFound, .notFound]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.replicas)/{replica}/\(Endpoints.Action.release)", id: "releaseReplica",
            tag: .operators, summary: "Let a replica go on with another token",
            description: "It belongs to whoever pushes as it next.", scope: "admin",
            answers: [.init(status: 204, description: "It is nobody's", headers: ["Cache-Control"])], problems: [.spaceNotFound, .notFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.reports)", id: "listReports", tag: .operators,
            summary: "List entries that receivers cannot apply", scope: "admin", parameters: [Components.listed],
            answers: [answer("The reported entries that are not void, newest first", "ReportList")], problems: [.spaceNotFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.pushes)", id: "listPushes", tag: .operators,
            summary: "List the newest pushes", description: "Newest first; live by the event stream of the head.", scope: "admin",
            parameters: [
                Components.query(Endpoints.Query.after, Components.position, "Only pushes that begin after this position"),
                Components.query(Endpoints.Query.before, Components.position, "Only pushes that begin before this position"),
                Components.listed,
            ], answers: [answer("What came, from whom and when", "PushList")], problems: [.spaceNotFound]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.purge)", id: "purge", tag: .operators,
            summary: "Drop the older part of a space's log",
            description: "As far as a snapshot covers it; with `dryRun` only says what would go.",
            scope: "admin", body: [json: Components.ref("Purge")],
            answers: [answer("What went, or would go", "PurgeOutcome")], problems: [.spaceNotFound]),
    ]

    static let admin = [
        APIOperation(
            method: .get, path: "\(Endpoints.admin)/\(Endpoints.AdminAction.access)", id: "access", tag: .operators,
            summary: "What may the token administer?", scope: "admin",
            answers: [answer("A space, or all of them where none is named", "Access")]),
        APIOperation(
            method: .get, path: tokens, id: "listTokens", tag: .operators, summary: "List tokens",
            description: "Without their secrets.", scope: "admin", answers: [answer("The tokens", "TokenList")]),
        APIOperation(
            method: .post, path: tokens, id: "makeToken", tag: .operators, summary: "Make a token",
            description: "Who administers one space makes tokens for that one only.", scope: "admin",
            body: [json: Components.ref("TokenToMake")],
            answers: [
                .init(
                    status: 201, description: "The token with its secret, which nobody can read again", mediaType: json,
                    schema: Components.ref("NewToken"), headers: ["Location", "Cache-Control"])
            ]),
        APIOperation(
            method: .delete, path: "\(tokens)/{token}", id: "revokeToken", tag: .operators, summary: "Revoke a token", scope: "admin",
            answers: [.init(status: 204, description: "It is refused from now on", headers: ["Cache-Control"])], problems: [.notFound]),
        APIOperation(
            method: .get, path: "\(Endpoints.admin)/\(Endpoints.AdminAction.audit)", id: "audit", tag: .operators,
            summary: "List what operators did", description: "Newest first; no secrets.", scope: "admin",
            parameters: [
                Components.query(Endpoints.Query.space, Components.spaceName, "Only what was done to this one"),
                Components.query(Endpoints.Query.before, Components.size, "Only lines with smaller numbers"), Components.listed,
            ], answers: [answer("Who did what, when, and what came of it", "AuditList")]),
    ]

    private static let tokens = "\(Endpoints.admin)/\(Endpoints.AdminAction.tokens)"

    private static func answer(_ description: String, _ schema: String) -> APIOperation.Answer {
        .init(status: 200, description: description, mediaType: json, schema: Components.ref(schema), headers: ["Cache-Control"])
    }
}
