"""Two replicas of a space, for suites that describe work on two sides. `run.py` sets the environment that is read here."""

import json
import os
import re
import sqlite3
import subprocess
import uuid
from pathlib import Path

PROGRAM = os.environ.get("ANNALS_SUITE_PROGRAM", "annals")
FOLDER = Path(os.environ.get("ANNALS_SUITE_FOLDER", "."))
RELAY = os.environ.get("ANNALS_SUITE_RELAY", "")


class Refused(Exception):
    """A command of the program failed."""


class Skipped(Exception):
    """A case that needs what plain files or replicas do not have."""


class Text(bytes):
    """A text as it is in the file, valid or not. A blob is plain bytes."""


def annals(*arguments):
    run = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        raise Refused(f"{arguments[0]} ended with {run.returncode}: {(run.stderr or run.stdout).strip()[-400:]}")
    return run.stdout


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def open_plain(path):
    """A connection without transactions of its own, which leaves texts as they are."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = Text
    return connection


def tables_of(connection, schema="main"):
    """The program's tables: the names, and the columns of each. Virtual tables and what belongs to them are left out."""
    rows = connection.execute(
        f"SELECT name FROM pragma_table_list WHERE schema = ? AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " AND name NOT LIKE 'annals\\_%' ESCAPE '\\'", (schema,)).fetchall()
    tables = {}
    for (name,) in rows:
        name = name.decode() if isinstance(name, bytes) else name
        columns = connection.execute("SELECT name FROM pragma_table_info(?, ?)", (name, schema)).fetchall()
        tables[name] = [column.decode() if isinstance(column, bytes) else column for (column,) in columns]
    return tables


def rows_of(connection, table, columns):
    return connection.execute(f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)}").fetchall()


def insert_row(connection, table, columns, row):
    values = ", ".join("CAST(? AS TEXT)" if isinstance(value, Text) else "?" for value in row)
    connection.execute(f"INSERT INTO {quoted(table)} ({', '.join(map(quoted, columns))}) VALUES ({values})", [
        bytes(value) if isinstance(value, Text) else value for value in row])


def statements_of(sql):
    """The statements of a text, with the help of SQLite's own function that says whether one is complete."""
    statement = ""
    for part in re.split(r"(;)", sql):
        statement += part
        if part == ";" and sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


class Replicas:
    """`here` and `there`: two stores that begin with the rows of one file."""

    def __init__(self, base):
        self.folder = FOLDER / uuid.uuid4().hex[:12]
        self.folder.mkdir()
        self.here, self.there = self.folder / "here.db", self.folder / "there.db"
        source, target = open_plain(base), open_plain(self.here)
        source.backup(target)
        source.close()
        target.close()
        self.space = "s" + uuid.uuid4().hex[:20]
        try:
            annals("track", "--all", self.here)
        except Refused as refusal:
            if "no table of" in str(refusal):
                raise Skipped("no table has a primary key that identifies its rows") from refusal
            raise
        annals("join", self.here, "--relay", RELAY, "--space", self.space)
        annals("clone", RELAY, self.space, self.there)

    def meet(self, first="here"):
        """Syncs both, the named one first. Raises `Refused`, or `AssertionError` if the replicas differ or `verify` reports something."""
        order = [self.here, self.there] if first == "here" else [self.there, self.here]
        for store in [*order, *order]:
            annals("sync", store)
        for store in order:
            annals("verify", store)
        self.compare()

    def compare(self):
        here, there = open_plain(self.here), open_plain(self.there)
        try:
            tracked = {
                name.decode() for (name,) in here.execute("SELECT DISTINCT name FROM annals_tables WHERE state = 'tracked'")}
            elsewhere = tables_of(there)
            for table, columns in tables_of(here).items():
                if table not in tracked:
                    continue
                # A column that the other side added is there after the program's own migration. Until then its values are stored.
                columns = [column for column in columns if column in elsewhere[table]]
                rows = [sorted(map(repr, rows_of(store, table, sorted(columns)))) for store in (here, there)]
                assert rows[0] == rows[1], f"{table}: only here {[r for r in rows[0] if r not in rows[1]][:3]}, only there " \
                    f"{[r for r in rows[1] if r not in rows[0]][:3]}"
        finally:
            here.close()
            there.close()

    def remove(self):
        for path in sorted(self.folder.glob("*")):
            path.unlink()
        self.folder.rmdir()


class Outcomes:
    """What became of each case, written where run.py looks for it."""

    def __init__(self):
        self.outcomes = {}

    def run(self, name, case):
        """Runs a case. An assertion that fails, and a command that is refused, are failures."""
        number, key = 1, name
        while key in self.outcomes:
            number += 1
            key = f"{name} #{number}"
        try:
            case()
            self.outcomes[key] = ["passed", ""]
        except Skipped as reason:
            self.outcomes[key] = ["skipped", str(reason)]
        except (AssertionError, Refused, sqlite3.Error) as error:
            self.outcomes[key] = ["failed", f"{type(error).__name__}: {error}"[:600]]
        print(key, *self.outcomes[key], flush=True)
        self.write()

    def skip(self, name, reason):
        self.outcomes[name] = ["skipped", reason]
        print(name, "skipped", reason, flush=True)
        self.write()

    def write(self):
        (FOLDER / "outcomes.json").write_text(json.dumps(self.outcomes))
