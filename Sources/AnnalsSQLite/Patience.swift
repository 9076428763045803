import AnnalsCore
import CAnnalsSQLite
package import GRDB
import Synchronization

/// How a store waits for another program's lock.
///
/// SQLite's own way of waiting looks for the lock after growing pauses, up to a tenth of a second, and a program that
/// commits in a loop leaves it free for microseconds: then it can be missed for as long as one waits. Looking every
/// millisecond finds it. A program that is about to end (`SQLiteProcess.stop`) waits no more.
package final class Patience: Sendable {
    private let limitMilliseconds: Int
    private let isOff = Atomic(false)

    package init(_ timeout: Duration) {
        limitMilliseconds = Int(clamping: timeout.wholeMilliseconds)
    }

    /// What GRDB asks when the lock is taken, with the number of times that it has asked.
    package var busyMode: Database.BusyMode {
        .callback { [self] tries in
            guard tries < limitMilliseconds, !isOff.load(ordering: .relaxed), !SQLiteProcess.isStopped else { return false }
            sqlite3_sleep(1)
            return true
        }
    }

    /// Runs work that does not wait at all.
    package func suspended<T>(_ work: () throws -> T) rethrows -> T {
        isOff.store(true, ordering: .relaxed)
        defer { isOff.store(false, ordering: .relaxed) }
        return try work()
    }
}
