/// What one transaction did to one row, net: the first old and the last new values.
///
/// Columns are meant by their place in the table's list of stored (not generated) columns.
package enum RowChange: Hashable, Sendable {
    /// All columns.
    case insert([Value])
    /// The key as it was, and the columns that changed. A key column among them makes the update a move.
    case update(key: [Value], columns: [ColumnChange])
    /// All columns as they were.
    case delete([Value])
}

/// One column's old and new value within an update.
package struct ColumnChange: Hashable, Sendable {
    package var column: Int
    package var old: Value
    package var new: Value

    package init(column: Int, old: Value, new: Value) {
        self.column = column
        self.old = old
        self.new = new
    }
}

/// What other authors' rebases must know about a change beyond its values.
package enum RowMark: Hashable, Sendable {
    /// On a delete: the row lives on in the row with this key.
    case merged(into: [Value])
    /// On a delete: a constraint's policy withdrew the row.
    case setAside
    /// On an insert: it continues the life that ended at this position; the author changed these columns from
    /// these old values.
    case revived(Position, changed: [ColumnChange])
}

/// One row's change together with its mark.
package struct MarkedChange: Hashable, Sendable {
    package var change: RowChange
    package var mark: RowMark?

    package init(_ change: RowChange, mark: RowMark? = nil) {
        self.change = change
        self.mark = mark
    }
}

/// A table as a transaction names it: what a reader needs in order to understand the columns' places.
public struct TableLayout: Hashable, Sendable {
    public var name: String
    /// Stored columns in the table's order; generated ones are left out.
    public var columns: [String]
    /// Places of the primary key's columns, in the key's order.
    public var key: [Int]

    package init(name: String, columns: [String], key: [Int]) {
        self.name = name
        self.columns = columns
        self.key = key
    }

    /// The key of a row given as all its stored columns.
    package func key(of row: [Value]) -> [Value] {
        key.map { row[$0] }
    }
}
