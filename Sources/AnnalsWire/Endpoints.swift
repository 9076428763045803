package import AnnalsCore

/// The addresses a relay answers at, and the names of headers, queries and media types.
package enum Endpoints {
    /// Everything about spaces is below this path.
    package static let spaces = "/v1/spaces"
    /// The process runs. No token needed.
    package static let live = "/health/live"
    /// The relay can take requests. No token needed.
    package static let ready = "/health/ready"

    /// What operators do beyond one space: tokens and the audit log. An admin's token is needed.
    package static let admin = "/v1/admin"
    /// The operator's page. No token needed: it asks for one.
    package static let page = "/admin"
    /// What answers where, as OpenAPI says it. No token needed.
    package static let openAPI = "/openapi.json"
    /// What the relay counts, for Prometheus. A token of its own or an operator's.
    package static let metrics = "/metrics"

    /// The last component of what can be done with a space.
    package enum Action {
        package static let push = "push"
        package static let entries = "entries"
        package static let events = "events"
        package static let snapshot = "snapshot"
        /// GET lists; POST to `replicas/{replica}/retire` retires, and to `…/release` takes it from its owner.
        package static let replicas = "replicas"
        package static let retire = "retire"
        package static let release = "release"
        /// GET lists the newest.
        package static let pushes = "pushes"
        /// POST tells of an entry that the sender cannot apply; GET lists for operators.
        package static let reports = "reports"
        /// Below `snapshot`: POST tells what a comparison of a snapshot with a replica's rows found.
        package static let checks = "checks"
        /// POST drops the older part of the log, or says what would go.
        package static let purge = "purge"
    }

    /// The last component below `admin`.
    package enum AdminAction {
        /// GET tells what the token shown may administer.
        package static let access = "access"
        /// GET lists, POST makes one; DELETE of `tokens/{token}` revokes.
        package static let tokens = "tokens"
        /// GET lists who did what.
        package static let audit = "audit"
    }

    /// PUT creates, GET describes.
    package static func space(_ name: SpaceName) -> String { "\(spaces)/\(name)" }
    /// POST a batch; the answer is a `PushAnswer`.
    package static func push(_ name: SpaceName) -> String { "\(space(name))/\(Action.push)" }
    /// GET a `Page`.
    package static func entries(_ name: SpaceName) -> String { "\(space(name))/\(Action.entries)" }
    /// GET a stream of `HeadEvent`.
    package static func events(_ name: SpaceName) -> String { "\(space(name))/\(Action.events)" }
    /// POST: the replica has left and holds back nothing any more.
    package static func retire(_ replica: ReplicaID, _ name: SpaceName) -> String {
        "\(space(name))/\(Action.replicas)/\(replica)/\(Action.retire)"
    }
    /// POST a report of a refused entry.
    package static func reports(_ name: SpaceName) -> String { "\(space(name))/\(Action.reports)" }
    /// PUT or GET the rows at a position.
    package static func snapshot(_ name: SpaceName) -> String { "\(space(name))/\(Action.snapshot)" }

    /// POST what a replica found when it compared a snapshot with its rows.
    package static func snapshotChecks(_ name: SpaceName) -> String { "\(snapshot(name))/\(Action.checks)" }

    /// What the header `Annals-Snapshot` says to a replica that is to make one.
    package static let snapshotDue = "due"
    /// What it begins with for a replica that is to compare one with its rows; a blank and its position follow.
    package static let snapshotCheck = "check"

    /// Names in the query.
    package enum Query {
        /// The position to pull after.
        package static let after = "after"
        /// Bytes of batches that a page should hold.
        package static let limit = "limit"
        /// Seconds to wait for something new.
        package static let wait = "wait"
        /// The position that an uploaded snapshot holds; of a download the latest that it may hold.
        package static let position = "position"
        /// The position of a snapshot to be downloaded, whatever is known of it.
        package static let at = "at"
        /// Of a list: only what stands before this place.
        package static let before = "before"
        /// Of a deletion: the name of what is to be deleted.
        package static let confirm = "confirm"
        /// Of a list: only what is of this space.
        package static let space = "space"
    }

    package enum Header {
        /// The lineage that the replica knows.
        package static let lineage = "Annals-Lineage"
        /// What the replica has seen of the log: position, hyphen, running digest; see `LogMark`.
        package static let seen = "Annals-Seen"
        /// The replica's identity.
        package static let replica = "Annals-Replica"
        /// The replica's display name, percent-encoded.
        package static let name = "Annals-Name"
        /// SHA-256 of a snapshot's body, hexadecimal.
        package static let digest = "Annals-Digest"
        /// SHA-256 of one part of a snapshot's body, hexadecimal.
        package static let partDigest = "Annals-Part-Digest"
        /// How many bytes of a snapshot that is sent in parts the relay has.
        package static let offset = "Annals-Offset"
        /// The position of a snapshot.
        package static let position = "Annals-Position"
        /// `due` in the answer to a replica that is to make a snapshot; `check POSITION` to one that is to compare one with its rows.
        package static let snapshot = "Annals-Snapshot"
        /// The relay's clock in the answer to a pull, in milliseconds since 1970.
        package static let time = "Annals-Time"
    }

    package enum MediaType {
        package static let batch = "application/vnd.annals.batch"
        package static let answer = "application/vnd.annals.answer"
        package static let page = "application/vnd.annals.page"
        package static let snapshot = "application/vnd.annals.snapshot"
        package static let problem = "application/problem+json"
        package static let json = "application/json"
        package static let events = "text/event-stream"
    }
}
