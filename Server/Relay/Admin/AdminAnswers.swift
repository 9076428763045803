internal import AnnalsCore
internal import AnnalsWire
internal import RelayLog

// The operator endpoints' answers as JSON. Times are milliseconds since 1970; unknown values are omitted.

struct SpaceList: Encodable {
    var spaces: [Space]
    /// Whether these are the last ones.
    var isLast: Bool
    /// The moment of the relay's newest backup; only for administrators of all spaces.
    var backup: Int64?
    /// The relay's clock.
    var time: Int64

    struct Space: Encodable {
        var space: String
        var lineage: Lineage
        var head: Position
        var horizon: Position
        var created: Int64
        /// Bytes of the kept batches.
        var logBytes: Int64
        var snapshot: SpaceDescription.Snapshot?
        var snapshots: Int64
        var snapshotBytes: Int64
        var replicas: Int64
        /// Owners that can read and not write.
        var quarantined: [Quarantined]
        var lastPush: Int64?
        /// Days with pushes, oldest first.
        var days: [Day]

        init(_ summary: SpaceSummary) {
            space = summary.description.space
            lineage = summary.description.lineage
            head = summary.description.head
            horizon = summary.description.horizon
            created = summary.created
            logBytes = summary.logBytes
            snapshot = summary.description.snapshot
            snapshots = summary.snapshots
            snapshotBytes = summary.snapshotBytes
            replicas = summary.replicas
            quarantined = summary.quarantines.map(Quarantined.init)
            lastPush = summary.lastPush
            days = summary.days.map(Day.init)
        }
    }

    struct Quarantined: Encodable {
        var owner: String
        var since: Int64

        init(_ quarantine: Quarantine) {
            owner = ReplicaOwner.shown(quarantine.owner)
            since = quarantine.since
        }
    }

    struct Day: Encodable {
        /// When the day begins, in UTC.
        var begins: Int64
        var bytes: Int64
        var positions: Int64

        init(_ day: DayOfGrowth) {
            begins = day.day * DayOfGrowth.milliseconds
            bytes = day.bytes
            positions = day.positions
        }
    }
}

struct ReplicaList: Encodable {
    var head: Position
    var replicas: [Replica]
    var time: Int64

    struct Replica: Encodable {
        var replica: ReplicaID
        var name: String
        var program: String
        /// The newest position that it acknowledged.
        var position: Position
        /// Positions that it lacks, as far as the relay knows.
        var lag: Int64
        var counter: Int64
        var lastSeen: Int64
        /// When it was retired; omitted for a live replica.
        var retired: Int64?
        /// `token 3`, or the subject of an identity provider; omitted without an owner.
        var owner: String?
        /// When its owner was quarantined; omitted if it is not.
        var quarantined: Int64?

        init(_ record: ReplicaRecord, head: Position) {
            replica = record.replica
            name = record.name
            program = record.program
            position = record.position
            lag = max(0, head.rawValue - record.reached.rawValue)
            counter = record.counter.rawValue
            lastSeen = record.lastSeen
            retired = record.isRetired ? record.retired : nil
            owner = record.owner.map(ReplicaOwner.shown)
            quarantined = record.quarantined
        }
    }
}

struct PushList: Encodable {
    var pushes: [Push]
    var time: Int64

    struct Push: Encodable {
        /// The position of the first transaction.
        var position: Position
        var count: Int64
        var bytes: Int64
        var received: Int64
        var replica: ReplicaID
        var name: String

        init(_ record: PushRecord) {
            position = record.position
            count = record.count
            bytes = record.bytes
            received = record.received
            replica = record.replica
            name = record.name
        }
    }
}

struct PurgeAnswer: Encodable {
    var dryRun: Bool
    /// The log began after this position before the purge.
    var before: Position
    /// The log begins, or would begin, after this position.
    var horizon: Position
    var head: Position
    var positions: Int64
    var bytes: Int64
    var snapshots: Int
    var newestSnapshot: Position?
    /// A later snapshot that needs a confirmation by a replica of another owner; with it the purge could drop more.
    var unconfirmedSnapshot: Position?
    /// Live replicas that have not acknowledged the position of the newest snapshot.
    var holding: [ReplicaList.Replica]

    init(_ outcome: PurgeOutcome, dryRun: Bool) {
        self.dryRun = dryRun
        before = outcome.before
        horizon = outcome.horizon
        head = outcome.head
        positions = outcome.positions
        bytes = outcome.positions > 0 ? outcome.bytes : 0
        snapshots = outcome.snapshots
        newestSnapshot = outcome.newestSnapshot
        unconfirmedSnapshot = outcome.unconfirmed?.position
        holding = outcome.holding.map { .init($0, head: outcome.head) }
    }
}

/// What the sender can administer.
struct AccessAnswer: Encodable {
    /// The only space; omitted if the sender administers all.
    var space: String?
    /// The token's number; omitted on an open relay.
    var token: Int64?
    var expires: Int64?
    var time: Int64
}

struct TokenList: Encodable {
    var tokens: [TokenAnswer]
    var time: Int64
}

struct TokenAnswer: Encodable {
    var id: Int64
    var label: String
    var space: String?
    var scope: String
    var created: Int64
    var expires: Int64?
    var revoked: Int64?
    /// The secret; only in the answer to the token's creation.
    var token: String?

    init(_ record: TokenRecord, secret: String? = nil) {
        id = record.id
        label = record.label
        space = record.space?.description
        scope = record.scope.rawValue
        created = record.created
        expires = record.expires
        revoked = record.revoked
        token = secret
    }
}

struct AuditList: Encodable {
    var lines: [Line]
    var time: Int64

    struct Line: Encodable {
        var number: Int64
        var time: Int64
        var actor: String
        var action: String
        var space: String?
        var subject: String
        var outcome: String

        init(_ line: AuditLine) {
            number = line.number
            time = line.time
            actor = line.actor
            action = line.action
            space = line.space?.description
            subject = line.subject
            outcome = line.outcome
        }
    }
}
