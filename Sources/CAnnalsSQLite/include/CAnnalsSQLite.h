#ifndef ANNALS_SQLITE_H
#define ANNALS_SQLITE_H

#include <sqlite3.h>

// Swift cannot call the variadic sqlite3_config and sqlite3_db_config.

/// Turns the persistent triggers of one connection on or off. Triggers of the temp schema keep running.
/// Returns SQLite's result code.
int annals_sqlite_set_triggers(sqlite3 *connection, int enabled);

/// 1 where the connection's persistent triggers are on, 0 where they are off, -1 where SQLite does not say.
int annals_sqlite_triggers(sqlite3 *connection);

/// PRAGMA foreign_keys without a statement, so that neither a cancelled access nor an interrupt can stop it.
/// Call it outside a transaction, as one would the pragma. Returns SQLite's result code.
int annals_sqlite_set_foreign_keys(sqlite3 *connection, int enabled);

/// 1 where the connection enforces foreign keys, 0 where it does not, -1 where SQLite does not say.
int annals_sqlite_foreign_keys(sqlite3 *connection);

/// Loads an extension into one connection. Loading is on during this call only, and SQL's load_extension() stays off. Returns SQLite's
/// result code, and SQLITE_MISUSE where the system's SQLite cannot load extensions. The message is to be freed by sqlite3_free.
int annals_sqlite_load_extension(sqlite3 *connection, const char *path, char **message);

/// Has SQLite count no memory in this process, for which it would lock a mutex with every allocation of any connection.
/// For a program's first line: SQLite takes it before its first connection only. Returns SQLite's result code.
int annals_sqlite_count_no_memory(void);

/// The bytes in the page caches of one connection.
int annals_sqlite_cache_bytes(sqlite3 *connection);

/// Has the C library give freed memory back to the system.
void annals_give_back_memory(void);

/// Every connection that is opened from now on looks at `annals_sqlite_stop` while it runs a statement. Returns SQLite's result
/// code; SQLITE_MISUSE where the system's SQLite cannot do that.
int annals_sqlite_make_stoppable(void);

/// Ends statements of such connections with SQLITE_INTERRUPT, those that run and those to come. Short ones, such as ROLLBACK, still run
/// to their end.
void annals_sqlite_stop(void);

/// Whether `annals_sqlite_stop` was called.
int annals_sqlite_is_stopped(void);

#endif
