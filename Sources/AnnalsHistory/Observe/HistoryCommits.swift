package import GRDB
import Synchronization

/// Reports commits to an in-memory store that changed tracked rows. Only the store's own connection can write there.
///
/// Commits without history, such as most commits of an exchange, are not reported. Otherwise a listener that writes such a commit
/// would wake itself.
package final class HistoryCommits: TransactionObserver, Sendable {
    private let signal = Signal()
    private let hasChanged = Mutex(false)

    /// Counts commits from here on.
    ///
    /// - Parameter database: the store's database.
    package init(_ database: any DatabaseWriter) {
        // A closed connection cannot be observed, and has no commits.
        database.unsafeReentrantWrite { db in
            if db.sqliteConnection != nil { db.add(transactionObserver: self) }
        }
    }

    /// Returns after a commit since the last return.
    ///
    /// - Throws: `CancellationError`.
    package func next() async throws { _ = try await signal.wait() }

    package func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        eventKind.tableName.hasPrefix("annals_changes_")
    }

    package func databaseDidChange(with event: DatabaseEvent) {
        hasChanged.withLock { $0 = true }
    }

    /// Rows were written without GRDB's notice; see `UndetectedChanges`.
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
