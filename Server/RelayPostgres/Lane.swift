internal import Dispatch

/// A connection with the only queue that uses it.
final class Lane: Sendable {
    private let queue: DispatchQueue
    // Used only on the queue.
    nonisolated(unsafe) private let connection: PostgresConnection

    /// How often a transaction is tried if another transaction or a lost connection rolls it back.
    private static let attempts = 3

    init(_ label: String, _ url: String) {
        queue = DispatchQueue(label: label)
        connection = PostgresConnection(url: url)
    }

    func run<T: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try self.persistently(body) }) }
        }
    }

    /// Blocks the caller's thread.
    func runNow<T: Sendable>(_ body: (PostgresConnection) throws -> T) throws -> T {
        try queue.sync { try persistently(body) }
    }

    /// Runs `body` once, also if it throws.
    func schedule(_ body: @escaping @Sendable (PostgresConnection) -> Void) {
        queue.async { body(self.connection) }
    }

    func close() {
        queue.sync { connection.disconnect() }
    }

    private func persistently<T>(_ body: (PostgresConnection) throws -> T) throws -> T {
        for _ in 1..<Self.attempts {
            do {
                return try body(connection)
            } catch let error as PostgresError where error.isTransient {
                continue
            }
        }
        return try body(connection)
    }
}
