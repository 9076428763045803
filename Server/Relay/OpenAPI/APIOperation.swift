internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes

/// One method at one path, with all its possible answers.
struct APIOperation: Sendable {
    var method: HTTPRequest.Method
    /// Variable parts are in braces: `{name}`.
    var path: String
    /// The operation's name in generated clients.
    var id: String
    var tag: Tag
    var summary: String
    var description = ""
    /// nil if the operation needs no token.
    var scope: String?
    var parameters: [JSONValue] = []
    /// The request's body, by media type.
    var body: [String: JSONValue] = [:]
    var answers: [Answer]
    /// Problems besides the common ones.
    var problems: [Problem.Code] = []

    enum Tag: String, CaseIterable {
        case spaces, log, snapshots, operators, page, health

        var description: String {
            switch self {
            case .spaces: "Creating and describing spaces"
            case .log: "Pushing to a space's log, pulling from it, and following its head"
            case .snapshots: "A space's rows at a position, as a compressed SQLite file"
            case .operators: "Operators' views and actions, for the operator's page and similar programs; they need the scope admin"
            case .page: "The operator's page and this document"
            case .health: "Whether the relay is running and ready"
            }
        }
    }

    struct Answer: Sendable {
        var status: Int
        var description: String
        /// nil if there is no body.
        var mediaType: String?
        var schema: JSONValue = [:]
        var headers: [String] = []
    }

    /// The operation in OpenAPI's form.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "operationId": .string(id), "summary": .string(summary), "tags": [.string(tag.rawValue)],
            "responses": .object(responses), "security": scope == nil ? [] : [["bearer": []]],
        ]
        let needs = scope.map { "Needs a token of the scope \($0)." } ?? "Needs no token."
        members["description"] = .string(description.isEmpty ? needs : "\(needs) \(description)")
        let all = pathParameters + parameters
        if !all.isEmpty { members["parameters"] = .array(all) }
        if !body.isEmpty {
            members["requestBody"] = ["required": true, "content": .object(body.mapValues { ["schema": $0] })]
        }
        return .object(members)
    }

    private var pathParameters: [JSONValue] {
        let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        return names.map { ["$ref": .string("#/components/parameters/\($0)")] }
    }

    private var responses: [String: JSONValue] {
        var responses: [String: JSONValue] = [:]
        for answer in answers {
            var response: [String: JSONValue] = [
                "description": .string(answer.description), "headers": Self.headers(["X-Request-ID"] + answer.headers),
            ]
            if let mediaType = answer.mediaType { response["content"] = [mediaType: ["schema": answer.schema]] }
            responses[String(answer.status)] = .object(response)
        }
        for (status, codes) in Dictionary(grouping: Set(problems + common), by: \.status) {
            responses[String(status)] = problem(status, codes.map { ($0.rawValue, $0.title) })
        }
        if !body.isEmpty {
            let type = ProblemResponse.unsupportedMediaType(expected: "").problem
            responses["415"] = problem(415, [(type.code, type.title)])
        }
        return responses
    }

    /// Problems that are possible for every operation.
    private var common: [Problem.Code] {
        var codes: [Problem.Code] = [.badRequest, .tooManyRequests, .defect, .unavailable]
        if scope != nil { codes += [.notAuthenticated, .notPermitted] }
        if !body.isEmpty { codes.append(.tooLarge) }
        return codes
    }

    private func problem(_ status: Int, _ codes: [(code: String, title: String)]) -> JSONValue {
        let codes = codes.sorted { $0.code < $1.code }
        let schema: JSONValue = [
            "allOf": [
                ["$ref": "#/components/schemas/Problem"],
                ["properties": ["status": ["const": .integer(Int64(status))], "code": ["enum": .array(codes.map { .string($0.code) })]]],
            ]
        ]
        let answer: JSONValue = [
            "description": .string(codes.map { "`\($0.code)`: \($0.title)" }.joined(separator: "; ")),
            "headers": Self.headers(["X-Request-ID", "Cache-Control"] + (Self.headersOfProblems[status] ?? [])),
        ]
        // An answer to HEAD has no body.
        return method == .head ? answer : answer.with(["content": [Endpoints.MediaType.problem: ["schema": schema]]])
    }

    private static let headersOfProblems: [Int: [String]] = [
        401: ["WWW-Authenticate"], 405: ["Allow"], 416: ["Content-Range?", "Annals-Offset?"], 429: ["Retry-After"], 503: ["Retry-After"],
    ]

    /// Headers by name; a `?` after a name marks an optional header.
    private static func headers(_ names: [String]) -> JSONValue {
        let references = names.map { name in
            let plain = name.filter { $0 != "?" }
            let key = name == plain ? plain : plain + APIComponents.optional
            return (plain, ["$ref": .string("#/components/headers/\(key)")] as JSONValue)
        }
        return .object(Dictionary(references) { $1 })
    }
}
