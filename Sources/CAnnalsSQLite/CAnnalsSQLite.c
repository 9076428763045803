#include "CAnnalsSQLite.h"

static int set(sqlite3 *connection, int setting, int enabled) {
    int now = 0;
    return sqlite3_db_config(connection, setting, enabled, &now);
}

// A negative value asks without changing anything.
static int get(sqlite3 *connection, int setting) {
    int now = 0;
    return sqlite3_db_config(connection, setting, -1, &now) == SQLITE_OK ? now : -1;
}

int annals_sqlite_set_triggers(sqlite3 *connection, int enabled) {
    return set(connection, SQLITE_DBCONFIG_ENABLE_TRIGGER, enabled);
}

int annals_sqlite_triggers(sqlite3 *connection) {
    return get(connection, SQLITE_DBCONFIG_ENABLE_TRIGGER);
}

int annals_sqlite_set_foreign_keys(sqlite3 *connection, int enabled) {
    return set(connection, SQLITE_DBCONFIG_ENABLE_FKEY, enabled);
}

int annals_sqlite_foreign_keys(sqlite3 *connection) {
    return get(connection, SQLITE_DBCONFIG_ENABLE_FKEY);
}

int annals_sqlite_count_no_memory(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
