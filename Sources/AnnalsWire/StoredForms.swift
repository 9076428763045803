package import AnnalsCore

extension BodyReader {
    /// The bytes into which the ranges of `WireValue` point.
    package var bytes: [UInt8] { sourceBytes }
}

extension JournalEntry {
    /// The entry in the form that it has inside a body, to be kept on its own.
    package func encode() -> [UInt8] {
        var writer = ByteWriter()
        writer.journalEntry(self)
        return writer.bytes
    }

    /// Reads what `encode` wrote.
    package static func decode(_ bytes: [UInt8]) throws(WireError) -> JournalEntry {
        var reader = ByteReader(bytes)
        let entry = try reader.readJournalEntry()
        try reader.expectEnd()
        return entry
    }
}
