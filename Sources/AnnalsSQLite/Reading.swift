import AnnalsCore
package import GRDB
import GRDBSQLite

/// GRDB's message for a closed connection.
package enum ClosedConnection {
    package static let message = "Connection is closed"
}

extension DatabaseWriter {
    /// Runs read-only code of Annals on one committed state.
    ///
    /// GRDB's `read` keeps a caller's closure from writing. On a queue it sets `query_only` before and after it, and
    /// SQLite then compiles every statement of the connection again. Annals' own code does not need this protection.
    package func reading<T: Sendable>(_ body: @Sendable (Database) throws -> T) async throws -> T {
        try await unsafeRead { db in try db.inOneState { try body(db) } }
    }

    /// The same, synchronously on the calling thread.
    package func reading<T>(_ body: (Database) throws -> T) throws -> T {
        try unsafeRead { db in try db.inOneState { try body(db) } }
    }

    /// GRDB's `read`, for a closure of the caller. On a closed queue GRDB would use the connection although it no
    /// longer exists, so this is checked first.
    package func readingOnly<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        guard self is DatabaseQueue else { return try await read(body) }
        return try await unsafeRead { db in try db.inOneStateOnly { try body(db) } }
    }

    /// The same, synchronously on the calling thread.
    package func readingOnly<T>(_ body: (Database) throws -> T) throws -> T {
        guard self is DatabaseQueue else { return try read(body) }
        return try unsafeRead { db in try db.inOneStateOnly { try body(db) } }
    }
}

extension Database {
    /// A transaction that GRDB does not see. So GRDB's observers are not notified of a commit without writes.
    fileprivate func inOneState<T>(_ body: () throws -> T) throws -> T {
        try checkIsOpen()
        guard !isInsideTransaction else { return try body() }
        try perform("BEGIN")
        do {
            let result = try body()
            try perform("COMMIT")
            return result
        } catch {
            if isInsideTransaction { try? perform("ROLLBACK") }
            throw error
        }
    }

    /// The same steps as GRDB's `read` on a queue.
    fileprivate func inOneStateOnly<T>(_ body: () throws -> T) throws -> T {
        try checkIsOpen()
        guard !isInsideTransaction else { return try readOnly(body) }
        var result: T?
        try readOnly {
            try inSavepoint {
                result = try body()
                return .commit
            }
        }
        guard let result else { throw AnnalsError(.defect, operation: "read", "internal error: a read ended without a result") }
        return result
    }

    private func checkIsOpen() throws {
        guard sqliteConnection != nil else { throw DatabaseError(resultCode: .SQLITE_MISUSE, message: ClosedConnection.message) }
    }

    private func perform(_ sql: String) throws {
        let code = sqlite3_exec(sqliteConnection, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage) }
    }
}
