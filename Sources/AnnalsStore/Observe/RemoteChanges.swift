import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import GRDB
import Synchronization

/// Commits to a store by any process. Commits in quick succession are reported as one.
public struct RemoteChange: Hashable, Sendable {
    /// The latest point of history after these commits.
    public let token: HistoryToken
    public let storeIdentifier: String
    /// Whether one of the commits was not made through this `Store`, but by another process or another connection of this process.
    public let isExternal: Bool
    /// Rows that got other keys in a sync meanwhile, each from its first identifier to its last. Code that holds an old identifier
    /// must use the new one.
    public let renumbered: [RenumberedRow]
}

/// Reports every commit that changed tracked rows, by this process or another, until the iterating task is cancelled. It throws
/// when the store is closed.
///
///     var last = try await store.latestToken()
///     for try await change in store.remoteChanges {
///         for try await transaction in store.history(HistoryRequest(after: last)) { show(transaction) }
///         last = change.token
///     }
///
/// Commits count from the creation of the sequence. Commits in quick succession, or while the consumer is busy, are reported as
/// one, with the token after the last one. So read history from your own token on, and nothing is missed. Writes of other programs
/// are recorded before they are reported. If a purge deleted commits before they were reported, `isExternal` is true. A sequence is
/// for one task; create one for each.
public struct RemoteChanges: AsyncSequence, Sendable {
    public typealias Failure = any Error

    let store: Store
    let source: Result<any CommitNotices, any Error>
    let otherCommits: Int
    /// The point from which commits are reported; nil if there was no history yet.
    let told: HistoryToken?
    /// There may be commits already.
    let isDue: Bool

    init(_ store: Store, after: HistoryToken?) {
        self.store = store
        otherCommits = store.otherCommits.count
        source = Result { try Self.source(of: store) }
        told = after ?? (try? store.database.unsafeReentrantRead { db in try HistoryBounds(db).latest })
        isDue = after != nil
    }

    private static func source(of store: Store) throws -> any CommitNotices {
        if store.path == ":memory:" { return HistoryCommits(store.database) }
        return try CommitWatcher(path: store.path)
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(store: store, source: source, told: told, otherCommits: otherCommits, isDue: isDue, mustHold: isDue)
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let store: Store
        fileprivate let source: Result<any CommitNotices, any Error>
        fileprivate var told: HistoryToken?
        fileprivate var otherCommits: Int
        /// Whether to check before waiting.
        fileprivate var isDue: Bool
        /// Whether history must still reach back to `told`, because the caller gave that token.
        fileprivate var mustHold: Bool

        /// - Throws: `AnnalsError`, with code `notTracked` if there is no history, `tokenExpired` or `tokenUnknown` if the sequence
        ///   begins after a token that history does not have, and `usage` if the store is closed or another task waits for the same
        ///   sequence.
        public mutating func next() async throws -> RemoteChange? {
            do {
                let source = try source.get()
                // Throws if there is no history.
                if told == nil { _ = try await store.latestToken() }
                while true {
                    if !isDue { try await store.next(of: source) }
                    isDue = true
                    do {
                        let change = try await look()
                        isDue = false
                        if let change { return change }
                    } catch let error as AnnalsError where error.isRetryable {
                        // Another program held the lock for the whole timeout. The commits must still be reported.
                        try await ContinuousClock().sleep(for: WatchLimits.pauseWhenBusy)
                    }
                }
            } catch is CancellationError {
                return nil
            }
        }

        private mutating func look() async throws -> RemoteChange? {
            let found = try await store.committed(after: told, mustHold: mustHold)
            mustHold = false
            guard told.map({ $0.number < found.state.token.number }) ?? true else { return nil }
            defer { (told, otherCommits) = (found.state.token, found.otherCommits) }
            return RemoteChange(
                token: found.state.token, storeIdentifier: found.state.store,
                isExternal: found.state.hasExternal || found.otherCommits > otherCommits,
                renumbered: found.state.renumbered)
        }
    }
}

extension Store {
    /// Commits by any process from now on; see `RemoteChanges`.
    public var remoteChanges: RemoteChanges { RemoteChanges(self, after: nil) }

    /// The same, beginning with commits after a point.
    public func remoteChanges(after token: HistoryToken) -> RemoteChanges { RemoteChanges(self, after: token) }

    struct CommittedState: Sendable {
        var token: HistoryToken
        var store: String
        /// External transactions are among the new ones.
        var hasExternal: Bool
        var renumbered: [RenumberedRow]
    }

    /// Records writes of other programs, and returns the latest point of history.
    fileprivate func committed(after token: HistoryToken?, mustHold: Bool) async throws -> (state: CommittedState, otherCommits: Int) {
        let (configuration, schema, otherCommits) = (configuration, schema, otherCommits)
        return try await translated("watch") {
            try await database.writeWithoutTransaction { db in
                try otherCommits.look(db)
                if try RecordedRead.isOpen(db) {
                    try db.inTransaction(.immediate) {
                        _ = try StoreStep(db, configuration, schema).recordExternal()
                        return .commit
                    }
                }
                let bounds = try HistoryBounds(db)
                let isPurged = token.map { $0.number < bounds.complete.number } ?? false
                if let token, mustHold || !isPurged { try bounds.checkComplete(token) }
                let hasExternal = try TransactionTable(db).has(.external, after: token?.number ?? bounds.latest.number)
                let state = CommittedState(
                    token: bounds.latest, store: bounds.storeID.description, hasExternal: isPurged || hasExternal,
                    renumbered: try RenumberedRows.load(db, after: token?.number ?? bounds.latest.number).composed())
                return (state, otherCommits.count)
            }
        }
    }
}

/// Limits of watching.
enum WatchLimits {
    /// The pause before the next attempt if the lock was not available.
    static let pauseWhenBusy = Duration.milliseconds(50)
}
