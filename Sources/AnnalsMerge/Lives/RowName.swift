package import AnnalsCore

/// What a row can be called by: its primary key, or the values of a unique index that other tables reference.
///
/// Values are as the index compares them, so that `'7'` in a TEXT column and the integer key 7 are one name.
package struct RowName: Hashable, Sendable {
    package var table: String
    /// Places of the index's columns, ascending: they tell the key from a unique index.
    package var places: [Int]
    package var values: [Value]

    package init(table: String, places: [Int], values: [Value]) {
        self.table = table
        self.places = places
        self.values = values
    }

    /// The values tell nearly all names apart, and are what there is least of.
    public func hash(into hasher: inout Hasher) {
        for value in values { hasher.combine(value) }
    }
}

/// The primary key of a table, or one of its indexes that others reference, as a source of names.
package struct NameIndex: Hashable, Sendable {
    package var table: String
    /// Ascending.
    package var places: [Int]
    /// How the index compares each.
    package var columns: [FootprintRules.Column]

    package init(table: String, parts: [(place: Int, column: FootprintRules.Column)]) {
        let sorted = parts.sorted { $0.place < $1.place }
        self.table = table
        places = sorted.map(\.place)
        columns = sorted.map(\.column)
    }

    /// The name of a row; nil where a NULL is among its values, which nobody can reference.
    package func name(of row: [Value]) -> RowName? {
        name(places.map { row[$0] })
    }

    /// The name made of values in the order of `places`.
    package func name(_ values: [Value]) -> RowName? {
        if values.contains(where: \.isNull) { return nil }
        return RowName(table: table, places: places, values: zip(values, columns).map { CanonicalTuple.value($0, in: $1) })
    }
}
