package import AnnalsCore
package import GRDB
internal import GRDBSQLite

/// Reads and binds values byte for byte. GRDB's own methods would repair text that is not valid UTF-8.
extension Statement {
    /// The value in a result column of the current row.
    package func value(at column: Int) -> Value {
        let column = CInt(column)
        switch sqlite3_column_type(sqliteStatement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(sqliteStatement, column))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(sqliteStatement, column) + 0)
        case SQLITE_TEXT:
            // The text must be read first. Reading may convert it, and the count must be that of the converted text.
            let text = sqlite3_column_text(sqliteStatement, column)
            let count = Int(sqlite3_column_bytes(sqliteStatement, column))
            return .text(ByteString(UnsafeRawBufferPointer(start: text, count: text == nil ? 0 : count)))
        case SQLITE_BLOB:
            let blob = sqlite3_column_blob(sqliteStatement, column)
            let count = Int(sqlite3_column_bytes(sqliteStatement, column))
            return .blob(ByteString(UnsafeRawBufferPointer(start: blob, count: blob == nil ? 0 : count)))
        default: return .null
        }
    }

    /// The integer in a result column. Zero if the value is not a number.
    package func integer(at column: Int) -> Int64 {
        sqlite3_column_int64(sqliteStatement, CInt(column))
    }

    package func isNull(at column: Int) -> Bool {
        sqlite3_column_type(sqliteStatement, CInt(column)) == SQLITE_NULL
    }

    /// Values of consecutive result columns.
    package func values(at columns: Range<Int>) -> [Value] {
        columns.map(value(at:))
    }

    /// Binds a value to a parameter. The first parameter is 1. The value stays bound after `reset`.
    package func bind(_ value: Value, at parameter: Int) throws {
        let parameter = CInt(parameter)
        let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        let code =
            switch value {
            case .null: sqlite3_bind_null(sqliteStatement, parameter)
            case .integer(let integer): sqlite3_bind_int64(sqliteStatement, parameter, integer)
            case .real(let real): sqlite3_bind_double(sqliteStatement, parameter, real)
            case .text(let text):
                text.bytes.withUnsafeBytes { buffer in
                    // An empty buffer has no address, and SQLite would bind NULL.
                    withUnsafePointer(to: 0 as CChar) { empty in
                        let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self) ?? empty
                        return sqlite3_bind_text(sqliteStatement, parameter, start, CInt(buffer.count), transient)
                    }
                }
            case .blob(let blob):
                blob.bytes.isEmpty
                    ? sqlite3_bind_zeroblob(sqliteStatement, parameter, 0)
                    : blob.bytes.withUnsafeBytes {
                        sqlite3_bind_blob(sqliteStatement, parameter, $0.baseAddress, CInt($0.count), transient)
                    }
            }
        try check(code)
    }

    /// Advances to the next row. Returns false if there is none.
    package func step() throws -> Bool {
        switch sqlite3_step(sqliteStatement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw DatabaseError(resultCode: ResultCode(rawValue: code), message: errorMessage, sql: sql)
        }
    }

    /// Resets the statement and keeps its parameters.
    package func rewind() {
        sqlite3_reset(sqliteStatement)
    }

    private func check(_ code: CInt) throws {
        guard code != SQLITE_OK else { return }
        throw DatabaseError(resultCode: ResultCode(rawValue: code), message: errorMessage, sql: sql)
    }

    private var errorMessage: String {
        String(cString: sqlite3_errmsg(sqlite3_db_handle(sqliteStatement)))
    }
}
