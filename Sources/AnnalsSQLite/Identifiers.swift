extension String {
    /// SQLite's comparison of names: A–Z and a–z are the same, everything else by its bytes.
    package func isSameIdentifier(as other: String) -> Bool {
        utf8.elementsEqual(other.utf8) { asciiLowercased($0) == asciiLowercased($1) }
    }

    /// The form under which equal names are equal strings.
    package var foldedIdentifier: String {
        String(decoding: utf8.map(asciiLowercased), as: UTF8.self)
    }
}

private func asciiLowercased(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
}
