package import AnnalsCore

/// Which rows of a child table a reference is for: columns that equal one of some literals. It is compared in Swift and never runs
/// as SQL, because it may come from another replica.
package struct RowCondition: Hashable, Sendable {
    package struct Term: Hashable, Sendable {
        package var columnIndex: Int
        /// How the column stores and compares values.
        package var column: FootprintRules.Column
        private var values: Set<Value>

        package init(columnIndex: Int, column: FootprintRules.Column, values: [Value]) {
            self.columnIndex = columnIndex
            self.column = column
            self.values = Set(values.map { CanonicalTuple.value($0, in: column) })
        }

        func holds(_ row: [Value]) -> Bool {
            !row[columnIndex].isNull && values.contains(CanonicalTuple.value(row[columnIndex], in: column))
        }
    }

    /// All of them must hold.
    package var terms: [Term]

    package init(terms: [Term]) {
        self.terms = terms
    }

    package var columnIndexes: [Int] { terms.map(\.columnIndex) }

    package func holds(_ row: [Value]) -> Bool {
        terms.allSatisfy { $0.holds(row) }
    }
}
