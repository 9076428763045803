/// One decision about columns that may refer to rows of another table although the schema declares no foreign key. The
/// decisions of a space are in its log, like its policies.
///
///     try await store.setReferences([
///         ReferenceSetting(table: "items", columns: ["album_id"], to: ReferenceTarget(table: "albums", columns: ["id"])),
///         ReferenceSetting(table: "items", columns: ["disc_id"], .none),
///     ])
public struct ReferenceSetting: Hashable, Sendable {
    public enum Decision: Hashable, Sendable {
        /// The columns refer to a row of this table. Columns may refer to several tables, each under its own condition.
        case refers(ReferenceTarget)
        /// The columns refer to nothing.
        case none
        /// Nothing is decided. All earlier decisions about the columns are taken back.
        case undecided
    }

    public var table: String
    public var columns: [String]
    public var decision: Decision

    public init(table: String, columns: [String], _ decision: Decision) {
        self.table = table
        self.columns = columns
        self.decision = decision
    }

    public init(table: String, columns: [String], to target: ReferenceTarget) {
        self.init(table: table, columns: columns, .refers(target))
    }

    /// The target; nil for a decision against a reference.
    public var target: ReferenceTarget? {
        if case .refers(let target) = decision { target } else { nil }
    }
}

/// The parent of a reference that the schema does not declare.
public struct ReferenceTarget: Hashable, Sendable {
    /// What a merge does with a row whose parent another replica deleted. SQLite does nothing of this by itself.
    public enum DeleteAction: UInt8, Hashable, Sendable, CaseIterable {
        /// The parent stays, or is restored.
        case noAction = 0
        /// The same in a merge.
        case restrict = 1
        /// The columns become NULL.
        case setNull = 2
        /// The row is deleted too.
        case cascade = 3
    }

    public var table: String
    /// The primary key or the columns of a unique index, in the order of the child's columns.
    public var columns: [String]
    public var onDelete: DeleteAction
    /// The rows that refer to this table, as comparisons of columns with literals: `owner = 'album' AND kind IN (1, 2)`.
    /// nil for all rows.
    public var condition: String?

    public init(table: String, columns: [String], onDelete: DeleteAction = .noAction, condition: String? = nil) {
        self.table = table
        self.columns = columns
        self.onDelete = onDelete
        self.condition = condition
    }
}
