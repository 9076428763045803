#ifndef ANNALS_POWER_LOSS_DISK_H
#define ANNALS_POWER_LOSS_DISK_H

#include <stdint.h>

enum {
    /// A file that was not there is opened.
    annals_disk_create = 1,
    annals_disk_write = 2,
    /// `offset` is the file's new length.
    annals_disk_truncate = 3,
    annals_disk_sync = 4,
    annals_disk_remove = 5,
    /// `path` is a folder.
    annals_disk_sync_folder = 6,
};

/// Called after each successful call that changes a file or makes it durable, by any thread.
typedef void (*annals_disk_note)(int kind, const char *path, int64_t offset, const void *bytes, int64_t count);

/// Makes a VFS SQLite's default that does what the one before does, and tells `note`. Once in a process; connections that are open
/// already are not seen. Returns SQLite's result code.
int annals_disk_install(annals_disk_note note);

#endif
