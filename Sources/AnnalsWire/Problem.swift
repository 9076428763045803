/// An error in a relay's answer: RFC 9457 problem details, with a stable code and a hint.
public struct Problem: Error, Hashable, Codable, Sendable {
    /// A URI that identifies the kind of problem.
    public var type: String
    public var title: String
    /// The HTTP status.
    public var status: Int
    /// A stable text that programs may compare. A newer relay may send a code that is not in `Code`.
    public var code: String
    public var detail: String?
    /// What the user can do.
    public var hint: String?
    /// The id that the relay's log has for the request. It is in a header of the answer and not in the problem's JSON.
    public var requestID: String?

    private enum CodingKeys: String, CodingKey {
        case type, title, status, code, detail, hint
    }

    public init(type: String, title: String, status: Int, code: String, detail: String? = nil, hint: String? = nil) {
        self.type = type
        self.title = title
        self.status = status
        self.code = code
        self.detail = detail
        self.hint = hint
    }

    /// Creates a problem of a known kind, with the status and title of that kind.
    public init(_ code: Code, detail: String? = nil, hint: String? = nil) {
        self.init(
            type: "urn:annals:problem:" + code.rawValue, title: code.title, status: code.status, code: code.rawValue, detail: detail,
            hint: hint)
    }

    /// The kind of problem, or nil if this program does not know it.
    public var knownCode: Code? { Code(rawValue: code) }
}

extension Problem {
    public enum Code: String, Sendable, CaseIterable {
        case badRequest = "bad-request"
        case notAuthenticated = "not-authenticated"
        case notPermitted = "not-permitted"
        case replicaOwnedElsewhere = "replica-owned-elsewhere"
        case quarantined = "quarantined"
        case notFound = "not-found"
        case spaceNotFound = "space-not-found"
        case noSnapshot = "no-snapshot"
        case methodNotAllowed = "method-not-allowed"
        case spaceExists = "space-exists"
        case logRolledBack = "log-rolled-back"
        case expired = "expired"
        case tooLarge = "too-large"
        case rangeNotSatisfiable = "range-not-satisfiable"
        case corruptBatch = "corrupt-batch"
        case newerFormat = "newer-format"
        case badDigest = "bad-digest"
        case badSnapshot = "bad-snapshot"
        case snapshotSuperseded = "snapshot-superseded"
        case tooManyRequests = "too-many-requests"
        case defect = "defect"
        case storageFull = "storage-full"
        case spaceFull = "space-full"
        case tooManySpaces = "too-many-spaces"
        case tooManyReplicas = "too-many-replicas"
        case unavailable = "unavailable"

        /// The HTTP status of the code.
        public var status: Int {
            switch self {
            case .badRequest: 400
            case .notAuthenticated: 401
            case .notPermitted, .replicaOwnedElsewhere, .quarantined: 403
            case .notFound, .spaceNotFound, .noSnapshot: 404
            case .methodNotAllowed: 405
            case .spaceExists, .logRolledBack, .snapshotSuperseded: 409
            case .expired: 410
            case .tooLarge: 413
            case .rangeNotSatisfiable: 416
            case .corruptBatch, .newerFormat, .badDigest, .badSnapshot: 422
            case .tooManyRequests: 429
            case .defect: 500
            case .storageFull, .spaceFull, .tooManySpaces, .tooManyReplicas: 507
            case .unavailable: 503
            }
        }

        /// One line for users.
        public var title: String {
            switch self {
            case .badRequest: "The request cannot be understood"
            case .notAuthenticated: "A valid token is needed"
            case .notPermitted: "The token does not permit this"
            case .replicaOwnedElsewhere: "The replica belongs to another token"
            case .quarantined: "The relay's operator allows this owner to read the space but not to write to it"
            case .notFound: "The relay has no such address"
            case .spaceNotFound: "The relay has no such space"
            case .noSnapshot: "The space has no snapshot yet"
            case .methodNotAllowed: "The address does not support this method"
            case .spaceExists: "The space already exists"
            case .logRolledBack: "The relay's log differs from the log that the replica saw before"
            case .expired: "The relay no longer has the log after this position"
            case .tooLarge: "The body is larger than this relay accepts"
            case .rangeNotSatisfiable: "The range is outside of the file"
            case .corruptBatch: "The batch is corrupt"
            case .newerFormat: "The batch has a newer format than this relay supports"
            case .snapshotSuperseded: "The relay already has another snapshot"
            case .badSnapshot: "The body is not a snapshot"
            case .badDigest: "The body does not match its digest"
            case .tooManyRequests: "Too many requests"
            case .defect: "The relay had an internal error"
            case .storageFull: "The relay's storage is full"
            case .spaceFull: "The space is full"
            case .tooManySpaces: "The relay accepts no more spaces"
            case .tooManyReplicas: "The token has no room for another replica"
            case .unavailable: "The relay cannot answer now"
            }
        }
    }
}
