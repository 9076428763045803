import AnnalsCore
import GRDB

/// Says which name of a request the schema does not know, and which it does.
enum UnknownNames {
    /// Runs a request; a name that SQLite does not know becomes an error of the caller's.
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
            hint: columns.isEmpty ? nil : "It has \(columns.map(\.name).joined(separator: ", "))", underlying: error)
    }
}

extension String {
    fileprivate func after(_ prefix: String) -> String? {
        hasPrefix(prefix) ? String(dropFirst(prefix.count)) : nil
    }
}
