package import AnnalsCore

/// The relay's URL paths, and the names of headers, query parameters and media types.
package enum Endpoints {
    /// The path of everything about spaces.
    package static let spaces = "/v1/spaces"
    /// Whether the process runs. No token is needed.
    package static let live = "/health/live"
    /// Whether the relay can accept requests. No token is needed.
    package static let ready = "/health/ready"

    /// Administration beyond one space: tokens and the audit log. It needs an admin's token.
    package static let admin = "/v1/admin"
    /// The operator's page. It needs no token, because the page asks for one.
    package static let page = "/admin"
    /// The description of all paths, as OpenAPI. No token is needed.
    package static let openAPI = "/openapi.json"
    /// The relay's metrics, for Prometheus. It needs a metrics token or an operator's token.
    package static let metrics = "/metrics"

    /// The last path component of an action on a space.
    package enum Action {
        package static let push = "push"
        package static let entries = "entries"
        package static let events = "events"
        package static let snapshot = "snapshot"
        /// GET lists the replicas. POST to `replicas/{replica}/retire` retires one. POST to `…/release` removes its
        /// owner.
        package static let replicas = "replicas"
        package static let retire = "retire"
        package static let release = "release"
        /// GET lists the newest pushes.
        package static let pushes = "pushes"
        /// POST reports an entry that the sender cannot apply. GET lists the reports for operators.
        package static let reports = "reports"
        /// Below `snapshot`: POST reports the result of a comparison of a snapshot with a replica's rows.
        package static let checks = "checks"
        /// POST drops the older part of the log, or reports what it would drop.
        package static let purge = "purge"
    }

    /// The last path component below `admin`.
    package enum AdminAction {
        /// GET returns what the token may administer.
        package static let access = "access"
        /// GET lists tokens, POST creates one. DELETE of `tokens/{token}` revokes one.
        package static let tokens = "tokens"
        /// GET lists the actions, with their actors.
        package static let audit = "audit"
    }

    /// PUT creates the space, GET describes it.
    package static func space(_ name: SpaceName) -> String { "\(spaces)/\(name)" }
    /// POST sends a batch. The answer is a `PushAnswer`.
    package static func push(_ name: SpaceName) -> String { "\(space(name))/\(Action.push)" }
    /// GET returns a `Page`.
    package static func entries(_ name: SpaceName) -> String { "\(space(name))/\(Action.entries)" }
    /// GET returns a stream of `HeadEvent`.
    package static func events(_ name: SpaceName) -> String { "\(space(name))/\(Action.events)" }
    /// POST reports that the replica has left. The purge does not wait for it any more.
    package static func retire(_ replica: ReplicaID, _ name: SpaceName) -> String {
        "\(space(name))/\(Action.replicas)/\(replica)/\(Action.retire)"
    }
    /// POST reports a refused entry.
    package static func reports(_ name: SpaceName) -> String { "\(space(name))/\(Action.reports)" }
    /// PUT uploads the rows at a position, GET downloads them.
    package static func snapshot(_ name: SpaceName) -> String { "\(space(name))/\(Action.snapshot)" }

    /// POST reports what a replica found when it compared a snapshot with its rows.
    package static func snapshotChecks(_ name: SpaceName) -> String { "\(snapshot(name))/\(Action.checks)" }

    /// The value of the header `Annals-Snapshot` that asks a replica to make a snapshot.
    package static let snapshotDue = "due"
    /// The beginning of the header's value that asks a replica to compare a snapshot with its rows. A blank and the
    /// snapshot's position follow.
    package static let snapshotCheck = "check"

    /// The names of query parameters.
    package enum Query {
        /// The position after which to pull.
        package static let after = "after"
        /// How many bytes of batches a page should have.
        package static let limit = "limit"
        /// How many seconds to wait for new entries.
        package static let wait = "wait"
        /// The position of an uploaded snapshot. For a download: the latest acceptable position.
        package static let position = "position"
        /// The position of a snapshot to download, even if no replica has confirmed it.
        package static let at = "at"
        /// For a list: return only the items before this one.
        package static let before = "before"
        /// For a deletion: the name of the deleted object, as confirmation.
        package static let confirm = "confirm"
        /// For a list: return only the items of this space.
        package static let space = "space"
    }

    package enum Header {
        /// The lineage that the replica knows.
        package static let lineage = "Annals-Lineage"
        /// What the replica has seen of the log: position, hyphen, running digest. See `LogMark`.
        package static let seen = "Annals-Seen"
        /// The id of the replica.
        package static let replica = "Annals-Replica"
        /// The replica's display name, percent-encoded.
        package static let name = "Annals-Name"
        /// SHA-256 of a snapshot's body, hexadecimal.
        package static let digest = "Annals-Digest"
        /// SHA-256 of one part of a snapshot's body, hexadecimal.
        package static let partDigest = "Annals-Part-Digest"
        /// How many bytes the relay has of a snapshot that is uploaded in parts.
        package static let offset = "Annals-Offset"
        /// The position of a snapshot.
        package static let position = "Annals-Position"
        /// `due` in an answer asks the replica to make a snapshot. `check POSITION` asks it to compare a snapshot with
        /// its rows.
        package static let snapshot = "Annals-Snapshot"
        /// The relay's clock when it answered a pull, in milliseconds since 1970.
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
