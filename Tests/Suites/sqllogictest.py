#!/usr/bin/env python3
"""Runs files of sqllogictest: statements that must succeed or fail, and queries with their expected values.

usage: sqllogictest.py FOLDER      (FOLDER has *.test files)

The format is that of https://www.sqlite.org/sqllogictest. A file is a test. `run.py` runs this program with its hook, so that the
database is a plain, a tracked or a joined file.
"""

import hashlib
import json
import os
import re
import sqlite3
import sys
import uuid
from pathlib import Path

from replicas import statements_of

FOLDER = Path(os.environ.get("ANNALS_SUITE_FOLDER", "."))


def records_of(text):
    """The records of a file: the conditions, the first line's words, the SQL, and the expected lines."""
    for block in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text.replace("\r\n", "\n"), flags=re.M)):
        lines = [line for line in block.split("\n") if not line.startswith("#")]
        lines = lines[next((place for place, line in enumerate(lines) if line.strip()), len(lines)):]
        conditions = []
        while lines and lines[0].split()[0] in ("onlyif", "skipif"):
            conditions.append(lines.pop(0).split()[:2])
        if not lines:
            continue
        head, rest = lines[0].split(), lines[1:]
        split = rest.index("----") if "----" in rest else len(rest)
        yield conditions, head, "\n".join(rest[:split]), [line for line in rest[split + 1:] if line]


def text_of(value, kind):
    if value is None:
        return "NULL"
    if kind == "I":
        return str(int(value)) if isinstance(value, (int, float)) else str(int((re.match(r"\s*-?\d+", str(value)) or ["0"])[0]))
    if kind == "R":
        return f"{float(value):.3f}"
    if value == "":
        return "(empty)"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "".join(c if " " <= c <= "~" else "@" for c in text)


def run(path, database):
    """Returns the number of records, and what differs first, or None."""
    connection = sqlite3.connect(database, isolation_level=None)
    threshold, count = 8, 0
    try:
        for conditions, head, sql, expected in records_of(path.read_text()):
            if any((word == "onlyif") != (name == "sqlite") for word, name in conditions):
                continue
            if head[0] == "hash-threshold":
                threshold = int(head[1])
            elif head[0] == "halt":
                break
            elif head[0] == "statement":
                count += 1
                try:
                    connection.execute(next(statements_of(sql)))  # SQLite's program runs the first one of several
                    error = None
                except sqlite3.Error as failure:
                    error = str(failure)
                if (error is None) != (head[1] == "ok"):
                    return count, f"{error or 'no error'}: {sql}"
            elif head[0] == "query":
                count += 1
                try:
                    rows = connection.execute(sql).fetchall()
                except sqlite3.Error as failure:
                    return count, f"{failure}: {sql}"
                rows = [[text_of(value, kind) for value, kind in zip(row, head[1])] for row in rows]
                order = head[2] if len(head) > 2 else "nosort"
                rows = sorted(rows) if order == "rowsort" else rows
                values = [value for row in rows for value in row]
                values = sorted(values) if order == "valuesort" else values
                if len(expected) == 1 and " values hashing to " in expected[0]:
                    values = [f"{len(values)} values hashing to {hashlib.md5(''.join(v + chr(10) for v in values).encode()).hexdigest()}"]
                if values != expected:
                    return count, f"{values[:5]} instead of {expected[:5]}: {sql}"
    finally:
        connection.close()
    return count, None


def main():
    outcomes = {}
    for path in sorted(Path(sys.argv[1]).rglob("*.test")):
        if path.parent.name.startswith(("random", "index")):
            continue
        count, difference = run(path, str(FOLDER / f"{path.stem}-{uuid.uuid4().hex[:6]}.db"))
        outcomes[path.stem] = ["failed" if difference else "passed", (difference or "")[:300]]
        print(path.stem, count, difference or "", flush=True)
        (FOLDER / "outcomes.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main()
