import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
import GRDB

/// How a set takes over rows that were read, and how it follows changes of the store.
extension EditSet {
    /// Adds rows that were just read. A row that is already known keeps the values with which it was read first, so that all its
    /// records agree.
    ///
    /// - Parameter seen: the set whose edits the request saw. It may have changed since.
    /// - Returns: a record, with edits, for each row that is not to be deleted.
    mutating func read<Record: EditableRecord>(
        _ fetched: [FetchedRow], _ type: Record.Type, at newest: Int64, seen: EditSet
    ) throws -> [Record] {
        let table = try table(of: Record.self)
        let numbered = table.numberedColumnIndexes
        var records: [Record] = []
        for row in fetched {
            let values: [Value?] = table.columns.map { row.row.hasColumn($0.name) ? Value(row.row[$0.name] as DatabaseValue) : nil }
            let identifier = table.identifier(of: values.map { $0 ?? .null })
            // The values are those of an edit, which may have been saved, undone or dropped since.
            let wasEdited = seen.rows[identifier]?.hasEdits ?? false
            if let known = rows[wasEdited ? current(identifier) : identifier] {
                if known.now == nil { continue }
                guard known.hasEdits else {
                    records.append(try row.isAsFetched && known.now == values ? Record(row: row.row) : known.decode(Record.self))
                    continue
                }
                // Rows of other tables, which the request may also fetch, are only in the row.
                let isAsSeen = seen.rows[identifier].map { $0.now == known.now } ?? false
                records.append(try isAsSeen ? Record(row: row.row) : known.decode(Record.self))
                continue
            }
            if wasEdited { continue }
            var known = EditedRow(table: table, base: values, now: values, asOf: newest)
            for column in table.generatedColumns where row.row.hasColumn(column.name) {
                known.generated[column.name] = row.row[column.name]
            }
            stayBelow(values, at: numbered)
            // The identifier of a renamed row now belongs to this row.
            renamed[identifier] = nil
            rows[identifier] = known
            records.append(try Record(row: row.row))
        }
        return records
    }

    /// A row with all columns of its table.
    typealias FetchedRow = (row: Row, isAsFetched: Bool)

    /// Reads the columns that a request did not select, because a save compares the whole row.
    static func whole(_ row: Row, _ table: DeclaredTable, _ db: Database) throws -> FetchedRow {
        guard !table.columns.allSatisfy({ row.hasColumn($0.name) }) else { return (row, true) }
        let key = try table.primaryKey.map { columnIndex in
            guard row.hasColumn(table.columns[columnIndex].name) else {
                throw AnnalsError.editing(
                    "the request for \(table.name) does not select the primary key", hint: "Select the key columns as well")
            }
            return Value(row[table.columns[columnIndex].name] as DatabaseValue)
        }
        return (try PersistentIdentifier(table: table.name, key: key).fetch(db) ?? row, false)
    }

    /// The stored rows of all known rows; nil for a row that no longer exists.
    func stored(_ db: Database) throws -> [PersistentIdentifier: Row?] {
        var stored: [PersistentIdentifier: Row?] = [:]
        for (identifier, row) in rows where row.base != nil { stored[identifier] = .some(try identifier.fetch(db)) }
        return stored
    }

    /// Updates known rows to the stored values. Edits are kept.
    mutating func refresh(_ stored: [PersistentIdentifier: Row?]) {
        for (identifier, stored) in stored {
            guard let table = rows[identifier]?.table else { continue }
            var generated: [String: DatabaseValue] = [:]
            if let stored { for column in table.generatedColumns { generated[column.name] = stored[column.name] } }
            refresh(identifier, stored.map { row in table.columns.map { Value(row[$0.name] as DatabaseValue) } }, generated)
        }
    }

    /// Updates a known row to the stored values. A row that no longer exists is forgotten. If it was edited, it becomes a new
    /// row, so that no edit is lost.
    mutating func refresh(_ identifier: PersistentIdentifier, _ stored: [Value]?, _ generated: [String: DatabaseValue]) {
        guard var row = rows[identifier], let base = row.base else { return }
        row.isAdopted = false
        guard let stored else {
            let isEdited = row.now != nil && row.hasEdits
            row.base = nil
            rows[identifier] = isEdited ? row : nil
            return
        }
        row.now = row.now.map { now in stored.indices.map { now[$0] != base[$0] ? now[$0] : stored[$0] } }
        row.base = stored
        row.generated = generated
        rows[identifier] = row
    }

    /// Updates the rows to the current declarations of their tables.
    mutating func move(to catalog: TableCatalog) {
        guard catalog.version != self.catalog.version else { return }
        self.catalog = catalog
        for identifier in Array(rows.keys) {
            if let table = catalog[identifier.table] { rows[identifier]?.move(to: table) }
        }
    }

    // MARK: Keys that others gave out first

