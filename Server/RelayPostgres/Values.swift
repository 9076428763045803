internal import CPostgres
internal import RelayLog

/// The types of the relay's tables, by PostgreSQL's fixed OIDs (pg_type.dat).
private enum TypeID {
    static let bytes: Oid = 17
    static let integer64: Oid = 20
    static let integer32: Oid = 23
    static let text: Oid = 25
    static let varchar: Oid = 1043
}

extension PostgresConnection {
    /// 0 lets PostgreSQL infer the type.
    static func type(of value: LogValue) -> Oid {
        switch value {
        case .null: 0
        case .integer: TypeID.integer64
        case .text: TypeID.text
        case .bytes: TypeID.bytes
        }
    }

    static func rows(of result: OpaquePointer) throws -> [LogRow] {
        let columns = PQnfields(result)
        return try (0..<PQntuples(result)).map { row in
            LogRow(values: try (0..<columns).map { try value(of: result, row, $0) })
        }
    }

    private static func value(of result: OpaquePointer, _ row: Int32, _ column: Int32) throws -> LogValue {
        if PQgetisnull(result, row, column) == 1 { return .null }
        let bytes = UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
        switch PQftype(result, column) {
        // In binary form these types have a fixed length; another length is a protocol error.
        case TypeID.integer64 where bytes.count != 8, TypeID.integer32 where bytes.count != 4:
            throw RelayLogError.storage("PostgreSQL sent a number of \(bytes.count) bytes")
        case TypeID.integer64: return .integer(Int64(bigEndian: bytes.loadUnaligned(as: Int64.self)))
        case TypeID.integer32: return .integer(Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self))))
        case TypeID.text, TypeID.varchar: return .text(String(decoding: bytes, as: UTF8.self))
        case TypeID.bytes: return .bytes([UInt8](bytes))
        case let other: throw RelayLogError.storage("a column has the unsupported PostgreSQL type \(other)")
        }
    }

    /// Calls `body` with the values in PostgreSQL's binary format: pointers, lengths and format codes.
    static func withParameters<T>(
        _ values: [LogValue],
        _ body: (UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> T
    ) -> T {
        let encoded = values.map(bytes(of:))
        let lengths = encoded.map { Int32($0?.count ?? 0) }
        let formats = [Int32](repeating: 1, count: values.count)
        return withPointers(encoded[...], []) { pointers in
            pointers.withUnsafeBufferPointer { pointers in
                lengths.withUnsafeBufferPointer { lengths in
                    formats.withUnsafeBufferPointer { body(pointers.baseAddress, lengths.baseAddress, $0.baseAddress) }
                }
            }
        }
    }

    private static func bytes(of value: LogValue) -> [UInt8]? {
        switch value {
        case .null: nil
        case .integer(let integer): withUnsafeBytes(of: integer.bigEndian) { [UInt8]($0) }
        // PostgreSQL's text cannot contain a zero byte.
        case .text(let text): text.utf8.filter { $0 != 0 }
        case .bytes(let bytes): bytes
        }
    }

    private static func withPointers<T>(
        _ values: ArraySlice<[UInt8]?>, _ pointers: [UnsafePointer<CChar>?], _ body: ([UnsafePointer<CChar>?]) -> T
    ) -> T {
        guard let first = values.first else { return body(pointers) }
        guard let first else { return withPointers(values.dropFirst(), pointers + [nil], body) }
        // An empty value needs an address too; a null pointer would mean NULL.
        return (first.isEmpty ? [0] : first).withUnsafeBytes { bytes in
            withPointers(values.dropFirst(), pointers + [bytes.baseAddress?.assumingMemoryBound(to: CChar.self)], body)
        }
    }
}
