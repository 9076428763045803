import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import GRDB
import Synchronization

/// One machine of the world: a database, a process that keeps it in step, and other programs that write it.
final class Replica {
    let name: String
    let clock: WallClock
    let power = Power()
    private let configuration: Store.Configuration
    /// What the relay knows it by.
    var id: ReplicaID { look.replica }
    /// nil while the process is not running.
    private(set) var store: Store?
    /// The connection of the store's process.
    private var database: DatabaseQueue
    /// The connection of other programs, and of those who look.
    private(set) var outside: DatabaseQueue
    /// nil in memory.
    private let path: String?

    /// The exchange under way, and which step began it.
    var exchange: Exchange?
    /// As it was when it was last looked at, which is after every step.
    var look = Look()
    /// What history had shown by then.
    var seenNumber: Int64 = 0
    /// The newest transaction of its own.
    var newestOwnNumber: Int64 = 0
    /// The rows before strangers' first write that is not sealed yet.
    var rowsBeforeStrangers: Rows?
    var tableNumbers: [Int: String] = [:]
    /// Positions that the relay said its pushes have. A copy's begin as those of the file it was copied from.
    var accepted: Set<Int64> = []
    /// Its file was copied, or is a copy: only then it may become another replica.
    var isCopied = false
    /// Policies for its own work only.
    var overrides: [PolicySetting] = []
    /// Requests from and to it are lost until then.
    var cutUntil: Int64 = 0
    /// Another program rebuilt a table since the rows were last compared with the log: there may be rows that nobody saw written.
    var mayHoldUnseen = false
    /// What the log was when the relay was put back to an older backup, where this replica has more of it than the backup.
    var lostLog: Oracle?
    /// It keeps parts of that log that wait for their last, though its rows do not lie on it.
    var keepsLostParts = false
    /// The last exchange ended with word that the relay went back.
    var wasTold = false
    /// The position of the last snapshot that the exchange got.
    var downloaded: Int64?
    /// Programs that read its history.
    var readers: [Int: Reader] = [:]
    /// A purge of its history is under way that nobody holds back.
    var isPurgeForced = false
    /// Tokens with the rows of their moment.
    var memories: [(token: HistoryToken, rows: Rows)] = []

    /// One that reads history.
    struct Reader {
        /// It has read the transactions up to this one.
        var number: Int64
        /// What it had not read was purged.
        var isExpired = false
        /// A rebuilt table began history anew, or its program died: nobody outside can tell where it is.
        var isUnclear = false

        static func consumer(_ number: Int) -> HistoryConsumer { HistoryConsumer("reader \(number)") }

        /// What is wrong with what it got: it gets what it has not read, in order, each once; where that is gone it is told.
        func complaint(_ found: [Int64], limit: Int, newest: Int64, isTold: Bool) -> String? {
            if isUnclear { return nil }
            guard isTold == isExpired else { return "is\(isTold ? "" : " not") told that it expired" }
            let end = min(newest, number + Int64(limit))
            let expected = isTold || end <= number ? [] : Array(number + 1...end)
            return found == expected ? nil : "gets \(found) and not \(expected)"
        }
    }

    struct Exchange {
        var session: Session
        var step: Int
        /// Requests made so far.
        var requests = 0
        /// Answers to requests before this one go to nobody.
        var isWaiting = false
        /// The relay answered while it had another log than the replica.
        var hasOtherAnswer = false
        /// The relay may say that it went back.
        var mayBeTold = false
        /// What was pushed last is the last part of its transaction, or all of it: the answer says where it stands.
        var isLastPart = false
    }

    /// Takes over a database that is there, in memory or in a file.
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
            try db.execute(sql: "PRAGMA synchronous = OFF; PRAGMA secure_delete = OFF")
        }
        guard let path else { return try DatabaseQueue(configuration: options) }
        return try DatabaseQueue(path: path, configuration: options)
    }

    static func configuration(_ name: String, _ clock: WallClock, _ identities: Identities, _ sizes: SizePlan?) -> Store.Configuration {
        var configuration = Store.Configuration()
        if let sizes { configuration.outboxLimits.partBytes = sizes.partBytes }
        if let pieceBytes = sizes?.pieceBytes { configuration.outboxLimits.pieceBytes = pieceBytes }
        // A purge's slices end after a step or two, and always at the same one.
        let ticks = Atomic<Int64>(0)
        configuration.microseconds = { ticks.add(4_000, ordering: .relaxed).newValue }
        configuration.pause = { _ in }
        configuration.now = { clock.milliseconds }
        configuration.process = name
        configuration.random = { identities.next() }
        return configuration
    }

    /// The process is gone; what SQLite has committed stays.
    func shutDown() {
        store = nil
        exchange = nil
    }

    /// The process starts anew, on a connection of its own where there can be a second one.
    func start() throws {
        power.restore()
        if let path {
            try database.close()
            database = try Self.open(path, clock)
            database.add(transactionObserver: power, extent: .databaseLifetime)
        }
        store = try Store(wrapping: database, configuration: configuration)
    }

    /// Runs what another program does. What SQLite refuses of it is undone.
    ///
    /// - Parameter first: what it does before, in the same transaction.
    func asStranger(
        _ statements: [String], isTolerant: Bool, checksParents: Bool, first: (Database) throws -> Void = { _ in }
    ) throws {
        try power.withStranger {
            try outside.writeWithoutTransaction { db in
                // Inside a transaction the pragma does nothing.
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

    /// A constraint does not allow it; a NULL for an INTEGER PRIMARY KEY, which SET NULL writes too, has a code of its own.
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

    /// Looks at the database between two steps, when nobody writes: without a transaction, and without the pragma that GRDB
    /// keeps readers from writing with, after which SQLite compiles every statement of the connection anew.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try outside.unsafeRead(body)
    }
}

/// New identities in an order that depends on the seed alone.
final class Identities: Sendable {
    private let dice: Mutex<Dice>

    init(_ dice: Dice) {
        self.dice = Mutex(dice)
    }

    func next() -> UInt64 {
        dice.withLock { $0.next() }
    }
}
