import AnnalsCore
import AnnalsSchema
public import AnnalsStore
import GRDB

/// Rows as they were read, and what is to become of them: what an `EditContext` holds, as a value.
///
///     try await store.write(author: "till 3", mergePolicy: .mergeByPropertyStoreTrump) { edits in
///         let customer = try edits.insert(Customer(id: nil, name: "Ada"))
///         try edits.insert(Invoice(id: 18, customerID: customer.id, isPaid: false))
///         try edits.delete(invoice)
///     }
///
/// Nothing of it touches the database. Rows are told by their keys, so a record stands for its row wherever it was copied to. A
/// new record whose integer key is nil gets a provisional one, which others may refer to until the save gives it a real one.
public struct EditSet: Sendable {
    var catalog: TableCatalog
    var rows: [PersistentIdentifier: EditedRow] = [:]
    /// What rows were called before they were saved, or before a sync gave them other keys.
    var renamed: [PersistentIdentifier: PersistentIdentifier] = [:]
    /// The number of history's newest transaction that was looked at.
    var newest: Int64
    /// Renumberings that were followed since the last save, for what was remembered before them.
    var renumberings: [RenumberedRow] = []
    /// Goes up where all rows are forgotten.
    private(set) var discards = 0
    private var edits = 0
    /// What `edits` was when the set was new or was made so.
    private var editsBefore = 0
    /// No row that is known has a lower integer key; provisional ones begin below.
    private(set) var lowestKey: Int64

    init(_ catalog: TableCatalog, newest: Int64, lowestKey: Int64 = 0) {
        self.catalog = catalog
        self.newest = newest
        self.lowestKey = min(lowestKey, 0)
    }

    // MARK: What is edited

    /// Whether a save would have anything to do. An edit that is taken back is none.
    public var hasChanges: Bool { rows.values.contains(where: \.hasEdits) }
    /// New rows, in the order in which they were inserted.
    public var inserted: [PersistentIdentifier] { identifiers(where: \.isInserted) }
    /// Rows with other values than were read, the one edited first coming first.
    public var updated: [PersistentIdentifier] { identifiers { !$0.changed.isEmpty } }
    /// Rows that are to go.
    public var deleted: [PersistentIdentifier] { identifiers(where: \.isDeleted) }

    private func identifiers(where isMeant: (EditedRow) -> Bool) -> [PersistentIdentifier] {
        rows.filter { isMeant($0.value) }.sorted { $0.value.order < $1.value.order }.map(\.key)
    }

    /// Columns of a row that were edited.
    public func changedColumns(of identifier: PersistentIdentifier) -> Set<String> {
        guard let row = rows[current(identifier)] else { return [] }
        return Set(row.changed.map { row.table.columns[$0].name })
    }

    /// What a row is called now: a row that was new has its key only since the save.
    public func current(_ identifier: PersistentIdentifier) -> PersistentIdentifier {
        var current = identifier
        var seen: Set<PersistentIdentifier> = []
        while let next = renamed[current], seen.insert(current).inserted { current = next }
        return current
    }

    /// A row as a record, with its edits; nil where the row is not known here or is to be deleted.
    ///
    /// - Throws: what the record's decoding does.
    public func record<Record: EditableRecord>(_ type: Record.Type = Record.self, for identifier: PersistentIdentifier) throws -> Record? {
        guard let row = rows[current(identifier)], row.now != nil else { return nil }
        return try row.decode(Record.self)
    }

    // MARK: Editing

