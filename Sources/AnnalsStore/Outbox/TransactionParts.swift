import AnnalsCore
import AnnalsWire

/// One transaction's content as the parts that it travels in, mostly one. One of them is in memory at a time.
struct TransactionParts {
    /// A part with what its table references mean.
    struct Part {
        var reader: BodyReader
        var layouts: [Int: TableLayout]
    }

    let count: Int
    private let read: (Int) throws -> Part

    /// - Parameter read: gives a part by its number, as often as it is asked.
    init(count: Int, read: @escaping (Int) throws -> Part) {
        self.count = count
        self.read = read
    }

    init(_ reader: BodyReader, layouts: [Int: TableLayout]) {
        count = 1
        read = { _ in Part(reader: reader, layouts: layouts) }
    }

    func forEach(_ visit: (Part) throws -> Void) throws {
        for number in 0..<count { try visit(read(number)) }
    }

    /// All changes as values, with the layouts of their tables.
    func forEachChange(_ visit: (TableLayout, MarkedChange) throws -> Void) throws {
        var change = WireChange()
        try forEach { part in
            var reader = part.reader
            while let reference = try reader.nextTable() {
                guard let layout = part.layouts[reference] else { throw MergeError.unknownLayout(reference) }
                while try reader.nextChange(into: &change) { try visit(layout, reader.markedChange(change)) }
            }
        }
    }

    /// Who made it; the same in all parts.
    func info() throws -> TransactionInfo {
        try read(0).reader.info
    }

    /// What goes with the changes. Journal entries come from all parts, in their order; everything else is in the last.
    ///
    /// - Parameter journal: given the journal entries part by part, with the place of the first of them among all; they are
    ///   not in what is returned.
    func rest(_ journal: (_ entries: [JournalEntry], _ first: Int) throws -> Void) throws -> BodyReader.Rest {
        var last = BodyReader.Rest()
        var entries = 0
        for number in 0..<count {
            var reader = try read(number).reader
            last = try reader.rest()
            try journal(last.journal, entries)
            entries += last.journal.count
            last.journal = []
            guard number == count - 1 || last == BodyReader.Rest() else { throw WireError.badValue("part") }
        }
        return last
    }
}
