package import AnnalsCore
package import RelayLog
internal import Synchronization

/// Relays' logs in PostgreSQL: any number of relays may serve one database at once.
///
///     let database = try PostgresDatabase(url: "postgres:///annals?host=/run/postgresql")
///
/// The address is libpq's, a URL or `name=value` pairs, and libpq's environment variables count.
///
/// One connection writes, in order, and some read. A transaction that PostgreSQL rolled back because of others, or whose
/// connection was lost, is tried again: whatever is written this way may be written twice.
package final class PostgresDatabase: LogDatabase {
    private let writer: Lane
    private let readers: [Lane]
    private let turn = Mutex(0)
    private let listener = Mutex<HeadListener?>(nil)
    private let url: String

    /// Snapshots, in the same database.
    package let snapshots: PostgresSnapshotFiles

    /// Connects, and makes the tables where they are missing.
    ///
    /// Throws `AnnalsError`: `.newerFormat`, `.relayUnreachable` where no server answers, `.cannotCreate` where it refuses.
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
                hint: "Check the address, and that the server runs", isRetryable: error.isLostConnection)
        }
    }

    /// Logs and snapshots.
    package static func relayDatabase(url: String, readers: Int = RelayLogLimits().readers) throws -> RelayDatabase {
        let database = try PostgresDatabase(url: url, readers: readers)
        return RelayDatabase(shared: database, snapshots: database.snapshots)
    }

    /// The same in a schema of its own, which is made where it is missing: several relays' data in one database.
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
