internal import AnnalsCore
internal import AnnalsWire
internal import RelayLog

/// Named schemas, parameters and headers that the operations of the document share.
enum APIComponents {
    static func ref(_ schema: String) -> JSONValue { ["$ref": .string("#/components/schemas/\(schema)")] }

    static let position: JSONValue = ["type": "integer", "format": "int64", "minimum": 0]
    static let size: JSONValue = ["type": "integer", "format": "int64", "minimum": 0]
    static let time: JSONValue = ["type": "integer", "format": "int64", "description": "Milliseconds since 1970"]
    static let text: JSONValue = ["type": "string"]
    static let flag: JSONValue = ["type": "boolean"]
    static let uuid: JSONValue = ["type": "string", "format": "uuid"]
    static let digest: JSONValue = ["type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256, hexadecimal"]
    static let spaceName: JSONValue = ["type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"]
    static let binary: JSONValue = ["type": "string", "format": "binary"]

    static func list(_ schema: JSONValue) -> JSONValue { ["type": "array", "items": schema] }

    /// An object with required members, except those in `optional`.
    static func object(_ members: [String: JSONValue], optional: Set<String> = []) -> JSONValue {
        let required = members.keys.filter { !optional.contains($0) }.sorted().map { JSONValue.string($0) }
        return ["type": "object", "properties": .object(members), "required": .array(required)]
    }

    static let schemas: [String: JSONValue] = [
        "Problem": object(
            ["type": text, "title": text, "status": ["type": "integer"], "code": text, "detail": text, "hint": text],
            optional: ["detail", "hint"]),
        "Snapshot": object(["position": position, "bytes": size, "digest": digest, "logDigest": digest], optional: ["logDigest"]),
        "SpaceDescription": object(
            [
                "space": spaceName, "lineage": uuid, "head": position, "horizon": position, "snapshot": ref("Snapshot"), "time": time,
            ], optional: ["snapshot", "time"]),
        "Status": object(["status": text]),
        "SpaceList": object(["spaces": list(ref("Space")), "isLast": flag, "backup": time, "time": time], optional: ["backup"]),
        "Space": object(
            [
                "space": spaceName, "lineage": uuid, "head": position, "horizon": position, "created": time, "logBytes": size,
                "snapshot": ref("Snapshot"), "snapshots": size, "snapshotBytes": size, "replicas": size, "lastPush": time,
                "days": list(object(["begins": time, "bytes": size, "positions": size])),
                "quarantined": list(object(["owner": text, "since": time])),
            ], optional: ["snapshot", "lastPush"]),
        "Replica": object(
            [
                "replica": uuid, "name": text, "program": text, "position": position, "lag": size, "counter": size, "lastSeen": time,
                "retired": time, "owner": text, "quarantined": time,
            ], optional: ["retired", "owner", "quarantined"]),
        "ReplicaList": object(["head": position, "replicas": list(ref("Replica")), "time": time]),
        "PushList": object([
            "pushes": list(
                object(["position": position, "count": size, "bytes": size, "received": time, "replica": uuid, "name": text])),
            "time": time,
        ]),
        "Purge": strict(
            [
                "dryRun": flag.with(["description": "Only report what would be dropped; the default is false"]),
                "keepSeconds": seconds(0, "Younger entries are kept; the default is a week, or 0 with force"),
                "force": flag.with(["description": "Also drop entries that live replicas have not acknowledged"]),
            ], optional: PurgeRequest.members),
        "PurgeOutcome": object(
            [
                "dryRun": flag, "before": position, "horizon": position, "head": position, "positions": size, "bytes": size,
                "snapshots": size, "newestSnapshot": position, "unconfirmedSnapshot": position, "holding": list(ref("Replica")),
            ], optional: ["newestSnapshot", "unconfirmedSnapshot"]),
        "Access": object(["space": spaceName, "token": size, "expires": time, "time": time], optional: ["space", "token", "expires"]),
        "TokenToMake": strict(
            [
                "label": [
                    "type": "string", "maxLength": .integer(Int64(AdminLimits.labelCharacters)),
                    "pattern": #"^[^\u0000-\u001f\u007f-\u009f]*$"#,
                ],
                "space": spaceName.with(["description": "Without it the token is for all spaces"]),
                "scope": scope, "lifetimeSeconds": seconds(1, "Without it the token is valid until it is revoked"),
            ], optional: TokenRequest.members.subtracting(["scope"])),
        "Token": token(optional: ["space", "expires", "revoked", "token"]),
        "NewToken": token(optional: ["space", "expires", "revoked"]),
        "TokenList": object(["tokens": list(ref("Token")), "time": time]),
        "EntryReportRequest": strict(
            [
                "position": position, "digest": digest,
                "rule": ["type": "string", "enum": .array(RefusedEntry.Rule.allCases.map { .string($0.rawValue) })],
                "table": [
                    "type": "string", "maxLength": .integer(Int64(EntryReportRequest.tableCharacters)),
                    "pattern": #"^[^\u0000-\u001f\u007f-\u009f]*$"#,
                ],
            ], optional: ["table"]),
        "SnapshotCheckRequest": strict(["position": position, "digest": digest, "good": flag], optional: []),
        "ReportList": object([
            "reports": list(
                object(
                    [
                        "position": position, "author": uuid, "name": text, "rule": text, "table": text, "reporters": size,
                        "reported": time,
                    ], optional: ["author", "table"])), "time": time,
        ]),
        "AuditList": object([
            "lines": list(
                object(
                    ["number": size, "time": time, "actor": text, "action": text, "space": spaceName, "subject": text, "outcome": text],
                    optional: ["space"])), "time": time,
        ]),
    ]

