package import AnnalsCore

/// A candidate key of a row: its primary key, or the values of a unique index that other tables refer to.
///
/// Values have the form in which the index compares them. So `'7'` in a TEXT column and the integer key 7 are the same
/// key.
package struct CandidateKey: Hashable, Sendable {
    package var table: String
    /// The indexes of the index's columns, ascending. They distinguish the primary key from a unique index.
    package var columnIndexes: [Int]
    package var values: [Value]

    package init(table: String, columnIndexes: [Int], values: [Value]) {
        self.table = table
        self.columnIndexes = columnIndexes
        self.values = values
    }

    /// The values alone distinguish nearly all keys and are the cheapest to hash.
    public func hash(into hasher: inout Hasher) {
        for value in values { hasher.combine(value) }
    }
}

/// The primary key of a table, or a unique index that other tables refer to. It makes candidate keys.
package struct NameIndex: Hashable, Sendable {
    package var table: String
    /// Ascending.
    package var columnIndexes: [Int]
    /// How the index compares each column.
    package var columns: [FootprintRules.Column]

    package init(table: String, parts: [(columnIndex: Int, column: FootprintRules.Column)]) {
        let sorted = parts.sorted { $0.columnIndex < $1.columnIndex }
        self.table = table
        columnIndexes = sorted.map(\.columnIndex)
        columns = sorted.map(\.column)
    }

    /// The candidate key of a row. nil if one of its values is NULL, because nothing can refer to it then.
    package func name(of row: [Value]) -> CandidateKey? {
        name(columnIndexes.map { row[$0] })
    }

    /// The candidate key with these values, in the order of `columnIndexes`.
    package func name(_ values: [Value]) -> CandidateKey? {
        if values.contains(where: \.isNull) { return nil }
        return CandidateKey(
            table: table, columnIndexes: columnIndexes, values: zip(values, columns).map { CanonicalTuple.value($0, in: $1) })
    }
}
