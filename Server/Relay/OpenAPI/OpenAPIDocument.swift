internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird

/// The OpenAPI 3.1 document of the relay: for authors of clients, and for the tests that compare it with the relay.
enum OpenAPIDocument {
    static let document: JSONValue = [
        "openapi": "3.1.0", "info": info, "servers": [["url": "/"]], "tags": .array(tags), "paths": .object(paths),
        "components": [
            "schemas": .object(APIComponents.schemas), "parameters": .object(APIComponents.parameters),
            "headers": .object(APIComponents.headers),
            "securitySchemes": [
                "bearer": [
                    "type": "http", "scheme": "bearer",
                    "description": "For one space or for all, with the scope read, write or admin. Each includes those before it.",
                ]
            ],
        ],
    ]

    private static let info: JSONValue = [
        "title": "Annals relay", "version": .string(ProgramVersion.text),
        "license": ["name": "Apache-2.0", "identifier": "Apache-2.0"],
        "description": """
        A relay orders the transactions of its spaces, stores their logs and serves them. Errors are problem details \
        (RFC 9457) with a stable `code`. HEAD is allowed wherever GET is; other methods get 405 with `Allow`.
        """,
    ]

    private static let tags: [JSONValue] = APIOperation.Tag.allCases.map {
        ["name": .string($0.rawValue), "description": .string($0.description)]
    }

    private static let paths: [String: JSONValue] = Dictionary(grouping: APIOperations.all, by: \.path).mapValues { operations in
        .object(Dictionary(uniqueKeysWithValues: operations.map { ($0.method.rawValue.lowercased(), $0.json) }))
    }

    private static let bytes = JSONBody.encode(document)

    /// GET /openapi.json
    static func answer(_ request: Request) -> Response {
        Response(
            status: .ok, headers: [.contentType: Endpoints.MediaType.json, .cacheControl: "no-cache"], body: .init(byteBuffer: bytes))
    }
}
