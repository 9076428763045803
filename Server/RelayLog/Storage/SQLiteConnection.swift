internal import AnnalsCore
internal import GRDB
internal import GRDBSQLite

/// The relay's statements on a connection of GRDB. Arguments are bound and rows are read through the C interface,
/// because GRDB would copy batches of many megabytes.
struct SQLiteConnection: LogConnection {
    let db: Database

    /// Only one connection writes, so there is nothing to lock.
    var lockingClause: String { "" }

    /// Only one relay at a time serves a file, so no other relay needs a notification.
    func announce(_ head: Position, of space: SpaceName) {}

    /// SQLite numbers new rows after the highest number by itself.
    func continueNumbering(_ column: String, of table: String, after last: Int64) {}

    func transaction<T>(_ body: () throws -> T) throws -> T {
        var result: T?
        try db.inTransaction(.immediate) {
            result = try body()
            return .commit
        }
        guard let result else { throw RelayLogError.storage("a transaction has no result") }
        return result
    }

    func execute(_ sql: String, _ arguments: [any Storable]) throws {
        _ = try rows(sql, arguments)
    }

    func rows(_ sql: String, _ arguments: [any Storable]) throws -> [LogRow] {
        let statement = try db.cachedStatement(sql: sql).sqliteStatement
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        return try Self.binding(arguments[...], to: statement, at: 1) {
            var rows: [LogRow] = []
            while true {
                switch sqlite3_step(statement) {
                case SQLITE_ROW: rows.append(Self.row(of: statement))
                case SQLITE_DONE: return rows
                case let code: throw error(code)
                }
            }
        }
    }

    /// Calls `body` while the memory of all bound arguments is valid.
    private static func binding<T>(
        _ arguments: ArraySlice<any Storable>, to statement: SQLiteStatement, at index: Int32, _ body: () throws -> T
    ) throws -> T {
        guard let argument = arguments.first else { return try body() }
        func rest() throws -> T { try binding(arguments.dropFirst(), to: statement, at: index + 1, body) }
        switch argument.stored {
        case .null:
            sqlite3_bind_null(statement, index)
            return try rest()
        case .integer(let value):
            sqlite3_bind_int64(statement, index, value)
            return try rest()
        case .text(var text):
            return try text.withUTF8 { text in
                try text.withMemoryRebound(to: CChar.self) { text in
                    sqlite3_bind_text64(statement, index, text.baseAddress, UInt64(text.count), nil, UInt8(SQLITE_UTF8))
                    return try rest()
                }
            }
        case .bytes(let bytes):
            return try bytes.withUnsafeBytes { bytes in
                sqlite3_bind_blob64(statement, index, bytes.baseAddress, UInt64(bytes.count), nil)
                // A null pointer would bind NULL.
                if bytes.isEmpty { sqlite3_bind_zeroblob(statement, index, 0) }
                return try rest()
            }
        }
    }

    private static func row(of statement: SQLiteStatement) -> LogRow {
        LogRow(
            values: (0..<sqlite3_column_count(statement)).map { column in
                switch sqlite3_column_type(statement, column) {
                case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
                case SQLITE_TEXT: return .text(sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "")
                case SQLITE_BLOB:
                    let start = sqlite3_column_blob(statement, column)
                    return .bytes([UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))))
                default: return .null
                }
            })
    }

    private func error(_ code: Int32) -> DatabaseError {
        let message = db.sqliteConnection.map { String(cString: sqlite3_errmsg($0)) }
        return DatabaseError(resultCode: ResultCode(rawValue: code), message: message)
    }
}
