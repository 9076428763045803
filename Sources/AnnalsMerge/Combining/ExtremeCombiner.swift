import AnnalsCore

/// The smaller or larger of two values in SQLite's order: numbers by size, then text, then blobs, both by bytes.
///
/// If both are equal, such as 1 and 1.0, the stored value is the result. NULL cannot be combined.
enum ExtremeCombiner {
    static func least(_ stored: Value, _ incoming: Value) -> Value? {
        guard let isSmaller = precedes(incoming, stored) else { return nil }
        return isSmaller ? incoming : stored
    }

    static func greatest(_ stored: Value, _ incoming: Value) -> Value? {
        guard let isLarger = precedes(stored, incoming) else { return nil }
        return isLarger ? incoming : stored
    }

    private static func precedes(_ left: Value, _ right: Value) -> Bool? {
        switch (left, right) {
        case (.null, _), (_, .null): nil
        case (.integer(let a), .integer(let b)): a < b
        case (.real(let a), .real(let b)): a < b
        case (.integer(let a), .real(let b)): compares(a, below: b)
        case (.real(let a), .integer(let b)): compares(b, above: a)
        case (.text(let a), .text(let b)), (.blob(let a), .blob(let b)): a < b
        default: rank(left) < rank(right)
        }
    }

    /// The comparison is exact, even if a Double cannot represent the integer.
    private static func compares(_ integer: Int64, below real: Double) -> Bool {
        if real >= 0x1p63 { return true }
        if real < -0x1p63 { return false }
        let whole = real.rounded(.down)
        return Int64(whole) > integer || (Int64(whole) == integer && real > whole)
    }

    private static func compares(_ integer: Int64, above real: Double) -> Bool {
        if real >= 0x1p63 { return false }
        if real < -0x1p63 { return true }
        return Int64(real.rounded(.down)) < integer
    }

    private static func rank(_ value: Value) -> Int {
        switch value {
        case .null: 0
        case .integer, .real: 1
        case .text: 2
        case .blob: 3
        }
    }
}
