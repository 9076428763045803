package import AnnalsCore
internal import Foundation
package import GRDB

/// What capture takes from outside: the wall clock, new identities, and the name of this process.
package struct CaptureEnvironment: Sendable {
    /// Milliseconds since 1970-01-01 UTC.
    package var now: @Sendable () -> Int64
    package var makeTransactionID: @Sendable () -> TransactionID
    package var makeStoreID: @Sendable () -> StoreID
    /// What history shows as the process that wrote.
    package var processName: String
    /// For stores that begin to be tracked: another length than `SchemaLimits.largeValue`, from which updates leave out what they did not change.
    package var largeValue: Int?
    /// Called in the same SQLite transaction when a transaction of history was recorded, with the rows as it left them.
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
