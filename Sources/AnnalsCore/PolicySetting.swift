/// One setting of a space's conflict policies, for the whole space, a table or a column. A transaction in the log sets
/// it.
///
///     try await store.setPolicies([
///         PolicySetting(table: "stock", column: "pieces", aspect: .update, policy: "sum"),
///         PolicySetting(table: nil, column: nil, aspect: .delete, policy: "updateWins"),
///     ])
public struct PolicySetting: Hashable, Sendable {
    /// The kind of conflict that a policy resolves.
    public enum Aspect: UInt8, Hashable, Sendable, CaseIterable {
        /// Two changes of one row or column.
        case update = 0
        /// A delete and an update of one row.
        case delete = 1
        /// A value of a UNIQUE index that another row has taken.
        case unique = 2
        /// An integer key that another insert has taken.
        case key = 3
        /// Whether the transactions of a table apply completely or not at all.
        case whole = 4
        /// Whether stores without their own program take new tables and columns from the log.
        case schema = 5
    }

    /// nil for the whole space.
    public var table: String?
    /// nil for the whole table. Only the aspect `update` allows a column.
    public var column: String?
    public var aspect: Aspect
    /// The policy's name in the form that users write, including `sql:` expressions. An empty name removes an earlier
    /// setting.
    public var policy: String

    public init(table: String?, column: String? = nil, aspect: Aspect, policy: String) {
        self.table = table
        self.column = column
        self.aspect = aspect
        self.policy = policy
    }
}
