import AnnalsCore
import AnnalsSchema
import AnnalsStore
import GRDB

/// How a set comes to know rows, and how it goes on with them when the store went on.
extension EditSet {
    /// Takes in rows that were just read. One that is known stays as it was read first, so that a record from then and one from
    /// now mean the same.
    ///
    /// - Returns: the records of those that are not to be deleted, with their edits.
    mutating func read<Record: EditableRecord>(_ fetched: [FetchedRow], _ type: Record.Type, at newest: Int64) throws -> [Record] {
        let table = try table(of: Record.self)
        let numbered = table.numberedPlaces
        var records: [Record] = []
        for row in fetched {
            let values: [Value?] = table.columns.map { row.row.hasColumn($0.name) ? Value(row.row[$0.name] as DatabaseValue) : nil }
            let identifier = table.identifier(of: values.map { $0 ?? .null })
            if let known = rows[identifier] {
                guard !known.hasProvisionalKey else {
                    throw AnnalsError.editing(
                        "a row of \(table.name) came meanwhile with the key that stands for a new one here", hint: "Save first")
                }
                if known.now == nil { continue }
                guard known.hasEdits else {
                    records.append(try row.isAsFetched && known.now == values ? Record(row: row.row) : known.decode(Record.self))
                    continue
                }
                guard row.row.scopes.isEmpty, row.row.prefetchedRows.isEmpty else {
                    throw AnnalsError.editing(
                        "a row of \(table.name) has edits, and was fetched together with rows of other tables",
                        hint: "Save first, or fetch them apart")
                }
                records.append(try known.decode(Record.self))
                continue
            }
            var known = EditedRow(table: table, base: values, now: values, asOf: newest)
            for column in table.generatedColumns where row.row.hasColumn(column.name) {
                known.generated[column.name] = row.row[column.name]
            }
            stayBelow(values, at: numbered)
            // Whatever was called so before, it is this row now.
            renamed[identifier] = nil
            rows[identifier] = known
            records.append(try Record(row: row.row))
        }
        return records
    }

    /// A row with all columns of its table.
    typealias FetchedRow = (row: Row, isAsFetched: Bool)

    /// What a request left out must be remembered too.
    static func whole(_ row: Row, _ table: DeclaredTable, _ db: Database) throws -> FetchedRow {
        guard !table.columns.allSatisfy({ row.hasColumn($0.name) }) else { return (row, true) }
        let key = try table.primaryKey.map { place in
            guard row.hasColumn(table.columns[place].name) else {
                throw AnnalsError.editing("a request for \(table.name) leaves its key out", hint: "Select the key's columns too")
            }
            return Value(row[table.columns[place].name] as DatabaseValue)
        }
        return (try PersistentIdentifier(table: table.name, key: key).fetch(db) ?? row, false)
    }

    /// The rows that are known, as they are stored; nil in the place of one that is gone.
    func stored(_ db: Database) throws -> [PersistentIdentifier: Row?] {
        var stored: [PersistentIdentifier: Row?] = [:]
        for (identifier, row) in rows where row.base != nil { stored[identifier] = .some(try identifier.fetch(db)) }
        return stored
    }

    /// Brings known rows to what is stored; edits stay on top of it.
    mutating func refresh(_ stored: [PersistentIdentifier: Row?]) {
        for (identifier, stored) in stored {
            guard let table = rows[identifier]?.table else { continue }
            var generated: [String: DatabaseValue] = [:]
            if let stored { for column in table.generatedColumns { generated[column.name] = stored[column.name] } }
            refresh(identifier, stored.map { row in table.columns.map { Value(row[$0.name] as DatabaseValue) } }, generated)
        }
    }

    /// Brings a known row to what is stored. One that is gone is forgotten, unless it was edited: then it is a new row, since
    /// no edit is dropped unasked.
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

    /// Goes on with tables as they are declared now.
    mutating func move(to catalog: TableCatalog) {
        guard catalog.version != self.catalog.version else { return }
        self.catalog = catalog
        for identifier in Array(rows.keys) {
            if let table = catalog[identifier.table] { rows[identifier]?.move(to: table) }
        }
    }

    // MARK: Keys that others gave out first

    /// The point of history from which on renumberings are of interest.
    var oldest: Int64 { isFresh ? .max : rows.values.map(\.asOf).min() ?? newest }

