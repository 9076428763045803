import AnnalsCore
import Synchronization

/// A flag for which one task waits. If it is raised twice before the task runs, the task sees it once.
package final class Signal: Sendable {
    private struct State {
        var isRaised = false
        var waiter: CheckedContinuation<Bool, any Error>?
    }

    private let state = Mutex(State())

    package init() {}

    package func raise() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            state.isRaised = state.waiter == nil
            return state.waiter
        }
        waiter?.resume(returning: true)
    }

    /// Waits until the flag is raised, lowers it, and returns true.
    ///
    /// - Throws: `CancellationError`; `AnnalsError` with code `usage` if another task waits already.
    package func wait() async throws -> Bool {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let outcome = state.withLock { state -> Result<Bool, any Error>? in
                    if state.isRaised {
                        state.isRaised = false
                        return .success(true)
                    }
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if state.waiter != nil { return .failure(Self.taken) }
                    state.waiter = continuation
                    return nil
                }
                if let outcome { continuation.resume(with: outcome) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(throwing: CancellationError())
        }
    }

    private static var taken: AnnalsError {
        AnnalsError(
            .usage, operation: "watch", "another task already waits for this sequence of changes", hint: "Create a sequence for each task")
    }
}
