package import AnnalsCore

/// What makes two rows the same row: equal keys by the rules of the key's index, or the rowid where the key holds
/// NULL.
package enum RowIdentity: Hashable, Sendable {
    case key([Value])
    case rowid(Int64)
}

/// Tells rows' identities for one table.
///
/// Values that the key's index takes for equal come out equal: 'a' and 'A' under NOCASE, 1 and 1.0 anywhere. A
/// program's own collation cannot be asked here; under it only equal bytes are equal.
package struct IdentityRule: Hashable, Sendable {
    /// Places of the key's columns.
    package var key: [Int]
    /// The collation of each.
    package var collations: [String]

    package init(key: [Int], collations: [String]) {
        self.key = key
        self.collations = collations.map { $0.uppercased() }
    }

    package init(_ table: DeclaredTable) {
        self.init(key: table.primaryKey, collations: table.primaryKeyCollations)
    }

    /// The identity of a row given as all its stored columns.
    ///
    /// Without a rowid a key that holds NULL is compared as it stands.
    package func identity(of row: [Value], rowid: Int64? = nil) -> RowIdentity {
        if let rowid, key.contains(where: { row[$0].isNull }) { return .rowid(rowid) }
        return .key(zip(key, collations).map { Self.folded(row[$0], collation: $1) })
    }

    /// The one value that stands for all that compare equal to it.
    package static func folded(_ value: Value, collation: String) -> Value {
        switch value {
        case .null, .integer, .blob: value
        case .real(let real): Int64(exactly: real).map(Value.integer) ?? value
        case .text(let text):
            switch collation {
            case "NOCASE": .text(ByteString(text.bytes.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }))
            case "RTRIM": .text(ByteString(Array(text.bytes[..<((text.bytes.lastIndex { $0 != 0x20 } ?? -1) + 1)])))
            default: value
            }
        }
    }
}
