import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// Rows as they were read, and the edits of them. This is the state of an `EditContext` as a value.
///
///     try await store.write(author: "till 3", mergePolicy: .mergeByPropertyStoreTrump) { edits in
///         let customer = try edits.insert(Customer(id: nil, name: "Ada"))
///         try edits.insert(Invoice(id: 18, customerID: customer.id, isPaid: false))
///         try edits.delete(invoice)
///     }
///
/// An edit set does not access the database. A row is identified by its key, so any copy of a record refers to the same row. A
/// new record whose integer key is nil gets a provisional key. Other records can refer to that key until the save replaces it by
/// a real one.
public struct EditSet: Sendable {
    var catalog: TableCatalog
    var rows: [PersistentIdentifier: EditedRow] = [:]
    /// Current identifiers by former ones, for rows that were saved or that a sync gave another key.
    var renamed: [PersistentIdentifier: PersistentIdentifier] = [:]
    /// The number of the newest transaction of history that this set has seen.
    var newest: Int64
    /// Renumberings applied since the last save. Savepoints and saves that started earlier need them.
    var renumberings: [RenumberedRow] = []
    /// The value of `oldest` when the rows without edits were left out; nil if they are here.
    var oldestOfAll: Int64?
    /// Incremented when all rows are forgotten.
    private(set) var discards = 0
    private var edits = 0
    /// The value of `edits` when the set was created or last discarded.
    private var editsBefore = 0
    /// The lowest integer key of all known rows, at most 0. Provisional keys are lower.
    var lowestKey: Int64

    init(_ catalog: TableCatalog, newest: Int64, lowestKey: Int64 = 0) {
        self.catalog = catalog
        self.newest = newest
        self.lowestKey = min(lowestKey, 0)
    }

    // MARK: What is edited

    /// Whether a save has anything to do. An edit that was reverted does not count.
    public var hasChanges: Bool { rows.values.contains(where: \.hasEdits) }
    /// New rows, in the order of their insertion.
    public var inserted: [PersistentIdentifier] { identifiers(where: \.isInserted) }
    /// Rows whose values differ from those that were read, in the order of their first edit.
    public var updated: [PersistentIdentifier] { identifiers { !$0.changed.isEmpty } }
    /// Rows that are to be deleted.
    public var deleted: [PersistentIdentifier] { identifiers(where: \.isDeleted) }

    private func identifiers(where isMeant: (EditedRow) -> Bool) -> [PersistentIdentifier] {
        rows.filter { isMeant($0.value) }.sorted { $0.value.order < $1.value.order }.map(\.key)
    }

    /// The names of a row's edited columns.
    public func changedColumns(of identifier: PersistentIdentifier) -> Set<String> {
        guard let row = rows[current(identifier)] else { return [] }
        return Set(row.changed.map { row.table.columns[$0].name })
    }

    /// The current identifier of a row. A new row gets its final key in the save.
    public func current(_ identifier: PersistentIdentifier) -> PersistentIdentifier {
        var current = identifier
        var seen: Set<PersistentIdentifier> = []
        while let next = renamed[current], seen.insert(current).inserted { current = next }
        return current
    }

    /// A row as a record, with its edits; nil if the row is not known here or is to be deleted.
    ///
    /// - Throws: errors of the record's decoding.
    public func record<Record: EditableRecord>(_ type: Record.Type = Record.self, for identifier: PersistentIdentifier) throws -> Record? {
        guard let row = rows[current(identifier)], row.now != nil else { return nil }
        return try row.decode(Record.self)
    }

    // MARK: Editing

    /// Adds a new row.
    ///
    /// - Returns: the record as the set knows it. If its integer key is nil, the record has a provisional key, which is negative
    ///   and lower than every key in the store. Other records can refer to it in columns that are declared as foreign keys; in
    ///   any other column it remains a plain number. The save assigns the real key, which `current` returns. The key's type must
    ///   allow negative numbers.
    /// - Throws: `AnnalsError` with code `usage` for a table or column that does not exist, for a record without a key that
    ///   SQLite cannot assign, and for a row that already exists.
    @discardableResult
    public mutating func insert<Record: EditableRecord>(_ record: Record) throws -> Record {
        let table = try table(of: Record.self)
        var values = try RecordCoding.encode(record, table)
        var inserted = record
        let isProvisional = table.rowidAlias.map { values[$0] ?? .null == .null } ?? false
        if isProvisional, let columnIndex = table.rowidAlias {
            lowestKey -= 1
            values[columnIndex] = .integer(lowestKey)
            inserted = try RecordCoding.decode(Record.self, values, table, [:])
        }
        stayBelow(values, at: table.numberedColumnIndexes)
        let identifier = try identifier(of: values, table)
        var row = rows[identifier] ?? EditedRow(table: table, base: nil, now: nil, hasProvisionalKey: isProvisional, asOf: newest)
        guard row.now == nil else {
            throw AnnalsError.editing("the inserted row of \(table.name) already exists", hint: "Update it instead")
        }
        // Inserting the key of a row that is to be deleted updates that row.
        row.now = zip(values, row.base ?? values.map { _ in nil }).map { $0 ?? $1 }
        renamed[identifier] = nil
        set(identifier, row, inserted)
        return inserted
    }

