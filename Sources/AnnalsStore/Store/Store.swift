public import AnnalsCore
public import AnnalsHistory
package import AnnalsMerge
public import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import Foundation
public import GRDB

/// A SQLite file, or an in-memory database, with tracked tables.
///
///     let store = try Store(path: path)
///     try await store.track(.tables(["customer", "invoice"]))
///     try await store.write(author: "till 3") { db in
///         try db.execute(sql: "UPDATE invoice SET isPaid = 1 WHERE id = ?", arguments: [17])
///     }
///
/// Any program may go on reading and writing the file. What others write is captured too, and told apart.
public final class Store: Sendable {
    /// Choices made when a store is opened.
    public struct Configuration: Sendable {
        /// Where there is no file, or an empty one, a new one is made, in WAL mode.
        public var createIfMissing = false
        /// Brings the schema up to date before anything else is done with the store. What it does to tracked rows is in history,
        /// as a transaction of origin migration.
        ///
        /// Its `eraseDatabaseOnSchemaChange` is for developing, as with GRDB: a file that the migrations would make otherwise by now is
        /// erased together with its history and made anew, and of its tables those that `tables` names are tracked. A store that is joined
        /// to a space is refused instead (`schemaRefused`), since what waits in its outbox would be gone. It does not count beside `stages`.
        public var migrator: DatabaseMigrator?
        /// The versions of the app's schema, by which a file is made and brought up to date; after the migrator, where there is one too.
        public var stages: StagedMigrationManager?
        /// The tables that have history from the moment on at which the store is open; nil leaves that to `track`.
        ///
        /// With `.tables` each of them must be there and be one that can be tracked, or the store does not open.
        public var tables: Tracking.Selection?
        /// Called with every connection as it is opened, for functions, collations and pragmas of the app's own. Not with
        /// `Store(wrapping:)`, whose connections are the app's; what else is opened for it is prepared as they are.
        public var prepareDatabase: (@Sendable (Database) throws -> Void)?
        /// How the connections of a wrapped database are opened, for others that are to know the same functions and collations.
        var wrapped: GRDB.Configuration?
        /// Logs statements with their times; see `StatementTrace`. Not with `Store(wrapping:)`.
        public var trace: StatementTrace?
        /// How long to wait for another program's lock.
        public var busyTimeout: Duration = .seconds(10)
        /// The wall clock, in milliseconds since 1970.
        public var now: @Sendable () -> Int64 = { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) }
        /// Microseconds that pass, from any beginning: how long a slice of a purge holds the write lock.
        package var microseconds: @Sendable () -> Int64 = {
            Int64(DispatchTime.now().uptimeNanoseconds / 1_000)
        }
        /// Waits; between the slices of a purge, so that others can write.
        package var pause: @Sendable (Duration) async throws -> Void = { try await ContinuousClock().sleep(for: $0) }
        /// What this process calls itself in history.
        public var process = ProcessInfo.processInfo.processName
        /// Where new identities come from. A test draws them from its seed, since ties between replicas are settled by them.
        package var random: @Sendable () -> UInt64 = { UInt64.random(in: 0 ... .max) }
        /// How conflicts of this store's own work are settled.
        package var mergePolicies = MergePolicies()
        /// The keys of the space that the store belongs to; without them they are read from the file that was named at join.
        public var spaceKeys: SpaceKeyRing?
        /// See `CaptureEnvironment.largeValue`.
        package var largeValue: Int?
        /// How much is encoded and sent at a time.
        package var outboxLimits = OutboxLimits()

        /// Who makes the tables and columns here that the space's schema got elsewhere.
        public var newSchemas = NewSchemas.wait

        /// The file is made anew should the machine stop: nothing waits for the disk. Whoever keeps it makes it durable.
        package var isScratch = false
        /// The file came from elsewhere: what its schema calls is held to what can do no harm (`PRAGMA trusted_schema`).
        package var isUntrusted = false