    /// Goes on with rows under the keys that syncs gave them, as they are told up to a point of history.
    ///
    /// - Returns: what rows are called that were called otherwise.
    @discardableResult
    mutating func follow(
        _ renumbered: [RenumberedRow], upTo newest: Int64
    ) -> [PersistentIdentifier: PersistentIdentifier] {
        self.newest = max(self.newest, newest)
        let last = renumberings.last?.number ?? 0
        renumberings += renumbered.filter { $0.number > last }
        guard !renumbered.isEmpty else {
            // In place, by index: a context may know very many rows.
            var place = rows.values.startIndex
            while place != rows.values.endIndex {
                if rows.values[place].asOf < newest { rows.values[place].asOf = newest }
                rows.values.formIndex(after: &place)
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
        // What had one of the old keys since is another row.
        for (old, _) in renamed where followed[old] != nil { renamed[old] = nil }
        rows = followed
        return others
    }

    /// Takes back what was edited since a savepoint, whatever its rows are called by now.
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
        // New rows that were deleted since.
        for (identifier, row) in earlier.rows where rows[identifier] == nil { rows[identifier] = row }
    }

    // MARK: After a save

    /// What became of the rows that a save took.
    struct Saved {
        struct Row {
            var identifier: PersistentIdentifier
            /// nil where there is no such row any more.
            var stored: [Value]?
            var generated: [String: DatabaseValue]
            /// The save made it.
            var isNew = false
        }

        /// By what they were called when the save looked at them.
        var rows: [PersistentIdentifier: Row] = [:]
        /// Other rows that are known, as the save's own cascades and triggers left them.
        var effects: [PersistentIdentifier: Row] = [:]
        /// What new rows are called that were called otherwise.
        var names: [PersistentIdentifier: PersistentIdentifier] = [:]
        /// The edits as the save took them, and the renumberings that it followed.
        var start: EditSet
        var renumbered: [RenumberedRow] = []
        var newest: Int64
    }

    /// Goes on after a save. What was edited since it began stays edited.
    mutating func absorb(_ saved: Saved) {
        follow(saved.renumbered, upTo: saved.newest)
        move(to: saved.start.catalog)
        var rewritten: [PersistentIdentifier: Saved.Row] = [:]
        for (identifier, row) in saved.effects { rewritten[renumberings.current(identifier, since: saved.newest)] = row }
        for (old, outcome) in saved.rows {
            // Somebody may have renumbered it once more since.
            let called = renumberings.current(old, since: saved.newest)
            let present = renumberings.current(outcome.identifier, since: saved.newest)
            if called != present { renamed[called] = present }
            if discards != saved.start.discards {
                rewritten[present] = outcome
            } else if let row = rows.removeValue(forKey: called) {
                absorb(row, saved.start.rows[old], outcome, as: present, saved.newest)
            } else if outcome.isNew, let stored = outcome.stored, var row = saved.start.rows[old] {
                // It was deleted or undone while the save stored it.
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
            // Gone; unless it was inserted once more since.
            guard row.now != nil, row.now != start?.now else { return }
            row.base = nil
            rows[present] = row
            return
        }
        if let now = row.now {
            row.now = stored.indices.map { place in now[place] == start?.now?[place] ? stored[place] : now[place] }
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

    /// What was edited since may refer to new rows by the keys that they had. Nothing stored does.
    private mutating func rename(_ names: [PersistentIdentifier: PersistentIdentifier]) {
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
    /// The row under another key, its references to others under theirs. Returns its key, of which such a reference may be part.
    mutating func rename(
        from old: PersistentIdentifier, to new: PersistentIdentifier, _ current: (PersistentIdentifier) -> PersistentIdentifier
    ) -> PersistentIdentifier {
        base = base.map { referring($0, current) }
        now = now.map { referring($0, current) }
        if new != old {
            for (place, value) in zip(table.primaryKey, new.key) {
                base?[place] = value
                now?[place] = value
            }
        }
        return key ?? new
    }

    /// What its values call it.
    var key: PersistentIdentifier? {
        (now ?? base).map { values in table.identifier(of: values.map { $0 ?? .null }) }
    }

    /// Values whose references follow their parents.
    ///
    /// - Parameter edited: only references that have one of these places; all without it.
    func referring(
        _ values: [Value?], only edited: Set<Int>? = nil, _ current: (PersistentIdentifier) -> PersistentIdentifier
    ) -> [Value?] {
        var values = values
        for reference in references(in: values) {
            if let edited, edited.isDisjoint(with: reference.places) { continue }
            let parent = current(reference.parent)
            guard parent != reference.parent else { continue }
            for (place, value) in zip(reference.places, parent.key) { values[place] = value }
        }
        return values
    }

    /// The row in a table whose columns are others now, as long as no edited one is gone. What was not read counts as unchanged.
    mutating func move(to new: DeclaredTable) {
        func key(_ table: DeclaredTable) -> [String] { table.primaryKey.map { table.columns[$0].name.lowercased() } }
        guard key(new) == key(table) else { return }
        if new.columns.map(\.name) != table.columns.map(\.name) {
            let edited = base == nil ? (now ?? []).indices.filter { now?[$0] != nil } : changed
            guard edited.allSatisfy({ new.place(of: table.columns[$0].name) != nil }) else { return }
            let places = new.columns.map { table.place(of: $0.name) }
            base = base.map { base in places.map { place in place.flatMap { base[$0] } } }
            now = now.map { now in places.map { place in place.flatMap { now[$0] } } }
        }
        table = new
    }

    /// Whom these values refer to by foreign keys to primary keys, with the places of the key's columns in their order.
    func references(
        in values: [Value?]
    ) -> [(parent: PersistentIdentifier, places: [Int], onDelete: DeclaredTable.ForeignKeyAction)] {
        table.foreignKeys.compactMap { key in
            let places = key.places.compactMap(\.self)
            guard places.count == key.columns.count else { return nil }
            let parts = places.compactMap { values[$0] }
            guard parts.count == places.count, !parts.contains(where: \.isNull) else { return nil }
            return (PersistentIdentifier(table: key.parentTable, key: parts), places, key.onDelete)
        }
    }
}
