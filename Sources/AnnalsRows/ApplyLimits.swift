/// Limits of applying entries and rebasing.
package enum ApplyLimits {
    /// Prepared UPDATE statements cached for each table, one for each set of columns.
    static let updateStatementsPerTable = 32
    /// Parent keys recorded for the check before COMMIT. With more keys, the whole child table is checked.
    static let pendingReferences = 10_000
    /// Attempts to rebase one outbox transaction. Each failed attempt adds a decision, so more attempts than this are a defect.
    package static let decisionRounds = 100_000
    /// Rounds of foreign key actions within one attempt. Each round reaches the next child of a chain or a cycle.
    package static let effectRounds = 100_000
    /// The longest chain of merged rows that is followed: a row that was merged into a second row, which was merged into a third.
    package static let mergedRowsFollowed = 64
}
