public import AnnalsCore
public import AnnalsHistory
package import AnnalsMerge
public import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
public import Foundation
public import GRDB

/// A SQLite file, or an in-memory database, with tracked tables.
///
///     let store = try Store(path: path)
///     try await store.track(.tables(["customer", "invoice"]))
///     try await store.write(author: "till 3") { db in
///         try db.execute(sql: "UPDATE invoice SET isPaid = 1 WHERE id = ?", arguments: [17])
///     }
///
/// Any program may read and write the file meanwhile. Writes of other programs are captured too, and marked as external.
public final class Store: Sendable {
    /// Options for opening a store.
    public struct Configuration: Sendable {
        /// Creates a file in WAL mode if it does not exist or is empty.
        public var createIfMissing = false
        /// Migrates the schema before anything else is done with the store. Its changes to tracked rows are in history, as a
        /// transaction of origin migration.
        ///
        /// Its `eraseDatabaseOnSchemaChange` is for development, as with GRDB. If the migrations would now create another schema,
        /// the file is erased with its history and created again, and the tables in `tables` are tracked. A store that is joined to
        /// a space is not erased; it throws `schemaRefused`, because its outbox would be lost. The option is ignored if `stages` is
        /// set.
        public var migrator: DatabaseMigrator?
        /// The versions of the app's schema, which create and migrate a file. They run after the migrator, if both are set.
        public var stages: StagedMigrationManager?
        /// The tables that have history from the opening of the store; nil leaves this to `track`.
        ///
        /// With `.tables`, each of them must exist and be trackable; otherwise the store does not open.
        public var tables: Tracking.Selection?
        /// Called for every connection when it is opened, for the app's functions, collations and pragmas. It is not called with
        /// `Store(wrapping:)`, because the app opens these connections. Additional connections for such a store get the same
        /// preparation as these.
        public var prepareDatabase: (@Sendable (Database) throws -> Void)?
        /// Files with extensions of SQLite that the user of a program named, loaded into every connection. The schema of a snapshot may call
        /// their functions, as far as they are not marked as direct only. Entries of the log may not.
        package var extensions: [String] = []
        /// The options of a wrapped database's connections, for additional connections that need the same functions and collations.
        var wrapped: GRDB.Configuration?
        /// Logs statements with their durations; see `StatementTrace`. Not with `Store(wrapping:)`.
        public var trace: StatementTrace?
        /// How long to wait for another program's lock.
        public var busyTimeout: Duration = .seconds(10)
        /// The wall clock, in milliseconds since 1970.
        public var now: @Sendable () -> Int64 = { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) }
        /// Microseconds that have passed since some start. It measures how long a slice of a purge holds the write lock.
        package var microseconds: @Sendable () -> Int64 = {
            Int64(DispatchTime.now().uptimeNanoseconds / 1_000)
        }
        /// Waits between the slices of a purge, so that others can write.
        package var pause: @Sendable (Duration) async throws -> Void = { try await ContinuousClock().sleep(for: $0) }
        /// The name of this process in history.
        public var process = ProcessInfo.processInfo.processName
        /// The source of new identities. A test draws them from its seed, because they decide ties between replicas.
        package var random: @Sendable () -> UInt64 = { UInt64.random(in: 0 ... .max) }
        /// The `MergePolicy` of new edit contexts, which a module above declares.
        package var editPolicy: (any Sendable)?
        /// How conflicts of this store's own transactions are settled.
        package var mergePolicies = MergePolicies()
        /// The keys of the store's space; nil: they are read from the file that was named at join.
        public var spaceKeys: SpaceKeyRing?
        /// See `CaptureEnvironment.largeValue`.
        package var largeValue: Int?
        /// How much is encoded and sent at a time.
        package var outboxLimits = OutboxLimits()

        /// Who creates tables and columns here that another replica added to the space's schema.
        public var newSchemas = NewSchemas.wait

        /// The file can be created again after a crash of the machine, so no write waits for the disk. Code that keeps the file
        /// makes it durable.
        package var isScratch = false
        /// The file is from elsewhere. What its schema calls is limited to what is safe (`PRAGMA trusted_schema`).
        package var isUntrusted = false

