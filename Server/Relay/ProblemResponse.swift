internal import AnnalsCore
internal import AnnalsWire
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// A problem with its headers, which handlers throw.
struct ProblemResponse: Error {
    var problem: Problem
    var headers: HTTPFields = [:]
    /// The description of the space, for the problem that it exists already.
    var space: SpaceDescription?
    /// The exceeded quota, for the metrics.
    var quota: (quota: Quota, bound: QuotaBound)?
    /// Whether a replica has seen another log than the relay has, which an operator must know.
    var isContradiction = false

    init(_ problem: Problem, headers: HTTPFields = [:], space: SpaceDescription? = nil) {
        self.problem = problem
        self.headers = headers
        self.space = space
    }

    init(_ code: Problem.Code, detail: String? = nil, hint: String? = nil, headers: HTTPFields = [:]) {
        self.init(Problem(code, detail: detail, hint: hint), headers: headers)
    }

    static func badRequest(_ detail: String, hint: String? = nil) -> ProblemResponse {
        ProblemResponse(.badRequest, detail: detail, hint: hint)
    }

    static func unavailable(_ detail: String, retryAfterSeconds: Int) -> ProblemResponse {
        ProblemResponse(.unavailable, detail: detail, hint: "Try again", headers: [.retryAfter: String(retryAfterSeconds)])
    }

    static func methodNotAllowed(_ allowed: [HTTPRequest.Method]) -> ProblemResponse {
        ProblemResponse(.methodNotAllowed, headers: [.allow: allowed.map(\.rawValue).joined(separator: ", ")])
    }

    static func unsupportedMediaType(expected: String) -> ProblemResponse {
        ProblemResponse(
            Problem(
                type: "urn:annals:problem:unsupported-media-type", title: "The relay does not accept a body of this type here", status: 415,
                code: "unsupported-media-type", hint: "Send Content-Type: \(expected)"))
    }

    func response() -> Response {
        var headers = headers
        headers[.contentType] = Endpoints.MediaType.problem
        headers[.cacheControl] = "no-store"
        return Response(
            status: HTTPResponse.Status(code: problem.status), headers: headers,
            body: .init(byteBuffer: JSONBody.encode(Body(problem: problem, space: space))))
    }

    /// The problem's members with the description of the space.
    private struct Body: Encodable {
        var problem: Problem
        var space: SpaceDescription?

        enum Key: CodingKey {
            case space
        }

        func encode(to encoder: any Encoder) throws {
            try problem.encode(to: encoder)
            var container = encoder.container(keyedBy: Key.self)
            try container.encodeIfPresent(space, forKey: .space)
        }
    }
}

/// JSON with sorted members.
enum JSONBody {
    static func encode(_ value: some Encodable) -> ByteBuffer {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Only types of this module are encoded here, and their encoding cannot fail.
        return ByteBuffer(bytes: (try? encoder.encode(value)) ?? Data("{}".utf8))
    }

    static func response(_ value: some Encodable, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]) -> Response {
        var headers = headers
        headers[.contentType] = Endpoints.MediaType.json
        headers[.cacheControl] = "no-store"
        return Response(status: status, headers: headers, body: .init(byteBuffer: encode(value)))
    }
}

