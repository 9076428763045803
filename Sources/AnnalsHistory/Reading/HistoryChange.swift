public import AnnalsCore

/// What one transaction did to one row, net: the values before it and after it.
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
    /// The row's key, in the key's order: as it was before an update or delete, and as it is after an insert.
    public var key: [Value]
    /// The names of the key's columns, in the same order.
    public var keyColumns: [String]
    /// All stored columns of an insert or delete; of an update those that changed. A key column among them means that the
    /// row got another key.
    public var columns: [Column]

    package init(_ change: NetChange, layout: TableLayout) {
        table = layout.name
        keyColumns = layout.key.map { layout.columns[$0] }
        key = (change.old ?? change.new).map(layout.key(of:)) ?? []
        let old = change.old
        let new = change.new
        if let old, let new {
            kind = .update
            columns = layout.columns.indices.filter { old[$0] != new[$0] }
                .map { Column(name: layout.columns[$0], old: old[$0], new: new[$0]) }
        } else {
            kind = old == nil ? .insert : .delete
            columns = layout.columns.indices.map { Column(name: layout.columns[$0], old: old?[$0], new: new?[$0]) }
        }
    }
}