    /// Adds a new row.
    ///
    /// - Returns: the record as the set knows it. Where its integer key is nil it has a provisional one, below zero and below what
    ///   the store has, by which other records may refer to it in columns that are declared as foreign keys; elsewhere it stays a
    ///   number. The save gives it a real one, and `current` tells which. The key's type must have negative numbers.
    /// - Throws: `AnnalsError` with code `usage` for a table or column that does not exist, for a record without a key that
    ///   SQLite would make, and for a row that is there already.
    @discardableResult
    public mutating func insert<Record: EditableRecord>(_ record: Record) throws -> Record {
        let table = try table(of: Record.self)
        var values = try RecordCoding.encode(record, table)
        var inserted = record
        let isProvisional = table.rowidAlias.map { values[$0] ?? .null == .null } ?? false
        if isProvisional, let place = table.rowidAlias {
            lowestKey -= 1
            values[place] = .integer(lowestKey)
            inserted = try RecordCoding.decode(Record.self, values, table, [:])
        }
        stayBelow(values, at: table.numberedPlaces)
        let identifier = try identifier(of: values, table)
        var row = rows[identifier] ?? EditedRow(table: table, base: nil, now: nil, hasProvisionalKey: isProvisional, asOf: newest)
        guard row.now == nil else { throw AnnalsError.editing("the row of \(table.name) is there already", hint: "Update it") }
        // A row that was to be deleted has its key taken again: it is that row, with other values.
        row.now = zip(values, row.base ?? values.map { _ in nil }).map { $0 ?? $1 }
        renamed[identifier] = nil
        set(identifier, row, inserted)
        return inserted
    }

    /// Takes a record as its row is to be. Columns that it would write as they are stay untouched.
    ///
    /// - Throws: `AnnalsError` with code `usage` for a row that was not read here; take `update(_:from:)` for that.
    public mutating func update<Record: EditableRecord>(_ record: Record) throws {
        let table = try table(of: Record.self)
        let values = try RecordCoding.encode(record, table)
        let identifier = try current(identifier(of: values, table))
        guard var row = rows[identifier], let now = row.now else {
            throw AnnalsError.editing(
                "the row of \(table.name) was not read here, or is to be deleted",
                hint: "Fetch it in this context, or say from what it was edited")
        }
        // What the record would write for the row as it is, may be spelled otherwise than what is stored.
        let unchanged = (try? row.decode(Record.self)).flatMap { try? RecordCoding.encode($0, table) } ?? now
        for place in values.indices where !table.primaryKey.contains(place) {
            if let value = values[place], value != unchanged[place] { row.now?[place] = value }
        }
        set(identifier, row, record)
    }

    /// Takes a record as its row is to be that was read elsewhere, such as in `store.read`.
    ///
    /// - Parameters:
    ///   - record: as it is to be.
    ///   - original: the record as it was read: what is stored is compared with it.
    /// - Throws: `AnnalsError` with code `usage`, as `insert`.
    public mutating func update<Record: EditableRecord>(_ record: Record, from original: Record) throws {
        try adopt(original)
        try update(record)
    }

    /// Changes a row's record, as the set knows it now, and gives it back.
    ///
    ///     let paid = try edits.edit(invoice) { $0.isPaid = true }
    ///
    /// - Throws: as `update`; what `change` throws.
    @discardableResult
    public mutating func edit<Record: EditableRecord>(_ record: Record, _ change: (inout Record) throws -> Void) throws -> Record {
        let before = try known(record)
        var changed = before
        try change(&changed)
        return try take(changed, editedFrom: before)
    }

    /// A row's record as it is known now.
    func known<Record: EditableRecord>(_ record: Record) throws -> Record {
        let table = try table(of: Record.self)
        guard let known = try self.record(Record.self, for: identifier(of: RecordCoding.encode(record, table), table)) else {
            throw Self.notKnown(table)
        }
        return known
    }

