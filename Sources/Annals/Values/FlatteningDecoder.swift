/// Decodes a record's properties with another decoder, and its composites from separate columns.
struct FlatteningDecoder: Decoder {
    let base: any Decoder
    /// Reads columns by their exact names, for composites.
    let columns: any Decoder
    /// Prepended to each name.
    var prefix = ""
    /// By the property's name.
    let composites: [String: Composite]

    var codingPath: [any CodingKey] { base.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { base.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(
            FlatteningContainer<Key>(
                base: try base.container(keyedBy: ColumnKey.self), columns: try columns.container(keyedBy: ColumnKey.self),
                decoder: columns,
                prefix: prefix, composites: composites))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { try base.unkeyedContainer() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { try base.singleValueContainer() }
}

private struct FlatteningContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let base: KeyedDecodingContainer<ColumnKey>
    let columns: KeyedDecodingContainer<ColumnKey>
    /// The decoder of the composite columns.
    let decoder: any Decoder
    let prefix: String
    let composites: [String: Composite]

    var codingPath: [any CodingKey] { base.codingPath }
    var allKeys: [Key] { base.allKeys.compactMap { Key(stringValue: String($0.stringValue.dropFirst(prefix.count))) } }

    private func column(_ key: Key) -> ColumnKey { ColumnKey(prefix + key.stringValue) }

    func contains(_ key: Key) -> Bool {
        guard let composite = composites[key.stringValue] else { return base.contains(column(key)) }
        return composite.columnNames.contains { columns.contains(ColumnKey($0)) }
    }

    /// A composite is nil if each of its columns is NULL.
    func decodeNil(forKey key: Key) throws -> Bool {
        guard let composite = composites[key.stringValue] else { return try base.decodeNil(forKey: column(key)) }
        return try composite.columnNames.allSatisfy { try !columns.contains(ColumnKey($0)) || columns.decodeNil(forKey: ColumnKey($0)) }
    }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        guard let composite = composites[key.stringValue] else { return try base.decode(type, forKey: column(key)) }
        return try T(from: FlatteningDecoder(base: decoder, columns: decoder, prefix: composite.prefix, composites: [:]))
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try base.decode(type, forKey: column(key)) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try base.decode(type, forKey: column(key)) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try base.decode(type, forKey: column(key)) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try base.decode(type, forKey: column(key)) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
        try base.nestedContainer(keyedBy: type, forKey: column(key))
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try base.nestedUnkeyedContainer(forKey: column(key))
    }

    func superDecoder() throws -> any Decoder { try base.superDecoder() }
    func superDecoder(forKey key: Key) throws -> any Decoder { try base.superDecoder(forKey: column(key)) }
}
