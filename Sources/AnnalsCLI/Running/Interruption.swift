import AnnalsSQLite
import AnnalsStore
import Dispatch
import Foundation
import Synchronization

/// Ends the process within two seconds of a SIGINT or SIGTERM.
///
/// The running task is cancelled, and SQLite ends its statements and waits: so what was made half is undone. Where that takes
/// longer than it may, as with a disk that does not answer or a reader that takes no output, the process ends by itself, and so it does
/// with a second signal. Stores are as safe then as after a crash: SQLite undoes what was not committed, a new file stands under its
/// name only when it is whole, and what was written beside it is removed by the next command there.
///
/// It lives as long as the process. It has queues of its own: those of tasks may all be busy.
final class Interruption: Sendable {
    private struct State {
        var received: Int32?
        var task: Task<Void, any Error>?
    }

    /// What a signal has to do.
    enum Means: Sendable {
        /// Stops the work.
        case stop
        /// Nothing: the command sees to its end by itself, and may take so long.
        case wait(@Sendable () -> Duration)
    }

    private let state = Mutex(State())
    private let means: Means
    private let isWorkDone: Bool
    /// Because Dispatch's sources are only kept alive here.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []

    private static let longestEnd = Duration.milliseconds(1_500)

    /// Signals are held from now on.
    ///
    /// - Parameters:
    ///   - means: what they do.
    ///   - isWorkDone: whether a command that is stopped has done its work.
    init(_ means: Means = .stop, isWorkDone: Bool = false) {
        self.means = means
        self.isWorkDone = isWorkDone
        let queue = DispatchQueue(label: "annals.signals")
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { self.receive(number) }
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
        let (isSecond, task) = state.withLock { state -> (Bool, Task<Void, any Error>?) in
            defer { state.received = state.received ?? number }
            return (state.received != nil, state.task)
        }
        if isSecond { _exit(Self.status(of: number).rawValue) }
        switch means {
        case .stop:
            endLater(after: Self.longestEnd)
            DispatchQueue(label: "annals.stop").async {
                SQLiteProcess.stop()
                task?.cancel()
            }
        case .wait(let limit):
            endLater(after: limit())
        }
    }

    private func endLater(after limit: Duration) {
        let status = status ?? .interrupted
        DispatchQueue(label: "annals.end").asyncAfter(deadline: .now() + limit / .seconds(1)) {
            UnfinishedFolders.removeAll()
            _exit(status.rawValue)
        }
    }

    /// How the process ends when a signal kept the command from finishing; nil when none came.
    var status: ExitStatus? {
        state.withLock { $0.received }.map { isWorkDone ? .done : Self.status(of: $0) }
    }

    private static func status(of signal: Int32) -> ExitStatus {
        signal == SIGTERM ? .terminated : .interrupted
    }
}
