import AnnalsCore

/// What became of one change of the transaction.
struct ChangeOutcome {
    /// The number of the row that the change means or makes. nil if there is none.
    var row: Int?
    /// What the change requests. References name parents by their present keys.
    var requested: [RequestedColumn] = []
    /// Columns in which the values of both sides are kept.
    var combined: Set<Int> = []
    /// Why single columns are not as requested, by column index.
    var losses: [Int: Reason] = [:]
    /// References that became what ON DELETE declares, by column index.
    var nulled: [Int: Reason] = [:]
    /// Why nothing of the change is applied.
    var loss: Reason?
    /// Whether a row policy resolves it, and not column policies.
    var isByRow = false
    /// Whether a policy wrote the row already.
    var isSettled = false
    /// Whether an insert became an update of a row with the same key.
    var isJoined = false
    /// The key that an insert got instead of the requested one.
    var renumbered: (requested: Value, given: Value)?

    /// The kind of a conflict of one of its columns.
    var cellKind: JournalEntry.Kind { isJoined ? .insert : .update }
}

/// One column that a change requests.
struct RequestedColumn {
    var columnIndex: Int
    /// What the author had seen. nil if the author assumed that there was no row.
    var old: Value?
    /// A reference names its parent by the present key.
    var new: Value
    /// The value as the author wrote it.
    let written: Value
    /// Whether a policy that takes the whole row requests it, and not the author.
    let isImplied: Bool

    init(_ columnIndex: Int, old: Value?, new: Value, written: Value? = nil, isImplied: Bool = false) {
        self.columnIndex = columnIndex
        self.old = old
        self.new = new
        self.written = written ?? new
        self.isImplied = isImplied
    }

    init(_ change: ColumnChange) {
        self.init(change.column, old: change.old, new: change.new)
    }
}
