"""Makes each SQLite file that a Python program opens a tracked or a joined store, while the program runs.

Python imports a module of this name by itself if its folder is in PYTHONPATH. `run.py` sets these:

ANNALS_SUITE_MODE     plain, tracked or joined
ANNALS_SUITE_PROGRAM  the annals program
ANNALS_SUITE_FOLDER   a folder for databases in memory, which become files, and for what is found
ANNALS_SUITE_RELAY    the relay's address, in the mode joined

Before a statement outside of a transaction, the hook reads the schema's version. If it changed, `annals track --all` runs, as if a
user had typed it. When a file's last connection closes, the file is verified, and in the mode joined it is synced, cloned and compared.
"""

import atexit
import json
import os
import sqlite3
import subprocess
import sys
import threading
import uuid

MODE = os.environ.get("ANNALS_SUITE_MODE", "plain")
PROGRAM = os.environ.get("ANNALS_SUITE_PROGRAM", "annals")
FOLDER = os.environ.get("ANNALS_SUITE_FOLDER", "")
RELAY = os.environ.get("ANNALS_SUITE_RELAY", "")

_connect = sqlite3.connect
_lock = threading.RLock()
_files = {}  # path: the number of open connections
_versions = {}  # path: the schema's version at the last look
_memories = {}  # name of a shared database in memory: its file
_joined = {}  # path: its space
_inodes = {}  # path: the file's number, which is another one if a suite deletes the file and makes it again


