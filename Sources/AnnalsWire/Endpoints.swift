public import AnnalsCore

/// The addresses a relay answers at, and the names of headers, queries and media types.
public enum Endpoints {
    /// Everything about spaces is below this path.
    public static let spaces = "/v1/spaces"
    /// The process runs. No token needed.
    public static let live = "/health/live"
    /// The relay can take requests. No token needed.
    public static let ready = "/health/ready"

    /// What operators do beyond one space: tokens and the audit log. An admin's token is needed.
    public static let admin = "/v1/admin"
    /// The operator's page. No token needed: it asks for one.
    public static let page = "/admin"
    /// What answers where, as OpenAPI says it. No token needed.
    public static let openAPI = "/openapi.json"
    /// What the relay counts, for Prometheus. A token of its own or an operator's.
    public static let metrics = "/metrics"

    /// The last component of what can be done with a space.
    public enum Action {
        public static let push = "push"
        public static let entries = "entries"
        public static let events = "events"
        public static let snapshot = "snapshot"
        /// GET lists; POST to `replicas/{replica}/retire` retires, and to `…/release` takes it from its owner.
        public static let replicas = "replicas"
        public static let retire = "retire"
        public static let release = "release"
        /// GET lists the newest.
        public static let pushes = "pushes"
        /// POST drops the older part of the log, or says what would go.
        public static let purge = "purge"
    }

    /// The last component below `admin`.
    public enum AdminAction {
        /// GET tells what the token shown may administer.
        public static let access = "access"
        /// GET lists, POST makes one; DELETE of `tokens/{token}` revokes.
        public static let tokens = "tokens"
        /// GET lists who did what.
        public static let audit = "audit"
    }

    /// PUT creates, GET describes.
    public static func space(_ name: SpaceName) -> String { "\(spaces)/\(name)" }
    /// POST a batch; the answer is a `PushAnswer`.
    public static func push(_ name: SpaceName) -> String { "\(space(name))/\(Action.push)" }
    /// GET a `Page`.
    public static func entries(_ name: SpaceName) -> String { "\(space(name))/\(Action.entries)" }
    /// GET a stream of `HeadEvent`.
    public static func events(_ name: SpaceName) -> String { "\(space(name))/\(Action.events)" }
    /// PUT or GET the rows at a position.
    public static func snapshot(_ name: SpaceName) -> String { "\(space(name))/\(Action.snapshot)" }

    /// What the header `Annals-Snapshot` says to a replica that is to make one.
    public static let snapshotDue = "due"

    /// Names in the query.
    public enum Query {
        /// The position to pull after.
        public static let after = "after"
        /// Bytes of batches that a page should hold.
        public static let limit = "limit"
        /// Seconds to wait for something new.
        public static let wait = "wait"
        /// The position that an uploaded snapshot holds; of a download the latest that it may hold.
        public static let position = "position"
        /// Of a list: only what stands before this place.
        public static let before = "before"
        /// Of a list: only what is of this space.
        public static let space = "space"
    }

    public enum Header {
        /// The lineage that the replica knows.
        public static let lineage = "Annals-Lineage"
        /// What the replica has seen of the log: position, hyphen, running digest; see `LogMark`.
        public static let seen = "Annals-Seen"
        /// The replica's identity.
        public static let replica = "Annals-Replica"
        /// The replica's display name, percent-encoded.
        public static let name = "Annals-Name"
        /// SHA-256 of a snapshot's body, hexadecimal.
        public static let digest = "Annals-Digest"
        /// SHA-256 of one part of a snapshot's body, hexadecimal.
        public static let partDigest = "Annals-Part-Digest"
        /// How many bytes of a snapshot that is sent in parts the relay has.
        public static let offset = "Annals-Offset"
        /// The position of a snapshot.
        public static let position = "Annals-Position"
        /// `due` in the answer to a replica that is to make a snapshot.
        public static let snapshot = "Annals-Snapshot"
        /// The relay's clock in the answer to a pull, in milliseconds since 1970.
        public static let time = "Annals-Time"
    }

    public enum MediaType {
        public static let batch = "application/vnd.annals.batch"
        public static let answer = "application/vnd.annals.answer"
        public static let page = "application/vnd.annals.page"
        public static let snapshot = "application/vnd.annals.snapshot"
        public static let problem = "application/problem+json"
        public static let json = "application/json"
        public static let events = "text/event-stream"
    }
}
