/// The net change of one row by one transaction: the first old values and the last new values.
///
/// A column is identified by its index in the table's list of stored (not generated) columns.
package enum RowChange: Hashable, Sendable {
    /// The values of all columns.
    case insert([Value])
    /// The old key, and the changed columns. If a key column is among them, the update is a move.
    case update(key: [Value], columns: [ColumnChange])
    /// The old values of all columns.
    case delete([Value])

    /// The change between two rows; nil if they are equal. `key` has the indexes of the key's columns.
    package init?(old: [Value]?, new: [Value]?, key: [Int]) {
        switch (old, new) {
        case (nil, nil): return nil
        case (nil, let new?): self = .insert(new)
        case (let old?, nil): self = .delete(old)
        case (let old?, let new?):
            let columns = old.indices.filter { old[$0] != new[$0] }.map { ColumnChange(column: $0, old: old[$0], new: new[$0]) }
            guard !columns.isEmpty else { return nil }
            self = .update(key: key.map { old[$0] }, columns: columns)
        }
    }
}

/// The old and the new value of one column in an update.
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

/// Facts about a change that the rebases of other authors need in addition to its values.
package enum RowMark: Hashable, Sendable {
    /// On a delete: the row was merged into the row with this key.
    case merged(into: [Value])
    /// On a delete: the policy of a constraint set the row aside.
    case setAside
    /// On an insert: it continues the row that was deleted at this position. The author changed these columns from
    /// these old values.
    case revived(Position, changed: [ColumnChange])
}

/// A row's change and its mark.
package struct MarkedChange: Hashable, Sendable {
    package var change: RowChange
    package var mark: RowMark?
    /// How long before the transaction's time the row was written last, in milliseconds. A group of commits has writes of different times.
    package var age: Int64

    package init(_ change: RowChange, mark: RowMark? = nil, age: Int64 = 0) {
        self.change = change
        self.mark = mark
        self.age = age
    }
}

/// The layout of a table in a transaction. A reader needs it to map column indexes to names.
public struct TableLayout: Hashable, Sendable {
    public var name: String
    /// The stored columns in the table's order, without generated columns.
    public var columns: [String]
    /// The indexes of the primary key's columns, in the order of the key.
    public var key: [Int]

    package init(name: String, columns: [String], key: [Int]) {
        self.name = name
        self.columns = columns
        self.key = key
    }

    /// The key of a row. `row` has all stored columns.
    package func key(of row: [Value]) -> [Value] {
        key.map { row[$0] }
    }
}
