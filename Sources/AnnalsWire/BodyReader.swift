package import AnnalsCore

/// One row's change, with values as ranges of the bytes. The arrays are reused for each change.
package struct WireChange: Sendable {
    package enum Kind: Hashable, Sendable {
        case insert, update, delete
    }

    package var kind: Kind = .insert
    /// The old key of an update.
    package var key: [WireValue] = []
    /// The indexes of the changed columns of an update, ascending.
    package var columns: [Int] = []
    /// The old value of each changed column of an update, or all columns of a delete.
    package var old: [WireValue] = []
    /// The new value of each changed column of an update, or all columns of an insert.
    package var new: [WireValue] = []
    package var mark: RowMark?
    /// How long before the transaction's time the row was written last, in milliseconds.
    package var age: Int64 = 0

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

/// Reads the content of one transaction from untrusted bytes.
///
///     var body = try BodyReader(bytes: batch.plain, range: batch.bodyRange(0))
///     var change = WireChange()
///     while let table = try body.nextTable() {
///         while try body.nextChange(into: &change) { … }
///     }
///     let rest = try body.rest()      // journal, schema, policies, resolutions, references
///
/// Parts that the caller does not read are skipped. After `rest()` the whole body is checked.
package struct BodyReader: Sendable {
    private enum Stage: Comparable {
        case tables, changes, rest, end
    }

    /// The content of a body except its changes.
    package struct Rest: Hashable, Sendable {
        /// The conflicts that the author resolved in this transaction.
        package var journal: [JournalEntry] = []
        /// The schema that the transaction adds to the log.
        package var schema: SchemaEntry?
        /// The policies that the transaction sets for the space.
        package var policies: [PolicySetting] = []
        /// The conflicts of earlier transactions that it resolves.
        package var resolutions: [ConflictResolution] = []
        /// The references that it sets for the space.
        package var references: [ReferenceSetting] = []
        /// The earlier entries that it voids. Only entries of the relay itself do this.
        package var voids: [VoidedEntry] = []

        package init(
            journal: [JournalEntry] = [], schema: SchemaEntry? = nil, policies: [PolicySetting] = [],
            resolutions: [ConflictResolution] = [], references: [ReferenceSetting] = [],
            voids: [VoidedEntry] = []
        ) {
            self.voids = voids
            self.journal = journal
            self.schema = schema
            self.policies = policies
            self.resolutions = resolutions
            self.references = references
        }
    }

    package let info: TransactionInfo
    /// The numbers of the tables that the changes refer to, ascending.
    package let tables: [Int]
    /// The offset after the head.
    let headEnd: Int
    private var reader: ByteReader
    private var stage = Stage.tables
    private var found = Rest()
    private var ages: AgeRuns
    private var emptySections = 0
    private var isSectionEmpty = false

    /// Reads the head. `range` is the range of the body in `bytes`. Without it, all bytes are the body.
    package init(bytes: [UInt8], range: Range<Int>? = nil) throws(WireError) {
        var reader = ByteReader(bytes, range: range)
        info = try reader.readTransactionInfo()
        tables = try reader.readTableNumbers()
        headEnd = reader.offset
        ages = AgeRuns(try reader.readAges())
        self.reader = reader
    }

    var sourceBytes: [UInt8] { reader.bytes }

    /// The piece of a larger body that this body contains. nil if this body is not a piece.
    ///
    /// A piece contains nothing else: `nextTable()` returns nil for it, and `rest()` throws.
    package func piece() throws(WireError) -> BodyPiece? {
        var body = self
        guard stage == .tables, try body.takeSection(BodySection.piece) else { return nil }
        let total = try body.reader.readInt()
        let offset = try body.reader.readInt()
        let range = try body.reader.readLengthPrefixed()
        guard !range.isEmpty, range.count <= total, offset <= total - range.count else { throw .badPiece }
        guard try body.takeSection(BodySection.end) else { throw .badValue("section") }
        try body.reader.expectEnd()
        return BodyPiece(total: total, offset: offset, range: range)
    }

    /// The table number of the next section, or nil after the last section.
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

    /// Whether the head lists the table. The numbers in the head ascend.
    private func isNamed(_ table: Int) -> Bool {
        var (low, high) = (0, tables.count)
        while low < high {
            let middle = (low + high) / 2
            if tables[middle] < table { low = middle + 1 } else { high = middle }
        }
        return low < tables.count && tables[low] == table
    }

    /// Reads the next change of the section's table. Returns false after the last change.
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
        change.age = ages.next()
        return true
    }

    /// Reads everything after the changes. Unread changes are skipped.
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
        if try takeSection(BodySection.references) {
            found.references = try reader.readItems("reference", limit: WireLimits.maximumDecisions) { reader throws(WireError) in
                try reader.readReferenceSetting()
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

    /// The conflicts that the author resolved in this transaction.
    package mutating func journalEntries() throws(WireError) -> [JournalEntry] { try rest().journal }

    /// The schema that the transaction adds to the log, if any.
    package mutating func schemaEntry() throws(WireError) -> SchemaEntry? { try rest().schema }

    /// The value, copied from the bytes.
    package func value(_ value: WireValue) -> Value {
        reader.value(value)
    }

    /// The change, copied from the bytes.
    package func markedChange(_ change: WireChange) -> MarkedChange {
        switch change.kind {
        case .insert: return MarkedChange(.insert(change.new.map(value)), mark: change.mark, age: change.age)
        case .delete: return MarkedChange(.delete(change.old.map(value)), mark: change.mark, age: change.age)
        case .update:
            let columns = change.columns.indices.map {
                ColumnChange(column: change.columns[$0], old: value(change.old[$0]), new: value(change.new[$0]))
            }
            return MarkedChange(.update(key: change.key.map(value), columns: columns), age: change.age)
        }
    }

    /// Skips the first byte of a section if it is this one.
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

/// Decodes all changes of a small body, section by section.
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
