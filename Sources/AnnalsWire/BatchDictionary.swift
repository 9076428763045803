internal import AnnalsCore

/// The layouts that the bodies of a batch refer to by number.
struct BatchDictionary {
    private(set) var layouts: [Int: TableLayout] = [:]
    /// The digest of the bytes of each entry.
    private var digests: [Int: Digest] = [:]

    init() {}

    /// The number, name, columns and key take at least one byte each.
    private static let minimumEntryBytes = 4

    /// Reads a dictionary that fills `reader`.
    init(from reader: inout ByteReader) throws(WireError) {
        let count = try reader.readCount(minimumBytes: Self.minimumEntryBytes)
        guard count <= WireLimits.maximumTables else { throw .tooLarge("tables") }
        var last = -1
        for _ in 0..<count {
            let start = reader.offset
            let reference = try reader.readInt()
            guard reference > last else { throw .badValue("dictionary") }
            last = reference
            layouts[reference] = try reader.readLayout()
            digests[reference] = Digest.sha256(reader.bytes[start..<reader.offset])
        }
        try reader.expectEnd()
    }

    /// Writes the dictionary and computes the digests of its entries.
    static func write(_ layouts: [Int: TableLayout], into writer: inout ByteWriter) -> BatchDictionary {
        var dictionary = BatchDictionary()
        dictionary.layouts = layouts
        writer.varint(layouts.count)
        for (reference, layout) in layouts.sorted(by: { $0.key < $1.key }) {
            let start = writer.count
            writer.varint(reference)
            writer.layout(layout)
            dictionary.digests[reference] = Digest.sha256(writer.bytes[start...])
        }
        return dictionary
    }

    /// The digests of the entries with these numbers. Throws if an entry is missing.
    func digests(of tables: [Int]) throws(WireError) -> [Digest] {
        var found: [Digest] = []
        for table in tables {
            guard let digest = digests[table] else { throw .badValue("table") }
            found.append(digest)
        }
        return found
    }
}
