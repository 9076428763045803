import Dispatch
import Foundation
import Synchronization

/// Turns SIGINT and SIGTERM into cancellation of the running task, so that what it made half is undone.
///
/// The second such signal ends the process at once: the stores are as safe then as after a crash, but a temporary
/// folder may stay behind.
final class Interruption: Sendable {
    private struct State {
        var received: Int32?
        var task: Task<Void, any Error>?
    }

    private let state = Mutex(State())
    /// Because Dispatch's sources are only kept alive here.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []

    /// Signals are held from now on.
    init() {
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in self?.receive(number) }
            source.activate()
            return source
        }
    }

    /// Signals that came and that come cancel `task`.
    func watch(_ task: Task<Void, any Error>) {
        let isReceived = state.withLock { state in
            state.task = task
            return state.received != nil
        }
        if isReceived { task.cancel() }
    }

    private func receive(_ number: Int32) {
        let task = state.withLock { state -> Task<Void, any Error>? in
            if state.received != nil { _exit(Self.status(of: number).rawValue) }
            state.received = number
            return state.task
        }
        task?.cancel()
    }

    /// How the process ends when a signal kept the command from finishing; nil when none came.
    var status: ExitStatus? { state.withLock { $0.received.map(Self.status) } }

    private static func status(of signal: Int32) -> ExitStatus {
        signal == SIGTERM ? .terminated : .interrupted
    }
}
