package import GRDB
internal import GRDBSQLite

/// The blob of one column, read and written in place. Otherwise both SQLite and Annals would need the whole blob in
/// memory.
///
/// Use it only within the exclusive access to the connection in which it was created. The row must not change
/// meanwhile.
package final class StoredBlob {
    private let connection: OpaquePointer
    private let blob: OpaquePointer

    package enum Access: Int32 {
        case read = 0
        case write = 1
    }

    /// The size of the pieces in `forEachPiece`, in bytes.
    package static let pieceBytes = 64 << 10

    package init(_ db: Database, table: String, column: String, row: Int64, _ access: Access) throws {
        guard let connection = db.sqliteConnection else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the connection is closed")
        }
        var blob: OpaquePointer?
        let code = sqlite3_blob_open(connection, "main", table, column, row, access.rawValue, &blob)
        guard code == SQLITE_OK, let blob else { throw Self.error(connection, code) }
        self.connection = connection
        self.blob = blob
    }

    deinit {
        sqlite3_blob_close(blob)
    }

    /// Moves to another row of the same table.
    package func move(to row: Int64) throws {
        try check(sqlite3_blob_reopen(blob, row))
    }

    package var byteCount: Int { Int(sqlite3_blob_bytes(blob)) }

    /// The whole blob.
    package func read() throws -> [UInt8] {
        try read(0..<byteCount)
    }

    package func read(_ range: Range<Int>) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: range.count) { buffer, count in
            try check(sqlite3_blob_read(blob, buffer.baseAddress, Int32(range.count), Int32(range.lowerBound)))
            count = range.count
        }
    }

    package func forEachPiece(_ visit: (UnsafeRawBufferPointer) throws -> Void) throws {
        for start in stride(from: 0, to: byteCount, by: Self.pieceBytes) {
            try read(start..<min(start + Self.pieceBytes, byteCount)).withUnsafeBytes(visit)
        }
    }

    /// Fills the blob. The pieces must have the blob's total length.
    package func write(_ pieces: [[UInt8]]) throws {
        var offset = 0
        for piece in pieces {
            try piece.withUnsafeBytes { try check(sqlite3_blob_write(blob, $0.baseAddress, Int32($0.count), Int32(offset))) }
            offset += piece.count
        }
    }

    private func check(_ code: Int32) throws {
        guard code == SQLITE_OK else { throw Self.error(connection, code) }
    }

    private static func error(_ connection: OpaquePointer, _ code: Int32) -> DatabaseError {
        DatabaseError(resultCode: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(connection)))
    }
}
