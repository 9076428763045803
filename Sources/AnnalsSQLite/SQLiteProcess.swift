internal import CAnnalsSQLite

/// What holds for SQLite in the whole process.
package enum SQLiteProcess {
    /// Has SQLite count no memory, for which it would lock a mutex with every allocation of any connection.
    ///
    /// For a program's first lines: once there is a connection it changes nothing. A library leaves that to its app.
    package static func countNoMemory() {
        _ = annals_sqlite_count_no_memory()
    }

    /// Has every connection that is opened from now on obey `stop`.
    ///
    /// For a program's first lines, after `countNoMemory`. Where the system's SQLite cannot do it, only accesses whose task is cancelled
    /// end early.
    package static func makeStoppable() {
        _ = annals_sqlite_make_stoppable()
    }

    /// Ends every statement and every wait for a lock in this process, also those to come: it is about to end. Transactions are rolled
    /// back. Short statements still run, so that what was set up can be put back.
    package static func stop() {
        annals_sqlite_stop()
    }

    /// Whether `stop` was called.
    package static var isStopped: Bool { annals_sqlite_is_stopped() != 0 }
}
