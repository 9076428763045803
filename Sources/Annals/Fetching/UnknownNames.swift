import AnnalsCore
import GRDB

/// Reports a name in a request that the schema does not have, with the names that it has.
enum UnknownNames {
    /// Runs a request and turns SQLite's error about an unknown name into an error with code `usage`.
    static func named<T>(_ db: Database, in table: String?, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            let message = error.message ?? ""
            if let column = message.after("no such column: ") {
                throw Self.column(column, of: table, table.flatMap { try? db.columns(in: $0) } ?? [], error)
            }
            if let name = message.after("no such table: ") {
                throw AnnalsError(
                    .usage, operation: "fetch", "there is no table \(name)", hint: "Create it, or correct databaseTableName",
                    underlying: error)
            }
            throw error
        }
    }

    static func column(_ name: String, of table: String?, _ columns: [ColumnInfo], _ error: DatabaseError? = nil) -> AnnalsError {
        AnnalsError(
            .usage, operation: "fetch", table.map { "the table \($0) has no column \(name)" } ?? "there is no column \(name)",
            hint: columns.isEmpty ? nil : "Its columns are \(columns.map(\.name).joined(separator: ", "))", underlying: error)
    }
}

extension String {
    fileprivate func after(_ prefix: String) -> String? {
        hasPrefix(prefix) ? String(dropFirst(prefix.count)) : nil
    }
}
