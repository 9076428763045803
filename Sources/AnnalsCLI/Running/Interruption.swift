import Dispatch
import Foundation
import Synchronization

/// Turns SIGINT, SIGTERM and SIGHUP into cancellation of the running task, so that what it made half is undone.
///
/// The second such signal ends the process at once: the stores are as safe then as after a crash, but a temporary
/// folder may stay behind. SIGPIPE is ignored; writing tells by itself that nobody reads.
final class Interruption: Sendable {
    private let received = Mutex<Int32?>(nil)
    private let sources = Mutex<[any DispatchSourceSignal]>([])

    /// Watches from now on and cancels `task`.
    func watch(_ task: Task<Void, any Error>) {
        signal(SIGPIPE, SIG_IGN)
        for number in [SIGINT, SIGTERM, SIGHUP] {
            // What was ignored on purpose, as by nohup, stays ignored.
            guard signal(number, SIG_IGN) != SIG_IGN || number != SIGHUP else { continue }
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [self] in
                let isFirst = received.withLock { received in
                    defer { received = received ?? number }
                    return received == nil
                }
                guard isFirst else { _exit(Self.status(of: number).rawValue) }
                task.cancel()
            }
            source.resume()
            sources.withLock { $0.append(source) }
        }
    }

    /// How the process ends when a signal kept the command from finishing; nil when none came.
    var status: ExitStatus? { received.withLock { $0.map(Self.status) } }

    private static func status(of signal: Int32) -> ExitStatus {
        switch signal {
        case SIGTERM: .terminated
        case SIGHUP: .hungUp
        default: .interrupted
        }
    }
}
