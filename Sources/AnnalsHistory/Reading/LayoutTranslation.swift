package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Turns rows in the columns that a table once had into rows in those it has now, by the columns' names; in a joined store, by their
/// first names.
///
/// A column added since takes its default, as `ADD COLUMN` gave it to the rows that were there; a column dropped since is left out. What
/// became of the others is known from list to list (`ListContinuation`). In a store of before it is told by names: a column whose name is
/// gone was renamed, if the one that now stands in its place is new.
package struct LayoutTranslation {
    package let entry: TrackedTables.Entry
    /// Per column of now its place in the old row; nil when nothing changed.
    private let places: [Int?]?
    private let defaults: [Value]

    /// - Parameters:
    ///   - list: the old columns, by the names under which the space knows them where there is one.
    ///   - lists: all that there were, by id.
    package init(_ db: Database, from list: TrackedTable, to entry: TrackedTables.Entry, through lists: [Int64: TrackedTable]) throws {
        self.entry = entry
        let (layout, columns) = (list.firstLayout, entry.first.columns)
        let places = Self.places(from: list, to: entry, through: lists) ?? Self.places(from: layout, to: columns)
        let isSame = layout.columns.count == columns.count && places.enumerated().allSatisfy { $0 == $1 }
        self.places = isSame ? nil : places
        var defaults: [Value] = []
        if !isSame {
            for (place, column) in columns.enumerated() {
                defaults.append(places[place] == nil ? try AddedColumn.value(of: column) : .null)
            }
        }
        self.defaults = defaults
    }

    /// Per column of now its place in the old row, as each list says of the next one; nil where one does not.
    private static func places(
        from list: TrackedTable, to entry: TrackedTables.Entry, through lists: [Int64: TrackedTable]
    ) -> [Int?]? {
        var (present, last) = (list.columns.indices.map(Optional.init), list)
        // A list is continued by a newer one.
        while last.id != entry.id {
            guard let next = last.continuation, next.list > last.id, let list = lists[next.list] else { return nil }
            present = present.map { place in place.flatMap { next.places.indices.contains($0) ? next.places[$0] : nil } }
            last = list
        }
        return entry.definition.columns.indices.map { present.firstIndex(of: $0) }
    }

    private static func places(from layout: TableLayout, to columns: [DeclaredTable.Column]) -> [Int?] {
        var places = columns.map { column in layout.columns.firstIndex { $0.isSameIdentifier(as: column.name) } }
        for place in places.indices where places[place] == nil && place < layout.columns.count && !places.contains(place) {
            places[place] = place
        }
        return places
    }

    package func translate(_ row: [Value]) -> [Value] {
        guard let places else { return row }
        return places.enumerated().map { place, old in old.map { row[$0] } ?? defaults[place] }
    }

    /// Whether the old row has the column that stands at this place now.
    package func holds(_ place: Int) -> Bool { places.map { $0[place] != nil } ?? true }

    /// Where a column of the old row stands now; nil when it was dropped.
    package func place(_ old: Int) -> Int? {
        guard let places else { return old }
        return places.firstIndex(of: old)
    }
}
