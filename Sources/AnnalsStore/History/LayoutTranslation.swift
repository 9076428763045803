import AnnalsCore
import GRDB

/// Turns rows in the columns that a table once had into rows in those it has now, by the columns' names.
///
/// A column added since takes its default, as `ADD COLUMN` gave it to the rows that were there; a column dropped
/// since is left out.
struct LayoutTranslation {
    let entry: TrackedTables.Entry
    /// Per column of now its place in the old row; nil when nothing changed.
    private let places: [Int?]?
    private let defaults: [Value]

    init(_ db: Database, from layout: TableLayout, to entry: TrackedTables.Entry) throws {
        self.entry = entry
        let columns = entry.definition.columns
        let places = columns.map { column in layout.columns.firstIndex { $0.isSameIdentifier(as: column.name) } }
        let isSame = layout.columns.count == columns.count && places.enumerated().allSatisfy { $0 == $1 }
        self.places = isSame ? nil : places
        defaults = isSame ? [] : try columns.enumerated().map { place, column in
            guard places[place] == nil, let sql = column.defaultSQL else { return .null }
            let statement = try PreparedStatement(db, "SELECT \(sql)")
            defer { statement.reset() }
            return try statement.step() ? statement.value(0) : .null
        }
    }

    func translate(_ row: [Value]) -> [Value] {
        guard let places else { return row }
        return places.enumerated().map { place, old in old.map { row[$0] } ?? defaults[place] }
    }
}