    /// The number of the transaction of history after which renumberings concern this set.
    var oldest: Int64 { oldestOfAll ?? (isFresh ? .max : rows.values.lazy.map(\.asOf).min() ?? newest) }

    /// The same with only the rows that have edits. A save needs no others, and would copy all of them.
    var onlyEdited: EditSet {
        var edited = self
        edited.rows = [:]
        var oldest = Int64.max
        var index = rows.startIndex
        while index != rows.endIndex {
            oldest = min(oldest, rows.values[index].asOf)
            if rows.values[index].hasEdits { edited.rows[rows.keys[index]] = rows.values[index] }
            rows.formIndex(after: &index)
        }
        edited.oldestOfAll = isFresh ? .max : rows.isEmpty ? newest : oldest
        return edited
    }

    /// Replaces the keys that syncs changed, up to a transaction of history.
    ///
    /// - Returns: the new identifiers of renumbered rows, by the old ones.
    @discardableResult
    mutating func follow(
        _ renumbered: [RenumberedRow], upTo newest: Int64
    ) -> [PersistentIdentifier: PersistentIdentifier] {
        self.newest = max(self.newest, newest)
        let last = renumberings.last?.number ?? 0
        renumberings += renumbered.filter { $0.number > last }
        guard !renumbered.isEmpty else {
            // In place, by index, because a context may hold very many rows.
            var index = rows.values.startIndex
            while index != rows.values.endIndex {
                if rows.values[index].asOf < newest { rows.values[index].asOf = newest }
                rows.values.formIndex(after: &index)
            }
            return [:]
        }
        var others: [PersistentIdentifier: PersistentIdentifier] = [:]
        var followed: [PersistentIdentifier: EditedRow] = [:]
        for (identifier, row) in rows {
            let since = row.asOf
            var row = row
            let current = row.rename(from: identifier, to: renumbered.current(identifier, since: since)) {
                renumbered.current($0, since: since)
            }
            row.asOf = max(since, newest)
            if current != identifier { others[identifier] = current }
            followed[current] = row
        }
        renamed.merge(others) { $1 }
        // Another row has this old key now.
        for (old, _) in renamed where followed[old] != nil { renamed[old] = nil }
        rows = followed
        return others
    }

    /// Undoes the edits made since a savepoint, also of rows that were renumbered since.
    mutating func undo(to savepoint: EditSet) {
        var earlier = savepoint
        earlier.follow(renumberings, upTo: newest)
        earlier.move(to: catalog)
        for (identifier, row) in rows {
            if let before = earlier.rows[identifier] {
                rows[identifier] = before
            } else if row.base == nil {
                rows[identifier] = nil
            } else {
                rows[identifier]?.now = row.base
            }
        }
        // New rows that were deleted since the savepoint.
        for (identifier, row) in earlier.rows where rows[identifier] == nil { rows[identifier] = row }
    }

    // MARK: After a save

    /// The result of a save, for each of its rows.
    struct Saved {
        struct Row {
            var identifier: PersistentIdentifier
            /// nil if the row no longer exists.
            var stored: [Value]?
            var generated: [String: DatabaseValue]
            /// Whether the save inserted the row.
            var isNew = false
        }

        /// By the identifier at the start of the save.
        var rows: [PersistentIdentifier: Row] = [:]
        /// Other known rows, as the cascades and triggers of the save left them.
        var effects: [PersistentIdentifier: Row] = [:]
        /// The new identifiers of rows that got another one, by the old ones.
        var names: [PersistentIdentifier: PersistentIdentifier] = [:]
        /// The edits when the save began, and the renumberings that it applied.
        var start: EditSet
        var renumbered: [RenumberedRow] = []
        var newest: Int64
    }

    /// Applies the result of a save. Edits that were made since it began are kept.
    mutating func absorb(_ saved: Saved) {
        follow(saved.renumbered, upTo: saved.newest)
        move(to: saved.start.catalog)
        var rewritten: [PersistentIdentifier: Saved.Row] = [:]
        for (identifier, row) in saved.effects { rewritten[renumberings.current(identifier, since: saved.newest)] = row }
        for (old, outcome) in saved.rows {
            // Another sync may have renumbered the row since the save.
            let called = renumberings.current(old, since: saved.newest)
            let present = renumberings.current(outcome.identifier, since: saved.newest)
            if called != present { renamed[called] = present }
            if discards != saved.start.discards {
                rewritten[present] = outcome
            } else if let row = rows.removeValue(forKey: called) {
                absorb(row, saved.start.rows[old], outcome, as: present, saved.newest)
            } else if outcome.isNew, let stored = outcome.stored, var row = saved.start.rows[old] {
                // The row was deleted or undone while the save inserted it.
                (row.base, row.now, row.hasProvisionalKey, row.asOf) = (stored, nil, false, saved.newest)
                setEdited(present, row)
            }
        }
        for (identifier, row) in rewritten { refresh(identifier, row.stored, row.generated) }
        renumberings = []
        newest = max(newest, saved.newest)
        rename(saved.names)
    }

