internal import Dispatch

/// A connection and the queue on which alone it is used.
final class Lane: Sendable {
    private let queue: DispatchQueue
    // Only touched on the queue.
    nonisolated(unsafe) private let connection: PostgresConnection

    /// How often a transaction is tried that others, or a lost connection, undid.
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

    /// Runs `body` once, whatever it throws.
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
