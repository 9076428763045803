import AnnalsCore
import AnnalsSQLite
import GRDB

/// An error that a closure of the caller threw. It is passed to the caller unchanged.
package struct ClosureError: Error {
    var error: any Error

    /// Runs a caller's closure. Errors of SQLite in it are translated as usual, except that a statement that SQLite refuses is the caller's
    /// mistake.
    package static func passing<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where StoreError.translate(error, operation: "").code == .defect {
            throw AnnalsError(
                .usage, operation: "statement", "SQLite refused a statement: \(error.message ?? "error \(error.resultCode.rawValue)")",
                hint: error.sql.map { "The statement is: \($0.prefix(200))" }, underlying: error)
        } catch  where StoreError.knows(error) {
            throw error
        } catch {
            throw ClosureError(error: error)
        }
    }

    static func isIn(_ error: any Error) -> Bool {
        error is ClosureError || (error as? AnnalsError)?.underlying is ClosureError
    }

    /// The caller's error, also if it was wrapped in an error of this library.
    static func of(_ error: any Error) -> any Error {
        ((error as? AnnalsError)?.underlying as? ClosureError ?? error as? ClosureError)?.error ?? error
    }
}
