#include "CAnnalsSQLite.h"

int annals_sqlite_set_triggers(sqlite3 *connection, int enabled) {
    int now = 0;
    return sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_TRIGGER, enabled, &now);
}
