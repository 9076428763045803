import AnnalsCore
import Synchronization

/// A flag that one task waits for. Raised twice before it was seen, it is seen once.
final class Signal: Sendable {
    private struct State {
        var isRaised = false
        var waiter: CheckedContinuation<Bool, any Error>?
    }

    private let state = Mutex(State())

    package func raise() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            state.isRaised = state.waiter == nil
            return state.waiter
        }
        waiter?.resume(returning: true)
    }

    /// Returns true once the flag is raised, and lowers it.
    ///
    /// - Throws: `CancellationError`; `AnnalsError` with code `usage` while another task waits.
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
            .usage, operation: "watch", "another task waits for the same sequence of changes", hint: "Make a sequence for each task")
    }
}
