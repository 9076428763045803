package import AnnalsCore

/// A connection to the database that holds the relay's logs: SQLite or PostgreSQL, which the rest of the relay need not know.
///
/// All SQL of the relay is written once, in what both understand, with parameters `?1`, `?2` and so on. A value is an
/// integer of 64 bits, text, bytes or NULL.
package protocol LogConnection {
    /// What follows a SELECT whose rows nobody else may change until the transaction's end; empty where only one writes anyway.
    var lockingClause: String { get }

    /// Runs a statement that returns no rows. Its failure may show as late as in the next `rows`, or when the transaction ends.
    func execute(_ sql: String, _ arguments: [any Storable]) throws

    /// Runs a statement and returns its rows.
    func rows(_ sql: String, _ arguments: [any Storable]) throws -> [LogRow]

    /// Tells the other relays of the same database of a head, once the transaction is committed.
    func announce(_ head: Position, of space: SpaceName) throws

    /// Numbers that the database gives to rows of this table, in that column, from now on are beyond `last`.
    func continueNumbering(_ column: String, of table: String, after last: Int64) throws

    /// Runs `body` in one transaction, which is durable when this returns, and rolled back when it throws.
    func transaction<T>(_ body: () throws -> T) throws -> T
}

extension LogConnection {
    package func row(_ sql: String, _ arguments: [any Storable]) throws -> LogRow? { try rows(sql, arguments).first }

    /// The only column of the only row.
    package func integer(_ sql: String, _ arguments: [any Storable]) throws -> Int64? { try row(sql, arguments)?.integer(0) }
}

/// Where the relay's logs are kept.
package protocol LogDatabase: Sendable {
    /// Reads one state of the whole.
    func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T

    /// The same on the caller's thread, which it blocks: for the start.
    func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T

    /// Runs `body` in one transaction; durable when this returns. Where a connection is lost over a commit nobody knows whether it
    /// took place: then `body` is run once more, so what it writes must be the same the second time.
    func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T

    /// The same on the caller's thread, which it blocks.
    func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T

    /// Runs `body` without a transaction when all that was scheduled or written before is done.
    func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void)

    /// Calls `visit` with heads that other relays of the same database announce, until `close`.
    func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void)

    /// Bytes that the database takes.
    func byteCount() async throws -> Int64

    func close() throws
}

extension LogDatabase {
    /// `schedule`, awaited.
    func scheduled(_ body: @escaping @Sendable (any LogConnection) -> Void) async {
        await withCheckedContinuation { continuation in
            schedule { db in
                body(db)
                continuation.resume()
            }
        }
    }
}

/// A database's own error, which says what it means for the log.
package protocol StorageFailure: Error {
    var logError: RelayLogError { get }
    /// The transaction may be tried again at once: others, or a lost connection, undid it, as far as anybody knows.
    var isTransient: Bool { get }
}

/// What can be stored.
package enum LogValue: Sendable, Hashable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
}

/// One row of an answer; columns count from zero, in the order of the SELECT.
///
/// A column that is read is one that the statement names, so the array has it. What stands in it may be anything: the file, or the
/// database, can be damaged, or written to by others.
package struct LogRow: Sendable {
    package let values: [LogValue]

    package init(values: [LogValue]) { self.values = values }

    /// NULL, or another type than the schema says, is damage.
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

    /// Positions, counters, sizes and times reach so far, so that sums of a few of them stay numbers.
    package static let reach: Int64 = 1 << 60

    /// A number from `least` to `most`; another one is damage.
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
        .storage("column \(column) of a stored row is damaged")
    }
}

/// What a statement takes as an argument.
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

/// Of replicas and lineages.
extension Identifier: Storable {
    package var stored: LogValue { .bytes(bytes) }
}

extension SpaceName: Storable {
    package var stored: LogValue { .text(description) }
}

extension Optional: Storable where Wrapped: Storable {
    package var stored: LogValue { self?.stored ?? .null }
}
