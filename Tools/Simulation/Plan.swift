import AnnalsCore

/// All steps of a run, drawn from its seed in advance. So a run can be printed, and it can be repeated without some of its steps.
struct Plan: Sendable {
    var seed: UInt64
    var schema: Schema
    /// Rows that exist before the space is created, one statement each.
    var rows: [String]
    var replicas: [ReplicaPlan]
    var network: NetworkPlan
    /// nil in worlds in which everything fits into one batch and one page.
    var sizes: SizePlan?
    /// nil in worlds in which the space's first snapshot is the only one.
    var snapshots: SnapshotPlan?
    /// The space is encrypted with a key that is drawn from the seed.
    var isSealed = false
    var steps: [Step]

    /// The milliseconds of virtual time that the steps take.
    var length: Int64 { steps.last?.at ?? 0 }
}

/// The environment of one replica.
struct ReplicaPlan: Sendable {
    /// The database is in a file and not in memory.
    var isInFile = false
    /// How far its wall clock is ahead of the true time at the start, in milliseconds.
    var clockOffset: Int64 = 0
    /// How much faster its clock runs, in thousandths.
    var clockDrift: Int64 = 0
}

/// Small size limits, so that transactions travel in parts.
struct SizePlan: Sendable {
    /// Plain bytes after which a transaction continues in another part.
    var partBytes: Int
    /// Plain bytes above which a body is cut into pieces; nil: never.
    var pieceBytes: Int?
    /// The size of a page from the relay, at least one batch; nil: no limit.
    var pageBytes: Int?
}

/// When the relay asks for a snapshot.
struct SnapshotPlan: Sendable {
    /// When the log has this many positions after the newest snapshot.
    var positions: Int64
    /// The relay asks another replica if the snapshot does not arrive within this many milliseconds.
    var lease: Int64
    /// The number of snapshots that the relay keeps.
    var kept: Int
}

/// The network's faults and delays.
struct NetworkPlan: Sendable {
    /// The percentage of requests with each fault, by its name (`RequestFaults.all`).
    var percentages: [String: Int] = [:]
    /// The longest normal delay one way, in milliseconds.
    var delay = 20

    static let perfect = NetworkPlan()
}

struct Step: Sendable {
    /// The network's faults in a step are drawn from this number, which does not change if other steps are left out.
    var number: Int
    /// Milliseconds of virtual time since the start.
    var at: Int64
    var replica: Int
    var action: Action

    enum Action: Sendable {
        /// `isTolerant`: continues after a statement that SQLite refused.
        case write(statements: [String], isTolerant: Bool)
        /// An external program writes without Annals. `checksParents`: with foreign keys on.
        case strangerWrites(statements: [String], isTolerant: Bool, checksParents: Bool)
        /// An external program rebuilds a table or drops its triggers, and continues to write before the store checks. Its writes
        /// to that table are not captured. Foreign keys are off.
        case strangerRebuilds(Rebuild, statements: [String], isTolerant: Bool)
        case sync(Direction)
        /// Asks for the status, which records external writes.
        case look
        /// Stores the current token and rows. At the end, a replay to the token must give these rows.
        case remember
        case crash(CrashPoint, downFor: Int64)
        case cut(for: Int64)
        case turnClock(by: Int64)
        /// Another replica is made from the relay's snapshot and the log after it.
        case newcomer
        /// Its file is copied, and another replica continues with the copy.
        case copy
        /// Sets a conflict policy for the space, or an override for this replica.
        case setPolicy(PolicySetting, isOverride: Bool)
        /// Resolves the nth open conflict, modulo their number.
        case resolve(Int, taking: JournalEntry.Side)
        /// Makes a backup of the relay's data.
        case backUpRelay
        /// Restores the relay from the backup.
        case restoreRelay
        /// The relay purges the log up to a snapshot, as far as its rules allow.
        case purgeRelay(RelayPurge)
        /// The store purges old history.
        case purgeHistory(HistoryPurge, isForced: Bool)
        /// From now on, syncs purge history that is older than this, in milliseconds.
        case setRetention(Int64)
        /// A reader of the store's history gets the next transactions. Its first step registers it.
        case consume(reader: Int, limit: Int)
        case fault(any Fault)
    }

    struct RelayPurge: Sendable {
        /// Replicas that are retired before the purge.
        var retired: [Int] = []
        /// Replicas that were silent for this many milliseconds do not limit the purge.
        var silence: Int64
        /// No replica limits the purge.
        var isForced: Bool
    }

    enum HistoryPurge: Sendable {
        /// History before the nth remembered token, modulo their number.
        case token(Int)
        /// History that is older than this, in milliseconds.
        case age(Int64)
        /// History that all readers have read.
        case consumed
    }

    struct Rebuild: Sendable {
        var table: String
        /// The program only drops the triggers. Otherwise it creates the table again and copies the rows.
        var dropsOnlyTriggers: Bool
    }

    enum Direction: Sendable { case both, pushOnly, pullOnly }
}

/// When a process dies.
enum CrashPoint: Sendable, Equatable {
    case now
    /// At the nth commit from now on, before it is done or directly after it.
    case beforeCommit(Int)
    case afterCommit(Int)
}
