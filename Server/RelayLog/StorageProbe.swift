internal import Synchronization

/// Queries the storage for health checks and metrics with a time limit. A database that does not answer blocks its
/// connection, but must not block the callers too. While an answer is overdue, further queries are refused.
final class StorageProbe: Sendable {
    private let limits: RelayLogLimits
    private let clock: RelayClock
    /// Queries that timed out and have not ended yet.
    private let overdue = Mutex(0)

    init(limits: RelayLogLimits, clock: RelayClock) {
        self.limits = limits
        self.clock = clock
    }

    /// Throws `RelayLogError.storage` if there is no answer in time, and what `ask` throws.
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

    /// Resumes once, with the first result.
    private final class First<Answer: Sendable>: Sendable {
        private let continuation: Mutex<CheckedContinuation<Answer, any Error>?>

        init(_ continuation: CheckedContinuation<Answer, any Error>) { self.continuation = Mutex(continuation) }

        /// Returns false if another result came first.
        func resume(with result: Result<Answer, any Error>) -> Bool {
            let continuation = continuation.withLock { $0.take() }
            continuation?.resume(with: result)
            return continuation != nil
        }
    }
}
