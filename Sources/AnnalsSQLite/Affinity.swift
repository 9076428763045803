/// The type affinity of a column. It determines how a value is converted when it is stored.
package enum Affinity: String, Hashable, Codable, Sendable, CaseIterable {
    case integer, text, blob, real, numeric
    /// ANY in a STRICT table: values are never converted.
    case any

    /// Applies SQLite's rules for a declared type, in their order.
    package init(declaredType: String, isStrict: Bool) {
        let type = declaredType.uppercased()
        if isStrict && type == "ANY" {
            self = .any
        } else if type.contains("INT") {
            self = .integer
        } else if type.contains("CHAR") || type.contains("CLOB") || type.contains("TEXT") {
            self = .text
        } else if type.contains("BLOB") || type.isEmpty {
            self = .blob
        } else if type.contains("REAL") || type.contains("FLOA") || type.contains("DOUB") {
            self = .real
        } else {
            self = .numeric
        }
    }
}
