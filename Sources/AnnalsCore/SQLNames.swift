extension String {
    /// Compares names as SQLite does: A–Z equal a–z, and all other bytes must be equal.
    package func isSameIdentifier(as other: String) -> Bool {
        utf8.elementsEqual(other.utf8) { $0.asciiLowercased == $1.asciiLowercased }
    }

    /// A form in which equal names are equal strings.
    package var foldedIdentifier: String {
        guard utf8.contains(where: { $0.asciiLowercased != $0 }) else { return self }
        return String(decoding: utf8.map { $0.asciiLowercased }, as: UTF8.self)
    }
}

extension UInt8 {
    /// a–z for A–Z, and all other bytes unchanged, as SQLite's collation NOCASE.
    @inlinable
    package var asciiLowercased: UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self
    }
}
