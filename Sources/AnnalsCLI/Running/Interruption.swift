import AnnalsSQLite
import AnnalsStore
import Dispatch
import Foundation
import Synchronization

/// Ends the process within two seconds of a SIGINT or SIGTERM.
///
/// The running task is cancelled, and SQLite stops its statements and waits, so open transactions are rolled back. If that takes
/// too long, for example because a disk does not answer or no program reads the output, the process ends itself. A second signal also
/// ends it at once. Stores are then as safe as after a crash: SQLite rolls back what was not committed, a new file gets its name
/// only when it is complete, and the next command removes temporary files beside it.
///
/// An instance exists for the rest of the process. It has its own queues, because the threads of tasks may all be busy.
final class Interruption: Sendable {
    private struct State {
        var received: Int32?
        var task: Task<Void, any Error>?
    }

    /// What a signal does.
    enum Means: Sendable {
        /// Stops the command.
        case stop
        /// Nothing: the command ends itself, within this time.
        case wait(@Sendable () -> Duration)
    }

    private let state = Mutex(State())
    private let means: Means
    private let isWorkDone: Bool
    /// Dispatch does not keep its sources alive, so this array does.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []

    private static let longestEnd = Duration.milliseconds(1_500)

    /// Handles signals from now on.
    ///
    /// - Parameters:
    ///   - means: what a signal does.
    ///   - isWorkDone: whether a stopped command has completed its task.
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

    /// Cancels `task` when a signal comes, or at once if one came already.
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

    /// The exit status if a signal stopped the command; nil if none came.
    var status: ExitStatus? {
        state.withLock { $0.received }.map { isWorkDone ? .done : Self.status(of: $0) }
    }

    private static func status(of signal: Int32) -> ExitStatus {
        signal == SIGTERM ? .terminated : .interrupted
    }
}
