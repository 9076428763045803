extension String {
    /// Compares names as SQLite does: A–Z equal a–z, and all other bytes must be equal.
    package func isSameIdentifier(as other: String) -> Bool {
        utf8.elementsEqual(other.utf8) { asciiLowercased($0) == asciiLowercased($1) }
    }

    /// A form in which equal names are equal strings.
    package var foldedIdentifier: String {
        String(decoding: utf8.map(asciiLowercased), as: UTF8.self)
    }
}

private func asciiLowercased(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
}