    /// Takes what an edit changed, and no other column: somebody else may have edited those in between.
    mutating func take<Record: EditableRecord>(_ changed: Record, editedFrom before: Record) throws -> Record {
        let table = try table(of: Record.self)
        let (old, new) = (try RecordCoding.encode(before, table), try RecordCoding.encode(changed, table))
        let called = try identifier(of: old, table)
        guard try identifier(of: new, table) == called else {
            throw AnnalsError.editing("a row of \(table.name) got another key", hint: "Delete it and insert it anew")
        }
        guard var row = rows[current(called)], row.now != nil else { throw Self.notKnown(table) }
        let isAsBefore = try RecordCoding.encode(row.decode(Record.self), table) == old
        for place in new.indices where !table.primaryKey.contains(place) {
            if let value = new[place], value != old[place] { row.now?[place] = value }
        }
        let edited = isAsBefore ? changed : try row.decode(Record.self)
        set(current(called), row, edited)
        return edited
    }

    private static func notKnown(_ table: DeclaredTable) -> AnnalsError {
        AnnalsError.editing("the row of \(table.name) was not read here, or is to be deleted", hint: "Fetch it in this context")
    }

    /// Deletes a row. One that was not read here counts as read as the record has it.
    ///
    /// - Throws: `AnnalsError` with code `usage`, as `insert`.
    public mutating func delete<Record: EditableRecord>(_ record: Record) throws {
        let table = try table(of: Record.self)
        let identifier = try current(identifier(of: RecordCoding.encode(record, table), table))
        try adopt(record)
        guard var row = rows[identifier] else { return }
        guard row.base != nil else {
            rows[identifier] = nil
            return
        }
        row.now = nil
        set(identifier, row, record)
    }

    /// Counts a record that was read elsewhere as read as it is, unless its row is known.
    private mutating func adopt<Record: EditableRecord>(_ record: Record) throws {
        let table = try table(of: Record.self)
        let values = try RecordCoding.encode(record, table)
        let identifier = try current(identifier(of: values, table))
        guard rows[identifier] == nil else { return }
        rows[identifier] = EditedRow(table: table, base: values, now: values, record: record, isAdopted: true, asOf: newest)
    }

    private mutating func set(_ identifier: PersistentIdentifier, _ row: EditedRow, _ record: any EditableRecord) {
        var row = row
        row.record = record
        setEdited(identifier, row)
    }

    /// Counts a row as edited after all others, if it was not edited before.
    mutating func setEdited(_ identifier: PersistentIdentifier, _ row: EditedRow) {
        var row = row
        if row.order == 0 {
            edits += 1
            row.order = edits
        }
        rows[identifier] = row
    }

    /// Drops all edits, and forgets the rows as they were read. Provisional keys are not given again.
    mutating func discard() {
        (rows, renamed, renumberings) = ([:], [:], [])
        discards += 1
        editsBefore = edits
    }

    /// Neither has it a row, nor has a savepoint of it.
    var isFresh: Bool { rows.isEmpty && edits == editsBefore }

    // MARK: Names

    func table<Record: TableRecord>(of type: Record.Type) throws -> DeclaredTable {
        guard let table = catalog[Record.databaseTableName], table.kind == .table, !table.primaryKey.isEmpty else {
            throw AnnalsError.editing(
                "there is no table \(Record.databaseTableName) with a primary key", hint: "Rows can only be edited that have one")
        }
        return table
    }

    private func identifier(of values: [Value?], _ table: DeclaredTable) throws -> PersistentIdentifier {
        let key = table.primaryKey.compactMap { values[$0] }
        guard key.count == table.primaryKey.count, !key.contains(where: \.isNull) else {
            throw AnnalsError.editing("a record of \(table.name) has no key", hint: "Give it one before it is inserted")
        }
        return PersistentIdentifier(table: table.name, key: key)
    }

    /// Keeps provisional keys apart from those that rows have or refer to.
    mutating func stayBelow(_ values: [Value?], at places: [Int]) {
        for place in places {
            if let key = values[place]?.integer, key < lowestKey { lowestKey = key }
        }
    }
}

extension DeclaredTable {
    /// Places of integer keys, its own and those of rows that it refers to.
    var numberedPlaces: [Int] {
        (rowidAlias.map { [$0] } ?? []) + foreignKeys.flatMap { $0.places.compactMap(\.self) }
    }
}