    /// Sets a row to the values of a record. Columns in which the record has the known value are not edited.
    ///
    /// - Throws: `AnnalsError` with code `usage` for a row that was not read here; use `update(_:from:)` for that.
    public mutating func update<Record: EditableRecord>(_ record: Record) throws {
        let table = try table(of: Record.self)
        let values = try RecordCoding.encode(record, table)
        let identifier = try current(identifier(of: values, table))
        guard var row = rows[identifier], let now = row.now else {
            throw AnnalsError.editing(
                "the row of \(table.name) was not fetched in this context, or is to be deleted",
                hint: "Fetch it in this context, or call update(_:from:) with the record as it was read")
        }
        // A record can write a value in another form than the stored one. So the record is compared with what it would write for
        // the known row.
        let unchanged = (try? row.decode(Record.self)).flatMap { try? RecordCoding.encode($0, table) } ?? now
        for columnIndex in values.indices where !table.primaryKey.contains(columnIndex) {
            if let value = values[columnIndex], value != unchanged[columnIndex] { row.now?[columnIndex] = value }
        }
        set(identifier, row, record)
    }

    /// Sets a row that was read elsewhere, such as in `store.read`, to the values of a record.
    ///
    /// - Parameters:
    ///   - record: the record with the new values.
    ///   - original: the record as it was read. The save compares it with the stored row.
    /// - Throws: `AnnalsError` with code `usage`, as `insert`.
    public mutating func update<Record: EditableRecord>(_ record: Record, from original: Record) throws {
        try adopt(original)
        try update(record)
    }

    /// Edits a row, starting from its values in this set, and returns the edited record.
    ///
    ///     let paid = try edits.edit(invoice) { $0.isPaid = true }
    ///
    /// - Throws: as `update`; errors of `change`.
    @discardableResult
    public mutating func edit<Record: EditableRecord>(_ record: Record, _ change: (inout Record) throws -> Void) throws -> Record {
        let before = try known(record)
        var changed = before
        try change(&changed)
        return try take(changed, editedFrom: before)
    }

    /// A row's record with its current values in this set.
    func known<Record: EditableRecord>(_ record: Record) throws -> Record {
        let table = try table(of: Record.self)
        guard let known = try self.record(Record.self, for: identifier(of: RecordCoding.encode(record, table), table)) else {
            throw Self.notKnown(table)
        }
        return known
    }

    /// Takes over only the columns that the edit changed, because the other columns may have been edited in between.
    mutating func take<Record: EditableRecord>(_ changed: Record, editedFrom before: Record) throws -> Record {
        let table = try table(of: Record.self)
        let (old, new) = (try RecordCoding.encode(before, table), try RecordCoding.encode(changed, table))
        let called = try identifier(of: old, table)
        guard try identifier(of: new, table) == called else {
            throw AnnalsError.editing(
                "the edit changed the primary key of a row of \(table.name)", hint: "Delete the row and insert a new one")
        }
        guard var row = rows[current(called)], row.now != nil else { throw Self.notKnown(table) }
        let isAsBefore = try RecordCoding.encode(row.decode(Record.self), table) == old
        for columnIndex in new.indices where !table.primaryKey.contains(columnIndex) {
            if let value = new[columnIndex], value != old[columnIndex] { row.now?[columnIndex] = value }
        }
        let edited = isAsBefore ? changed : try row.decode(Record.self)
        set(current(called), row, edited)
        return edited
    }

    private static func notKnown(_ table: DeclaredTable) -> AnnalsError {
        AnnalsError.editing(
            "the row of \(table.name) was not fetched in this context, or is to be deleted", hint: "Fetch it in this context")
    }

    /// Deletes a row. If it was not read here, the record's values count as those that were read.
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

    /// Adds a record that was read elsewhere with its values as the base, unless its row is already known.
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

    /// Counts a row as edited after all others, unless it was edited before.
    mutating func setEdited(_ identifier: PersistentIdentifier, _ row: EditedRow) {
        var row = row
        if row.order == 0 {
            edits += 1
            row.order = edits
        }
        rows[identifier] = row
    }

    /// Drops all edits and forgets all rows. Provisional keys are not used again.
    mutating func discard() {
        (rows, renumberings) = ([:], [])
        discards += 1
        editsBefore = edits
    }

    /// Whether neither the set nor any savepoint of it can hold a row.
    var isFresh: Bool { rows.isEmpty && edits == editsBefore }

    // MARK: Names

    func table<Record: TableRecord>(of type: Record.Type) throws -> DeclaredTable {
        guard let table = catalog[Record.databaseTableName], table.kind == .table, !table.primaryKey.isEmpty else {
            throw AnnalsError.editing(
                "there is no table \(Record.databaseTableName) with a primary key",
                hint: "Only rows with a primary key can be edited; check databaseTableName")
        }
        return table
    }

    private func identifier(of values: [Value?], _ table: DeclaredTable) throws -> PersistentIdentifier {
        let key = table.primaryKey.compactMap { values[$0] }
        guard key.count == table.primaryKey.count, !key.contains(where: \.isNull) else {
            throw AnnalsError.editing(
                "a record of \(table.name) has no primary key value", hint: "Set the key before you insert the record")
        }
        return PersistentIdentifier(table: table.name, key: key)
    }

    /// Keeps provisional keys lower than all keys that known rows have or refer to.
    mutating func stayBelow(_ values: [Value?], at columnIndexes: [Int]) {
        for columnIndex in columnIndexes {
            if let key = values[columnIndex]?.integer, key < lowestKey { lowestKey = key }
        }
    }
}

extension DeclaredTable {
    /// Column indexes of integer keys: the table's own key and its foreign keys.
    var numberedColumnIndexes: [Int] {
        (rowidAlias.map { [$0] } ?? []) + foreignKeys.flatMap { $0.columnIndexes.compactMap(\.self) }
    }
}
