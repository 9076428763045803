package import AnnalsCore
package import AnnalsSchema
package import AnnalsSQLite
import Foundation
package import GRDB

/// The net changes of transactions: for each row the values before and after. They do not depend on the number and order of the
/// raw changes that the triggers wrote.
///
///     let changes = try NetChanges(db, tables: .load(db))
///     try changes.forEach(in: 17) { table, old, new in … }
///
/// Memory does not grow with the size of a transaction. Rows that changed once are passed on as they are read. Only rows that
/// changed several times are collected and folded; if there are many, they are sorted and folded one by one.
///
/// Use it only within the access to `db` in which it was created.
package final class NetChanges {
    /// A range of the raw changes of one table.
    package struct Section: Hashable {
        /// The table's id in `annals_tables`.
        package var layout: Int64
        package var first: Int64
        package var last: Int64
    }

    /// The changes of one transaction in one tracked table.
    ///
    /// It has several sections if the table got another column list during the transaction.
    package struct Part {
        package var entry: TrackedTables.Entry
        /// Sorted by the age of their column lists.
        package var sections: [Section]
    }

    package let db: Database
    package let tables: TrackedTables
    private let layouts: [Int64: TrackedTable]
    private let foldedAtOnce: Int
    private let foldedInMemory: Int
    private let readsTimes: Bool
    private var sources: [Int64: RawChangeScan] = [:]
    private var translations: [Int64: LayoutTranslation] = [:]
    package lazy var spans = Result { try SpanTable(db).find() }

    package init(
        _ db: Database, tables: TrackedTables, foldedAtOnce: Int = HistoryLimits.foldedAtOnce,
        foldedInMemory: Int = HistoryLimits.foldedInMemory, readsTimes: Bool = false
    ) throws {
        self.readsTimes = readsTimes
        self.db = db
        self.tables = tables
        layouts = try tables.layouts ?? Dictionary(TrackedTable.fetchAll(db).map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        self.foldedAtOnce = foldedAtOnce
        self.foldedInMemory = foldedInMemory
    }

    // MARK: With the current columns

    /// Visits the net changes of a transaction, with old and new rows in the tables' current columns, parents' tables before their
    /// children's.
    ///
    /// Tables that are no longer tracked are left out. Rows whose key holds NULL are not synced and are left out too. If such a row
    /// gets a key, it counts as inserted; if a row loses its key, it counts as deleted.
    package func forEach(in transaction: Int64, _ visit: (TrackedTables.Entry, NetChange) throws -> Void) throws {
        for part in try parts(of: transaction) {
            let key = part.entry.definition.primaryKey
            try forEachRow(in: part) { row in
                var row = row
                if let values = row.old, key.contains(where: { values[$0].isNull }) { row.old = nil }
                if let values = row.new, key.contains(where: { values[$0].isNull }) { row.new = nil }
                guard row.old != nil || row.new != nil else { return }
                try visit(part.entry, row)
            }
        }
    }

    /// Visits the net changes of one part, in the table's current columns and in no particular order. The two rows are never equal.
    package func forEachRow(in part: Part, _ visit: (NetChange) throws -> Void) throws {
        if part.sections.count == 1, let section = part.sections.first {
            guard let translation = try translation(section.layout) else { return }
            return try forEachRow(in: section) { row in
                let translated = row.translated(by: translation)
                if translated.old != translated.new { try visit(translated) }
            }
        }
        var folder = NetChangeFolder(IdentityRule(part.entry.definition))
        // Each column list has its own ids, but here all raw changes need one order.
        var end: Int64 = 0
        for section in part.sections {
            guard let translation = try translation(section.layout) else { continue }
            let distance = end - section.first
            try source(section.layout).forEach(section) { folder.add($0.translated(by: translation, movedBy: distance)) }
            end += section.last - section.first + 1
        }
        try finish(&folder, visit)
    }

    // MARK: Column lists

    /// The layout of a section's rows, with the current names of table and columns.
    func presentLayout(_ id: Int64) throws -> TableLayout {
        var layout = try layout(id).layout
        guard let translation = try translation(id) else { return layout }
        layout.name = translation.entry.definition.name
        for columnIndex in layout.columns.indices {
            if let now = translation.columnIndex(columnIndex) {
                layout.columns[columnIndex] = translation.entry.definition.columns[now].name
            }
        }
        return layout
    }

    /// The table and column list of a section.
    package func layout(_ id: Int64) throws -> TrackedTable {
        guard let layout = layouts[id] else { throw MergeError.unknownLayout(Int(id)) }
        return layout
    }

    /// The translation from a layout to the current table; nil if the table is no longer tracked.
    package func translation(_ layout: Int64) throws -> LayoutTranslation? {
        if let known = translations[layout] { return known }
        let list = try self.layout(layout)
        // Another table may have the name of a table that the space has removed.
        guard list.state != .leftover, list.state != .removed, let entry = tables.table(named: list.name) else { return nil }
        let translation = try LayoutTranslation(db, from: list, to: entry, through: layouts)
        translations[layout] = translation
        return translation
    }

    /// The indices of columns that a table got after a transaction.
    ///
    /// A list from an older version of Annals does not say when it ended. Then only its changes show that it was in use later.
    package func columnsAdded(to entry: TrackedTables.Entry, after number: Int64) throws -> Set<Int> {
        var list = entry.id
        while let before = layouts.values.first(where: { $0.continuation?.list == list && $0.id < list }) {
            let end = try before.continuation?.after ?? SpanTable(db).newestTransaction(of: before.id).map { $0 - 1 } ?? 0
            guard end >= number else { break }
            list = before.id
        }
        guard list != entry.id, let translation = try translation(list) else { return [] }
        return Set(entry.definition.columns.indices.filter { !translation.holds($0) })
    }

    // MARK: Rows

    /// Visits the net changes of one section, in the columns of its layout and in no particular order. The two rows are never
    /// equal.
    package func forEachRow(in section: Section, _ visit: (NetChange) throws -> Void) throws {
        let source = try source(section.layout)
        let count = section.last - section.first + 1
        if count == 1 {
            try source.forEach(section) { try pass($0, source.rule, visit) }
        } else if count <= foldedAtOnce {
            var folder = NetChangeFolder(source.rule)
            try source.forEach(section) { folder.add($0) }
            try finish(&folder, visit)
        } else {
            try forEachRowOfMany(source, section, visit)
        }
    }

    private func forEachRowOfMany(_ source: RawChangeScan, _ section: Section, _ visit: (NetChange) throws -> Void) throws {
        let repeated = try RepeatedRows(source, section)
        let isSorted = repeated.changes > foldedInMemory
        var folder = NetChangeFolder(source.rule)
        try source.forEachHashed(section) { change, row in
            if !repeated.contains(row) {
                try pass(change, source.rule, visit)
            } else if !isSorted || repeated.isMoved(row) {
                folder.add(change)
            }
        }
        try finish(&folder, visit)
        if isSorted { try foldSorted(source, section, repeated, visit) }
    }

    /// Folds one row after another. Rows that changed their key cannot be sorted by it and were folded before.
    private func foldSorted(
        _ source: RawChangeScan, _ section: Section, _ repeated: RepeatedRows, _ visit: (NetChange) throws -> Void
    ) throws {
        var folder = NetChangeFolder(source.rule)
        var current: RowIdentity?
        try source.forEachSorted(section, where: { repeated.contains($0) && !repeated.isMoved($0) }) { change in
            let identity =
                change.old.map { source.rule.identity(of: $0, rowid: change.oldRowid) }
                ?? change.new.map { source.rule.identity(of: $0, rowid: change.newRowid) }
            if identity != current { try finish(&folder, visit) }
            current = identity
            folder.add(change)
        }
        try finish(&folder, visit)
    }

    /// A row's only change is its net change.
    private func pass(_ change: RawChange, _ rule: IdentityRule, _ visit: (NetChange) throws -> Void) throws {
        guard change.old != change.new else { return }
        var row = NetChange(
            old: change.old, new: change.new, leftOut: change.leftOut,
            oldRowid: change.old.flatMap { rule.isKeyless($0) ? change.oldRowid : nil },
            newRowid: change.new.flatMap { rule.isKeyless($0) ? change.newRowid : nil })
        row.time = change.time
        try visit(row)
    }

    /// Visits the raw changes of one section with their times, in the columns of its layout and in the order in which they happened.
    func forEachStep(in section: Section, _ visit: (RawChange, Date?) throws -> Void) throws {
        try source(section.layout).forEachStep(section, visit)
    }

    private func finish(_ folder: inout NetChangeFolder, _ visit: (NetChange) throws -> Void) throws {
        for change in folder.finish() where change.old != change.new { try visit(change) }
    }

    private func source(_ layout: Int64) throws -> RawChangeScan {
        if let known = sources[layout] { return known }
        let source = try RawChangeScan(db, self.layout(layout), readsTimes: readsTimes)
        sources[layout] = source
        return source
    }
}

extension IdentityRule {
    /// Whether the key holds NULL, so that only the rowid identifies the row.
    package func isKeyless(_ row: [Value]) -> Bool {
        key.contains { row[$0].isNull }
    }
}
