import AnnalsCore

/// Everything that a run does, drawn beforehand from its seed: so a run can be printed, and steps can be left out of it
/// to see whether it still fails.
struct Plan: Sendable {
    var seed: UInt64
    var schema: Schema
    /// Rows that are there before the space begins, each its own statement.
    var rows: [String]
    var replicas: [ReplicaPlan]
    var network: NetworkPlan
    /// nil in worlds where everything fits into one batch and one page.
    var sizes: SizePlan?
    /// nil in worlds where the space's first snapshot is the only one.
    var snapshots: SnapshotPlan?
    /// The space has a key, drawn from the seed.
    var isSealed = false
    var steps: [Step]

    /// How many milliseconds of virtual time the steps take.
    var length: Int64 { steps.last?.at ?? 0 }
}

/// One replica's surroundings.
struct ReplicaPlan: Sendable {
    /// Kept in a file instead of in memory.
    var isInFile = false
    /// How far its wall clock is ahead of the true time at the beginning, in milliseconds.
    var clockOffset: Int64 = 0
    /// How much faster its clock runs, in thousandths.
    var clockDrift: Int64 = 0
}

/// How little fits into what travels, so that transactions do so in parts.
struct SizePlan: Sendable {
    /// Plain bytes after which a transaction is continued in another part.
    var partBytes: Int
    /// Plain bytes beyond which a body is cut into pieces; nil where none is.
    var pieceBytes: Int?
    /// What the relay puts into one page, at least one batch; nil for all that is asked for.
    var pageBytes: Int?
}

/// When the relay asks for a snapshot.
struct SnapshotPlan: Sendable {
    /// The log has so many positions more than the newest snapshot.
    var positions: Int64
    /// Milliseconds that a replica has for it, before another one is asked.
    var lease: Int64
    /// So many are kept.
    var kept: Int
}

/// How bad the network is, in percent of requests.
struct NetworkPlan: Sendable {
    var lostRequests = 0
    var lostAnswers = 0
    var repeated = 0
    var refused = 0
    /// The longest ordinary delay one way, in milliseconds.
    var delay = 20

    static let perfect = NetworkPlan()
}

struct Step: Sendable {
    /// What the network does to a step's requests is drawn from this number, which stays when other steps are left out.
    var number: Int
    /// Milliseconds of virtual time since the beginning.
    var at: Int64
    var replica: Int
    var action: Action

    enum Action: Sendable {
        /// `isTolerant`: goes on after a statement that SQLite refused.
        case write(statements: [String], isTolerant: Bool)
        /// Another program writes, which knows nothing of Annals. `checksParents`: with foreign keys on.
        case strangerWrites(statements: [String], isTolerant: Bool, checksParents: Bool)
        /// Another program brings a table into another form, or drops its triggers, and writes on before anybody looks: what
        /// it writes into that table nobody sees. With foreign keys off, as that is done.
        case strangerRebuilds(Rebuild, statements: [String], isTolerant: Bool)
        case sync(Direction)
        /// Asks for the status, which seals what strangers wrote.
        case look
        /// Notes the present token and rows; at the end history must lead back there.
        case remember
        case crash(CrashPoint, downFor: Int64)
        case cut(for: Int64)
        case turnClock(by: Int64)
        /// Another replica comes, from the relay's snapshot and the log after it.
        case newcomer
        /// Its file is copied, and a replica goes on with the copy.
        case copy
        /// Conflict policies are set for the space, or as an override of this replica.
        case setPolicy(PolicySetting, isOverride: Bool)
        /// Somebody settles the nth open conflict, counted round and round.
        case resolve(Int, taking: JournalEntry.Side)
        /// The relay's data are backed up.
        case backUpRelay
        /// The relay gets back what was backed up.
        case restoreRelay
        /// The relay's process dies, and is started again on what it left.
        case crashRelay(RelayCrash)
        /// The relay drops the log as far as its rules allow, to a snapshot.
        case purgeRelay(RelayPurge)
        /// The store drops old history.
        case purgeHistory(HistoryPurge, isForced: Bool)
        /// From now on syncs drop what is older than so many milliseconds.
        case setRetention(Int64)
        /// A program that reads the store's history takes the next transactions; it is registered the first time.
        case consume(reader: Int, limit: Int)
    }

    struct RelayCrash: Sendable, Equatable {
        enum Point: Sendable, Equatable {
            case now
            /// Of a commit: what it wrote is undone.
            case before
            /// So much of what the commit writes arrives.
            case within(thousandths: Int)
            /// The commit is durable, and nobody gets its answer.
            case after
        }

        var point: Point
        /// At the nth commit from now on.
        var commits: Int
        var downFor: Int64
    }

    struct RelayPurge: Sendable {
        /// Replicas that are said to be gone for good.
        var retired: [Int] = []
        /// Those not seen for so many milliseconds hold nothing back.
        var silence: Int64
        /// Nobody holds anything back.
        var isForced: Bool
    }

    enum HistoryPurge: Sendable {
        /// What is before the nth token that is remembered, counted round and round.
        case token(Int)
        /// What is so many milliseconds old.
        case age(Int64)
        /// What every reader has read.
        case consumed
    }

    struct Rebuild: Sendable {
        var table: String
        /// Only the triggers go; otherwise the table is made anew, and its rows are copied.
        var dropsOnlyTriggers: Bool
    }

    enum Direction: Sendable { case both, pushOnly, pullOnly }
}

/// Where a process dies.
enum CrashPoint: Sendable, Equatable {
    case now
    /// At the nth commit from now on, before it is done or right after.
    case beforeCommit(Int)
    case afterCommit(Int)
}
