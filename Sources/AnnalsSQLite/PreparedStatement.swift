package import AnnalsCore
package import AnnalsWire
package import GRDB
public import GRDBSQLite

/// A statement on GRDB's connection through the C interface. It is for loops in which GRDB's own statement costs twice
/// as much.
///
/// Use it only within the exclusive access to the connection in which it was created.
///
/// Functions of one call are `@inlinable`, because loops of other modules call them for each column of each row.
@usableFromInline
package final class PreparedStatement {
    private let connection: OpaquePointer
    @usableFromInline let statement: OpaquePointer
    package let sql: String
    /// The parameters with a large value. The value is released after the statement has run. Otherwise it would stay in
    /// memory until the next binding.
    private var large: [Int32] = []

    /// The size in bytes from which a value is large.
    private static let largeBytes = 1 << 20

    package init(_ db: Database, _ sql: String) throws {
        guard let connection = db.sqliteConnection else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the connection is closed")
        }
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v2(connection, sql, -1, &statement, nil)
        guard code == SQLITE_OK, let statement else { throw Self.error(connection, code, sql) }
        self.connection = connection
        self.statement = statement
        self.sql = sql
    }

    deinit {
        sqlite3_finalize(statement)
    }

    /// The largest number of a parameter.
    package var parameterCount: Int { Int(sqlite3_bind_parameter_count(statement)) }

    // MARK: Binding, by parameter number from 1

    package func bind(_ index: Int, _ value: Value) {
        switch value {
        case .null: sqlite3_bind_null(statement, Int32(index))
        case .integer(let integer): sqlite3_bind_int64(statement, Int32(index), integer)
        case .real(let real): sqlite3_bind_double(statement, Int32(index), real)
        case .text(let text): text.bytes.withUnsafeBytes { bindText(index, $0) }
        case .blob(let blob): blob.bytes.withUnsafeBytes { bindBlob(index, $0) }
        }
    }

    /// Binds values to consecutive parameters.
    package func bind(_ values: [Value], from first: Int = 1) {
        for (index, value) in values.enumerated() { bind(first + index, value) }
    }

    @inlinable
    package func bind(_ index: Int, _ integer: Int64) {
        sqlite3_bind_int64(statement, Int32(index), integer)
    }

    package func bind(_ index: Int, real: Double) {
        sqlite3_bind_double(statement, Int32(index), real)
    }

    /// Binds a value from the bytes of a body, without a `Value`.
    package func bind(_ index: Int, _ value: WireValue, in bytes: UnsafeRawBufferPointer) {
        switch value {
        case .null: sqlite3_bind_null(statement, Int32(index))
        case .integer(let integer): sqlite3_bind_int64(statement, Int32(index), integer)
        case .real(let real): sqlite3_bind_double(statement, Int32(index), real)
        case .text(let range): bindText(index, UnsafeRawBufferPointer(rebasing: bytes[range]))
        case .blob(let range): bindBlob(index, UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    /// The same without a copy of a large value. The bytes must stay valid and unchanged until the statement has `run`.
    package func bind(_ index: Int, lending value: WireValue, in bytes: UnsafeRawBufferPointer) {
        switch value {
        case .text(let range) where range.count >= Self.largeBytes:
            bindText(index, UnsafeRawBufferPointer(rebasing: bytes[range]), isLent: true)
        case .blob(let range) where range.count >= Self.largeBytes:
            bindBlob(index, UnsafeRawBufferPointer(rebasing: bytes[range]), isLent: true)
        default: bind(index, value, in: bytes)
        }
    }

    /// Binds the current column of another statement. A large value is not copied, so the other statement must stay on
    /// its row until this one has `run`.
    ///
    /// - Returns: the number of bytes of a text or a blob, 0 for another value.
    @discardableResult
    package func bind(_ index: Int, columnOf other: PreparedStatement, _ column: Int) -> Int {
        let type = sqlite3_column_type(other.statement, Int32(column))
        let count = type == SQLITE_TEXT || type == SQLITE_BLOB ? Int(sqlite3_column_bytes(other.statement, Int32(column))) : 0
        switch type {
        case SQLITE_TEXT where count >= Self.largeBytes: bindText(index, other.textBytes(column), isLent: true)
        case SQLITE_BLOB where count >= Self.largeBytes: bindBlob(index, other.blobBytes(column), isLent: true)
        default: sqlite3_bind_value(statement, Int32(index), sqlite3_column_value(other.statement, Int32(column)))
        }
        return count
    }

    /// Binds a blob of zeros with this size. A `StoredBlob` fills it.
    package func bind(_ index: Int, roomFor byteCount: Int) {
        sqlite3_bind_zeroblob64(statement, Int32(index), UInt64(byteCount))
    }

    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    private func noteLarge(_ index: Int32) {
        if !large.contains(index) { large.append(index) }
    }

    private func bindText(_ index: Int, _ buffer: UnsafeRawBufferPointer, isLent: Bool = false) {
        guard let base = buffer.baseAddress, !buffer.isEmpty else {
            sqlite3_bind_text(statement, Int32(index), "", 0, nil)
            return
        }
        if buffer.count >= Self.largeBytes { noteLarge(Int32(index)) }
        sqlite3_bind_text64(
            statement, Int32(index), base.assumingMemoryBound(to: CChar.self), UInt64(buffer.count), isLent ? nil : Self.transient,
            UInt8(SQLITE_UTF8))
    }

    private func bindBlob(_ index: Int, _ buffer: UnsafeRawBufferPointer, isLent: Bool = false) {
        guard let base = buffer.baseAddress, !buffer.isEmpty else {
            sqlite3_bind_zeroblob(statement, Int32(index), 0)
            return
        }
        if buffer.count >= Self.largeBytes { noteLarge(Int32(index)) }
        sqlite3_bind_blob64(statement, Int32(index), base, UInt64(buffer.count), isLent ? nil : Self.transient)
    }

    // MARK: Running

    /// Advances to the next row. Returns false if there is none.
    package func step() throws -> Bool {
        let code = sqlite3_step(statement)
        switch code {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default:
            let error = Self.error(connection, code, sql)
            sqlite3_reset(statement)
            throw error
        }
    }

    /// Binds the values, and returns the first `count` columns of the first row; nil if there is no row. Then resets the statement.
    package func row(for values: [Value], columns count: Int) throws -> [Value]? {
        bind(values)
        defer { reset() }
        return try step() ? self.values(0..<count) : nil
    }

    /// Runs a statement that returns no row, and resets it for the next run.
    package func run() throws {
        defer {
            for index in large { sqlite3_bind_null(statement, index) }
            large.removeAll()
        }
        _ = try step()
        sqlite3_reset(statement)
    }

    @inlinable
    package func reset() {
        sqlite3_reset(statement)
    }

    /// Runs with a blob that is bound without a copy.
    package func run(lending index: Int, _ buffer: UnsafeRawBufferPointer) throws {
        if let base = buffer.baseAddress, !buffer.isEmpty {
            sqlite3_bind_blob64(statement, Int32(index), base, UInt64(buffer.count), nil)
        } else {
            bindBlob(index, buffer)
        }
        defer { sqlite3_bind_null(statement, Int32(index)) }
        try run()
    }

    /// The number of rows that the last run changed.
    package var changes: Int { Int(sqlite3_changes(connection)) }

    // MARK: Columns, from 0

    package func value(_ column: Int) -> Value {
        let index = Int32(column)
        switch sqlite3_column_type(statement, index) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, index))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, index))
        case SQLITE_TEXT: return .text(ByteString(textBytes(column)))
        case SQLITE_BLOB: return .blob(ByteString(blobBytes(column)))
        default: return .null
        }
    }

    package func values(_ columns: Range<Int>) -> [Value] {
        columns.map { value($0) }
    }

    @inlinable
    package func integer(_ column: Int) -> Int64 { sqlite3_column_int64(statement, Int32(column)) }

    @inlinable
    package func real(_ column: Int) -> Double { sqlite3_column_double(statement, Int32(column)) }

    @inlinable
    package func isNull(_ column: Int) -> Bool { sqlite3_column_type(statement, Int32(column)) == SQLITE_NULL }

    /// Whether the column is a text or a blob with more than this number of bytes.
    package func isLarge(_ column: Int, _ bytes: Int) -> Bool {
        isTextOrBlob(column) && Int(sqlite3_column_bytes(statement, Int32(column))) > bytes
    }

    @inlinable
    package func isTextOrBlob(_ column: Int) -> Bool {
        let type = sqlite3_column_type(statement, Int32(column))
        return type == SQLITE_TEXT || type == SQLITE_BLOB
    }

    /// Passes a column to `visitor` without a `Value`. Buffers are valid only during the call.
    package func withColumn(_ column: Int, _ visitor: (borrowing RawValue) -> Void) {
        let index = Int32(column)
        switch sqlite3_column_type(statement, index) {
        case SQLITE_INTEGER: visitor(.integer(sqlite3_column_int64(statement, index)))
        case SQLITE_FLOAT: visitor(.real(sqlite3_column_double(statement, index)))
        case SQLITE_TEXT: visitor(.text(textBytes(column)))
        case SQLITE_BLOB: visitor(.blob(blobBytes(column)))
        default: visitor(.null)
        }
    }

    /// The value of a column in SQLite's own memory.
    package enum RawValue {
        case null
        case integer(Int64)
        case real(Double)
        case text(UnsafeRawBufferPointer)
        case blob(UnsafeRawBufferPointer)
    }

    /// Whether the column has the same storage class and bytes.
    package func column(_ column: Int, equals value: WireValue, in bytes: UnsafeRawBufferPointer) -> Bool {
        let index = Int32(column)
        switch (sqlite3_column_type(statement, index), value) {
        case (SQLITE_NULL, .null): return true
        case (SQLITE_INTEGER, .integer(let integer)): return sqlite3_column_int64(statement, index) == integer
        case (SQLITE_FLOAT, .real(let real)):
            return (sqlite3_column_double(statement, index) + 0).bitPattern == (real + 0).bitPattern
        case (SQLITE_TEXT, .text(let range)): return Self.equal(textBytes(column), UnsafeRawBufferPointer(rebasing: bytes[range]))
        case (SQLITE_BLOB, .blob(let range)): return Self.equal(blobBytes(column), UnsafeRawBufferPointer(rebasing: bytes[range]))
        default: return false
        }
    }

    /// Whether the column has the same storage class and bytes.
    package func column(_ column: Int, equals value: Value) -> Bool {
        let index = Int32(column)
        switch (sqlite3_column_type(statement, index), value) {
        case (SQLITE_NULL, .null): return true
        case (SQLITE_INTEGER, .integer(let integer)): return sqlite3_column_int64(statement, index) == integer
        case (SQLITE_FLOAT, .real(let real)):
            return (sqlite3_column_double(statement, index) + 0).bitPattern == (real + 0).bitPattern
        case (SQLITE_TEXT, .text(let text)): return text.bytes.withUnsafeBytes { Self.equal(textBytes(column), $0) }
        case (SQLITE_BLOB, .blob(let blob)): return blob.bytes.withUnsafeBytes { Self.equal(blobBytes(column), $0) }
        default: return false
        }
    }

    /// Hashes a column's storage class and bytes.
    package func hash(_ column: Int, into hasher: inout Hasher) {
        let index = Int32(column)
        let type = sqlite3_column_type(statement, index)
        hasher.combine(type)
        switch type {
        case SQLITE_INTEGER: hasher.combine(sqlite3_column_int64(statement, index))
        case SQLITE_FLOAT: hasher.combine((sqlite3_column_double(statement, index) + 0).bitPattern)
        case SQLITE_TEXT: hasher.combine(bytes: textBytes(column))
        case SQLITE_BLOB: hasher.combine(bytes: blobBytes(column))
        default: break
        }
    }

    private func textBytes(_ column: Int) -> UnsafeRawBufferPointer {
        let pointer = sqlite3_column_text(statement, Int32(column))
        return UnsafeRawBufferPointer(start: pointer, count: Int(sqlite3_column_bytes(statement, Int32(column))))
    }

    private func blobBytes(_ column: Int) -> UnsafeRawBufferPointer {
        let pointer = sqlite3_column_blob(statement, Int32(column))
        return UnsafeRawBufferPointer(start: pointer, count: Int(sqlite3_column_bytes(statement, Int32(column))))
    }

    private static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        guard let a = left.baseAddress, let b = right.baseAddress, left.count > 0 else { return true }
        return memcmp(a, b, left.count) == 0
    }

    private static func error(_ connection: OpaquePointer, _ code: Int32, _ sql: String) -> DatabaseError {
        let extended = sqlite3_extended_errcode(connection)
        return DatabaseError(
            resultCode: ResultCode(rawValue: extended == SQLITE_OK ? code : extended),
            message: String(cString: sqlite3_errmsg(connection)), sql: sql)
    }
}

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif
