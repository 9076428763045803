#!/usr/bin/env python3
"""Runs the tests of SQLite's session extension as merges of two replicas.

usage: sqlite_session.py FOLDER      (FOLDER has the *.test files of ext/session)

The tests are Tcl. This program runs them in a Tcl interpreter where the commands of SQLite's test program are replaced: SQL goes to
plain files, and what would be sent in a changeset is written to a replica and synced. A file that both sides have becomes a space:
the rows that both have are its base, and rows that one side alone has are unsent work of that side. The conflicts' expected
outcomes belong to the session extension and are not compared: the replicas must hold the same rows and every constraint.
"""

import re
import sys
import tkinter
from pathlib import Path

from replicas import FOLDER, Outcomes, Replicas, Skipped, insert_row, open_plain, quoted, rows_of, sqlite3, statements_of, tables_of

# Left out: tests of errors in memory allocation, of damaged changesets, of sizes, and of functions that make changesets otherwise.
LEFT_OUT = re.compile(r"fault|mem\.test|corrupt|fuzz|size|big|blob|diff|stat1|_gen")

TCL = r"""
proc source args {}
proc ifcapable args {}
proc finish_test args {}
proc set_test_counter args { return 0 }
proc forcedelete args { foreach file $args { annals_remove $file } }
proc forcecopy {from to} { annals_copy $from $to }
proc reset_db {} { catch {db close}; forcedelete test.db; sqlite3 db test.db }
proc execsql {sql {db db}} { uplevel [list $db eval $sql] }
proc catchsql {sql {db db}} { set code [catch {uplevel [list $db eval $sql]} text]; list $code $text }
proc do_test {name script {expected {}}} { annals_place $name; catch {uplevel $script} }
proc do_execsql_test {args} {
  set db db
  if {[lindex $args 0] == "-db"} { set db [lindex $args 1]; set args [lrange $args 2 end] }
  annals_place [lindex $args 0]
  catch {uplevel [list $db eval [lindex $args 1]]}
}
proc do_catchsql_test {name sql args} { catch {uplevel [list db eval $sql]} }
proc do_common_sql {sql} { execsql $sql db; execsql $sql db2 }
proc do_then_apply_sql {args} {
  if {[string match -* [lindex $args 0]]} { set args [lrange $args 1 end] }
  annals_apply "" {*}$args
}
proc do_conflict_test {name args} { array set O {-sql {}}; array set O $args; annals_apply $name $O(-sql) }
proc do_iterator_test {name tables sql args} { annals_alone $name $sql }
proc do_rebase_test {name here there args} { annals_merge $name $here $there }
proc db_save {} { annals_copy test.db saved.db }
proc db_save_and_close {} { db_save; catch {db close} }
proc db_restore_and_reopen {} { catch {db close}; annals_copy saved.db test.db; sqlite3 db test.db }
proc compare_db args {}
proc unknown args {}
rename proc annals_proc
annals_proc proc {name args body} {
  if {$name ni {do_rebase_test do_then_apply_sql do_conflict_test do_iterator_test xConflict}} {
    uplevel [list annals_proc $name $args $body]
  }
}
"""


