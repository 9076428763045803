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
            method: .put, path: space, id: "createSpace", tag: .spaces, summary: "Create an empty space", scope: "write",
            answers: [
                .init(
                    status: 201, description: "The space was created", mediaType: json, schema: Components.ref("SpaceDescription"),
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
            description: "Documentation/format.md specifies the bytes of batches and answers.", scope: "write",
            parameters: Components.sender, body: [Endpoints.MediaType.batch: Components.binary],
            answers: [
                .init(
                    status: 200, description: "The outcome of the push: accepted, stale, another definite answer, or wait",
                    mediaType: Endpoints.MediaType.answer, schema: Components.binary, headers: ["Cache-Control", "Annals-Snapshot?"])
            ],
            problems: mark + [
                .replicaOwnedElsewhere, .quarantined, .corruptBatch, .newerFormat, .storageFull, .spaceFull, .tooManyReplicas,
            ]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.entries)", id: "pull", tag: .log, summary: "Pull the log after a position",
            description: "A page holds at least one frame if there is one. It has an ETag if more of the log follows.", scope: "read",
            parameters: pulled + [
                Components.query(
                    Endpoints.Query.wait, Components.size, "Seconds to wait for a new entry, at most \(WireLimits.maximumWaitSeconds)")
            ] + unmodified + Components.sender,
            answers: [
                .init(
                    status: 200, description: "A page", mediaType: Endpoints.MediaType.page, schema: Components.binary,
                    headers: pageHeaders + ["Annals-Snapshot?"]),
                .init(status: 304, description: "The sender has this page", headers: pageHeaders),
            ], problems: mark + [.expired]),
        APIOperation(
            method: .head, path: "\(space)/\(Endpoints.Action.entries)", id: "checkPull", tag: .log,
            summary: "Ask which page a pull would get",
            description: "For caches. It does not wait, and asks for no snapshot. It acknowledges what a pull acknowledges.",
            scope: "read", parameters: pulled + unmodified + Components.sender,
            answers: [
                .init(status: 200, description: "There is a page", headers: pageHeaders),
                .init(status: 304, description: "The sender has this page", headers: pageHeaders),
            ], problems: mark + [.expired]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.reports)", id: "reportEntry", tag: .log,
            summary: "Report an entry that cannot be applied",
            description: "An owner's second report of an entry changes nothing. Send no table for an encrypted space.",
            scope: "write", body: [json: Components.ref("EntryReportRequest")],
            answers: [.init(status: 204, description: "The report is recorded, now or before", headers: ["Cache-Control"])],
            problems: [.spaceNotFound, .notFound]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.events)", id: "watch", tag: .log, summary: "Follow the head",
            description: "Server-sent events named `head`, with the head and the log's lineage as JSON, until the relay stops.",
            scope: "read",
            parameters: [
                Components.header("Last-Event-ID", Components.text, "The id of the last event that the reader has seen")
            ] + Components.seen,
            answers: [
                .init(
                    status: 200, description: "The stream", mediaType: Endpoints.MediaType.events, schema: Components.text,
                    headers: ["Cache-Control"])
            ], problems: mark),
    ]

    private static let pulled = [
        Components.query(Endpoints.Query.after, Components.position, "Pull after this position; 0 is the beginning", required: true),
        Components.query(Endpoints.Query.limit, Components.size, "The size of the page in bytes of batches"),
    ]
    private static let unmodified = [
        Components.header("If-None-Match", Components.text, "The ETags of pages that the sender has; `*` stands for any page")
    ]
    private static let pageHeaders = ["Cache-Control", "ETag?", "Vary?", "Annals-Time?"]

    private static let snapshots = [
        APIOperation(
            method: .put, path: "\(space)/\(Endpoints.Action.snapshot)", id: "uploadSnapshot", tag: .snapshots,
            summary: "Upload a snapshot",
            description: "The whole, or parts of at most \(WireLimits.maximumSnapshotPartBytes) bytes with Content-Range.", scope: "write",
            parameters: [
                Components.query(Endpoints.Query.position, Components.position, "The position of the snapshot's rows", required: true),
                Components.header(Endpoints.Header.digest, Components.digest, "The SHA-256 of the whole snapshot", required: true),
                Components.header(Endpoints.Header.partDigest, Components.digest, "The SHA-256 of this part"),
                Components.header(
                    "Content-Range", ["type": "string", "pattern": #"^bytes ([0-9]{1,9}-[0-9]{1,9}|\*)/[1-9][0-9]{0,8}$"#],
                    "The range of this part; `bytes */ALL` asks how many bytes the relay has"),
            ] + Components.seen, body: [Endpoints.MediaType.snapshot: Components.binary],
            answers: [
                .init(
                    status: 201, description: "The snapshot is complete, verified and durable", mediaType: json,
                    schema: Components.ref("SpaceDescription"), headers: ["Location", "Cache-Control"]),
                .init(
                    status: 202, description: "The part is received; others are missing", mediaType: json, schema: Components.ref("Status"),
                    headers: ["Annals-Offset", "Cache-Control"]),
            ],
            problems: mark + [.quarantined, .snapshotSuperseded, .badDigest, .badSnapshot, .rangeNotSatisfiable, .storageFull, .spaceFull]),
        APIOperation(
            method: .get, path: "\(space)/\(Endpoints.Action.snapshot)", id: "downloadSnapshot", tag: .snapshots,
            summary: "Download the newest snapshot", scope: "read",
            parameters: [
                Components.query(Endpoints.Query.position, Components.position, "The highest position of the snapshot"),
                Components.query(
                    Endpoints.Query.at, Components.position, "The exact position of the snapshot, which may be unconfirmed"),
                Components.header("Range", Components.text, "The range to download"),
                Components.header("If-Range", Components.text, "The ETag that the range belongs to; otherwise the whole is sent"),
            ] + Components.seen,
            answers: [
                snapshot(200, "The whole snapshot", []), snapshot(206, "The requested range", ["Content-Range"]),
            ], problems: mark + [.noSnapshot, .expired, .rangeNotSatisfiable]),
        APIOperation(
            method: .post, path: "\(space)/\(Endpoints.Action.snapshot)/\(Endpoints.Action.checks)", id: "checkSnapshot", tag: .snapshots,
            summary: "Report whether a snapshot has the same rows as a replica",
            description: "Only replicas of other owners than the snapshot's can report. The first report of each owner counts.",
            scope: "write", body: [json: Components.ref("SnapshotCheckRequest")],
            answers: [.init(status: 204, description: "It is recorded, or an earlier report of the owner is", headers: ["Cache-Control"])],
            problems: [.spaceNotFound, .notFound, .quarantined]),
    ]

    private static func snapshot(_ status: Int, _ description: String, _ headers: [String]) -> APIOperation.Answer {
        .init(
            status: status, description: description, mediaType: Endpoints.MediaType.snapshot, schema: Components.binary,
            headers: ["Cache-Control", "Annals-Position", "Annals-Digest", "ETag", "Accept-Ranges"] + headers)
    }

    private static let health = [
        APIOperation(
            method: .get, path: Endpoints.live, id: "live", tag: .health, summary: "Whether the process is running",
            answers: [
                .init(status: 200, description: "It is live", mediaType: json, schema: Components.ref("Status"), headers: ["Cache-Control"])
            ]),
        APIOperation(
            method: .get, path: Endpoints.ready, id: "ready", tag: .health, summary: "Whether the relay is ready for requests",
            answers: [
                .init(
                    status: 200, description: "The relay is ready", mediaType: json, schema: Components.ref("Status"),
                    headers: ["Cache-Control"])
            ]),
        APIOperation(
            method: .get, path: Endpoints.metrics, id: "metrics", tag: .health, summary: "Metrics for Prometheus",
            description: "Accepts the metrics token or a token with the scope admin for all spaces; an open relay needs no token.",
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
                parameters: [Components.header("If-None-Match", Components.text, "The ETag of the file that the reader has")],
                answers: [
                    .init(
                        status: 200, description: "The file", mediaType: file.mediaType, schema: Components.text,
                        headers: ["ETag", "Cache-Control", "Content-Security-Policy"]),
                    .init(status: 304, description: "The reader's file is current", headers: ["ETag", "Cache-Control"]),
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
