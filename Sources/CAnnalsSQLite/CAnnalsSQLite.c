#include "CAnnalsSQLite.h"

#include <stdatomic.h>
#include <stddef.h>

#if defined(__APPLE__)
#include <malloc/malloc.h>
#elif defined(__linux__)
#include <malloc.h>
#endif

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

int annals_sqlite_load_extension(sqlite3 *connection, const char *path, char **message) {
#if defined(__APPLE__) || defined(SQLITE_OMIT_LOAD_EXTENSION)
    // Apple's SQLite does not load extensions.
    (void)connection;
    (void)path;
    (void)message;
    return SQLITE_MISUSE;
#else
    int before = get(connection, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION);
    int code = set(connection, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1);
    if (code == SQLITE_OK) code = sqlite3_load_extension(connection, path, NULL, message);
    set(connection, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, before == 1);
    return code;
#endif
}

int annals_sqlite_count_no_memory(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int annals_sqlite_cache_bytes(sqlite3 *connection) {
    int now = 0;
    int highest = 0;
    return sqlite3_db_status(connection, SQLITE_DBSTATUS_CACHE_USED, &now, &highest, 0) == SQLITE_OK ? now : 0;
}

void annals_give_back_memory(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#elif defined(__APPLE__)
    malloc_zone_pressure_relief(NULL, 0);
#endif
}

static atomic_int is_stopped;

static int look(void *unused) {
    (void)unused;
    return atomic_load_explicit(&is_stopped, memory_order_relaxed);
}

#ifndef __APPLE__
// A thousand instructions take some 50 microseconds, and asking costs next to nothing.
static int watch(sqlite3 *connection, char **error, const void *routines) {
    (void)error;
    (void)routines;
    sqlite3_progress_handler(connection, 1000, look, NULL);
    return SQLITE_OK;
}
#endif

int annals_sqlite_make_stoppable(void) {
#ifdef __APPLE__
    // Apple's SQLite has no hook for every connection.
    return SQLITE_MISUSE;
#else
    return sqlite3_auto_extension((void (*)(void))watch);
#endif
}

void annals_sqlite_stop(void) {
    atomic_store_explicit(&is_stopped, 1, memory_order_relaxed);
}

int annals_sqlite_is_stopped(void) {
    return look(NULL);
}
