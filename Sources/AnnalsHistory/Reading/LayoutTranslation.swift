package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Translates rows with a table's former columns to rows with its current columns. Columns are matched by name; in a joined store
/// by canonical name.
///
/// A column that was added since has its default, as `ADD COLUMN` gave it to existing rows. A column that was dropped since is left
/// out. Each list says what happened to the columns (`ListContinuation`). Stores from older versions of Annals do not have this
/// data. There a column with a missing name is taken as renamed if the column that is now at its index is new.
package struct LayoutTranslation {
    package let entry: TrackedTables.Entry
    /// For each current column its index in the old row; nil if nothing changed.
    private let columnIndexes: [Int?]?
    private let defaults: [Value]

    /// - Parameters:
    ///   - list: the old columns, under their canonical names in a joined store.
    ///   - lists: all column lists, by id.
    package init(_ db: Database, from list: TrackedTable, to entry: TrackedTables.Entry, through lists: [Int64: TrackedTable]) throws {
        self.entry = entry
        let (layout, columns) = (list.firstLayout, entry.first.columns)
        let columnIndexes = Self.columnIndexes(from: list, to: entry, through: lists) ?? Self.columnIndexes(from: layout, to: columns)
        let isSame = layout.columns.count == columns.count && columnIndexes.enumerated().allSatisfy { $0 == $1 }
        self.columnIndexes = isSame ? nil : columnIndexes
        var defaults: [Value] = []
        if !isSame {
            for (columnIndex, column) in columns.enumerated() {
                defaults.append(columnIndexes[columnIndex] == nil ? try AddedColumn.value(of: column) : .null)
            }
        }
        self.defaults = defaults
    }

    /// For each current column its index in the old row, computed from list to list; nil if a list has no continuation.
    private static func columnIndexes(
        from list: TrackedTable, to entry: TrackedTables.Entry, through lists: [Int64: TrackedTable]
    ) -> [Int?]? {
        var (present, last) = (list.columns.indices.map(Optional.init), list)
        // The continuation of a list is newer than the list.
        while last.id != entry.id {
            guard let next = last.continuation, next.list > last.id, let list = lists[next.list] else { return nil }
            present = present.map { columnIndex in
                columnIndex.flatMap { next.columnIndexes.indices.contains($0) ? next.columnIndexes[$0] : nil }
            }
            last = list
        }
        return entry.definition.columns.indices.map { present.firstIndex(of: $0) }
    }

    private static func columnIndexes(from layout: TableLayout, to columns: [DeclaredTable.Column]) -> [Int?] {
        var columnIndexes = columns.map { column in layout.columns.firstIndex { $0.isSameIdentifier(as: column.name) } }
        for columnIndex in columnIndexes.indices
        where columnIndexes[columnIndex] == nil && columnIndex < layout.columns.count && !columnIndexes.contains(columnIndex) {
            columnIndexes[columnIndex] = columnIndex
        }
        return columnIndexes
    }

    package func translate(_ row: [Value]) -> [Value] {
        guard let columnIndexes else { return row }
        return columnIndexes.enumerated().map { columnIndex, old in old.map { row[$0] } ?? defaults[columnIndex] }
    }

    /// Whether the old row has the column that is now at this index.
    package func holds(_ columnIndex: Int) -> Bool { columnIndexes.map { $0[columnIndex] != nil } ?? true }

    /// The current index of a column of the old row; nil if it was dropped.
    package func columnIndex(_ old: Int) -> Int? {
        guard let columnIndexes else { return old }
        return columnIndexes.firstIndex(of: old)
    }
}
