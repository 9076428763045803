package import AnnalsCore
package import AnnalsWire

/// The columns of an author's table beside those of the table here: each may have some that the other lacks.
package struct LayoutInUse {
    /// Per column of the author's its place here; nil where this store lacks it.
    private let all: [Int?]
    /// The author's columns that are here, by their number in the layout.
    private let known: [Int]
    /// Where these stand here.
    package let places: [Int]
    /// What columns hold that the author did not have, by their places.
    package let missing: [(place: Int, value: Value)]
    /// Both have the same columns in the same order.
    package let isSame: Bool

    package init(all: [Int?], missing: [(place: Int, value: Value)]) {
        self.all = all
        self.missing = missing
        known = all.indices.filter { all[$0] != nil }
        places = all.compactMap { $0 }
        isSame = missing.isEmpty && all.enumerated().allSatisfy { $0 == $1 }
    }

    /// A change in terms of the author's columns that are here: numbers of columns then go by `places`.
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

    /// A change with whole rows and places as they are here.
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
        var translated = [Value](repeating: .null, count: places.count + missing.count)
        for (column, place) in all.enumerated() { if let place { translated[place] = row[column] } }
        for (place, value) in missing { translated[place] = value }
        return translated
    }
}
