/// Named bounds of reading history.
enum HistoryLimits {
    /// Transactions that a reader fetches at a time.
    static let pageTransactions = 256
    /// Up to as many raw changes of one table and transaction are folded at once; of more, only rows that occur
    /// several times.
    static let foldedAtOnce = 256
    /// Raw changes held while rows that changed several times are folded; more are sorted first.
    static let foldedInMemory = 20_000
}
