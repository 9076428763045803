/// One line of a space's conflict policies, as a transaction in its log sets it: for the whole space, a table or a column.
///
///     try await store.setPolicies([
///         PolicySetting(table: "stock", column: "pieces", aspect: .update, policy: "sum"),
///         PolicySetting(table: nil, column: nil, aspect: .delete, policy: "updateWins"),
///     ])
public struct PolicySetting: Hashable, Sendable {
    /// What kind of conflict a policy settles.
    public enum Aspect: UInt8, Hashable, Sendable, CaseIterable {
        /// Two changes of one row or column.
        case update = 0
        /// A delete and an update of one row.
        case delete = 1
        /// A value of a UNIQUE index that another row took.
        case unique = 2
        /// An integer key that another insert took.
        case key = 3
        /// Whether a table's transactions are all or nothing.
        case whole = 4
        /// Whether stores without a program of their own take new tables and columns from the log.
        case schema = 5
    }

    /// nil for the whole space.
    public var table: String?
    /// nil for the whole table; only with aspect `update`.
    public var column: String?
    public var aspect: Aspect
    /// The policy's name as people write it, `sql:` expressions included; empty takes an earlier setting back.
    public var policy: String

    public init(table: String?, column: String? = nil, aspect: Aspect, policy: String) {
        self.table = table
        self.column = column
        self.aspect = aspect
        self.policy = policy
    }
}
