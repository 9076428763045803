import AnnalsCore
import CAnnalsSQLite
package import GRDB
import Synchronization

/// How a store waits for another program's lock.
///
/// SQLite's own busy handler checks the lock after growing pauses, up to a tenth of a second. A program that commits in
/// a loop releases the lock for only microseconds, so these checks can miss it until the timeout. A check every
/// millisecond finds it. After `SQLiteProcess.stop` nothing waits.
package final class BusyTimeout: Sendable {
    private let limitMilliseconds: Int
    private let isOff = Atomic(false)

    package init(_ timeout: Duration) {
        limitMilliseconds = Int(clamping: timeout.wholeMilliseconds)
    }

    /// GRDB calls it when the lock is taken, with the number of calls so far.
    package var busyMode: Database.BusyMode {
        .callback { [self] tries in
            guard tries < limitMilliseconds, !isOff.load(ordering: .relaxed), !SQLiteProcess.isStopped else { return false }
            sqlite3_sleep(1)
            return true
        }
    }

    /// Runs `work` without waiting for locks.
    package func suspended<T>(_ work: () throws -> T) rethrows -> T {
        isOff.store(true, ordering: .relaxed)
        defer { isOff.store(false, ordering: .relaxed) }
        return try work()
    }
}
