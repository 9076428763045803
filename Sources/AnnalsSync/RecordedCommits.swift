import AnnalsCore
import AnnalsHistory
import AnnalsStore

/// Records each commit of another program as soon as it is noticed, and passes the notice on.
///
/// It does not depend on the relay. So history has a transaction for each commit also while the relay cannot be reached.
final class RecordedCommits: CommitNotices {
    private let commits: any CommitNotices
    private let store: Store
    private let signal = Signal()

    init(_ commits: any CommitNotices, _ store: Store) {
        self.commits = commits
        self.store = store
    }

    /// Runs until it is cancelled or the store is closed.
    func run() async throws {
        while true {
            try await store.next(of: commits)
            do {
                try await store.recordNewChanges()
            } catch is AnnalsError {
                // The next exchange records too, and reports what stands in the way.
            }
            signal.raise()
        }
    }

    func next() async throws {
        _ = try await signal.wait()
    }
}
