#include "CPowerLossDisk.h"

#include <sqlite3.h>
#include <string.h>

static sqlite3_vfs *real_vfs;
static sqlite3_vfs disk_vfs;
static annals_disk_note note;

typedef struct {
    sqlite3_file base;
    const char *path;
    // SQLite's own VFS syncs the folder together with a journal's first sync.
    int syncs_folder;
    sqlite3_file real[];
} disk_file;

static sqlite3_file *real_of(sqlite3_file *file) { return ((disk_file *)file)->real; }

static void tell(sqlite3_file *file, int kind, int64_t offset, const void *bytes, int64_t count) {
    const char *path = ((disk_file *)file)->path;
    if (path) note(kind, path, offset, bytes, count);
}

static void tell_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? sqlite3_mprintf("%.*s", (int)(slash - path), path) : 0;
    if (folder) note(annals_disk_sync_folder, folder, 0, 0, 0);
    sqlite3_free(folder);
}

static int disk_close(sqlite3_file *file) {
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int disk_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    return real_of(file)->pMethods->xRead(real_of(file), bytes, count, offset);
}

static int disk_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    int code = real_of(file)->pMethods->xWrite(real_of(file), bytes, count, offset);
    if (code == SQLITE_OK) tell(file, annals_disk_write, offset, bytes, count);
    return code;
}

static int disk_truncate(sqlite3_file *file, sqlite3_int64 size) {
    int code = real_of(file)->pMethods->xTruncate(real_of(file), size);
    if (code == SQLITE_OK) tell(file, annals_disk_truncate, size, 0, 0);
    return code;
}

static int disk_sync(sqlite3_file *file, int flags) {
    int code = real_of(file)->pMethods->xSync(real_of(file), flags);
    if (code != SQLITE_OK) return code;
    tell(file, annals_disk_sync, 0, 0, 0);
    disk_file *disk = (disk_file *)file;
    if (disk->syncs_folder) tell_folder(disk->path);
    disk->syncs_folder = 0;
    return code;
}

static int disk_file_size(sqlite3_file *file, sqlite3_int64 *size) {
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int disk_lock(sqlite3_file *file, int level) { return real_of(file)->pMethods->xLock(real_of(file), level); }

static int disk_unlock(sqlite3_file *file, int level) { return real_of(file)->pMethods->xUnlock(real_of(file), level); }

static int disk_check_lock(sqlite3_file *file, int *held) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), held);
}

static int disk_control(sqlite3_file *file, int operation, void *argument) {
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int disk_sector_size(sqlite3_file *file) { return real_of(file)->pMethods->xSectorSize(real_of(file)); }

static int disk_characteristics(sqlite3_file *file) {
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int disk_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory) {
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, memory);
}

static int disk_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void disk_shm_barrier(sqlite3_file *file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }

static int disk_shm_unmap(sqlite3_file *file, int removes) {
    return real_of(file)->pMethods->xShmUnmap(real_of(file), removes);
}

// Version 2: nothing is read through a memory map.
static const sqlite3_io_methods disk_methods = {
    2, disk_close, disk_read, disk_write, disk_truncate, disk_sync, disk_file_size, disk_lock, disk_unlock, disk_check_lock,
    disk_control, disk_sector_size, disk_characteristics, disk_shm_map, disk_shm_lock, disk_shm_barrier, disk_shm_unmap, 0, 0,
};

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
    disk_file *disk = (disk_file *)file;
    int there = 0;
    memset(disk, 0, (size_t)vfs->szOsFile);
    if (name) real_vfs->xAccess(real_vfs, name, SQLITE_ACCESS_EXISTS, &there);
    int code = real_vfs->xOpen(real_vfs, name, disk->real, flags, out_flags);
    if (!disk->real->pMethods) return code;
    disk->base.pMethods = &disk_methods;
    if (code != SQLITE_OK || (flags & SQLITE_OPEN_DELETEONCLOSE)) return code;
    disk->path = name;
    int is_created = name && !there && (flags & SQLITE_OPEN_CREATE);
    int is_journal = flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL);
    disk->syncs_folder = name && (flags & SQLITE_OPEN_CREATE) && is_journal;
    if (is_created) tell(file, annals_disk_create, 0, 0, 0);
    return code;
}

static int disk_delete(sqlite3_vfs *vfs, const char *name, int syncs_folder) {
    int code = real_vfs->xDelete(real_vfs, name, syncs_folder);
    if (code != SQLITE_OK) return code;
    note(annals_disk_remove, name, 0, 0, 0);
    if (syncs_folder) tell_folder(name);
    return code;
}

int annals_disk_install(annals_disk_note to) {
    real_vfs = sqlite3_vfs_find(0);
    if (!real_vfs) return SQLITE_ERROR;
    note = to;
    disk_vfs = *real_vfs;
    disk_vfs.pNext = 0;
    disk_vfs.zName = "annals-power-loss";
    disk_vfs.szOsFile = (int)sizeof(disk_file) + real_vfs->szOsFile;
    disk_vfs.xOpen = disk_open;
    disk_vfs.xDelete = disk_delete;
    return sqlite3_vfs_register(&disk_vfs, 1);
}
