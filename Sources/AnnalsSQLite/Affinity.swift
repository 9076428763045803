/// A column's type affinity: which storage classes a value may be turned into when it is stored.
package enum Affinity: String, Hashable, Codable, Sendable, CaseIterable {
    case integer, text, blob, real, numeric
    /// ANY in a STRICT table: nothing is ever turned into anything else.
    case any

    /// SQLite's rules for a declared type, in their order.
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

    /// Whether the column can hold both 1 and 1.0, which `IS NOT` takes for equal.
    ///
    /// INTEGER and NUMERIC turn 1.0 into 1, REAL turns 1 into 1.0, TEXT turns both into text.
    package var keepsIntegralReals: Bool {
        self == .blob || self == .any
    }
}
