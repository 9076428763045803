package import GRDB
import Synchronization

/// Tells of commits to a store in memory that changed tracked rows: only its own connection can write there.
///
/// A commit that wrote no history, as most of an exchange's, is not told of, so that who is woken to look and looks is not woken
/// by that again.
package final class HistoryCommits: TransactionObserver, Sendable {
    private let signal = Signal()
    private let hasChanged = Mutex(false)

    /// Commits count from here on.
    ///
    /// - Parameter database: the store's own.
    package init(_ database: any DatabaseWriter) {
        // A connection that is gone cannot be observed, and has nothing to tell.
        database.unsafeReentrantWrite { db in
            if db.sqliteConnection != nil { db.add(transactionObserver: self) }
        }
    }

    /// Returns when something was committed since the last return.
    ///
    /// - Throws: `CancellationError`.
    package func next() async throws { _ = try await signal.wait() }

    package func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        eventKind.tableName.hasPrefix("annals_changes_")
    }

    package func databaseDidChange(with event: DatabaseEvent) {
        hasChanged.withLock { $0 = true }
    }

    /// Rows came that GRDB did not see being written; see `UndetectedChanges`.
    package func databaseDidChange() {
        hasChanged.withLock { $0 = true }
    }

    package func databaseDidCommit(_ db: Database) {
        let isNews = hasChanged.withLock { hasChanged in
            defer { hasChanged = false }
            return hasChanged
        }
        if isNews { signal.raise() }
    }

    package func databaseDidRollback(_ db: Database) {
        hasChanged.withLock { $0 = false }
    }
}