    private static let scope: JSONValue = ["type": "string", "enum": .array(TokenScope.allCases.map { .string($0.rawValue) })]

    private static func token(optional: Set<String>) -> JSONValue {
        object(
            [
                "id": size, "label": text, "space": spaceName, "scope": scope, "created": time, "expires": time, "revoked": time,
                "token": ["type": "string", "description": "The secret; only in the answer to the token's creation"],
            ], optional: optional)
    }

    private static func seconds(_ least: Int64, _ description: String) -> JSONValue {
        ["type": "integer", "minimum": .integer(least), "maximum": .integer(AdminLimits.seconds), "description": .string(description)]
    }

    /// An object without other members.
    private static func strict(_ members: [String: JSONValue], optional: Set<String>) -> JSONValue {
        object(members, optional: optional).with(["additionalProperties": false])
    }

    static let parameters: [String: JSONValue] = [
        "space": path("space", spaceName, "The space's name"),
        "replica": path("replica", uuid, "The replica's id"),
        "token": path("token", ["type": "integer", "format": "int64", "minimum": 1], "The token's number"),
    ]

    private static func path(_ name: String, _ schema: JSONValue, _ description: String) -> JSONValue {
        ["name": .string(name), "in": "path", "required": true, "schema": schema, "description": .string(description)]
    }

    static func query(_ name: String, _ schema: JSONValue, _ description: String, required: Bool = false) -> JSONValue {
        ["name": .string(name), "in": "query", "required": .bool(required), "schema": schema, "description": .string(description)]
    }

    static func header(_ name: String, _ schema: JSONValue, _ description: String, required: Bool = false) -> JSONValue {
        ["name": .string(name), "in": "header", "required": .bool(required), "schema": schema, "description": .string(description)]
    }

    static let listed = query(
        Endpoints.Query.limit, size, "The number of entries; the default is \(AdminLimits.listed), the highest \(AdminLimits.listedAtMost)"
    )
    /// Headers that say what the sender has seen of the log.
    static let seen = [
        header(Endpoints.Header.lineage, uuid, "The lineage that the sender knows"),
        header(
            Endpoints.Header.seen,
            [
                "type": "string", "pattern": "^[0-9]{1,18}-[0-9a-f]{64}$",
                "examples": [.string("0-\(String(repeating: "0", count: 64))")],
            ],
            "What the sender has seen of the log: position and running digest"),
    ]
    /// The same headers, with the sender's identity.
    static let sender =
        seen + [
            header(Endpoints.Header.replica, uuid, "The id of the sending replica"),
            header(Endpoints.Header.name, text, "The replica's name, percent-encoded"),
        ]

    /// The suffix in the key of an optional header.
    static let optional = ".optional"

    /// Headers of answers, by name. Each has a required and an optional form.
    static let headers: [String: JSONValue] = described.reduce(into: [:]) { all, header in
        all[header.key] = header.value.with(["required": true])
        all[header.key + optional] = header.value
    }

    private static let described: [String: JSONValue] = [
        "X-Request-ID": header(text, "The id of the request in the relay's log"),
        "Cache-Control": header(
            text, "Caching rules; `no-store` for everything except full pages of a log, the operator's page and the OpenAPI document"),
        "Vary": header(text, "The request's headers that the answer depends on"),
        "WWW-Authenticate": header(["const": "Bearer"], "The authentication scheme"),
        "Allow": header(text, "The allowed methods"),
        "Retry-After": header(["type": "integer", "minimum": 0], "Seconds to wait before the next try"),
        "Location": header(text, "The URL of the created resource"),
        "Content-Range": header(text, "The range of this part, or the size of the file"),
        "Accept-Ranges": header(["const": "bytes"], "Range requests are supported"),
        "ETag": header(text, "The id of this content"),
        "Content-Security-Policy": header(text, "The page can run only its own files"),
        "Annals-Offset": header(position, "Bytes of the snapshot that the relay has"),
        "Annals-Position": header(position, "The snapshot's position"),
        "Annals-Digest": header(digest, "The SHA-256 of the snapshot's bytes"),
        "Annals-Snapshot": header(["const": .string(Endpoints.snapshotDue)], "The relay asks the sender for a snapshot"),
        "Annals-Time": header(time, "The relay's clock"),
    ]

    private static func header(_ schema: JSONValue, _ description: String) -> JSONValue {
        ["schema": schema, "description": .string(description)]
    }
}
