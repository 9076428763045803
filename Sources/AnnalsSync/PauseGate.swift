import Synchronization

/// Whether an agent is to keep still. Whoever waits for that to change is woken when it does.
///
/// Pauses are counted, so that one that was over before anybody looked is noticed all the same: who resumes wants something to
/// be tried at once.
final class PauseGate: Sendable {
    private struct Waiter {
        /// nil: waits for the pause to end; else for one after so many.
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

    /// Returns while there is no pause, and says how many there were.
    ///
    /// - Throws: `CancellationError`.
    func waitUntilResumed() async throws -> Int {
        try await wait(seen: nil)
        return state.withLock { $0.pauses }
    }

    /// Returns when there was a pause after so many.
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
                    // Cancelled before it began to wait; later the handler below finds it.
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
