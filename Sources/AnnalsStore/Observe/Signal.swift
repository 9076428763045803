import Synchronization

/// A flag that one task waits for. Raised twice before it was seen, it is seen once.
final class Signal: Sendable {
    private struct State {
        var isRaised = false
        var waiter: CheckedContinuation<Bool, any Error>?
    }

    private let state = Mutex(State())

    func raise() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            state.isRaised = state.waiter == nil
            return state.waiter
        }
        waiter?.resume(returning: true)
    }

    /// Returns true once the flag is raised, and lowers it.
    ///
    /// - Throws: `CancellationError`.
    func wait() async throws -> Bool {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let outcome = state.withLock { state -> Result<Bool, any Error>? in
                    if state.isRaised {
                        state.isRaised = false
                        return .success(true)
                    }
                    if Task.isCancelled { return .failure(CancellationError()) }
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
}
