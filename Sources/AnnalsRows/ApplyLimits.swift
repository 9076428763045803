/// Named bounds of applying and rebasing.
package enum ApplyLimits {
    /// Prepared UPDATE statements kept per table, one per set of columns.
    static let updateStatementsPerTable = 32
    /// SQLite's cache while entries are applied: a rebase touches its rows three times, and a cache that is too small writes them out
    /// between. All of it counts as memory that a large transaction takes.
    static let cacheKibibytes = 4 << 10
    /// Parent keys remembered for the check before COMMIT; beyond this the whole child table is checked.
    static let pendingReferences = 10_000
    /// Rounds in which one outbox transaction may be laid on top; each adds a decision, so more is a defect.
    package static let decisionRounds = 100_000
    /// Rounds of what foreign keys declare within one try: each goes one child further, along a chain or a cycle.
    package static let effectRounds = 100_000
    /// How often a row that was made one with another may have been made one with a third.
    package static let mergedRowsFollowed = 64
}
