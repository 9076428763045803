import Synchronization

/// Whether an agent is paused. Tasks that wait for a change are woken.
///
/// Pauses are counted. So a pause that has ended before the agent noticed it is noticed later: a resume must always
/// cause an immediate attempt.
final class PauseGate: Sendable {
    private struct Waiter {
        /// nil: waits for the end of the pause. Otherwise it waits for a pause after this number of pauses.
        var seen: Int?
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var isPaused = false
        var pauses = 0
        var lastWaiter = 0
        var waiters: [Int: Waiter] = [:]

        func isOver(_ seen: Int?) -> Bool { seen.map { pauses > $0 } ?? !isPaused }
    }

    private let state = Mutex(State())

    var isPaused: Bool { state.withLock { $0.isPaused } }

    func set(isPaused: Bool) {
        let woken = state.withLock { state in
            if isPaused, !state.isPaused { state.pauses += 1 }
            state.isPaused = isPaused
            let woken = state.waiters.filter { state.isOver($0.value.seen) }
            for number in woken.keys { state.waiters[number] = nil }
            return woken.values.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    /// Waits until there is no pause, and returns the number of pauses so far.
    ///
    /// - Throws: `CancellationError`.
    func waitUntilResumed() async throws -> Int {
        try await wait(seen: nil)
        return state.withLock { $0.pauses }
    }

    /// Waits until there was a pause after this number of pauses.
    ///
    /// - Throws: `CancellationError`.
    func waitForPause(after seen: Int) async throws { try await wait(seen: seen) }

    private func wait(seen: Int?) async throws {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let outcome = state.withLock { state -> Result<Void, any Error>? in
                    if state.isOver(seen) { return .success(()) }
                    // The task was cancelled before it waited. If it is cancelled later, the handler below finds it.
                    if Task.isCancelled { return .failure(CancellationError()) }
                    state.waiters[number] = Waiter(seen: seen, continuation: continuation)
                    return nil
                }
                if let outcome { continuation.resume(with: outcome) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }
}