extension ProblemResponse {
    /// The problem for an error of the log.
    init(_ error: RelayLogError) {
        switch error {
        case .spaceNotFound:
            self.init(.spaceNotFound, hint: "Create the space with PUT, or check its name")
        case .spaceExists:
            self.init(.spaceExists)
        case .replicaOwnedElsewhere(let replica):
            self.init(
                .replicaOwnedElsewhere, detail: "The replica \(replica) belongs to another token",
                hint:
                    "Use the token with which the replica pushed before. Otherwise ask the relay's operator to revoke that token, or to "
                    + "run annals relay release"
            )
        case .quarantined(let owner, let space):
            self.init(
                .quarantined,
                detail:
                    "The relay's operator has quarantined \(ReplicaOwner.shown(owner)) in the space \(space): it can read but not write",
                hint:
                    "Local changes stay in the outbox. Ask the relay's operator to end the quarantine with annals relay quarantine --lift")
        case .notForReplicas:
            self.init(.notPermitted, detail: "Only the relay can write this kind of entry")
        case .badSignature:
            self.init(
                .corruptBatch, detail: "The signature of the batch does not belong to the replica that it names",
                hint: "Send the batch again. If it is refused again, the replica's key is corrupt: leave the space and join it again")
        case .expired(let horizon):
            self.init(
                .expired, detail: "The log up to position \(horizon) is purged", hint: "Load the snapshot and rebase the outbox on it")
        case .logRolledBack(let head), .beyondHead(let head):
            self.init(
                .logRolledBack, detail: "The head of the relay's log is \(head)",
                hint: "The relay may have been restored from a backup; ask its operator")
            if case .logRolledBack = error { isContradiction = true }
        case .overloaded(let seconds):
            self = .unavailable("Too many requests are waiting", retryAfterSeconds: seconds)
        case .databaseAway:
            self = .unavailable("The relay's database does not answer", retryAfterSeconds: 1)
        case .quota(let quota, let bound, let seconds):
            self.init(quota, bound, retryAfterSeconds: seconds)
        case .tooManySpacesOfToken(let limit):
            self.init(
                .tooManySpaces, detail: "The token has created \(limit) spaces, which is its limit", hint: "Ask the relay's operator")
            quota = (.spaces, .token)
        case .tooManyReplicas(let limit):
            self.init(
                .tooManyReplicas, detail: "The token has \(limit) replicas in the space, which is its limit",
                hint: "Push with the existing stores, or ask the relay's operator for another token or a higher limit")
            quota = (.replicas, .token)
        case .closing:
            self = .unavailable("The relay is stopping", retryAfterSeconds: 1)
        case .noSnapshot:
            self.init(.noSnapshot, hint: "Pull the log from its beginning")
        case .snapshotSuperseded(let position):
            self.init(.snapshotSuperseded, detail: "A snapshot or void at position \(position) supersedes it")
        case .snapshotDigestMismatch:
            self.init(.badDigest, hint: "Send the snapshot again")
        case .badSnapshot(let reason):
            self.init(.badSnapshot, detail: "It is neither an encrypted snapshot nor one zstd frame with an SQLite file: \(reason)")
        case .snapshotTooLarge(let limit):
            self.init(.tooLarge, detail: "The limit for a snapshot is \(limit) bytes")
        case .snapshotPartElsewhere(let offset):
            self.init(
                .rangeNotSatisfiable, detail: "The relay has \(offset) bytes of this snapshot", hint: "Continue at this offset",
                headers: [.offset: String(offset)])
        case .transactionTooLarge(let limit):
            self.init(
                .tooLarge, detail: "The limit for a transaction is \(limit) bytes", hint: "Ask the relay's operator for a higher limit")
        case .diskReserved(let bytes):
            self.init(
                .storageFull, detail: "The relay keeps \(bytes) bytes of its disk free, and has no more room",
                hint: "Tell the relay's operator; reads still work")
        case .tooManySpaces(let limit):
            self.init(.tooManySpaces, detail: "The relay has \(limit) spaces, which is its limit", hint: "Ask the relay's operator")
            quota = (.spaces, .relay)
        case .spaceFull(let limit):
            self.init(
                .spaceFull, detail: "The space has reached its limit of \(limit) bytes",
                hint: "A snapshot and a purge make room, or ask the relay's operator; reads still work")
        case .diskFull:
            self.init(.storageFull, hint: "Tell the relay's operator")
        case .storage:
            self.init(.defect, detail: "The storage failed", hint: "The relay's log has the reason under this request's id")
        }
    }

    /// The problem for an exceeded quota of the relay or of one sender.
    private init(_ quota: Quota, _ bound: QuotaBound, retryAfterSeconds: Int) {
        let isRate = [.requests, .failedLogins, .newSpaces].contains(quota)
        let whose =
            switch bound {
            case .relay: "the relay"
            case .token: "this token"
            case .space: "this space"
            case .address: "this address"
            }
        self.init(
            isRate ? .tooManyRequests : .unavailable, detail: "\(quota.text) of \(whose): the limit is reached",
            hint: quota.hint(bound), headers: [.retryAfter: String(retryAfterSeconds)])
        self.quota = (quota, bound)
    }

    /// The problem for bytes that are no acceptable batch.
    init(_ error: WireError) {
        switch error {
        case .newerVersion: self.init(.newerFormat, detail: error.description, hint: "Update the relay")
        case .tooLarge: self.init(.tooLarge, detail: error.description, hint: "Send less at a time")
        default: self.init(.corruptBatch, detail: error.description, hint: "Send it again; nothing was stored")
        }
    }
}

extension Quota {
    /// The quota's name in a refusal.
    var text: String {
        switch self {
        case .bodyBytes: "Bytes of request bodies"
        case .pendingPushes: "Pushes that wait for the writer"
        case .snapshotUploads: "Snapshot uploads"
        case .eventStreams: "Event streams"
        case .waits: "Event streams and waiting pulls"
        case .parts: "Buffered parts of unfinished transactions"
        case .spaces: "Spaces"
        case .newSpaces: "New spaces"
        case .replicas: "Replicas"
        case .requests: "Requests per second"
        case .failedLogins: "Requests without a valid token"
        }
    }

    func hint(_ bound: QuotaBound) -> String {
        switch self {
        case .failedLogins: "Check the token, and try again after Retry-After"
        case .bodyBytes, .pendingPushes, .snapshotUploads, .eventStreams, .waits, .parts:
            bound == .relay
                ? "Try again after Retry-After"
                : "Try again after Retry-After; the relay's operator can raise the share (limits: \(bound.rawValue)-share-percent)"
        case .spaces, .newSpaces, .replicas, .requests: "Try again after Retry-After"
        }
    }
}