class Interpreter:
    def __init__(self, file, outcomes):
        self.file, self.outcomes, self.place = file, outcomes, ""
        self.folder = FOLDER / "session"
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*"):
            path.unlink()
        self.files = {}  # a Tcl command: its file and connection
        self.tcl = tkinter.Tcl()
        for name in ("sqlite3", "annals_remove", "annals_copy", "annals_place", "annals_apply", "annals_alone", "annals_merge"):
            self.tcl.createcommand(name, getattr(self, name))
        self.tcl.eval(TCL)
        self.sqlite3("db", "test.db")

    def run(self):
        text = self.file.read_text(errors="replace")
        try:
            self.tcl.eval(text)
        except (tkinter.TclError, RecursionError) as error:
            self.outcomes.skip(f"{self.file.stem} after {self.place or 'its beginning'}", f"the Tcl script ended: {error}")

    def named(self, name):
        return f"{self.file.stem} {name or 'after ' + self.place}".strip()

    # Commands of SQLite's test program

    def sqlite3(self, name, file="", *_):
        if name in ("-has-codec", "-version") or not file:
            return "0"
        if name in self.files:
            self.files[name][1].close()
        path = self.folder / Path(file).name
        connection = open_plain(path)
        self.files[name] = (path, connection)
        self.tcl.createcommand(name, lambda *arguments: self.command(name, *arguments))
        return ""

    def command(self, name, verb="", *arguments):
        path, connection = self.files[name]
        if verb == "close":
            connection.close()
        elif verb == "eval" and arguments:
            rows = self.execute(connection, arguments[0])
            if len(arguments) == 2:  # a script for each row
                for columns, row in rows:
                    for column, value in zip(columns, row):
                        self.tcl.setvar(column, self.text(value))
                    self.tcl.eval(arguments[1])
                return ""
            return self.tcl.call("list", *[self.text(value) for _, row in rows for value in row])
        elif verb in ("one", "onecolumn") and arguments:
            rows = self.execute(connection, arguments[0])
            return self.text(rows[0][1][0]) if rows else ""
        return ""

    def execute(self, connection, sql):
        rows = []
        for statement in statements_of(sql):
            values = {}
            for variable in re.findall(r"[$:@](\w+)", statement):
                try:
                    values[variable] = self.tcl.getvar(variable)
                except tkinter.TclError:
                    pass
            statement = re.sub(r"\$(\w+)", r":\1", statement) if values else statement
            try:
                cursor = connection.execute(statement, values)
            except sqlite3.ProgrammingError as error:
                raise tkinter.TclError(str(error)) from error
            columns = [column[0] for column in cursor.description or []]
            rows += [(columns, row) for row in cursor.fetchall()]
        return rows

    @staticmethod
    def text(value):
        if value is None:
            return ""
        return value.decode(errors="replace").replace("\0", "") if isinstance(value, bytes) else str(value)

    def annals_remove(self, file):
        path = self.folder / Path(file).name
        path.unlink(missing_ok=True)
        return ""

    def annals_copy(self, source, target):
        self.annals_remove(target)
        self.copy(self.folder / Path(source).name, self.folder / Path(target).name)
        return ""

    def annals_place(self, name):
        self.place = name
        return ""

    @staticmethod
    def copy(source, target):
        source, target = open_plain(source), open_plain(target)
        source.backup(target)
        source.close()
        target.close()

    # Cases

    def annals_alone(self, name, sql):
        """One side works. The other has what it had before."""
        def case():
            replicas = Replicas(self.files["db"][0])
            self.write(replicas.here, sql)
            replicas.meet()
            self.execute_plain(sql)
            self.same_as_plain(replicas.here)
            replicas.remove()
        self.outcomes.run(self.named(name), case)
        return ""

    def annals_merge(self, name, here, there):
        """Both sides work on what they have in common."""
        for first in ("here", "there"):
            def case():
                replicas = Replicas(self.files["db"][0])
                self.write(replicas.here, here)
                self.write(replicas.there, there)
                replicas.meet(first)
                replicas.remove()
            self.outcomes.run(f"{self.named(name)}, {first} first", case)
        return ""

    def annals_apply(self, name, sql, database="main"):
        """The side `db` works, and `db2` has what it has."""
        def case():
            if database != "main":
                raise Skipped("an attached database")
            own, other = self.base()
            replicas = Replicas(self.folder / "base")
            self.insert(replicas.here, own)
            self.insert(replicas.there, other)
            self.write(replicas.here, sql)
            replicas.meet()
            self.execute_plain(sql)
            if not any(rows for _, rows in other.values()):
                self.same_as_plain(replicas.here)
            self.take_rows(replicas.there)
            replicas.remove()
        self.outcomes.run(self.named(name), case)
        return ""

    def base(self):
        """Writes the file `base` with the rows that both sides have. Returns the rest of each: the columns and rows of each table."""
        definitions = [
            dict(self.files[name][1].execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()) for name in ("db", "db2")]
        for table in set(definitions[0]) & set(definitions[1]):
            if definitions[0][table].split() != definitions[1][table].split() and b"NOT NULL" in definitions[0][table] + definitions[1][table]:
                raise Skipped("the two sides declare other constraints")
        target = self.folder / "base"
        target.unlink(missing_ok=True)
        self.copy(self.files["db"][0], target)
        connection, other = open_plain(target), self.files["db2"][1]
        connection.execute("PRAGMA foreign_keys = OFF")
        theirs, rest = tables_of(other), ({}, {})
        for table, columns in tables_of(connection).items():
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)).fetchall()
            for trigger, _ in triggers:
                connection.execute(f"DROP TRIGGER {quoted(trigger.decode())}")
            here = rows_of(connection, table, columns)
            there = rows_of(other, table, columns) if theirs.get(table) == columns else []
            rest[0][table] = (columns, [row for row in here if row not in there])
            rest[1][table] = (columns, [row for row in there if row not in here])
            if rest[0][table][1]:
                connection.execute(f"DELETE FROM {quoted(table)}")
                for row in [row for row in here if row in there]:
                    insert_row(connection, table, columns, row)
            for _, sql in triggers:
                connection.execute(sql.decode())
        connection.close()
        return rest

    def insert(self, store, tables):
        connection = open_plain(store)
        connection.execute("BEGIN")
        for table, (columns, rows) in tables.items():
            for row in rows:
                insert_row(connection, table, columns, row)
        connection.execute("COMMIT")
        connection.close()

    def write(self, store, sql):
        """Executes what a test executes. Where a statement fails, it must fail without Annals too (`execute_plain`)."""
        connection, self.error = open_plain(store), None
        try:
            self.execute(connection, sql)
        except sqlite3.Error as error:
            if "no such function" in str(error):
                raise Skipped(f"{error}") from error
            self.error = str(error)
        finally:
            connection.close()

    def execute_plain(self, sql):
        try:
            self.execute(self.files["db"][1], sql)
            error = None
        except sqlite3.Error as failure:
            error = str(failure)
        assert error == self.error, f"the statements end with {self.error!r}, and with {error!r} without Annals"

    def same_as_plain(self, store):
        """A random value differs by itself, so statements with one are compared by the number of rows."""
        store, plain = open_plain(store), self.files["db"][1]
        for table, columns in tables_of(plain).items():
            here, there = rows_of(store, table, columns), rows_of(plain, table, columns)
            assert len(here) == len(there), f"{table} has {len(here)} rows, and {len(there)} without Annals"
        store.close()

    def take_rows(self, store):
        """Gives `db2` the rows of a store."""
        store, other = open_plain(store), self.files["db2"][1]
        for table, columns in tables_of(other).items():
            if tables_of(store).get(table) == columns:
                other.execute(f"DELETE FROM {quoted(table)}")
                for row in rows_of(store, table, columns):
                    insert_row(other, table, columns, row)
        store.close()


def main():
    outcomes = Outcomes()
    for file in sorted(Path(sys.argv[1]).rglob("session*.test")):
        if not LEFT_OUT.search(file.name):
            Interpreter(file, outcomes).run()


if __name__ == "__main__":
    main()
