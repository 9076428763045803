#ifndef ANNALS_SQLITE_H
#define ANNALS_SQLITE_H

#include <sqlite3.h>

/// Turns the persistent triggers of one connection on or off, since Swift cannot call the variadic
/// sqlite3_db_config. Triggers of the temp schema keep running. Returns SQLite's result code.
int annals_sqlite_set_triggers(sqlite3 *connection, int enabled);

#endif
