package import AnnalsCore

/// A connection to the database with the relay's logs. It hides whether that is SQLite or PostgreSQL.
///
/// The relay's SQL is written once, in the common subset of both, with parameters `?1`, `?2` and so on. A value is a
/// 64-bit integer, text, bytes or NULL.
package protocol LogConnection {
    /// Follows a SELECT and locks its rows until the end of the transaction; empty if there is only one writer.
    var lockingClause: String { get }

    /// Runs a statement that returns no rows. An error may be thrown later, by the next `rows` or at the end of the
    /// transaction.
    func execute(_ sql: String, _ arguments: [any Storable]) throws

    /// Runs a statement and returns its rows.
    func rows(_ sql: String, _ arguments: [any Storable]) throws -> [LogRow]

    /// Announces a head to the other relays of the same database when the transaction is committed.
    func announce(_ head: Position, of space: SpaceName) throws

    /// Makes the database number new rows of this table, in this column, after `last`.
    func continueNumbering(_ column: String, of table: String, after last: Int64) throws

    /// Runs `body` in one transaction. It is durable when this returns, and rolled back if `body` throws.
    func transaction<T>(_ body: () throws -> T) throws -> T
}

extension LogConnection {
    package func row(_ sql: String, _ arguments: [any Storable]) throws -> LogRow? { try rows(sql, arguments).first }

    /// The only column of the only row.
    package func integer(_ sql: String, _ arguments: [any Storable]) throws -> Int64? { try row(sql, arguments)?.integer(0) }
}

/// The database with the relay's logs.
package protocol LogDatabase: Sendable {
    /// Reads one consistent state.
    func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T

    /// The same, blocking the caller's thread: for the start.
    func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T

    /// Runs `body` in one transaction, which is durable when this returns. If the connection is lost during the commit,
    /// its result is unknown and `body` runs again. So a second run must write the same.
    func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T

    /// The same, blocking the caller's thread.
    func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T

    /// Runs `body` without a transaction, after all earlier calls of `schedule` and all earlier writes.
    func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void)

    /// Calls `visit` with the heads that other relays of the same database announce, until `close`.
    func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void)

    /// The size of the database in bytes.
    func byteCount() async throws -> Int64

    func close() throws
}

extension LogDatabase {
    /// `schedule`, and waits for the end of `body`.
    func scheduled(_ body: @escaping @Sendable (any LogConnection) -> Void) async {
        await withCheckedContinuation { continuation in
            schedule { db in
                body(db)
                continuation.resume()
            }
        }
    }
}

/// An error of the database that maps to an error of the log.
package protocol StorageFailure: Error {
    var logError: RelayLogError { get }
    /// The transaction can be tried again at once: another transaction or a lost connection rolled it back, or its
    /// result is unknown.
    var isTransient: Bool { get }
}

/// A value in the database.
package enum LogValue: Sendable, Hashable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
}

/// One row of a result. Columns count from zero, in the order of the SELECT.
///
/// Code reads only columns that its statement names, so the array has them. Their values can have any type, because the
/// database may be corrupt or written by another program.
package struct LogRow: Sendable {
    package let values: [LogValue]

    package init(values: [LogValue]) { self.values = values }

    /// Throws for NULL or another type than the schema's, which is corruption.
    package func integer(_ column: Int) throws -> Int64 {
        guard case .integer(let value) = values[column] else { throw unexpected(column) }
        return value
    }

    package func text(_ column: Int) throws -> String {
        guard case .text(let value) = values[column] else { throw unexpected(column) }
        return value
    }

    package func bytes(_ column: Int) throws -> [UInt8] {
        guard case .bytes(let value) = values[column] else { throw unexpected(column) }
        return value
    }

    package func isNull(_ column: Int) -> Bool { values[column] == .null }

    /// The highest position, counter, size and time. Sums of a few of them do not overflow.
    package static let reach: Int64 = 1 << 60

    /// A number from `least` to `most`; any other value is corruption.
    package func number(_ column: Int, from least: Int64 = 0, to most: Int64 = LogRow.reach) throws -> Int64 {
        let value = try integer(column)
        guard value >= least, value <= most else { throw unexpected(column) }
        return value
    }

    package func position(_ column: Int) throws -> Position { Position(try number(column)) }

    package func counter(_ column: Int) throws -> Counter { Counter(try number(column)) }

    package func digest(_ column: Int) throws -> Digest {
        guard let digest = Digest(bytes: try bytes(column)) else { throw unexpected(column) }
        return digest
    }

    private func unexpected(_ column: Int) -> RelayLogError {
        .storage("column \(column) of a stored row is corrupt")
    }
}

/// An argument of a statement.
package protocol Storable {
    var stored: LogValue { get }
}

extension LogValue: Storable {
    package var stored: LogValue { self }
}

extension Int64: Storable {
    package var stored: LogValue { .integer(self) }
}

extension Int: Storable {
    package var stored: LogValue { .integer(Int64(self)) }
}

extension String: Storable {
    package var stored: LogValue { .text(self) }
}

extension [UInt8]: Storable {
    package var stored: LogValue { .bytes(self) }
}

extension Position: Storable {
    package var stored: LogValue { .integer(rawValue) }
}

extension Counter: Storable {
    package var stored: LogValue { .integer(rawValue) }
}

extension Digest: Storable {
    package var stored: LogValue { .bytes(bytes) }
}

/// For replicas and lineages.
extension Identifier: Storable {
    package var stored: LogValue { .bytes(bytes) }
}

extension SpaceName: Storable {
    package var stored: LogValue { .text(description) }
}

extension Optional: Storable where Wrapped: Storable {
    package var stored: LogValue { self?.stored ?? .null }
}
