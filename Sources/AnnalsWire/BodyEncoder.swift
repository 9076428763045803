package import AnnalsCore

/// Encodes the content of one transaction.
///
/// Fast loops write each value directly from its memory, without a `Value`:
///
///     var body = BodyEncoder(info: info)
///     body.beginTable(3)
///     body.beginUpdate(key: 1, columns: 1)
///     body.integer(17)            // the key
///     body.columnIndex(2)
///     body.null()                 // old
///     body.text(pointerToText)    // new
///     let bytes = body.finish()
///
/// The caller must write exactly the announced number of values. The next change checks this by a precondition.
package struct BodyEncoder: Sendable {
    private let info: TransactionInfo
    /// Full pieces of `sections`. A large body is kept in pieces, so that it is never copied to a larger buffer.
    private var pieces: [[UInt8]] = []
    private var bytesInPieces = 0
    private var sections = ByteWriter()
    private var tables: Set<Int> = []
    private var currentTable: Int?
    /// The number of values and column indexes that the last change still lacks.
    private var awaited = 0
    private var lastColumn = -1
    private var journalEntries = ByteWriter()
    private var journalCount = 0
    private var schemaEntry: SchemaEntry?
    private var policies: [PolicySetting] = []
    private var resolutions: [ConflictResolution] = []
    private var references: [ReferenceSetting] = []
    private var voids: [VoidedEntry] = []
    /// The ages of the changes that are not in a part yet; consecutive changes of one age are a run.
    private var ages: [AgeRun] = []
    /// The number of changes that were begun, in all parts.
    package private(set) var changeCount = 0

    package init(info: TransactionInfo) {
        self.info = info
    }

    /// The size of the changes and journal entries that are not in a part yet, in bytes. The caller uses it to end a
    /// part.
    package var byteCount: Int { bytesInPieces + sections.count + journalEntries.count }

    /// The size of the changes in bytes at which a piece ends.
    static let pieceBytes = 256 << 10

    /// The next changes belong to the table with this number. The batch must have its layout.
    package mutating func beginTable(_ reference: Int) {
        guard reference != currentTable else { return }
        endTable()
        sections.byte(BodySection.table)
        sections.varint(reference)
        tables.insert(reference)
        currentTable = reference
    }

    private mutating func endTable() {
        endChange()
        if currentTable != nil { sections.byte(ChangeCode.end) }
        currentTable = nil
    }

    private mutating func endChange() {
        precondition(awaited == 0, "the last change has more or fewer values than announced")
    }

    // MARK: Changes as values

    /// The values of all stored columns of a new row. The only possible mark is `revived`.
    package mutating func insert(_ row: [Value], mark: RowMark? = nil) {
        beginInsert(columns: row.count, mark: mark)
        for value in row { self.value(value) }
    }

    /// The values of all stored columns of the deleted row. Possible marks are `merged` and `setAside`.
    package mutating func delete(_ row: [Value], mark: RowMark? = nil) {
        beginDelete(columns: row.count, mark: mark)
        for value in row { self.value(value) }
    }

    /// The row's old key, and the changed columns in any order.
    package mutating func update(key: [Value], columns: [ColumnChange]) {
        beginUpdate(key: key.count, columns: columns.count)
        for value in key { self.value(value) }
        for column in columns.sorted(by: { $0.column < $1.column }) {
            columnIndex(column.column)
            value(column.old)
            value(column.new)
        }
    }

    package mutating func change(_ change: MarkedChange) {
        defer { age(change.age) }
        switch change.change {
        case .insert(let row): insert(row, mark: change.mark)
        case .delete(let row): delete(row, mark: change.mark)
        case .update(let key, let columns):
            precondition(change.mark == nil, "updates have no marks")
            update(key: key, columns: columns)
        }
    }

    /// How long before the transaction's time the last change was made, in milliseconds. Called at most once after each change.
    package mutating func age(_ milliseconds: Int64) {
        guard milliseconds > 0, let last = ages.indices.last else { return }
        ages[last].count -= 1
        if ages[last].count == 0 { ages.removeLast() }
        addAge(milliseconds)
    }

    private mutating func addAge(_ milliseconds: Int64) {
        if milliseconds == ages.last?.age { return ages[ages.count - 1].count += 1 }
        ages.append(AgeRun(count: 1, age: milliseconds))
    }

    // MARK: Changes as a stream

    /// The caller writes one value for each column next.
    package mutating func beginInsert(columns: Int, mark: RowMark? = nil) {
        switch mark {
        case nil: begin(ChangeCode.insert)
        case .revived(let position, let changed):
            begin(ChangeCode.insert | ChangeCode.revived)
            sections.position(position)
            sections.columnChanges(changed.sorted { $0.column < $1.column })
        case .merged, .setAside: preconditionFailure("an insert can only be marked as revived")
        }
        sections.varint(columns)
        awaited = columns
    }

    /// The caller writes one value for each column next.
    package mutating func beginDelete(columns: Int, mark: RowMark? = nil) {
        switch mark {
        case nil: begin(ChangeCode.delete)
        case .setAside: begin(ChangeCode.delete | ChangeCode.setAside)
        case .merged(let key):
            begin(ChangeCode.delete | ChangeCode.merged)
            sections.values(key)
        case .revived: preconditionFailure("a delete cannot be marked as revived")
        }
        sections.varint(columns)
        awaited = columns
    }

    /// The caller writes next the values of the old key. Then, for each column in ascending order, it writes the index,
    /// the old value and the new value.
    package mutating func beginUpdate(key: Int, columns: Int) {
        begin(ChangeCode.update)
        sections.varint(key)
        sections.varint(columns)
        awaited = key + 3 * columns
    }

    private mutating func begin(_ code: UInt8) {
        precondition(currentTable != nil, "call beginTable first")
        endChange()
        if sections.count >= Self.pieceBytes { cutPiece() }
        changeCount += 1
        addAge(0)
        lastColumn = -1
        sections.byte(code)
    }

    private mutating func cutPiece() {
        pieces.append(sections.bytes)
        bytesInPieces += sections.count
        sections = ByteWriter(capacity: Self.pieceBytes + Self.pieceBytes / 8)
    }

    /// The index of the next column of an update.
    package mutating func columnIndex(_ column: Int) {
        precondition(column > lastColumn, "an update's columns ascend")
        lastColumn = column
        awaited -= 1
        sections.varint(column)
    }

    package mutating func value(_ value: Value) {
        awaited -= 1
        switch value {
        case .text(let content) where content.count >= Self.pieceBytes: large(ValueTag.text, content.bytes)
        case .blob(let content) where content.count >= Self.pieceBytes: large(ValueTag.blob, content.bytes)
        default: sections.value(value)
        }
    }

    /// A large value becomes a separate piece, so that it is not copied.
    private mutating func large(_ tag: UInt8, _ content: [UInt8]) {
        sections.byte(tag)
        sections.varint(content.count)
        cutPiece()
        pieces.append(content)
        bytesInPieces += content.count
    }

    package mutating func null() {
        awaited -= 1
        sections.null()
    }

    package mutating func integer(_ value: Int64) {
        awaited -= 1
        sections.integer(value)
    }

    package mutating func real(_ value: Double) {
        awaited -= 1
        sections.real(value)
    }

    package mutating func text(_ content: UnsafeRawBufferPointer) {
        awaited -= 1
        sections.text(content)
    }

    package mutating func blob(_ content: UnsafeRawBufferPointer) {
        awaited -= 1
        sections.blob(content)
    }

    // MARK: Other content of a transaction

    /// Adds an entry of the conflict journal. Allowed at any time between changes.
    package mutating func journal(_ entry: JournalEntry) {
        journalEntries.journalEntry(entry)
        journalCount += 1
    }

    /// The schema that this transaction adds to the log. Only the last one is kept.
    package mutating func schema(_ entry: SchemaEntry) {
        schemaEntry = entry
    }

    /// Policies that this transaction sets for the space.
    package mutating func policies(_ settings: [PolicySetting]) {
        policies += settings
    }

    /// Conflicts that this transaction resolves.
    package mutating func resolutions(_ resolutions: [ConflictResolution]) {
        self.resolutions += resolutions
    }

    /// References that this transaction sets for the space.
    package mutating func references(_ settings: [ReferenceSetting]) {
        references += settings
    }

    /// Entries that this entry voids. Only entries of the relay itself do this.
    mutating func voids(_ entries: [VoidedEntry]) {
        voids += entries
    }

    /// Returns the whole body. Afterwards the encoder is empty except for its info.
    package mutating func finish() -> [UInt8] {
        let pieces = finishInPieces()
        guard pieces.count > 1 else { return pieces.first ?? [] }
        var body = ByteWriter(capacity: pieces.reduce(0) { $0 + $1.count })
        for piece in pieces { body.bytes(piece) }
        return body.bytes
    }

    /// Returns everything so far as a part of the transaction, in pieces. A part is a complete body. It has the changes
    /// and journal entries that are in no part yet. All other contents go into the last part.
    ///
    /// Call this only between changes, and call `beginTable` before the next change.
    package mutating func finishPart() -> [[UInt8]] {
        let (schema, policies, resolutions, references, count) = (schemaEntry, policies, resolutions, references, changeCount)
        (schemaEntry, self.policies, self.resolutions, self.references) = (nil, [], [], [])
        let part = finishInPieces()
        (schemaEntry, self.policies, self.resolutions, self.references, changeCount) = (schema, policies, resolutions, references, count)
        return part
    }

    /// Returns the whole body, or the last part, in pieces. A small body is one piece. Nothing large is copied.
    package mutating func finishInPieces() -> [[UInt8]] {
        endTable()
        var body = ByteWriter(capacity: pieces.isEmpty ? byteCount + 128 : 128)
        body.transactionInfo(info)
        body.varint(tables.count)
        for table in tables.sorted() { body.varint(table) }
        body.ages(ages)
        var finished: [[UInt8]] = []
        if !pieces.isEmpty {
            finished = [body.bytes] + pieces
            body = ByteWriter(capacity: sections.count + journalEntries.count + 128)
        }
        body.bytes(sections.bytes)
        if journalCount > 0 {
            body.byte(BodySection.journal)
            body.varint(journalCount)
            body.bytes(journalEntries.bytes)
        }
        if let schemaEntry {
            body.byte(BodySection.schema)
            body.schemaEntry(schemaEntry)
        }
        if !policies.isEmpty {
            body.byte(BodySection.policies)
            body.varint(policies.count)
            for setting in policies { body.policySetting(setting) }
        }
        if !resolutions.isEmpty {
            body.byte(BodySection.resolutions)
            body.varint(resolutions.count)
            for resolution in resolutions { body.resolution(resolution) }
        }
        if !references.isEmpty {
            body.byte(BodySection.references)
            body.varint(references.count)
            for setting in references { body.referenceSetting(setting) }
        }
        if !voids.isEmpty {
            body.byte(BodySection.voids)
            body.varint(voids.count)
            for entry in voids { body.voidedEntry(entry) }
        }
        body.byte(BodySection.end)
        self = BodyEncoder(info: info)
        return finished + [body.bytes]
    }
}
