package import AnnalsCore

/// The identity of a row: its key, compared by the rules of the key's index, or its rowid if the key holds NULL.
package enum RowIdentity: Hashable, Sendable {
    case key([Value])
    case rowid(Int64)
}

/// Computes the identities of rows of one table.
///
/// Values that are equal in the key's index have equal identities: 'a' and 'A' under NOCASE, 1 and 1.0 always. A collation that a
/// program defined cannot be called here. Under it, only equal bytes are equal.
package struct IdentityRule: Hashable, Sendable {
    /// Indices of the key's columns.
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

    /// The identity of a row that is given as all its stored columns.
    ///
    /// A key that holds NULL is compared value by value if there is no rowid.
    package func identity(of row: [Value], rowid: Int64? = nil) -> RowIdentity {
        if let rowid, key.contains(where: { row[$0].isNull }) { return .rowid(rowid) }
        // Most keys have one column, and a literal of one element costs less than a map.
        if key.count == 1 { return .key([Self.folded(row[key[0]], collation: collations[0])]) }
        return .key(key.indices.map { Self.folded(row[key[$0]], collation: collations[$0]) })
    }

    /// One representative of all values that compare equal to this one.
    package static func folded(_ value: Value, collation: String) -> Value {
        switch value {
        case .null, .integer, .blob: value
        case .real(let real): Int64(exactly: real).map(Value.integer) ?? value
        case .text(let text):
            switch collation {
            case "NOCASE": .text(ByteString(text.bytes.map { $0.asciiLowercased }))
            case "RTRIM": .text(ByteString(Array(text.bytes[..<((text.bytes.lastIndex { $0 != 0x20 } ?? -1) + 1)])))
            default: value
            }
        }
    }
}
