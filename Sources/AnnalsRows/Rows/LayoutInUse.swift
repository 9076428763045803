package import AnnalsCore
package import AnnalsWire

extension [Value] {
    /// The row with the values that another row has at some indexes.
    package func with(_ columnIndexes: Set<Int>, of other: [Value]) -> [Value] {
        var row = self
        for columnIndex in columnIndexes { row[columnIndex] = other[columnIndex] }
        return row
    }
}

/// Maps the columns of an author's table to the columns of the local table. Each table may have columns that the other lacks.
///
/// A class, because the loops over changes copy it often, and each array in a structure would cost a retain.
package final class LayoutInUse {
    /// For each column of the author, its index in the local table; nil if this store lacks it.
    private let all: [Int?]
    /// The author's columns that exist here, by their index in the layout.
    private let known: [Int]
    /// The local indexes of the columns in `known`.
    package let columnIndexes: [Int]
    /// The values of local columns that the author did not have, with the indexes of these columns.
    package let missing: [(columnIndex: Int, value: Value)]
    /// Local indexes of columns that the space has removed. Replicas without them write rows too, so their old values may differ.
    package let leftover: Set<Int>
    /// Both tables have the same columns in the same order.
    package let isSame: Bool

    package init(all: [Int?], missing: [(columnIndex: Int, value: Value)], leftover: Set<Int> = []) {
        self.all = all
        self.missing = missing
        self.leftover = leftover
        known = all.indices.filter { all[$0] != nil }
        columnIndexes = all.compactMap { $0 }
        isSame = missing.isEmpty && all.enumerated().allSatisfy { $0 == $1 }
    }

    /// The change without the author's columns that this store lacks. Its column numbers are indexes in `columnIndexes`.
    package func translated(_ change: WireChange) -> WireChange {
        var translated = change
        translated.mark = change.mark.map(self.translated)
        guard known.count < all.count else { return translated }
        switch change.kind {
        case .insert: translated.new = known.map { change.new[$0] }
        case .delete: translated.old = known.map { change.old[$0] }
        case .update:
            let columns = change.columns.indices.filter { all[change.columns[$0]] != nil }
            translated.columns = columns.compactMap { known.firstIndex(of: change.columns[$0]) }
            translated.old = columns.map { change.old[$0] }
            translated.new = columns.map { change.new[$0] }
        }
        return translated
    }

    /// The change with whole local rows and local column indexes.
    package func translated(_ change: RowChange) -> RowChange {
        switch change {
        case .insert(let row): .insert(translated(row))
        case .delete(let row): .delete(translated(row))
        case .update(let key, let columns): .update(key: key, columns: columns.compactMap(translated).sorted { $0.column < $1.column })
        }
    }

    package func translated(_ mark: RowMark) -> RowMark {
        guard case .revived(let position, let changed) = mark, !isSame else { return mark }
        return .revived(position, changed: changed.compactMap(translated))
    }

    private func translated(_ column: ColumnChange) -> ColumnChange? {
        guard all.indices.contains(column.column) else { return nil }
        return all[column.column].map { ColumnChange(column: $0, old: column.old, new: column.new) }
    }

    private func translated(_ row: [Value]) -> [Value] {
        var translated = [Value](repeating: .null, count: columnIndexes.count + missing.count)
        for (column, columnIndex) in all.enumerated() { if let columnIndex { translated[columnIndex] = row[column] } }
        for (columnIndex, value) in missing { translated[columnIndex] = value }
        return translated
    }
}
