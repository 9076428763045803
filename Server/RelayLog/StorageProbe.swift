internal import Synchronization

/// Asks the storage what somebody who watches the relay wants to know, of which nobody waits for longer than a limit: a database
/// that does not answer keeps its connection busy, and must not keep them too. While an answer is overdue nothing more is asked.
final class StorageProbe: Sendable {
    private let limits: RelayLogLimits
    private let clock: RelayClock
    /// Askings that were given up and have not ended yet.
    private let overdue = Mutex(0)

    init(limits: RelayLogLimits, clock: RelayClock) {
        self.limits = limits
        self.clock = clock
    }

    /// Throws `RelayLogError.storage` where there is no answer in time, and what `ask` throws.
    func answer<Answer: Sendable>(_ ask: @escaping @Sendable () async throws -> Answer) async throws -> Answer {
        guard overdue.withLock({ $0 <= 0 }) else { throw Self.silence }
        return try await withCheckedThrowingContinuation { continuation in
            let first = First(continuation)
            let deadline = Task { [limits, clock] in
                try await clock.sleep(.milliseconds(limits.answerMilliseconds))
                if first.resume(with: .failure(Self.silence)) { self.overdue.withLock { $0 += 1 } }
            }
            Task {
                let result: Result<Answer, any Error>
                do { result = .success(try await ask()) } catch { result = .failure(error) }
                deadline.cancel()
                if !first.resume(with: result) { self.overdue.withLock { $0 -= 1 } }
            }
        }
    }

    private static let silence = RelayLogError.storage("the database does not answer")

    /// Resumes once, with what comes first.
    private final class First<Answer: Sendable>: Sendable {
        private let continuation: Mutex<CheckedContinuation<Answer, any Error>?>

        init(_ continuation: CheckedContinuation<Answer, any Error>) { self.continuation = Mutex(continuation) }

        /// False when it was not the first.
        func resume(with result: Result<Answer, any Error>) -> Bool {
            let continuation = continuation.withLock { $0.take() }
            continuation?.resume(with: result)
            return continuation != nil
        }
    }
}
