package import AnnalsCore
package import Dispatch
internal import Synchronization

/// Wakes requests that wait for a space's head to move.
///
/// A waiter is one continuation in a table, so 5,000 event streams need no thread and no timer each. One tick checks
/// the deadlines; it runs only while there are waiters. So a wait can end one tick late.
package final class HeadWatch: Sendable {
    private struct Waiter {
        let after: Position
        let deadline: DispatchTime
        let continuation: CheckedContinuation<Position, any Error>
    }

    private struct State {
        /// The newest head since the start, for each space that was written or waited for.
        var heads: [SpaceName: Position] = [:]
        var waiters: [SpaceName: [UInt64: Waiter]] = [:]
        var count = 0
        var nextID: UInt64 = 0
        var isTicking = false
        var isClosed = false
    }

    private let state = Mutex(State())
    private let limits: RelayLogLimits
    private let queue = DispatchQueue(label: "annals.relay.waits")

    package init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// The number of waiters.
    var count: Int { state.withLock { $0.count } }

    /// Records a committed head and wakes the waiters for it. Zero means that the space was deleted: all its waiters
    /// wake, and the heads of a new space with this name start from zero.
    package func publish(_ head: Position, of space: SpaceName) {
        let woken = state.withLock { state -> [Waiter] in
            if head == .zero {
                state.heads[space] = nil
                return Self.take(from: &state, space: space) { _ in true }
            }
            guard head > state.heads[space] ?? .zero else { return [] }
            state.heads[space] = head
            return Self.take(from: &state, space: space) { $0.after < head }
        }
        for waiter in woken { waiter.continuation.resume(returning: head) }
    }

    /// Returns the head when it passes `after`, or the current head at the deadline. `known` is the head that the
    /// caller read.
    ///
    /// Throws `RelayLogError.overloaded` if too many wait, `.closing` when the relay stops, and CancellationError.
    package func wait(for space: SpaceName, after: Position, known: Position, until deadline: DispatchTime) async throws -> Position {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let waiter = Waiter(after: after, deadline: deadline, continuation: continuation)
                switch add(waiter, id: id, space: space, known: known) {
                case .waiting: break
                case .done(let head): continuation.resume(returning: head)
                case .refused(let error): continuation.resume(throwing: error)
                }
            }
        } onCancel: {
            let waiter = state.withLock { Self.remove(id, of: space, from: &$0) }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Ends every wait with `closing`; later waits end at once.
    func close() {
        let all = state.withLock { state -> [Waiter] in
            state.isClosed = true
            let all = state.waiters.values.flatMap(\.values)
            state.waiters = [:]
            state.count = 0
            return all
        }
        for waiter in all { waiter.continuation.resume(throwing: RelayLogError.closing) }
    }

    private enum Admission {
        case waiting
        case done(Position)
        case refused(any Error)
    }

    private func add(_ waiter: Waiter, id: UInt64, space: SpaceName, known: Position) -> Admission {
        let (admission, startsTicking) = state.withLock { state -> (Admission, Bool) in
            // A cancellation before this point found no waiter to remove.
            if Task.isCancelled { return (.refused(CancellationError()), false) }
            if state.isClosed { return (.refused(RelayLogError.closing), false) }
            let head = max(known, state.heads[space] ?? .zero)
            state.heads[space] = head
            if head > waiter.after || waiter.deadline <= .now() { return (.done(head), false) }
            guard state.count < limits.waiters else { return (.refused(RelayLogError.overloaded(retryAfterSeconds: 5)), false) }
            state.waiters[space, default: [:]][id] = waiter
            state.count += 1
            let startsTicking = !state.isTicking
            state.isTicking = true
            return (.waiting, startsTicking)
        }
        if startsTicking { scheduleTick() }
        return admission
    }

    private func scheduleTick() {
        queue.asyncAfter(deadline: .now() + .milliseconds(limits.waitTickMilliseconds)) { [weak self] in self?.expire() }
    }

    private func expire() {
        let now = DispatchTime.now()
        let (overdue, goesOn) = state.withLock { state -> ([(Waiter, Position)], Bool) in
            let overdue = state.waiters.keys.flatMap { space in
                let head = state.heads[space] ?? .zero
                return Self.take(from: &state, space: space) { $0.deadline <= now }.map { ($0, head) }
            }
            state.isTicking = state.count > 0
            return (overdue, state.isTicking)
        }
        for (waiter, head) in overdue { waiter.continuation.resume(returning: head) }
        if goesOn { scheduleTick() }
    }

    private static func take(from state: inout State, space: SpaceName, where isTaken: (Waiter) -> Bool) -> [Waiter] {
        guard let waiting = state.waiters[space] else { return [] }
        let left = waiting.filter { !isTaken($0.value) }
        guard left.count < waiting.count else { return [] }
        state.waiters[space] = left.isEmpty ? nil : left
        state.count -= waiting.count - left.count
        return waiting.values.filter(isTaken)
    }

    private static func remove(_ id: UInt64, of space: SpaceName, from state: inout State) -> Waiter? {
        guard let waiter = state.waiters[space]?.removeValue(forKey: id) else { return nil }
        if state.waiters[space]?.isEmpty == true { state.waiters[space] = nil }
        state.count -= 1
        return waiter
    }
}
