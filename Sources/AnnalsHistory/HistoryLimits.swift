/// Named bounds of this module, each with its reason.
package enum HistoryLimits {
    /// Transactions that a reader fetches at a time.
    package static let pageTransactions = 256
    /// Up to as many raw changes of one table and transaction are folded at once; of more, only rows that occur
    /// several times.
    package static let foldedAtOnce = 256
    /// Raw changes held while rows that changed several times are folded; more are sorted first.
    static let foldedInMemory = 20_000

    /// Columns a table may have to be tracked. A raw change holds each column twice and one bit of it in a mask, beside
    /// its id, time, kind and two rowids, and SQLite allows 2,000 columns (SQLITE_MAX_COLUMN).
    package static let trackedColumns = 989

    /// Raw changes up to which a write is looked at for having changed nothing in the end. More than that always make a
    /// transaction: folding them costs about as much as having written them.
    static let changesFoldedAtCommit = 64

    /// Raw changes of one table that are held in memory at once: to put them in order, once after a program made a trigger, and to see
    /// where rows end that such triggers write.
    static let changesPutInOrder: Int64 = 200_000

    /// Rows named in a tracking report for each thing found; the count goes on.
    static let rowsListed = 100

    /// Terms of one compound SELECT, which SQLite limits to 500 (SQLITE_MAX_COMPOUND_SELECT).
    static let compoundTerms = 400
}
