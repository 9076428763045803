import AnnalsCore
import AnnalsSQLite

/// What a closure of the caller's threw of its own: it goes back to the caller as it is.
package struct ClosureError: Error {
    var error: any Error

    /// Runs a caller's closure. What SQLite refused in it is translated as everywhere.
    package static func passing<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch  where StoreError.knows(error) {
            throw error
        } catch {
            throw ClosureError(error: error)
        }
    }

    static func isIn(_ error: any Error) -> Bool {
        error is ClosureError || (error as? AnnalsError)?.underlying is ClosureError
    }

    /// What the caller threw, also where it was taken for an error of our own on its way.
    static func of(_ error: any Error) -> any Error {
        ((error as? AnnalsError)?.underlying as? ClosureError ?? error as? ClosureError)?.error ?? error
    }
}
