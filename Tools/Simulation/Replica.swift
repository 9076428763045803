import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import GRDB
import Synchronization

/// One machine of the world: a database, a process that syncs it, and external programs that write to it.
final class Replica {
    let name: String
    let clock: WallClock
    let power = Power()
    private let configuration: Store.Configuration
    /// The id that the relay uses.
    var id: ReplicaID { look.replica }
    /// nil while the process is not running.
    private(set) var store: Store?
    /// The connection of the store's process.
    private var database: DatabaseQueue
    /// The connection of external programs and of the checks.
    private(set) var outside: DatabaseQueue
    /// nil if the database is in memory.
    private let path: String?

    /// The exchange under way, and the step that started it.
    var exchange: Exchange?
    /// Its state at the last look, which is after every step.
    var look = Look()
    /// The newest transaction of history at the last look.
    var seenNumber: Int64 = 0
    /// The newest transaction of its own.
    var newestOwnNumber: Int64 = 0
    /// The rows before the first external write that is not recorded yet.
    var rowsBeforeStrangers: Rows?
    var tableNumbers: [Int: String] = [:]
    /// Positions of its pushes, from the relay's answers. Those of a copy begin with those of the copied file.
    var accepted: Set<Int64> = []
    /// Its file was copied, or is a copy. Only such a replica may get another identity.
    var isCopied = false
    /// Policies for its own transactions only.
    var overrides: [PolicySetting] = []
    /// Requests and answers are lost until this time.
    var cutUntil: Int64 = 0
    /// An external program rebuilt a table since the rows were last compared with the log, so there may be rows that were written
    /// without capture.
    var mayHoldUnseen = false
    /// A program has changed the constraint of its schema.
    var hasMigrated = false
    /// Tables without history that refer to tracked ones, and their rows at the last look.
    var untracked: [UntrackedChildren] = []
    var untrackedRows = UntrackedRows()
    /// The log before the relay was restored from an older backup, if this replica has more of it than the backup.
    var lostLog: Oracle?
    /// Whether it buffers parts of that log without their last part, although its rows are not based on that log.
    var keepsLostParts = false
    /// The last exchange ended with the error that the relay does not have this replica's log any more.
    var reportsLostLog = false
    /// The position of the last snapshot that the exchange downloaded.
    var downloaded: Int64?
    /// Programs that read its history.
    var readers: [Int: Reader] = [:]
    /// A forced purge of its history is under way.
    var isPurgeForced = false
    /// Tokens with the rows at their time.
    var memories: [(token: HistoryToken, rows: Rows)] = []

    /// A reader of history.
    struct Reader {
        /// It has read the transactions up to this one.
        var number: Int64
        /// A purge deleted what it had not read.
        var isExpired = false
        /// Whether its position is unknown, because a rebuilt table started history again or the reader's program died.
        var isUnclear = false

        static func consumer(_ number: Int) -> HistoryConsumer { HistoryConsumer("reader \(number)") }

        /// The error in the transactions that it got; nil if there is none. It must get the transactions that it has not read, in
        /// order and each once, or an error if they were purged.
        func complaint(_ found: [Int64], limit: Int, newest: Int64, isReported: Bool) -> String? {
            if isUnclear { return nil }
            guard isReported == isExpired else { return "is\(isReported ? "" : " not") told that it expired" }
            let end = min(newest, number + Int64(limit))
            let expected = isReported || end <= number ? [] : Array(number + 1...end)
            return found == expected ? nil : "gets \(found) and not \(expected)"
        }
    }

    struct Exchange {
        var session: Session
        var step: Int
        /// The number of requests so far.
        var requests = 0
        /// It waits for the answer to its last request. Answers to earlier requests are ignored.
        var isWaiting = false
        /// The relay answered while it had another log than the replica.
        var hasOtherAnswer = false
        /// The exchange may end with the error that the relay was restored.
        var mayFindRestored = false
        /// The last push was the last part of its transaction, or all of it, so the answer has its position.
        var isLastPart = false
    }

