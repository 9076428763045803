package import AnnalsCore

/// One row's change as it lies in the bytes. Its arrays are reused from change to change.
package struct WireChange: Sendable {
    package enum Kind: Hashable, Sendable {
        case insert, update, delete
    }

    package var kind: Kind = .insert
    /// Of updates: the old key.
    package var key: [WireValue] = []
    /// Of updates: the places of the columns that changed, ascending.
    package var columns: [Int] = []
    /// Of updates: each column's old value. Of deletes: all columns.
    package var old: [WireValue] = []
    /// Of updates: each column's new value. Of inserts: all columns.
    package var new: [WireValue] = []
    package var mark: RowMark?

    package init() {}

    mutating func clear(_ kind: Kind) {
        self.kind = kind
        key.removeAll(keepingCapacity: true)
        columns.removeAll(keepingCapacity: true)
        old.removeAll(keepingCapacity: true)
        new.removeAll(keepingCapacity: true)
        if mark != nil { mark = nil }
    }
}

/// Reads one transaction's content from bytes that may be anything.
///
///     var body = try BodyReader(bytes: batch.plain, range: batch.bodyRange(0))
///     var change = WireChange()
///     while let table = try body.nextTable() {
///         while try body.nextChange(into: &change) { … }
///     }
///     let rest = try body.rest()      // journal, schema, policies, resolutions
///
/// Parts not asked for are stepped over; after `rest()` the whole body was checked.
package struct BodyReader: Sendable {
    private enum Stage: Comparable {
        case tables, changes, rest, end
    }

    /// What a body holds besides changes.
    package struct Rest: Hashable, Sendable {
        /// The conflicts that its author settled in it.
        package var journal: [JournalEntry] = []
        /// The schema that the transaction brings.
        package var schema: SchemaEntry?
        /// Policies that it sets for the space.
        package var policies: [PolicySetting] = []
        /// Conflicts of earlier transactions that it resolves.
        package var resolutions: [ConflictResolution] = []
        /// Earlier entries that it voids; only the relay's own entries do.
        package var voids: [VoidedEntry] = []

        package init(
            journal: [JournalEntry] = [], schema: SchemaEntry? = nil, policies: [PolicySetting] = [],
            resolutions: [ConflictResolution] = [],
            voids: [VoidedEntry] = []
        ) {
            self.voids = voids
            self.journal = journal
            self.schema = schema
            self.policies = policies
            self.resolutions = resolutions
        }
    }

    package let info: TransactionInfo
    /// The numbers of the tables that the changes name, ascending.
    package let tables: [Int]
    private var reader: ByteReader
    private var stage = Stage.tables
    private var found = Rest()
    private var emptySections = 0
    private var isSectionEmpty = false

    /// Reads the head. `range` is the body's place in `bytes`; without it all bytes are the body.
    package init(bytes: [UInt8], range: Range<Int>? = nil) throws(WireError) {
        var reader = ByteReader(bytes, range: range)
        info = try reader.readTransactionInfo()
        tables = try reader.readTableNumbers()
        self.reader = reader
    }

    var sourceBytes: [UInt8] { reader.bytes }

    /// What it holds of a larger body; nil where it is a body by itself.
    ///
    /// A piece has nothing else, and whoever reads its changes all the same is told that it has none of these sections.
    package func piece() throws(WireError) -> BodyPiece? {
        var body = self
        guard stage == .tables, try body.takeSection(BodySection.piece) else { return nil }
        let total = try body.reader.readInt()
        let offset = try body.reader.readInt()
        let range = try body.reader.readLengthPrefixed()
        guard !range.isEmpty, range.count <= total, offset <= total - range.count else { throw .badValue("piece") }
        guard try body.takeSection(BodySection.end) else { throw .badValue("section") }
        try body.reader.expectEnd()
        return BodyPiece(total: total, offset: offset, range: range)
    }

    /// The place behind what it begins with.
    var headEnd: Int { reader.offset }

    /// The number of the next section's table, or nil after the last.
    package mutating func nextTable() throws(WireError) -> Int? {
        if stage == .changes {
            var skipped = WireChange()
            while try nextChange(into: &skipped) {}
        }
        guard stage == .tables else { return nil }
        guard try takeSection(BodySection.table) else {
            stage = .rest
            return nil
        }
        let table = try reader.readInt()
        guard isNamed(table) else { throw .badValue("table") }
        stage = .changes
        isSectionEmpty = true
        return table
    }

    /// Whether the head names a table: its numbers ascend.
    private func isNamed(_ table: Int) -> Bool {
        var (low, high) = (0, tables.count)
        while low < high {
            let middle = (low + high) / 2
            if tables[middle] < table { low = middle + 1 } else { high = middle }
        }
        return low < tables.count && tables[low] == table
    }

    /// The next change of the section's table; false after the last.
    package mutating func nextChange(into change: inout WireChange) throws(WireError) -> Bool {
        guard stage == .changes else { return false }
        let code = try reader.readByte()
        switch code & 0x0f {
        case ChangeCode.insert:
            change.clear(.insert)
            if code != ChangeCode.insert { change.mark = try readMark(code & 0xf0, of: .insert) }
            try readRow(into: &change.new)
        case ChangeCode.update:
            guard code == ChangeCode.update else { throw .badValue("mark") }
            change.clear(.update)
            try readUpdate(into: &change)
        case ChangeCode.delete:
            change.clear(.delete)
            if code != ChangeCode.delete { change.mark = try readMark(code & 0xf0, of: .delete) }
            try readRow(into: &change.old)
        default:
            guard code == ChangeCode.end else { throw .badValue("change") }
            stage = .tables
            if isSectionEmpty { emptySections += 1 }
            guard emptySections <= WireLimits.maximumEmptySections else { throw .tooLarge("empty sections") }
            return false
        }
        isSectionEmpty = false
        return true
    }

    /// What follows the changes. Those not read yet are stepped over.
    package mutating func rest() throws(WireError) -> Rest {
        while try nextTable() != nil {}
        guard stage == .rest else { return found }
        if try takeSection(BodySection.journal) {
            found.journal = try reader.readItems("journal entry", limit: WireLimits.maximumJournalEntries) { reader throws(WireError) in
                try reader.readJournalEntry()
            }
        }
        if try takeSection(BodySection.schema) { found.schema = try reader.readSchemaEntry() }
        if try takeSection(BodySection.policies) {
            found.policies = try reader.readItems("policy", limit: WireLimits.maximumDecisions) { reader throws(WireError) in
                try reader.readPolicySetting()
            }
        }
        if try takeSection(BodySection.resolutions) {
            found.resolutions = try reader.readItems("resolution", limit: WireLimits.maximumDecisions) { reader throws(WireError) in
                try reader.readResolution()
            }
        }
        if try takeSection(BodySection.voids) {
            found.voids = try reader.readItems("void", limit: WireLimits.maximumDecisions) { reader throws(WireError) in
                try reader.readVoidedEntry()
            }
        }
        guard try takeSection(BodySection.end) else { throw .badValue("section") }
        try reader.expectEnd()
        stage = .end
        return found
    }

    /// The conflicts that its author settled in it.
    package mutating func journalEntries() throws(WireError) -> [JournalEntry] { try rest().journal }

    /// The schema that the transaction brings, if it does.
    package mutating func schemaEntry() throws(WireError) -> SchemaEntry? { try rest().schema }

    /// The value itself, copied out of the bytes.
    package func value(_ value: WireValue) -> Value {
        reader.value(value)
    }

    /// The change itself, copied out of the bytes.
    package func markedChange(_ change: WireChange) -> MarkedChange {
        switch change.kind {
        case .insert: return MarkedChange(.insert(change.new.map(value)), mark: change.mark)
        case .delete: return MarkedChange(.delete(change.old.map(value)), mark: change.mark)
        case .update:
            let columns = change.columns.indices.map {
                ColumnChange(column: change.columns[$0], old: value(change.old[$0]), new: value(change.new[$0]))
            }
            return MarkedChange(.update(key: change.key.map(value), columns: columns))
        }
    }

    /// Steps over a section's first byte if it is this one.
    private mutating func takeSection(_ section: UInt8) throws(WireError) -> Bool {
        guard reader.remaining > 0 else { throw .truncated }
        guard reader.bytes[reader.offset] == section else { return false }
        _ = try reader.readByte()
        return true
    }

    private mutating func readRow(into values: inout [WireValue]) throws(WireError) {
        let count = try reader.readColumnCount()
        guard count > 0 else { throw .badValue("row") }
        for _ in 0..<count { values.append(try reader.readWireValue()) }
    }

    private mutating func readUpdate(into change: inout WireChange) throws(WireError) {
        let keys = try reader.readColumnCount()
        let columns = try reader.readColumnCount()
        guard keys > 0 else { throw .badValue("key") }
        guard columns > 0 else { throw .badValue("columns") }
        for _ in 0..<keys { change.key.append(try reader.readWireValue()) }
        var last = -1
        for _ in 0..<columns {
            let column = try reader.readInt()
            guard column > last, column < WireLimits.maximumColumns else { throw .badValue("column") }
            last = column
            change.columns.append(column)
            change.old.append(try reader.readWireValue())
            change.new.append(try reader.readWireValue())
        }
    }

    private mutating func readMark(_ code: UInt8, of kind: WireChange.Kind) throws(WireError) -> RowMark {
        switch (code, kind) {
        case (ChangeCode.revived, .insert): return .revived(try reader.readPosition(), changed: try reader.readColumnChanges())
        case (ChangeCode.setAside, .delete): return .setAside
        case (ChangeCode.merged, .delete):
            let key = try reader.readValues()
            guard !key.isEmpty else { throw .badValue("key") }
            return .merged(into: key)
        default: throw .badValue("mark")
        }
    }
}

/// All changes of a small body at once, section by section.
package func decodeChanges(_ bytes: [UInt8], range: Range<Int>? = nil) throws(WireError) -> [(ref: Int, changes: [MarkedChange])] {
    var body = try BodyReader(bytes: bytes, range: range)
    var sections: [(ref: Int, changes: [MarkedChange])] = []
    var change = WireChange()
    while let table = try body.nextTable() {
        var changes: [MarkedChange] = []
        while try body.nextChange(into: &change) { changes.append(body.markedChange(change)) }
        sections.append((table, changes))
    }
    _ = try body.rest()
    return sections
}
