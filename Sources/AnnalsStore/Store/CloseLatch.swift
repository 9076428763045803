package import AnnalsHistory
import Synchronization

/// Whether a store was closed, and the tasks that wait for it. Without it, a task that waits for commits would wait forever.
final class CloseLatch: Sendable {
    private struct State {
        var isClosed = false
        var waiters: [Int: CheckedContinuation<Void, any Error>] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    /// Marks the store as closed.
    func close() {
        let waiters = state.withLock { state in
            state.isClosed = true
            defer { state.waiters = [:] }
            return state.waiters.values
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when the store is closed.
    ///
    /// - Throws: `CancellationError`.
    func wait() async throws {
        let number = state.withLock { state in
            state.next += 1
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let outcome = state.withLock { state -> Result<Void, any Error>? in
                    if state.isClosed { return .success(()) }
                    if Task.isCancelled { return .failure(CancellationError()) }
                    state.waiters[number] = continuation
                    return nil
                }
                if let outcome { continuation.resume(with: outcome) }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(throwing: CancellationError())
        }
    }
}

extension Store {
    /// Returns after a commit, or when this store is closed; the caller's next access then throws.
    ///
    /// - Throws: `CancellationError`.
    package func next(of commits: any CommitNotices) async throws {
        try await withThrowingTaskGroup(of: Void.self) { [closing] group in
            defer { group.cancelAll() }
            group.addTask { try await commits.next() }
            group.addTask { try await closing.wait() }
            try await group.next()
        }
    }
}
