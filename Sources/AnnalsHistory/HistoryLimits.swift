/// Limits of this module, each with its reason.
package enum HistoryLimits {
    /// Transactions that a reader fetches at a time.
    package static let pageTransactions = 256
    /// Up to this number of raw changes of one table and transaction are folded at once. If there are more, only rows with several
    /// changes are folded.
    package static let foldedAtOnce = 256
    /// Raw changes in memory while rows with several changes are folded; more are sorted first.
    static let foldedInMemory = 20_000

    /// Transactions that a status looks at, newest first, for those of other programs.
    static let externalExamined: Int64 = 1_000
    /// Transactions of other programs whose time a status measures, newest first.
    static let externalMeasured = 100
    /// Raw changes without a time that are passed over at each end of a span.
    static let untimedPassed: Int64 = 1_000

    /// Columns that a tracked table may have. A raw change has each column twice, a mask bit for it, and its own id, time, kind and
    /// two rowids, and SQLite allows 2,000 columns (SQLITE_MAX_COLUMN).
    package static let trackedColumns = 989

    /// Up to this number of raw changes, a write is checked for having no net effect. A larger write always becomes a transaction,
    /// because folding it costs about as much as writing it.
    static let changesFoldedAtCommit = 64

    /// Raw changes of one table in memory at once: to order them after a program created a trigger, and to compute the final rows
    /// in tables that triggers write to.
    static let changesPutInOrder: Int64 = 200_000

    /// The length of an author and of a context that a writer gives in SQL, in bytes.
    static let authorBytes = 1_000
    static let contextBytes = 10_000

    /// Changes of parents' rows in memory while a replica searches references between the parts of several writers. If there are more, the
    /// writers' work is recorded as one transaction.
    static let parentsBetweenWriters = 1_000_000

    /// Rows that a tracking report names for each problem; the count includes all.
    static let rowsListed = 100

    /// Terms of one compound SELECT. SQLite's limit is 500 (SQLITE_MAX_COMPOUND_SELECT).
    static let compoundTerms = 400
}
