package import AnnalsCore
internal import Foundation
package import GRDB

/// The inputs of capture: the wall clock, new identities, and the name of this process.
package struct CaptureEnvironment: Sendable {
    /// Milliseconds since 1970-01-01 UTC.
    package var now: @Sendable () -> Int64
    package var makeTransactionID: @Sendable () -> TransactionID
    package var makeStoreID: @Sendable () -> StoreID
    /// The process name in transactions of history.
    package var processName: String
    /// For stores that start tracking: replaces `SchemaLimits.largeValue`, the length above which updates leave out unchanged
    /// values.
    package var largeValue: Int?
    /// Called after a transaction of history was recorded, in the same SQLite transaction, when the rows are final.
    package var didRecord: @Sendable (Database, TransactionInfo, _ number: Int64) throws -> Void = { _, _, _ in }

    package init(
        now: @escaping @Sendable () -> Int64, makeTransactionID: @escaping @Sendable () -> TransactionID,
        makeStoreID: @escaping @Sendable () -> StoreID, processName: String
    ) {
        self.now = now
        self.makeTransactionID = makeTransactionID
        self.makeStoreID = makeStoreID
        self.processName = processName
    }

    /// The system's clock and randomness.
    package static let system = CaptureEnvironment(
        now: { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) }, makeTransactionID: { .random() },
        makeStoreID: { .random() }, processName: ProcessInfo.processInfo.processName)
}
