internal import AnnalsWire
internal import HTTPTypes

/// All operations that replicas use. Those of operators are in another file.
enum APIOperations {
    typealias Components = APIComponents

    static let all = spaces + log + snapshots + operators + admin + health + page

    static let space = "\(Endpoints.spaces)/{space}"
    static let mark: [Problem.Code] = [.spaceNotFound, .logRolledBack]
    static let json = Endpoints.MediaType.json

    private static let spaces = [
        APIOperation(
            method: .put, path: space, id: "createSpace", tag: .spaces, summary: "Begin an empty space", scope: "write",
            answers: [
                .init(
                    status: 201, description: "It is there", mediaType: json, schema: Components.ref("SpaceDescription"),
                    headers: ["Location", "Cache-Control"])
            ], problems: [.spaceExists, .storageFull, .tooManySpaces]),
        APIOperation(
            method: .get, path: space, id: "describeSpace", tag: .spaces, summary: "Describe a space", scope: "read",
            answers: [
                .init(
                    status: 200, description: "The space", mediaType: json, schema: Components.ref("SpaceDescription"),
                    headers: ["Cache-Control"])
            ], problems: [.spaceNotFound]),
    ]

    private static let log = [
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.push)", id: "push", tag: .log, summary: "Push a batch",
            description: "What a batch and an answer are, byte for byte, says Documentation/format.md.", scope: "write",
            parameters: Components.sender, body: [Endpoints.MediaType.batch: Components.binary],
            answers: [
                .init(
                    status: 200, description: "What became of the batch: accepted, stale, or anything else that is definite",
                    mediaType: Endpoints.MediaType.answer, schema: Components.binary, headers: ["Cache-Control", "Annals-Snapshot?"])
            ],
            problems: mark + [
                .replicaOwnedElsewhere, .quarantined, .corruptBatch, .newerFormat, .storageFull, .spaceFull, .tooManyReplicas,
            ]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.entries)", id: "pull", tag: .log, summary: "Pull the log after a position",
            description: "A page holds at least one frame where there is any.", scope: "read",
            parameters: [
                Components.query(
                    Endpoints.Query.after, Components.position, "Pull after this position; 0 is the beginning", required: true),
                Components.query(Endpoints.Query.limit, Components.size, "Bytes of batches that the page should hold"),
                Components.query(
                    Endpoints.Query.wait, Components.size, "Seconds to wait for something new, \(WireLimits.maximumWaitSeconds) at most"),
            ] + Components.sender,
            answers: [
                .init(
                    status: 200, description: "A page", mediaType: Endpoints.MediaType.page, schema: Components.binary,
                    headers: ["Cache-Control", "Annals-Time?", "Annals-Snapshot?"])
            ], problems: mark + [.expired]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.reports)", id: "reportEntry", tag: .log,
            summary: "Report an entry that cannot be applied",
            description: "An owner's second report of an entry changes nothing. The relay of a sealed space is sent no table.",
            scope: "write", body: [json: Components.ref("EntryReportRequest")],
            answers: [.init(status: 204, description: "It is recorded, or was before", headers: ["Cache-Control"])],
            problems: [.spaceNotFound, .notFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.events)", id: "watch", tag: .log, summary: "Hear of the head",
            description: "Server-sent events named `head`, with the head and the log's lineage as JSON, until the relay stops.",
            scope: "read",
            parameters: [
                Components.header("Last-Event-ID", Components.text, "The id of the event seen last, which then is not sent again")
            ] + Components.seen,
            answers: [
                .init(
                    status: 200, description: "The stream", mediaType: Endpoints.MediaType.events, schema: Components.text,
                    headers: ["Cache-Control"])
            ], problems: mark),
    ]

    private static let snapshots = [
        APIOperation(
            method: .put, path: "\(space)/\(Endpoints.Action.snapshot)", id: "uploadSnapshot", tag: .snapshots,
            summary: "Upload a snapshot",
            description: "Whole, or in parts of at most \(WireLimits.maximumSnapshotPartBytes) bytes with Content-Range.", scope: "write",
            parameters: [
                Components.query(Endpoints.Query.position, Components.position, "The position whose rows it holds", required: true),
                Components.header(Endpoints.Header.digest, Components.digest, "Of the whole snapshot", required: true),
                Components.header(Endpoints.Header.partDigest, Components.digest, "Of this part"),
                Components.header(
                    "Content-Range", ["type": "string", "pattern": #"^bytes ([0-9]{1,9}-[0-9]{1,9}|\*)/[1-9][0-9]{0,8}$"#],
                    "Which part this is; `bytes */ALL` asks how much is here"),
            ] + Components.seen, body: [Endpoints.MediaType.snapshot: Components.binary],
            answers: [
                .init(
                    status: 201, description: "It is whole, verified and durable", mediaType: json,
                    schema: Components.ref("SpaceDescription"), headers: ["Location", "Cache-Control"]),
                .init(
                    status: 202, description: "The part is here, others are missing", mediaType: json, schema: Components.ref("Status"),
                    headers: ["Annals-Offset", "Cache-Control"]),
            ],
            problems: mark + [.quarantined, .snapshotSuperseded, .badDigest, .badSnapshot, .rangeNotSatisfiable, .storageFull, .spaceFull]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.snapshot)", id: "downloadSnapshot", tag: .snapshots,
            summary: "Download the newest snapshot", scope: "read",
            parameters: [
                Components.query(Endpoints.Query.position, Components.position, "The latest position that it may hold"),
                Components.query(
                    Endpoints.Query.at, Components.position, "The position of the one to download, also where nobody has confirmed it"),
                Components.header("Range", Components.text, "A part of it"),
                Components.header("If-Range", Components.text, "The ETag of what the part is of; where it is another, the whole comes"),
            ] + Components.seen,
            answers: [
                snapshot(200, "The whole", []), snapshot(206, "The part", ["Content-Range"]),
            ], problems: mark + [.noSnapshot, .expired, .rangeNotSatisfiable]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.snapshot)/\(Endpoints.Action.checks)", id: "checkSnapshot", tag: .snapshots,
            summary: "Say whether a snapshot has the rows of a replica",
            description: "The word of a replica of another owner than the snapshot's counts, and the first one of each owner.",
            scope: "write", body: [json: Components.ref("SnapshotCheckRequest")],
            answers: [.init(status: 204, description: "It is recorded, or one of the same owner was before", headers: ["Cache-Control"])],
            problems: [.spaceNotFound, .notFound, .quarantined]),
    ]

    private static func snapshot(_ status: Int, _ description: String, _ headers: [String]) -> APIOperation.Answer {
        .init(
            status: status, description: description, mediaType: Endpoints.MediaType.snapshot, schema: Components.binary,
            headers: ["Cache-Control", "Annals-Position", "Annals-Digest", "ETag", "Accept-Ranges"] + headers)
    }

    private static let health = [
        APIOperation(
            method: .get, path: Endpoints.live, id: "live", tag: .health, summary: "Does the process run?",
            answers: [
                .init(status: 200, description: "It does", mediaType: json, schema: Components.ref("Status"), headers: ["Cache-Control"])
            ]),
        APIOperation(
            method: .get, path: Endpoints.ready, id: "ready", tag: .health, summary: "Can the relay take requests?",
            answers: [
                .init(status: 200, description: "It can", mediaType: json, schema: Components.ref("Status"), headers: ["Cache-Control"])
            ]),
        APIOperation(
            method: .get, path: Endpoints.metrics, id: "metrics", tag: .health, summary: "What the relay counts, for Prometheus",
            description: "It is the token for this alone, or one with admin for all spaces; a relay that is open to all asks for none.",
            answers: [
                .init(
                    status: 200, description: "The metrics, in Prometheus' text format", mediaType: MetricsRoutes.mediaType,
                    schema: Components.text, headers: ["Cache-Control"])
            ], problems: [.notAuthenticated, .notPermitted]),
    ]

    private static let page =
        PageFile.all(isOpen: false).map { file in
            let name = file.path == Endpoints.page ? "page" : String(file.path.dropFirst(Endpoints.page.count + 1))
            return APIOperation(
                method: .get, path: file.path, id: "page-\(name)", tag: .page,
                summary: file.path == Endpoints.page ? "The operator's page" : "A file of the operator's page",
                parameters: [Components.header("If-None-Match", Components.text, "The ETag of what the reader has")],
                answers: [
                    .init(
                        status: 200, description: "The file", mediaType: file.mediaType, schema: Components.text,
                        headers: ["ETag", "Cache-Control", "Content-Security-Policy"]),
                    .init(status: 304, description: "The reader has it", headers: ["ETag", "Cache-Control"]),
                ])
        } + [
            APIOperation(
                method: .get, path: Endpoints.openAPI, id: "openAPI", tag: .page, summary: "This document",
                answers: [
                    .init(
                        status: 200, description: "This document", mediaType: json, schema: ["type": "object"], headers: ["Cache-Control"])
                ])
        ]
}
