package import AnnalsCore
import AnnalsSchema
package import AnnalsWire

/// The content of one transaction, in the parts in which it is sent. Most transactions have one part. Only one part is in memory at
/// a time, or one body that is joined from pieces in several parts.
package struct TransactionParts {
    /// A part, or the joined body of consecutive parts, with the layouts that its table references refer to.
    package struct Part {
        package var reader: BodyReader
        package var layouts: [Int: TableLayout]
    }

    package let count: Int
    private let read: (Int) throws -> Part
    private let joined: Joined?

    /// The body that was joined last. Every pass over a transaction needs the same bodies, and most transactions have only one.
    private final class Joined {
        var body: (first: Int, part: Part, next: Int)?
    }

    /// - Parameter read: Returns a part by its number. It can be called several times for one part.
    init(count: Int, read: @escaping (Int) throws -> Part) {
        self.count = count
        self.read = read
        joined = count > 1 ? Joined() : nil
    }

    init(_ reader: BodyReader, layouts: [Int: TableLayout]) {
        count = 1
        joined = nil
        read = { _ in Part(reader: reader, layouts: layouts) }
    }

    func forEach(_ visit: (Part) throws -> Void) throws {
        try forEachBody { part, _ in try visit(part) }
    }

    private func forEachBody(_ visit: (Part, _ isLast: Bool) throws -> Void) throws {
        var number = 0
        while number < count {
            let (part, next) = try body(from: number)
            try visit(part, next == count)
            number = next
        }
    }

    /// The body that begins with a part, and the number of the part after it.
    private func body(from number: Int) throws -> (Part, next: Int) {
        if let body = joined?.body, body.first == number { return (body.part, body.next) }
        joined?.body = nil
        let first = try read(number)
        // A part alone cannot be a piece. The reader of its changes throws if it is one.
        guard count > 1, try first.reader.piece() != nil else { return (first, number + 1) }
        var whole = try JoinedBody(first.reader, partsAtMost: count - number)
        var next = number + 1
        while !whole.isWhole {
            guard next < count else { throw WireError.badPiece }
            try whole.add(read(next).reader)
            next += 1
        }
        let part = Part(reader: try whole.reader(), layouts: first.layouts)
        joined?.body = (number, part, next)
        return (part, next)
    }

    /// All changes as values, with the layouts of their tables.
    package func forEachChange(_ visit: (TableLayout, MarkedChange) throws -> Void) throws {
        var change = WireChange()
        try forEach { part in
            var reader = part.reader
            while let reference = try reader.nextTable() {
                guard let layout = part.layouts[reference] else { throw MergeError.unknownLayout(reference) }
                while try reader.nextChange(into: &change) { try visit(layout, reader.markedChange(change)) }
            }
        }
    }

    /// The id, time and author of the transaction. They are the same in all parts.
    package func info() throws -> TransactionInfo {
        try read(0).reader.info
    }

    /// The contents besides the changes. Journal entries are in all parts, in their order. Everything else is in the last part.
    ///
    /// - Parameter journal: Called with the journal entries of each part, and the index of the first of them among all entries. The
    ///   returned value has no journal entries.
    package func rest(_ journal: (_ entries: [JournalEntry], _ first: Int) throws -> Void) throws -> BodyReader.Rest {
        var last = BodyReader.Rest()
        var entries = 0
        try forEachBody { part, isLast in
            var reader = part.reader
            last = try reader.rest()
            try journal(last.journal, entries)
            entries += last.journal.count
            last.journal = []
            guard isLast || last == BodyReader.Rest() else { throw WireError.badValue("part") }
        }
        return last
    }
}