    private mutating func absorb(
        _ row: EditedRow, _ start: EditedRow?, _ outcome: Saved.Row, as present: PersistentIdentifier, _ newest: Int64
    ) {
        var row = row
        row.asOf = max(row.asOf, newest)
        row.isAdopted = false
        row.hasProvisionalKey = false
        guard let stored = outcome.stored else {
            // The row no longer exists, unless it was inserted again since.
            guard row.now != nil, row.now != start?.now else { return }
            row.base = nil
            rows[present] = row
            return
        }
        if let now = row.now {
            row.now = stored.indices.map { columnIndex in
                now[columnIndex] == start?.now?[columnIndex] ? stored[columnIndex] : now[columnIndex]
            }
        } else if start?.now == nil {
            row.now = stored
        }
        row.base = stored
        row.generated = outcome.generated
        if !row.hasEdits { row.order = 0 }
        let current = row.key ?? present
        if current != present { renamed[present] = current }
        rows[current] = row
    }

    /// Edits made during the save may refer to new rows by their provisional keys. Stored rows never do.
    mutating func rename(_ names: [PersistentIdentifier: PersistentIdentifier]) {
        guard !names.isEmpty else { return }
        var followed: [PersistentIdentifier: EditedRow] = [:]
        for (identifier, row) in rows {
            var row = row
            let edited = row.base == nil ? nil : Set(row.changed)
            row.now = row.now.map { row.referring($0, only: edited) { names[$0] ?? $0 } }
            let current = row.key ?? identifier
            if current != identifier { renamed[identifier] = current }
            followed[current] = row
        }
        rows = followed
    }
}

extension EditedRow {
    /// Changes the row's key and its references to renumbered rows. Returns the row's key, which may contain such a reference.
    mutating func rename(
        from old: PersistentIdentifier, to new: PersistentIdentifier, _ current: (PersistentIdentifier) -> PersistentIdentifier
    ) -> PersistentIdentifier {
        base = base.map { referring($0, current) }
        now = now.map { referring($0, current) }
        if new != old {
            for (columnIndex, value) in zip(table.primaryKey, new.key) {
                base?[columnIndex] = value
                now?[columnIndex] = value
            }
        }
        return key ?? new
    }

    /// The identifier that the row's values give.
    var key: PersistentIdentifier? {
        (now ?? base).map { values in table.identifier(of: values.map { $0 ?? .null }) }
    }

    /// The values, with each reference changed to the current key of its parent.
    ///
    /// - Parameter edited: changes only references with one of these column indexes; nil changes all.
    func referring(
        _ values: [Value?], only edited: Set<Int>? = nil, _ current: (PersistentIdentifier) -> PersistentIdentifier
    ) -> [Value?] {
        var values = values
        for reference in references(in: values) {
            if let edited, edited.isDisjoint(with: reference.columnIndexes) { continue }
            let parent = current(reference.parent)
            guard parent != reference.parent else { continue }
            for (columnIndex, value) in zip(reference.columnIndexes, parent.key) { values[columnIndex] = value }
        }
        return values
    }

    /// Moves the row to a new declaration of its table, unless an edited column was removed. A column that was not read counts as
    /// unchanged.
    mutating func move(to new: DeclaredTable) {
        func key(_ table: DeclaredTable) -> [String] { table.primaryKey.map { table.columns[$0].name.foldedIdentifier } }
        guard key(new) == key(table) else { return }
        if new.columns.map(\.name) != table.columns.map(\.name) {
            let edited = base == nil ? (now ?? []).indices.filter { now?[$0] != nil } : changed
            guard edited.allSatisfy({ new.columnIndex(of: table.columns[$0].name) != nil }) else { return }
            let columnIndexes = new.columns.map { table.columnIndex(of: $0.name) }
            base = base.map { base in columnIndexes.map { columnIndex in columnIndex.flatMap { base[$0] } } }
            now = now.map { now in columnIndexes.map { columnIndex in columnIndex.flatMap { now[$0] } } }
        }
        table = new
    }

    /// The parents that these values refer to by foreign keys to primary keys, with the column indexes in the order of the key.
    func references(
        in values: [Value?]
    ) -> [(parent: PersistentIdentifier, columnIndexes: [Int], onDelete: DeclaredTable.ForeignKeyAction)] {
        table.foreignKeys.compactMap { key in
            let columnIndexes = key.columnIndexes.compactMap(\.self)
            guard columnIndexes.count == key.columns.count else { return nil }
            let parts = columnIndexes.compactMap { values[$0] }
            guard parts.count == columnIndexes.count, !parts.contains(where: \.isNull) else { return nil }
            return (PersistentIdentifier(table: key.parentTable, key: parts), columnIndexes, key.onDelete)
        }
    }
}
