import AnnalsCore
import GRDB

/// Turns what GRDB throws over a row that is not there into the one error at the edge.
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
            .rowNotFound, operation: operation, "the table \(table) has no such row", hint: "It was deleted, or never inserted",
            underlying: error)
    }
}
