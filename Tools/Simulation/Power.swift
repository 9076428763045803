import GRDB
import Synchronization

/// Makes a replica's process die at a commit: before the commit, which SQLite then rolls back, or directly after it.
///
/// A dead process commits nothing and sends no request, even if its tasks continue. Data that SQLite has committed stays.
final class Power: TransactionObserver, Sendable {
    struct Cut: Error {}

    private struct State {
        var isDead = false
        /// The number of commits until the process dies, and whether the last of them is done.
        var countdown: (commits: Int, isDone: Bool)?
        /// An external program uses the connection.
        var isStranger = false
    }

    private let state = Mutex(State())

    var isDead: Bool { state.withLock { $0.isDead } }

    func die(at point: CrashPoint) {
        state.withLock { state in
            switch point {
            case .now: state.isDead = true
            case .beforeCommit(let count): state.countdown = (count, false)
            case .afterCommit(let count): state.countdown = (count, true)
            }
        }
    }

    func restore() {
        state.withLock { $0 = State() }
    }

    /// Runs the writes of an external program, which does not die with this process.
    func withStranger<T>(_ body: () throws -> T) rethrows -> T {
        state.withLock { $0.isStranger = true }
        defer { state.withLock { $0.isStranger = false } }
        return try body()
    }

    // MARK: SQLite's hooks

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }

    func databaseDidChange(with event: DatabaseEvent) {}

    func databaseWillCommit() throws {
        let mayCommit = state.withLock { state in
            if state.isStranger { return true }
            if state.isDead { return false }
            guard var countdown = state.countdown else { return true }
            countdown.commits -= 1
            state.countdown = countdown
            guard countdown.commits == 0 else { return true }
            state.countdown = nil
            state.isDead = true
            return countdown.isDone
        }
        if !mayCommit { throw Cut() }
    }

    func databaseDidCommit(_ db: Database) {}

    func databaseDidRollback(_ db: Database) {}
}
