import AnnalsCore
package import GRDB
import GRDBSQLite

/// What GRDB says of a connection that was closed.
package enum ClosedConnection {
    package static let message = "Connection is closed"
}

extension DatabaseWriter {
    /// Lets code of ours that only reads look at one committed state.
    ///
    /// GRDB's `read` keeps a caller's closure from writing: on a queue it sets `query_only` before and after, whereupon SQLite
    /// compiles every statement of the connection anew. What is ours does not need that.
    package func reading<T: Sendable>(_ body: @Sendable (Database) throws -> T) async throws -> T {
        try await unsafeRead { db in try db.inOneState { try body(db) } }
    }

    /// The same on the calling thread.
    package func reading<T>(_ body: (Database) throws -> T) throws -> T {
        try unsafeRead { db in try db.inOneState { try body(db) } }
    }

    /// GRDB's `read`, for a caller's closure. GRDB lets it use the connection of a queue that was closed, which is gone.
    package func readingOnly<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        guard self is DatabaseQueue else { return try await read(body) }
        return try await unsafeRead { db in try db.inOneStateOnly { try body(db) } }
    }

    /// The same on the calling thread.
    package func readingOnly<T>(_ body: (Database) throws -> T) throws -> T {
        guard self is DatabaseQueue else { return try read(body) }
        return try unsafeRead { db in try db.inOneStateOnly { try body(db) } }
    }
}

extension Database {
    /// A transaction that GRDB does not see, so that nobody is told of a commit in which nothing was written.
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

    /// What GRDB does for `read` on a queue.
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
        guard let result else { throw AnnalsError(.defect, operation: "read", "a read ended without an outcome") }
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