        public init() {}
    }

    /// The file, or `:memory:` where the database has none that others could open.
    public let path: String
    public let configuration: Configuration
    package let database: any DatabaseWriter
    let schema = SchemaCache()
    let patience: BusyTimeout
    let foreign = ForeignCommits()
    let lastLook = IdleCache()
    let closing = CloseLatch()

    /// Opens a database: makes it if it may, migrates it, starts the history of its tables, and checks it.
    ///
    ///     var configuration = Store.Configuration()
    ///     configuration.createIfMissing = true
    ///     configuration.migrator = migrator
    ///     configuration.tables = .all
    ///     let store = try Store(path: path, configuration: configuration)
    ///
    /// The journal mode of a file that exists stays as it is found. This blocks the calling thread for as long as migrations
    /// take.
    ///
    /// - Throws: `AnnalsError` with code `fileNotFound`, `cannotCreate`, `notADatabase`, `readOnly`, `notPermitted`, `busy` or
    ///   `newerFormat`; `schemaRefused` for a table that cannot be tracked, and for a schema that is newer than the migrator or the stages
    ///   know. What the migrator's own closures throw comes through as it is.
    public init(path: String, configuration: Configuration = Configuration()) throws {
        let path = DatabaseFile.plain(path)
        self.path = path
        self.configuration = configuration
        patience = BusyTimeout(configuration.busyTimeout)
        do {
            let options = configuration.connectionOptions(patience)
            if try configuration.createIfMissing && DatabaseFile.isMissing(path) {
                database = try DatabaseFile.create(path, options)
            } else {
                try DatabaseFile.check(path)
                database = try DatabaseFile.open(path, options)
            }
            try database.writeWithoutTransaction { [foreign] db in try foreign.look(db) }
        } catch {
            throw StoreError.translate(error, operation: "open", path: path)
        }
        try checkFormat()
        try prepare()
    }

    /// A store in memory, for tests and trials. `name` is free.
    ///
    /// Stores of one name have the same rows. Each tells only of its own commits: to lists and `remoteChanges`, and to its agent.
    ///
    /// - Throws: as `init(path:configuration:)`.
    public init(inMemory name: String? = nil, configuration: Configuration = Configuration()) throws {
        path = ":memory:"
        self.configuration = configuration
        patience = BusyTimeout(configuration.busyTimeout)
        do {
            database = try DatabaseQueue(named: name, configuration: configuration.connectionOptions(patience))
        } catch {
            throw StoreError.translate(error, operation: "open", path: path)
        }
        try prepare()
    }

    /// Adopts an app's own pool or queue, which goes on being used as before. The configuration's migrator and tables count.
    ///
    /// - Throws: as `init(path:configuration:)`.
    public init(wrapping writer: any DatabaseWriter, configuration: Configuration = Configuration()) throws {
        path = DatabaseFile.path(of: writer)
        self.configuration = configuration.wrapping(writer)
        patience = BusyTimeout(configuration.busyTimeout)
        database = writer
        try checkFormat()
        try prepare()
    }

    private func checkFormat() throws {
        try blocking("open") { try $0.reading { db in try StoreSchema.checkFormat(db) } }
    }

    // MARK: Access for the rest of the module

    /// Runs work on the calling thread and translates what it throws.
    func blocking<T>(_ operation: String, _ body: (any DatabaseWriter) throws -> T) throws -> T {
        do {
            return try body(database)
        } catch  where FullTextIndexes.isAbout(error) {
            let damaged = try? database.writeWithoutTransaction { db in try FullTextIndexes.damaged(db) }
            throw StoreError.corruptIndex(damaged ?? [], error, operation: operation)
        } catch {
            throw StoreError.translate(error, operation: operation, path: path)
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
            throw StoreError.translate(error, operation: operation, path: path)
        }
    }

    /// Reads the last committed state.
    ///
    /// - Throws: `AnnalsError` when SQLite refuses; what `body` throws otherwise.
    public func read<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await translated("read") { try await database.readingOnly { db in try ClosureError.passing { try body(db) } } }
    }
}
