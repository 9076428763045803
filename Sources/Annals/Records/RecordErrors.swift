import AnnalsCore
import GRDB

/// Turns GRDB's error about a missing row into `AnnalsError` with code `rowNotFound`.
enum RecordErrors {
    static func translated<T>(_ operation: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as GRDB.RecordError {
            switch error {
            case .recordNotFound(databaseTableName: let table, key: _): throw notFound(operation, table, error)
            }
        }
    }

    static func notFound(_ operation: String, _ table: String, _ error: (any Error)? = nil) -> AnnalsError {
        AnnalsError(
            .rowNotFound, operation: operation, "the table \(table) has no row with this key",
            hint: "The row was deleted or never inserted: insert it",
            underlying: error)
    }
}