        public init() {}
    }

    /// The file, or `:memory:` if the database has no file that others could open.
    public let path: String
    public let configuration: Configuration
    package let database: any DatabaseWriter
    /// For code of GRDB that reads, such as `ValueObservation`. It sees every commit that this store makes or records, also of a sync.
    ///
    ///     let names = ValueObservation.tracking { db in try String.fetchAll(db, sql: "SELECT name FROM person") }
    ///     for try await names in names.values(in: store.reader) { show(names) }
    public var reader: AnyDatabaseReader { AnyDatabaseReader(database) }
    let schema = SchemaCache()
    let busyTimeout: BusyTimeout
    let otherCommits = OtherCommits()
    let rolledBackSchema = RolledBackSchema()
    let idleCache = IdleCache()
    let closing = CloseLatch()

    /// Opens a database: creates it if allowed, checks its format, migrates it, and starts the history of its tables.
    ///
    ///     var configuration = Store.Configuration()
    ///     configuration.createIfMissing = true
    ///     configuration.migrator = migrator
    ///     configuration.tables = .all
    ///     let store = try Store(path: path, configuration: configuration)
    ///
    /// The journal mode of an existing file is not changed. This blocks the calling thread while migrations run.
    ///
    /// - Throws: `AnnalsError` with code `fileNotFound`, `cannotCreate`, `notADatabase`, `readOnly`, `notPermitted`, `busy` or
    ///   `newerFormat`; `schemaRefused` for a table that cannot be tracked, and for a schema that is newer than the migrator or the
    ///   stages. Errors of the migrator's closures are passed on unchanged.
    public init(path: String, configuration: Configuration = Configuration()) throws {
        guard path != ":memory:" else {
            throw AnnalsError(
                .usage, operation: "open", ":memory: is not a file", hint: "Use Store(inMemory:), or ./:memory: for a file of this name",
                commandHint: "Write ./:memory: for a file of this name")
        }
        let path = DatabaseFile.plain(path)
        self.path = path
        self.configuration = configuration
        busyTimeout = BusyTimeout(configuration.busyTimeout)
        do {
            let options = configuration.connectionOptions(busyTimeout)
            if try configuration.createIfMissing && DatabaseFile.isMissing(path) {
                database = try DatabaseFile.create(path, options)
            } else {
                try DatabaseFile.check(path)
                database = try DatabaseFile.open(path, options)
            }
            try database.writeWithoutTransaction { [otherCommits] db in try otherCommits.look(db) }
        } catch {
            throw StoreError.thrown(error, operation: "open", path: path)
        }
        try checkFormat()
        try prepare()
    }

    /// Opens a database at a file URL; see `init(path:configuration:)`.
    ///
    ///     let store = try Store(url: folder.appending(component: "shop.db"))
    ///
    /// - Throws: as `init(path:configuration:)`; `usage` for a URL that is not of a file.
    public convenience init(url: URL, configuration: Configuration = Configuration()) throws {
        guard url.isFileURL else {
            throw AnnalsError(.usage, operation: "open", "the URL \(url.absoluteString) is not of a file", hint: "Use URL(filePath:)")
        }
        try self.init(path: url.path(percentEncoded: false), configuration: configuration)
    }

    /// A store in memory, for tests and experiments. `name` is any name.
    ///
    /// Stores with the same name share their rows. Each reports only its own commits to lists, `remoteChanges` and its agent.
    ///
    /// - Throws: as `init(path:configuration:)`.
    public init(inMemory name: String? = nil, configuration: Configuration = Configuration()) throws {
        path = ":memory:"
        self.configuration = configuration
        busyTimeout = BusyTimeout(configuration.busyTimeout)
        do {
            database = try DatabaseQueue(named: name, configuration: configuration.connectionOptions(busyTimeout))
        } catch {
            throw StoreError.thrown(error, operation: "open", path: path)
        }
        try prepare()
    }

    /// Uses an app's own pool or queue, which the app can continue to use. The configuration's migrator and tables apply.
    ///
    /// A `DatabaseQueue` on a file that is not in WAL mode, with GRDB's default `busyMode`, gets the configuration's `busyTimeout`.
    /// Annals reads such a file to notice commits of other programs, and the queue's writes would fail if they met such a read.
    ///
    /// - Throws: as `init(path:configuration:)`.
    public init(wrapping writer: any DatabaseWriter, configuration: Configuration = Configuration()) throws {
        path = DatabaseFile.path(of: writer)
        self.configuration = configuration.wrapping(writer)
        busyTimeout = BusyTimeout(configuration.busyTimeout)
        database = writer
        try checkFormat()
        try waitForReads(of: writer)
        try prepare()
    }

    /// In WAL mode a read delays no commit.
    private func waitForReads(of writer: any DatabaseWriter) throws {
        guard case .immediateError = writer.configuration.busyMode else { return }
        let milliseconds = min(configuration.busyTimeout.wholeMilliseconds, Int64(Int32.max))
        try blocking("open") { database in
            try database.writeWithoutTransaction { db in
                guard try String.fetchOne(db, sql: "PRAGMA main.journal_mode") != "wal" else { return }
                try db.execute(sql: "PRAGMA busy_timeout = \(milliseconds)")
            }
        }
    }

    private func checkFormat() throws {
        try blocking("open") { try $0.reading { db in try StoreSchema.checkFormat(db) } }
    }

    // MARK: Access for the rest of the module

    /// Runs `work` on the calling thread and translates its errors.
    func blocking<T>(_ operation: String, _ body: (any DatabaseWriter) throws -> T) throws -> T {
        do {
            return try body(database)
        } catch  where FullTextIndexes.isAbout(error) {
            let damaged = try? database.writeWithoutTransaction { db in try FullTextIndexes.damaged(db) }
            throw StoreError.corruptIndex(damaged ?? [], error, operation: operation)
        } catch {
            throw StoreError.thrown(error, operation: operation, path: path)
        }
    }

    func translated<T>(_ operation: String, _ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch  where ClosureError.isIn(error) {
            schema.forget()
            throw ClosureError.of(error)
        } catch  where FullTextIndexes.isAbout(error) {
            schema.forgetRolledBack()
            let damaged = try? await database.writeWithoutTransaction { db in try FullTextIndexes.damaged(db) }
            throw StoreError.corruptIndex(damaged ?? [], error, operation: operation)
        } catch {
            schema.forgetRolledBack()
            throw StoreError.thrown(error, operation: operation, path: path)
        }
    }

    /// Reads the last committed state.
    ///
    /// - Throws: `AnnalsError` for errors of SQLite; other errors of `body` unchanged.
    public func read<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await translated("read") { try await database.readingOnly { db in try ClosureError.passing { try body(db) } } }
    }
}
