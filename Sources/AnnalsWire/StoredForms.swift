package import AnnalsCore

extension BodyReader {
    /// The bytes that the ranges of `WireValue` refer to.
    package var bytes: [UInt8] { sourceBytes }
}

extension JournalEntry {
    /// Encodes the entry as in a body, to be stored separately.
    package func encode() -> [UInt8] {
        var writer = ByteWriter()
        writer.journalEntry(self)
        return writer.bytes
    }

    /// Decodes the output of `encode`.
    package static func decode(_ bytes: [UInt8]) throws(WireError) -> JournalEntry {
        var reader = ByteReader(bytes)
        let entry = try reader.readJournalEntry()
        try reader.expectEnd()
        return entry
    }
}