    /// Uses an existing database, in memory or in a file.
    init(clock: WallClock, configuration: Store.Configuration, database: DatabaseQueue, path: String?) throws {
        name = configuration.process
        self.clock = clock
        self.configuration = configuration
        self.database = database
        self.path = path
        outside = try path.map { try Self.open($0, clock) } ?? database
        database.add(transactionObserver: power, extent: .databaseLifetime)
        store = try Store(wrapping: database, configuration: configuration)
    }

    var isRunning: Bool { store != nil }

    /// A connection whose triggers read this machine's clock.
    static func open(_ path: String?, _ clock: WallClock) throws -> DatabaseQueue {
        var options = GRDB.Configuration()
        options.prepareDatabase { db in
            db.add(function: DatabaseFunction("julianday", argumentCount: 0) { _ in clock.julianDay })
            ProgramFunctions.add(to: db)
            try db.execute(sql: "PRAGMA synchronous = OFF; PRAGMA secure_delete = OFF")
        }
        guard let path else { return try DatabaseQueue(configuration: options) }
        return try DatabaseQueue(path: path, configuration: options)
    }

    static func configuration(_ name: String, _ clock: WallClock, _ identities: Identities, _ sizes: SizePlan?) -> Store.Configuration {
        var configuration = Store.Configuration()
        if let sizes { configuration.outboxLimits.partBytes = sizes.partBytes }
        if let pieceBytes = sizes?.pieceBytes { configuration.outboxLimits.pieceBytes = pieceBytes }
        // With this clock, each slice of a purge ends after one or two steps, at the same step in every run.
        let ticks = Atomic<Int64>(0)
        configuration.microseconds = { ticks.add(4_000, ordering: .relaxed).newValue }
        configuration.pause = { _ in }
        configuration.now = { clock.milliseconds }
        configuration.process = name
        configuration.random = { identities.next() }
        return configuration
    }

    /// The process ends; what SQLite has committed stays.
    func shutDown() {
        store = nil
        exchange = nil
    }

    /// The process starts again, with its own new connection if the database is in a file.
    func start() throws {
        power.restore()
        if let path {
            try database.close()
            database = try Self.open(path, clock)
            database.add(transactionObserver: power, extent: .databaseLifetime)
        }
        store = try Store(wrapping: database, configuration: configuration)
    }

    /// Runs the writes of an external program. If SQLite refuses one, all are undone, unless `isTolerant` is true.
    ///
    /// - Parameter first: what the program does before, in the same transaction.
    func asStranger(
        _ statements: [String], isTolerant: Bool, checksParents: Bool, first: (Database) throws -> Void = { _ in }
    ) throws {
        try power.withStranger {
            try outside.writeWithoutTransaction { db in
                // The pragma has no effect inside a transaction.
                if !checksParents { try db.execute(sql: "PRAGMA foreign_keys = OFF") }
                let outcome = Result {
                    try db.inTransaction {
                        try first(db)
                        try Self.run(statements, isTolerant, db)
                        return .commit
                    }
                }
                if !checksParents { try db.execute(sql: "PRAGMA foreign_keys = ON") }
                try outcome.get()
            }
        }
    }

    /// Whether a constraint refused the write. A NULL for an INTEGER PRIMARY KEY, which SET NULL can write too, has its own error
    /// code.
    static func isRefusal(_ error: DatabaseError) -> Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode)
    }

    static func run(_ statements: [String], _ isTolerant: Bool, _ db: Database) throws {
        for statement in statements {
            do {
                try db.execute(sql: statement)
            } catch let error as DatabaseError where isTolerant && isRefusal(error) {
                continue
            }
        }
    }

    /// Reads the database between two steps, when no program writes. It uses no transaction, and not the pragma with which GRDB makes
    /// readers read-only, because after it SQLite compiles all statements of the connection again.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try outside.unsafeRead(body)
    }
}

/// New identities in an order that depends only on the seed.
final class Identities: Sendable {
    private let dice: Mutex<Dice>

    init(_ dice: Dice) {
        self.dice = Mutex(dice)
    }

    func next() -> UInt64 {
        dice.withLock { $0.next() }
    }
}
