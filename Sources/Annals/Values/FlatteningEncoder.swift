/// Encodes a record's properties with another encoder. The values of composites go to `CompositeValues`, which writes them to
/// separate columns.
struct FlatteningEncoder: Encoder {
    let base: any Encoder
    let apart: CompositeValues
    /// Prepended to each name.
    var prefix = ""
    /// By the property's name.
    let composites: [String: Composite]

    var codingPath: [any CodingKey] { base.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { base.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(
            FlatteningContainer<Key>(
                base: base.container(keyedBy: ColumnKey.self), apart: apart, prefix: prefix, composites: composites))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { base.unkeyedContainer() }
    func singleValueContainer() -> any SingleValueEncodingContainer { base.singleValueContainer() }
}

/// The values of a record's composites, for an encoder that does not change column names.
final class CompositeValues {
    private var writing: [(any Encoder) throws -> Void] = []

    func append(_ write: @escaping (any Encoder) throws -> Void) { writing.append(write) }

    func encode(to encoder: any Encoder) throws {
        for write in writing { try write(encoder) }
    }
}

/// A column's name as a coding key.
struct ColumnKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(_ name: String) {
        stringValue = name
    }

    init?(stringValue: String) {
        self.init(stringValue)
    }

    init?(intValue: Int) { nil }
}

private struct FlatteningContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    var base: KeyedEncodingContainer<ColumnKey>
    let apart: CompositeValues
    let prefix: String
    let composites: [String: Composite]

    var codingPath: [any CodingKey] { base.codingPath }

    private func column(_ key: Key) -> ColumnKey { ColumnKey(prefix + key.stringValue) }

    mutating func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        guard let composite = composites[key.stringValue] else { return try base.encode(value, forKey: column(key)) }
        apart.append {
            try value.encode(to: FlatteningEncoder(base: $0, apart: CompositeValues(), prefix: composite.prefix, composites: [:]))
        }
    }

    mutating func encodeIfPresent<T: Encodable>(_ value: T?, forKey key: Key) throws {
        if let value { return try encode(value, forKey: key) }
        try encodeNil(forKey: key)
    }

    /// A composite that is nil is NULL in each of its columns.
    mutating func encodeNil(forKey key: Key) throws {
        guard let composite = composites[key.stringValue] else { return try base.encodeNil(forKey: column(key)) }
        apart.append { encoder in
            var columns = encoder.container(keyedBy: ColumnKey.self)
            for name in composite.columnNames { try columns.encodeNil(forKey: ColumnKey(name)) }
        }
    }

    mutating func encode(_ value: Bool, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: String, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Double, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Float, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Int, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Int8, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Int16, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Int32, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: Int64, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: UInt, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: UInt8, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: UInt16, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: UInt32, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }
    mutating func encode(_ value: UInt64, forKey key: Key) throws { try base.encode(value, forKey: column(key)) }

    mutating func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: String?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Float?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }
    mutating func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try base.encodeIfPresent(value, forKey: column(key)) }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        base.nestedContainer(keyedBy: type, forKey: column(key))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        base.nestedUnkeyedContainer(forKey: column(key))
    }

    mutating func superEncoder() -> any Encoder { base.superEncoder() }
    mutating func superEncoder(forKey key: Key) -> any Encoder { base.superEncoder(forKey: column(key)) }
}
