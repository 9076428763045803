import AnnalsCore
import AnnalsHistory
import AnnalsStore
import Synchronization

/// Passes notices of commits on to an agent, and records commits of other programs while the agent is busy.
///
/// An agent that waits for notices records by itself. While it exchanges, or pauses because the relay cannot be reached, nobody else
/// would, and several commits would become one transaction of history.
final class RecordedCommits: CommitNotices {
    private let commits: any CommitNotices
    private let store: Store
    private let signal = Signal()
    private let isAwaited = Mutex(false)

    init(_ commits: any CommitNotices, _ store: Store) {
        self.commits = commits
        self.store = store
    }

    /// Runs until it is cancelled or the store is closed.
    func run() async throws {
        while true {
            try await store.next(of: commits)
            if !isAwaited.withLock({ $0 }) {
                do {
                    try await store.recordNewChanges()
                } catch is AnnalsError {
                    // The next exchange records too, and reports what stands in the way.
                } catch is CancellationError {
                    // An app may interrupt its connection.
                    try Task.checkCancellation()
                }
            }
            signal.raise()
        }
    }

    func next() async throws {
        _ = try await signal.wait()
    }

    /// Waits for something, during which the agent is ready to record.
    func awaiting<T>(isolation: isolated (any Actor)? = #isolation, _ wait: () async throws -> T) async rethrows -> T {
        isAwaited.withLock { $0 = true }
        defer { isAwaited.withLock { $0 = false } }
        return try await wait()
    }
}
