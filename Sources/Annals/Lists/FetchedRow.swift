import GRDB

/// A row's primary key as stored. It identifies a row of a list before the row is decoded.
struct RowKey: Hashable, Sendable {
    private let first: DatabaseValue
    private let rest: [DatabaseValue]

    /// - Parameter values: at least one.
    init(_ values: some Collection<DatabaseValue>) {
        first = values.first ?? .null
        rest = values.count > 1 ? Array(values.dropFirst()) : []
    }

    init(_ value: DatabaseValue) {
        first = value
        rest = []
    }

    var values: [DatabaseValue] { [first] + rest }
}

/// All values that a request returned for one row, with joined and prefetched rows, for comparison with a later result.
struct RowContent: Hashable, Sendable {
    private let values: [DatabaseValue]
    private let children: [[RowContent]]

    init(_ row: Row) {
        values = Array(row.unadapted.databaseValues)
        children = Self.children(row)
    }

    private static func children(_ row: Row) -> [[RowContent]] {
        guard !row.prefetchedRows.isEmpty else { return [] }
        let own = row.prefetchedRows.keys.sorted().map { key in (row.prefetchedRows[key] ?? []).map(RowContent.init) }
        return own + row.scopes.sorted { $0.name < $1.name }.flatMap { children($0.row) }
    }
}
