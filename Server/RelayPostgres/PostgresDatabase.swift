internal import AnnalsCore
internal import Dispatch
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

    /// How often a transaction is tried.
    private static let attempts = 3

    /// A connection and the queue on which alone it is used.
    private final class Lane: Sendable {
        let queue: DispatchQueue
        // Only touched on the queue.
        nonisolated(unsafe) let connection: PostgresConnection

        init(_ label: String, _ url: String) {
            queue = DispatchQueue(label: label)
            connection = PostgresConnection(url: url)
        }

        func run<T: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> T) async throws -> T {
            try await withCheckedThrowingContinuation { continuation in
                queue.async { continuation.resume(with: Result { try PostgresDatabase.persistently { try body(self.connection) } }) }
            }
        }
    }

    /// Connects, and makes the tables where they are missing.
    ///
    /// Throws `AnnalsError`: `.newerFormat`, `.cannotCreate`.
    package init(url: String, readers: Int = RelayLogLimits().readers) throws {
        writer = Lane("annals.relay.writer", url)
        self.readers = (0..<max(1, readers)).map { Lane("annals.relay.reader.\($0)", url) }
        do {
            try writer.queue.sync { [writer] in try Self.persistently { try PostgresSchema.migrate(writer.connection) } }
        } catch let error as PostgresError {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "PostgreSQL: \(error.description)", hint: "Check the address, and that the server runs")
        }
    }

    package func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        let lane = turn.withLock { turn in
            turn = (turn + 1) % readers.count
            return readers[turn]
        }
        return try await lane.run { connection in try connection.snapshot { try body(connection) } }
    }

    package func readNow<T: Sendable>(_ body: @Sendable (any LogConnection) throws -> T) throws -> T {
        let lane = readers[0]
        return try lane.queue.sync {
            try Self.persistently { try lane.connection.snapshot { try body(lane.connection) } }
        }
    }

    package func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await writer.run { connection in try connection.transaction { try body(connection) } }
    }

    package func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void) {
        writer.queue.async { [writer] in body(writer.connection) }
    }

    package func close() {
        for lane in readers + [writer] { lane.queue.sync { lane.connection.disconnect() } }
    }

    fileprivate static func persistently<T>(_ body: () throws -> T) throws -> T {
        for _ in 1..<attempts {
            do {
                return try body()
            } catch let error as PostgresError where error.isTransient {
                continue
            }
        }
        return try body()
    }
}
