import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSQLite
public import GRDB

/// Blocking access, like Core Data's `performAndWait`, for programs without concurrency and for code that cannot be asynchronous.
/// Each method blocks the calling thread; on the main thread of an app use the async methods. Inside a closure of `read` or `write`
/// use its `Database` instead: a second access there would wait for itself, and is a programming error.
extension Store {
    /// Reads the last committed state on the calling thread.
    ///
    ///     let count = try store.readAndWait { db in try Invoice.fetchCount(db) }
    ///
    /// - Throws: `AnnalsError` for errors of SQLite; other errors of `body` unchanged.
    public func readAndWait<T>(_ body: (Database) throws -> T) throws -> T {
        try passingCallersErrors("read") { try database.readingOnly { db in try ClosureError.passing { try body(db) } } }
    }

    /// Writes as one transaction of history on the calling thread; see `write`.
    ///
    /// - Throws: `AnnalsError` for errors of SQLite; other errors of `updates` unchanged. Nothing is changed then.
    @discardableResult
    public func writeAndWait<T>(author: String? = nil, contextName: String? = nil, _ updates: (Database) throws -> T) throws -> T {
        try passingCallersErrors("write") {
            try database.writeWithoutTransaction { db in
                try inManagedTransaction(db, author: author, contextName: contextName) { db in
                    try RefusedReference.naming(db, schema) { db in try ClosureError.passing { try updates(db) } }
                }.value
            }
        }
    }

    private func passingCallersErrors<T>(_ operation: String, _ body: () throws -> T) throws -> T {
        do {
            return try blocking(operation) { _ in try body() }
        } catch  where ClosureError.isIn(error) {
            schema.forget()
            throw ClosureError.of(error)
        } catch {
            schema.forgetRolledBack()
            throw error
        }
    }

    /// One write transaction with its token in history; the token is nil if nothing changed or there is no history.
    func inManagedTransaction<T>(
        _ db: Database, author: String?, contextName: String?, _ updates: (Database) throws -> T,
        conclude: (inout T, _ number: Int64) throws -> Void = { _, _ in }
    ) throws -> (value: T, token: HistoryToken?) {
        var result: (T, HistoryToken?)?
        try db.inTransaction(.immediate) {
            try otherCommits.look(db)
            try schema.begin(db)
            let step = StoreStep(db, configuration, schema)
            var (value, number) = try TransactionRecorder.managedWrite(
                db, author: author, contextName: contextName, step.environment, updates)
            if let number { try conclude(&value, number) }
            result = (value, try number == nil ? nil : HistoryBounds(db).latest)
            return .commit
        }
        guard let result else { throw AnnalsError(.defect, operation: "write", "internal error: a write ended without a result") }
        return result
    }
}
