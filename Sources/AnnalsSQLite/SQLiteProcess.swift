internal import CAnnalsSQLite

/// SQLite settings of the whole process.
package enum SQLiteProcess {
    /// Turns off SQLite's memory statistics. With them, SQLite locks a mutex for every allocation of any connection.
    ///
    /// Call it at the start of a program. After the first connection it has no effect. A library must leave this to its
    /// app.
    package static func countNoMemory() {
        _ = annals_sqlite_count_no_memory()
    }

    /// From now on every new connection obeys `stop`.
    ///
    /// Call it at the start of a program, after `countNoMemory`. If the system's SQLite does not support this, only
    /// accesses of cancelled tasks end early.
    package static func makeStoppable() {
        _ = annals_sqlite_make_stoppable()
    }

    /// Ends all current and later statements and lock waits in this process, because the process is about to end.
    /// Transactions are rolled back. Short statements still run, so that temporary settings can be undone.
    package static func stop() {
        annals_sqlite_stop()
    }

    /// Whether `stop` was called.
    package static var isStopped: Bool { annals_sqlite_is_stopped() != 0 }
}
