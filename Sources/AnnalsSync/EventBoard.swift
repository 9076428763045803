import AnnalsCore
import Foundation
import Synchronization

/// Delivers an agent's events to its listeners. Each listener reads at its own speed.
///
/// A slow listener does not block the agent or other listeners. A limited number of events waits for it. Above the
/// limit the oldest are dropped.
final class EventBoard: Sendable {
    private struct State {
        var listeners: [Int: AsyncStream<SyncEvent>.Continuation] = [:]
        var lastListener = 0
        var lastOperation = 0
        /// The operation of the last event. Events about a snapshot belong to it.
        var current: SyncEvent?
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Int64

    /// - Parameter now: the time in milliseconds since 1970.
    init(now: @escaping @Sendable () -> Int64) {
        self.now = now
    }

    deinit {
        for listener in state.withLock({ $0.listeners }).values { listener.finish() }
    }

    /// The events from now on. The stream ends when the board or the stream is released.
    func listen() -> AsyncStream<SyncEvent> {
        let (stream, continuation) = AsyncStream<SyncEvent>.makeStream(bufferingPolicy: .bufferingNewest(SyncLimits.waitingEvents))
        let number = state.withLock { state in
            state.lastListener += 1
            state.listeners[state.lastListener] = continuation
            return state.lastListener
        }
        continuation.onTermination = { [weak self] _ in self?.forget(number) }
        return stream
    }

    private func forget(_ listener: Int) {
        // The continuation must not be released while the lock is held.
        _ = state.withLock { $0.listeners.removeValue(forKey: listener) }
    }

    private var date: Date { Date(timeIntervalSince1970: Double(now()) / 1_000) }

    func begin(_ stage: SyncEvent.Stage) -> SyncEvent {
        let date = date
        let event = state.withLock { state in
            state.lastOperation += 1
            return SyncEvent(id: state.lastOperation, stage: stage, startDate: date)
        }
        send(event)
        return event
    }

    func send(_ event: SyncEvent, isEnd: Bool = false) {
        var event = event
        event.date = date
        if isEnd { event.endDate = event.date }
        let listeners = state.withLock { state in
            state.current = event
            return state.listeners
        }
        for listener in listeners.values { listener.yield(event) }
    }

    /// Reports the progress of a snapshot. If no operation is under way, nothing is reported.
    func note(_ transfer: SyncEvent.Transfer) {
        let event = state.withLock { state -> SyncEvent? in
            guard var event = state.current, !event.hasEnded else { return nil }
            if let last = event.transfer, last.stage == transfer.stage, transfer.bytes >= last.bytes,
                transfer.bytes - last.bytes < SyncLimits.bytesPerEvent
            {
                return nil
            }
            event.transfer = transfer
            state.current = event
            return event
        }
        if let event { send(event) }
    }

    /// Reports that the operation that failed last will be tried again after a pause.
    func noteRetry(after pause: Duration) {
        guard var event = state.withLock({ $0.current }), event.error != nil else { return }
        event.retryAfter = pause
        send(event, isEnd: true)
    }
}