def _note(kind, path, run=None, **more):
    """Writes what was found as a line of JSON, for run.py."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    line = {"kind": kind, "file": os.path.basename(path), "test": test, **more}
    if run is not None:
        line.update(status=run.returncode, output=(run.stdout + run.stderr)[-2000:])
    with open(os.path.join(FOLDER, "found.jsonl"), "a") as file:
        file.write(json.dumps(line) + "\n")


def _annals(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=300)


def _path_of(database, uri):
    """The file of a database: a database in memory gets one."""
    name = os.fspath(database) if not isinstance(database, bytes) else database.decode()
    if name in ("", ":memory:"):
        return os.path.join(FOLDER, f"memory-{uuid.uuid4().hex}.db")
    if uri and name.startswith("file:"):
        bare = name[5:].split("?")[0]
        if "mode=memory" in name or bare == ":memory:":
            if "cache=shared" not in name:
                return os.path.join(FOLDER, f"memory-{uuid.uuid4().hex}.db")
            return _memories.setdefault(bare, os.path.join(FOLDER, f"memory-{uuid.uuid4().hex}.db"))
        return None
    return os.path.abspath(name)


class _Hook:
    """What the connection class of a suite gets in addition."""

    annals_path = None
    annals_busy = False

    def annals_look(self):
        if self.annals_busy or self.annals_path is None or MODE == "plain" or self.in_transaction:
            return
        self.annals_busy = True
        try:
            version = sqlite3.Cursor(self).execute("PRAGMA schema_version").fetchall()[0][0]
            with _lock:
                inode = os.stat(self.annals_path).st_ino
                if _inodes.setdefault(self.annals_path, inode) != inode:
                    _inodes[self.annals_path] = inode
                    _versions.pop(self.annals_path, None)
                    _joined.pop(self.annals_path, None)
                if version == _versions.get(self.annals_path, 0):
                    return
                run = _annals("track", "--all", self.annals_path)
                if run.returncode == 65 and "verify" in run.stderr:  # the suite dropped tables of Annals
                    repair = _annals("verify", "--repair", self.annals_path)
                    _note("repaired" if "repaired" in repair.stdout + repair.stderr else "repair", self.annals_path, repair)
                    run = _annals("track", "--all", self.annals_path)
                if run.returncode != 0:
                    _note("untrackable" if "no table of" in run.stderr else "track", self.annals_path, run)
                if MODE == "joined" and self.annals_path not in _joined and run.returncode == 0:
                    space = "s" + uuid.uuid4().hex[:20]
                    run = _annals("join", self.annals_path, "--relay", RELAY, "--space", space)
                    if run.returncode == 0:
                        _joined[self.annals_path] = space
                    elif "already joined" not in run.stderr:  # a copy of a joined file
                        _note("join", self.annals_path, run)
                _versions[self.annals_path] = sqlite3.Cursor(self).execute("PRAGMA schema_version").fetchall()[0][0]
        except sqlite3.Error as error:
            _note("look", self.annals_path, error=str(error))
        finally:
            self.annals_busy = False

    def cursor(self, factory=None):
        if self.annals_busy:
            return super().cursor()
        return super().cursor(_cursor_class(factory or sqlite3.Cursor))

    # SQLite's module does not call `cursor` for these.
    def execute(self, *arguments):
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments):
        return self.cursor().executemany(*arguments)

    def executescript(self, *arguments):
        return self.cursor().executescript(*arguments)

    def close(self):
        path, self.annals_path = self.annals_path, None
        super().close()
        if path is not None:
            _closed(path)

    def __del__(self):
        try:
            self.close()
        except Exception:
            pass


_cursors = {}


def _cursor_class(base):
    if not isinstance(base, type):
        return lambda connection: base(connection)
    if base not in _cursors:

        class Cursor(base):
            def execute(self, *arguments):
                look = getattr(self.connection, "annals_look", None)
                if look:
                    look()
                return super().execute(*arguments)

            def executemany(self, *arguments):
                look = getattr(self.connection, "annals_look", None)
                if look:
                    look()
                return super().executemany(*arguments)

            def executescript(self, *arguments):
                result = super().executescript(*arguments)
                look = getattr(self.connection, "annals_look", None)
                if look:
                    look()
                return result

        Cursor.__name__ = base.__name__
        Cursor.__qualname__ = base.__qualname__
        _cursors[base] = Cursor
    return _cursors[base]


_connections = {}


def connect(database, *arguments, **options):
    uri = options.get("uri", arguments[6] if len(arguments) > 6 else False)
    path = _path_of(database, uri) if FOLDER else None
    if path is None:
        return _connect(database, *arguments, **options)
    base = options.get("factory", sqlite3.Connection)
    if not isinstance(base, type) or len(arguments) > 4:
        return _connect(database, *arguments, **options)
    if base not in _connections:
        _connections[base] = type(base.__name__, (_Hook, base), {})
    options["factory"] = _connections[base]
    options.pop("uri", None)
    with _lock:
        _files[path] = _files.get(path, 0) + 1
    connection = _connect(path, *arguments, **options)
    connection.annals_path = path
    return connection


def _closed(path):
    with _lock:
        _files[path] = _files.get(path, 1) - 1
        if _files[path] > 0:
            return
        temporary = os.path.basename(path).startswith("memory-")
        if path in _memories.values():
            return
        _check(path)
        if temporary:
            for end in ("", "-wal", "-shm", "-journal"):
                try:
                    os.remove(path + end)
                except OSError:
                    pass
            _versions.pop(path, None)


def _check(path):
    """Verifies a file whose connections are closed."""
    if MODE == "plain" or not os.path.exists(path) or not _versions.get(path) or os.stat(path).st_ino != _inodes.get(path):
        return
    run = _annals("verify", path)
    _note("verified" if run.returncode == 0 else "verify", path, None if run.returncode == 0 else run)
    space = _joined.get(path)
    if space is None:
        return
    run = _annals("sync", path)
    if run.returncode != 0:
        # A suite may delete a file and make it again; the new one may even have the old one's number.
        _note("remade" if "is not joined to a space" in run.stderr else "sync", path, run)
        return
    clone = path + "-clone"
    run = _annals("clone", RELAY, space, clone)
    if run.returncode != 0:
        _note("clone", path, run)
    else:
        differing = _compare(path, clone)
        _note("differ" if differing else "compared", path, tables=differing)
    for end in ("", "-wal", "-shm"):
        try:
            os.remove(clone + end)
        except OSError:
            pass


def _compare(path, clone):
    """The tracked tables of which two files hold other rows. Columns may be in another order after a tool rebuilt a table."""
    here, there = _connect(path), _connect(clone)
    try:
        differing = []
        for (name,) in there.execute("SELECT DISTINCT name FROM annals_tables WHERE state = 'tracked'").fetchall():
            quoted = _quoted(name)
            columns = sorted(row[0] for row in there.execute("SELECT name FROM pragma_table_info(?)", (name,)))
            select = f"SELECT {', '.join(map(_quoted, columns))} FROM {quoted}"
            rows = []
            for connection in (here, there):
                connection.text_factory = bytes
                rows.append(sorted(map(repr, connection.execute(select))))
                connection.text_factory = str
            if rows[0] != rows[1]:
                differing.append(name)
        return differing
    except sqlite3.Error as error:
        return [str(error)]
    finally:
        here.close()
        there.close()


def _quoted(name):
    return '"' + name.replace('"', '""') + '"'


@atexit.register
def _end():
    for path in list(_files):
        if os.path.exists(path):
            _check(path)


sqlite3.connect = connect
sqlite3.dbapi2.connect = connect
