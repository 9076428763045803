internal import CAnnalsSQLite

/// What holds for SQLite in the whole process.
package enum SQLiteProcess {
    /// Has SQLite count no memory, for which it would lock a mutex with every allocation of any connection.
    ///
    /// For a program's first lines: once there is a connection it changes nothing. A library leaves that to its app.
    package static func countNoMemory() {
        _ = annals_sqlite_count_no_memory()
    }
}
