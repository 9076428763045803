import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import GRDB
import Synchronization

/// Commits to a store, by any process; close ones are told as one.
public struct RemoteChange: Hashable, Sendable {
    /// Where history stands after them.
    public let token: HistoryToken
    public let storeIdentifier: String
    /// Whether one of them was not made through this `Store`: another process's, or another connection's of this one.
    public let isExternal: Bool
    /// Rows that a sync gave other keys meanwhile, each from its first identifier to its last. Whoever holds one of the old
    /// identifiers goes on with the new one.
    public let renumbered: [RenumberedRow]
}

/// Tells of every commit that changed tracked rows, by this process or another, until the task that iterates is cancelled; it throws
/// once the store is closed.
///
///     var last = try await store.latestToken()
///     for try await change in store.remoteChanges {
///         for try await transaction in store.history(HistoryRequest(after: last)) { show(transaction) }
///         last = change.token
///     }
///
/// Commits count from the moment the sequence was made. Those that come close together, or while its consumer is busy, are
/// told as one, with the token after the last: read history from your own token on and nothing is missed. What other
/// programs wrote is sealed before it is told. Of commits that a purge took before they were told, it says that they may be external. It is
/// for one task; make one for each.
public struct RemoteChanges: AsyncSequence, Sendable {
    public typealias Failure = any Error

    let store: Store
    let source: Result<any CommitNotices, any Error>
    let foreign: Int
    /// The point from which on commits are told; nil where there was no history yet.
    let told: HistoryToken?
    /// There may be commits already.
    let isDue: Bool

    init(_ store: Store, after: HistoryToken?) {
        self.store = store
        foreign = store.foreign.count
        source = Result { try Self.source(of: store) }
        told = after ?? (try? store.database.unsafeReentrantRead { db in try HistoryBounds(db).latest })
        isDue = after != nil
    }

    private static func source(of store: Store) throws -> any CommitNotices {
        if store.path == ":memory:" { return HistoryCommits(store.database) }
        return try CommitWatcher(path: store.path)
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(store: store, source: source, told: told, foreign: foreign, isDue: isDue, mustHold: isDue)
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let store: Store
        fileprivate let source: Result<any CommitNotices, any Error>
        fileprivate var told: HistoryToken?
        fileprivate var foreign: Int
        /// There is something to look for without waiting.
        fileprivate var isDue: Bool
        /// History must still reach back to `told`, which whoever iterates has named.
        fileprivate var mustHold: Bool

        /// - Throws: `AnnalsError`, with code `notTracked` where there is no history, `tokenExpired` or `tokenUnknown` where the sequence
        ///   was to begin after a token that history does not hold, and `usage` when the store is closed or another task waits for the same
        ///   sequence.
        public mutating func next() async throws -> RemoteChange? {
            do {
                let source = try source.get()
                while true {
                    if !isDue { try await store.next(of: source) }
                    isDue = true
                    do {
                        let change = try await look()
                        isDue = false
                        if let change { return change }
                    } catch let error as AnnalsError where error.isRetryable {
                        // Another program held the lock all the time. What was committed is still to be told.
                        try await ContinuousClock().sleep(for: WatchLimits.pauseWhenBusy)
                    }
                }
            } catch is CancellationError {
                return nil
            } catch let error as AnnalsError where error.code == .cancelled {
                return nil
            }
        }

        private mutating func look() async throws -> RemoteChange? {
            let found = try await store.committed(after: told, mustHold: mustHold)
            mustHold = false
            guard told.map({ $0.number < found.state.token.number }) ?? true else { return nil }
            defer { (told, foreign) = (found.state.token, found.foreign) }
            return RemoteChange(
                token: found.state.token, storeIdentifier: found.state.store,
                isExternal: found.state.hasExternal || found.foreign > foreign,
                renumbered: found.state.renumbered)
        }
    }
}

extension Store {
    /// Commits by any process from now on; see `RemoteChanges`.
    public var remoteChanges: RemoteChanges { RemoteChanges(self, after: nil) }

    /// The same, beginning with what was committed after a point.
    public func remoteChanges(after token: HistoryToken) -> RemoteChanges { RemoteChanges(self, after: token) }

    struct CommittedState: Sendable {
        var token: HistoryToken
        var store: String
        /// Strangers' transactions are among the new ones.
        var hasExternal: Bool
        var renumbered: [RenumberedRow]
    }

    /// Records what strangers wrote, and says where history stands.
    fileprivate func committed(after token: HistoryToken?, mustHold: Bool) async throws -> (state: CommittedState, foreign: Int) {
        let (configuration, schema, foreign) = (configuration, schema, foreign)
        return try await translated("watch") {
            try await database.writeWithoutTransaction { db in
                try foreign.look(db)
                if try RecordedRead.isOpen(db) {
                    try db.inTransaction(.immediate) {
                        _ = try StoreStep(db, configuration, schema).recordExternal()
                        return .commit
                    }
                }
                let bounds = try HistoryBounds(db)
                let isPurged = token.map { $0.number < bounds.oldest.number } ?? false
                if let token, mustHold || !isPurged { try bounds.check(token) }
                let hasExternal = try TransactionTable(db).has(.external, after: token?.number ?? bounds.latest.number)
                let state = CommittedState(
                    token: bounds.latest, store: bounds.storeID.description, hasExternal: isPurged || hasExternal,
                    renumbered: try RenumberedRows.load(db, after: token?.number ?? bounds.latest.number).composed())
                return (state, foreign.count)
            }
        }
    }
}

/// Named bounds of watching.
enum WatchLimits {
    /// Before another look where the lock could not be had.
    static let pauseWhenBusy = Duration.milliseconds(50)
}
