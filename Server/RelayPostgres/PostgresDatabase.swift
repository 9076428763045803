package import AnnalsCore
package import RelayLog
internal import Synchronization

/// The log of one or more relays in PostgreSQL: any number of relays can serve one database at the same time.
///
///     let database = try PostgresDatabase(url: "postgres:///annals?host=/run/postgresql")
///
/// The address is one of libpq: a URL or `name=value` pairs. libpq's environment variables apply.
///
/// One connection writes, in order; the others read. If other transactions or a lost connection roll back a
/// transaction, it is tried again. So a transaction can run twice and must tolerate that.
package final class PostgresDatabase: LogDatabase {
    /// The format of the tables that this program writes.
    package static var format: Int64 { PostgresSchema.version }

    private let writer: Lane
    private let readers: [Lane]
    private let turn = Mutex(0)
    private let listener = Mutex<HeadListener?>(nil)
    private let url: String

    /// Snapshots in the same database.
    package let snapshots: PostgresSnapshotFiles

    /// Connects, and creates missing tables.
    ///
    /// Throws `AnnalsError`: `.newerFormat`, `.relayUnreachable` if no server answers, `.cannotCreate` if the server
    /// refuses.
    package init(url: String, readers: Int = RelayLogLimits().readers) throws {
        self.url = url
        writer = Lane("annals.relay.writer", url)
        self.readers = (0..<max(1, readers)).map { Lane("annals.relay.reader.\($0)", url) }
        snapshots = PostgresSnapshotFiles(url: url) { RelayClock.system.wall() }
        do {
            try writer.runNow(PostgresSchema.migrate)
        } catch let error as PostgresError {
            throw AnnalsError(
                error.isLostConnection ? .relayUnreachable : .cannotCreate, operation: "relay", "PostgreSQL: \(error.description)",
                hint: "Check the address, and that the server is running", isRetryable: error.isLostConnection)
        }
    }

    /// The database with logs and snapshots.
    package static func relayDatabase(url: String, readers: Int = RelayLogLimits().readers) throws -> RelayDatabase {
        let database = try PostgresDatabase(url: url, readers: readers)
        return RelayDatabase(shared: database, snapshots: database.snapshots)
    }

    /// The same with its own schema, which is created if it is missing. So one database can hold the data of several
    /// relays.
    package static func relayDatabase(
        url: String, readers: Int = RelayLogLimits().readers, creating schema: String
    ) throws -> RelayDatabase {
        let lane = Lane("annals.relay.schema", url)
        defer { lane.close() }
        try lane.runNow { try $0.execute("CREATE SCHEMA IF NOT EXISTS \"\(schema)\"", []) }
        return try relayDatabase(url: url, readers: readers)
    }

    package func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        let lane = turn.withLock { turn in
            turn = (turn + 1) % readers.count
            return readers[turn]
        }
        return try await lane.run { connection in try connection.snapshot { try body(connection) } }
    }

    package func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T {
        try readers[0].runNow { connection in try connection.snapshot { try body(connection) } }
    }

    package func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await writer.run { connection in try connection.transaction { try body(connection) } }
    }

    package func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T {
        try writer.runNow { connection in try connection.transaction { try body(connection) } }
    }

    package func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void) {
        writer.schedule(body)
    }

    package func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void) {
        let listener = HeadListener(url: url, visit)
        self.listener.withLock { $0 = listener }
    }

    package func byteCount() async throws -> Int64 {
        try await read { try $0.integer("SELECT pg_database_size(current_database())", []) ?? 0 }
    }

    package func close() {
        listener.withLock { $0 }?.close()
        for lane in readers + [writer] { lane.close() }
        snapshots.close()
    }
}
