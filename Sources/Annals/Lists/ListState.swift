import AnnalsCore
import AnnalsSQLite
import AnnalsStore
import GRDB

/// The state of a list between two snapshots, and how it is refreshed.
///
/// If history says which rows changed, and each result row depends on one row of the table only, a refresh reads the keys in
/// order and the changed rows. Otherwise it reads all rows, compares them without decoding them, and decodes only those that
/// differ.
struct ListState<SectionID: Hashable & Sendable, Item: FetchableRecord & Identifiable & Sendable>: Sendable
where Item.ID: Hashable & Sendable {
    typealias Snapshot = FetchedResultsSnapshot<SectionID, Item>

    private struct Entry {
        var content: RowContent
        var id: Item.ID
        var section: SectionID
    }

    private(set) var snapshot: Snapshot?
    private var keys: [RowKey] = []
    private var entries: [RowKey: Entry] = [:]
    /// The rows that are left out because they could not be decoded.
    private var failures: [RowKey: (content: RowContent, error: any Error)] = [:]
    /// Whether such rows are left out. Otherwise the error is thrown.
    private var skips = false
    /// Whether the request prefetches rows of other tables in separate queries; nil until a row was read. The request does not
    /// say which tables these are, so any change may concern the list.
    private var isPrefetching: Bool?

    /// Updates the list to what an access reads.
    ///
    /// - Returns: whether there is a new snapshot.
    mutating func refresh(
        _ request: QueryInterfaceRequest<Item>, _ store: Store, _ db: Database, section: (Item) -> SectionID, edits: EditSet? = nil,
        skips: Bool = false
    ) throws -> Bool {
        self.skips = skips
        if let edits { return try refresh(request, over: edits, store, db, section: section) }
        let list = try ListRequest(request, db)
        let tables = try ListTables(list.region, db)
        let isAny = isPrefetching ?? false || tables.haveUntracked
        let committed = try store.committedRows(
            db, after: snapshot?.token, tables: isAny ? [] : tables.tracked, limit: ListLimits.rowsReadOneByOne
        ) { isAny || tables.region.isModified(by: $0) }
        guard let old = snapshot else {
            try tables.check(list.table)
            _ = try readAll(list, db, section)
            snapshot = try compose(committed.token, list.table, changed: [], [:])
            return true
        }
        if committed.rows?.isEmpty ?? false {
            snapshot?.token = committed.token
            return false
        }
        let oldKeys = keys
        let renumbered = committed.renumbered.filter { $0.old.table.foldedIdentifier == list.table.foldedIdentifier }
        let calledBefore = renumbered.map { entries[RowKey($0.old.key.map(\.databaseValue))]?.id }
        let changed: Set<RowKey>
        if let rows = committed.rows, isPrefetching == false, list.canReadRowByRow {
            changed = try read(rows.filter { $0.table.foldedIdentifier == list.table.foldedIdentifier }, list, db, section)
        } else {
            changed = try readAll(list, db, section)
        }
        guard !changed.isEmpty || keys != oldKeys else {
            snapshot?.token = committed.token
            return false
        }
        var renamed: [Item.ID: Item.ID] = [:]
        for (before, row) in zip(calledBefore, renumbered) {
            if let before, let now = entries[RowKey(row.new.key.map(\.databaseValue))] { renamed[before] = now.id }
        }
        snapshot = try compose(committed.token, list.table, after: old, changed: changed, renamed)
        return true
    }

    /// Updates the list to what an access reads with a context's edits.
    private mutating func refresh(
        _ request: QueryInterfaceRequest<Item>, over edits: EditSet, _ store: Store, _ db: Database, section: (Item) -> SectionID
    ) throws -> Bool {
        let committed = try store.committedRows(db, after: nil, tables: [], limit: 0) { _ in true }
        let list = try ListRequest(request, db)
        try ListTables(list.region, db).check(list.table)
        let (old, oldKeys) = (snapshot, keys)
        let changed = try PendingRows(edits).whileVisible(db, in: list.table) { try readAll(list, db, section) }
        guard old == nil || !changed.isEmpty || keys != oldKeys else {
            snapshot?.token = committed.token
            return false
        }
        snapshot = try compose(committed.token, list.table, after: old, changed: changed, [:])
        return true
    }

    // MARK: Reading

    /// Reads the keys, and the rows that are new or were written. Returns the keys of the rows that are new or differ.
    private mutating func read(
        _ touched: Set<PersistentIdentifier>, _ list: ListRequest<Item>, _ db: Database, _ section: (Item) -> SectionID
    ) throws -> Set<RowKey> {
        let now = try list.fetchKeys(db)
        var wanted = Set<RowKey>()
        // Keys can differ only between the common prefix and the common suffix.
        let prefix = zip(keys, now).prefix { $0 == $1 }.count
        let suffix = zip(keys.dropFirst(prefix).reversed(), now.dropFirst(prefix).reversed()).prefix { $0 == $1 }.count
        var gone = Set(keys[prefix..<keys.count - suffix])
        for key in now[prefix..<now.count - suffix] where gone.remove(key) == nil { wanted.insert(key) }
        forget(gone)
        for row in touched {
            let key = RowKey(row.key.map(\.databaseValue))
            if entries[key] != nil || failures[key] != nil { wanted.insert(key) }
        }
        var changed: Set<RowKey> = []
        for key in wanted {
            guard let row = try list.fetchRow(key, db) else { continue }
            if try take(row, key, section) { changed.insert(key) }
        }
        keys = now
        return changed
    }

    /// Reads all rows. Returns the keys of the rows that are new or differ.
    private mutating func readAll(_ list: ListRequest<Item>, _ db: Database, _ section: (Item) -> SectionID) throws -> Set<RowKey> {
        let rows = try Row.fetchAll(db, list.request)
        var now: [RowKey] = []
        now.reserveCapacity(rows.count)
        var gone = Set(keys)
        var changed: Set<RowKey> = []
        var seen = Set<RowKey>(minimumCapacity: rows.count)
        for row in rows {
            let key = try list.key(of: row)
            guard seen.insert(key).inserted else {
                throw AnnalsError(
                    .usage, operation: "list", "the request for the list of \(list.table) returns a row twice",
                    hint: "Use including(all:), or group by the primary key")
            }
            gone.remove(key)
            now.append(key)
            if try take(row, key, section) { changed.insert(key) }
        }
        forget(gone)
        if let first = rows.first { isPrefetching = !first.prefetchedRows.isEmpty }
        keys = now
        return changed
    }

    /// Decodes a row if it is new or differs. Returns whether it did.
    private mutating func take(_ row: Row, _ key: RowKey, _ section: (Item) -> SectionID) throws -> Bool {
        let content = RowContent(row)
        guard (entries[key]?.content ?? failures[key]?.content) != content else { return false }
        let item: Item
        do {
            item = try Item(row: row)
        } catch  where skips {
            entries[key] = nil
            failures[key] = (content, error)
            return true
        }
        failures[key] = nil
        entries[key] = Entry(content: content, id: item.id, section: section(item))
        decoded.append(item)
        return true
    }

    private mutating func forget(_ gone: Set<RowKey>) {
        for key in gone { (entries[key], failures[key]) = (nil, nil) }
    }

    /// Items decoded since the last snapshot.
    private var decoded: [Item] = []

    // MARK: Composing

    private mutating func compose(
        _ token: HistoryToken, _ table: String, after old: Snapshot? = nil, changed: Set<RowKey>, _ renamed: [Item.ID: Item.ID]
    ) throws -> Snapshot {
        var new = Snapshot(token: token)
        new.number = (old?.number ?? 0) + 1
        arrange(&new)
        if !failures.isEmpty {
            new.undecodableRows = keys.compactMap { key in
                guard let failure = failures[key] else { return nil }
                let identifier = PersistentIdentifier(table: table, key: key.values.map { Value($0) })
                return UndecodableRow(identifier: identifier, error: failure.error)
            }
        }
        new.items = old?.items ?? [:]
        for item in decoded { new.items[item.id] = item }
        decoded = []
        if new.items.count > new.itemIdentifiers.count {
            for id in Set(new.items.keys).subtracting(new.itemIdentifiers) { new.items[id] = nil }
        }
        guard new.items.count == new.itemIdentifiers.count else {
            throw AnnalsError(
                .usage, operation: "list", "two rows of the list have the same id", hint: "Derive the id from the primary key")
        }
        new.renumberings = old?.renumberings ?? []
        if !renamed.isEmpty { new.renumberings.append((new.number, renamed)) }
        if let old {
            let arrived = Set(renamed.values)
            for key in changed {
                guard let id = entries[key]?.id, old.items[id] != nil || arrived.contains(id) else { continue }
                new.reconfiguredItemIdentifiers.insert(id)
            }
        }
        return new
    }

    /// Groups the items by section. Usually the items of a section follow each other, and no lookup is needed.
    private func arrange(_ new: inout Snapshot) {
        var places: [SectionID: Int] = [:]
        var sections: [(id: SectionID, items: [Item.ID])] = []
        var place = 0
        for key in keys {
            guard let entry = entries[key] else { continue }
            if sections.isEmpty || sections[place].id != entry.section {
                place = places[entry.section] ?? sections.count
                if place == sections.count {
                    places[entry.section] = place
                    sections.append((entry.section, []))
                }
            }
            sections[place].items.append(entry.id)
        }
        for section in sections {
            let start = new.itemIdentifiers.count
            new.sectionIdentifiers.append(section.id)
            new.itemIdentifiers += section.items
            new.ranges[section.id] = start..<new.itemIdentifiers.count
        }
    }
}

/// Limits of lists.
enum ListLimits {
    /// Up to so many changed rows are read one by one. For more, reading the whole list is faster.
    static let rowsReadOneByOne = 1_000
    /// The pause before a refresh is repeated because another program held the lock.
    static let pauseWhenBusy = Duration.milliseconds(50)
}
