public import AnnalsCore

/// The net change of one row in one transaction: the values before and after.
public struct HistoryChange: Hashable, Sendable {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        case insert, update, delete
    }

    /// A column with its value before, nil for an insert, and after, nil for a delete. SQL's NULL is `Value.null`.
    public struct Column: Hashable, Sendable {
        public var name: String
        public var old: Value?
        public var new: Value?
    }

    public var table: String
    public var kind: Kind
    /// The row's key, in the key's order: before an update or delete, and after an insert.
    public var key: [Value]
    /// The names of the key's columns, in the same order.
    public var keyColumns: [String]
    /// All stored columns of an insert or delete; only the changed ones of an update. If a key column is among them, the row got
    /// another key.
    public var columns: [Column]

    package init(_ change: NetChange, layout: TableLayout) {
        table = layout.name
        keyColumns = layout.key.map { layout.columns[$0] }
        key = (change.old ?? change.new).map(layout.key(of:)) ?? []
        let old = change.old
        let new = change.new
        if let old, let new {
            kind = .update
            // One array, because pages of history are read often.
            var changed: [Column] = []
            for index in layout.columns.indices where old[index] != new[index] {
                changed.append(Column(name: layout.columns[index], old: old[index], new: new[index]))
            }
            columns = changed
        } else {
            kind = old == nil ? .insert : .delete
            columns = layout.columns.indices.map { Column(name: layout.columns[$0], old: old?[$0], new: new?[$0]) }
        }
    }
}
