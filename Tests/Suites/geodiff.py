#!/usr/bin/env python3
"""Merges the files that geodiff's tests merge: a base, and what two sides made of it.

usage: geodiff.py FOLDER      (FOLDER has geodiff's tests/testdata)

Each side's difference from the base is written to a replica, in one transaction, as a program would: with the triggers of GeoPackage, and
the functions that these call. The replicas must hold the same rows, and where geodiff names the result of the merge, the rows of
that: a key that both sides gave to a new row may be another one, since the merge chooses it.
"""

import collections
import struct
import sys
from pathlib import Path

from replicas import Outcomes, Replicas, Text, insert_row, open_plain, quoted, rows_of, tables_of

# From geodiff's test_concurrent_commits.cpp, and pairs of files of other tests. Where geodiff's result is another one by its rules
# (a deletion wins, the second author's value wins), it is named and explained in Documentation/compatibility.md.
CASES = [
    ("base.gpkg", "2_inserts/inserted_1_A.gpkg", "2_inserts/inserted_1_B.gpkg", "2_inserts/merged_1_A_1_B.gpkg"),
    ("base.gpkg", "2_updates/updated_A.gpkg", "2_updates/updated_B.gpkg", "2_updates/merged_1_A_1_B.gpkg"),
    ("base.gpkg", "2_updates_2/updated_A.gpkg", "2_updates_2/updated_B.gpkg", "2_updates_2/merged_A_B.gpkg"),
    ("base.gpkg", "2_deletes/deleted_A.gpkg", "2_deletes/deleted_B.gpkg", "2_deletes/merged_A_B.gpkg"),
    ("base.gpkg", "delete_update/deleted_A.gpkg", "delete_update/updated_B.gpkg", "delete_update/deleted_A.gpkg"),
    ("base.gpkg", "update_delete/updated_A.gpkg", "update_delete/deleted_B.gpkg", "update_delete/deleted_B.gpkg"),
    ("base.gpkg", "updates_to_different_tables/add_1.gpkg", "updates_to_different_tables/add_1_outside_extent.gpkg",
     "updates_to_different_tables/final_extent.gpkg"),
    ("base3.gpkg", "updates_to_different_tables/add_point.gpkg", "updates_to_different_tables/add_line.gpkg",
     "updates_to_different_tables/final_add_line.gpkg"),
    ("base3.gpkg", "updates_to_different_tables/add_point.gpkg", "updates_to_different_tables/modify_line.gpkg",
     "updates_to_different_tables/final_modify_line.gpkg"),
    ("base3.gpkg", "updates_to_different_tables/add_point.gpkg", "updates_to_different_tables/remove_line.gpkg",
     "updates_to_different_tables/final_delete_line.gpkg"),
    ("base.gpkg", "insert_multiple/a_4_5.gpkg", "insert_multiple/b_4_5_6.gpkg", "insert_multiple/ab_rebased.gpkg"),
    ("base.gpkg", "insert_multiple/a_4_5.gpkg", "insert_multiple/c_4_5_6_7_8.gpkg", "insert_multiple/ac_rebased.gpkg"),
    ("base_fk.gpkg", "fk_2_updates/modified_fk_A.gpkg", "fk_2_updates/modified_fk_B.gpkg", "fk_2_updates/modified_fk_AB.gpkg"),
    ("base_fk.gpkg", "fk_2_updates/modified_fk_A.gpkg", "fk_2_updates/modified_fk_only_new_tree.gpkg",
     "fk_2_updates/modified_fk_A_plus_new_tree.gpkg"),
    ("base_fk.gpkg", "fk_2_updates/modified_fk_only_new_tree.gpkg", "fk_2_updates/modified_fk_A.gpkg",
     "fk_2_updates/modified_fk_new_tree_plus_A.gpkg"),
    ("base_fk.gpkg", "fk_1_update/modified_fk.gpkg", "fk_2_updates/modified_fk_B.gpkg", None),
    ("gpkg_custom_triggers/db-base.gpkg", "gpkg_custom_triggers/db-modified_A.gpkg", "gpkg_custom_triggers/db-modified_B.gpkg", None),
    ("gpkg_triggers/db-base.gpkg", "gpkg_triggers/db-modified.gpkg", "gpkg_triggers/db-base.gpkg", None),
    ("sqlite_pks/multi_primary_key.sqlite", "sqlite_pks/multi_primary_key_A.sqlite", "sqlite_pks/multi_primary_key_B.sqlite", None),
    ("sqlite_pks/text_pk.sqlite", "sqlite_pks/text_pk_A.sqlite", "sqlite_pks/text_pk_B.sqlite", None),
    ("base.gpkg", "1_geopackage/modified_1_geom.gpkg", "2_inserts/inserted_1_A.gpkg", None),
    ("base.sqlite", "pure_sqlite/modified_base.sqlite", "base.sqlite", None),
    ("3d/db3d-base.gpkg", "3d/db3d-modified.gpkg", "3d/db3d-base.gpkg", None),
    ("capital-letters/db-capital-base.gpkg", "capital-letters/db-capital-modified.gpkg", "capital-letters/db-capital-base.gpkg", None),
    ("edge-cases/db-edge-cases.gpkg", "edge-cases/db-edge-cases-mod.gpkg", "edge-cases/db-edge-cases.gpkg", None),
    ("skip_tables/base.gpkg", "skip_tables/modified_all.gpkg", "skip_tables/modified_points.gpkg", None),
    ("datetime/datetime1.gpkg", "datetime/datetime2.gpkg", "datetime/datetime3.gpkg", None),
]

# What a program writes by itself, at times that differ: the merge of these says nothing.
BY_ITSELF = {"gpkg_contents", "gpkg_ogr_contents"}


def envelope(blob):
    """The smallest and largest x and y of a GeoPackage geometry, from its header, or of a point. None: empty, or not such a geometry."""
    if not isinstance(blob, bytes) or len(blob) < 8 or blob[:2] != b"GP" or blob[3] >> 4 & 1:
        return None
    order, kind = "<" if blob[3] & 1 else ">", blob[3] >> 1 & 7
    if kind:
        return struct.unpack_from(order + "4d", blob, 8)
    order = "<" if blob[8] else ">"
    x, y = struct.unpack_from(order + "2d", blob, 13)
    return x, x, y, y


def open_geo(path):
    """A connection with the functions that GeoPackage's triggers call."""
    connection = open_plain(path)
    connection.create_function("ST_IsEmpty", 1, lambda blob: None if blob is None else int(envelope(blob) is None), deterministic=True)
    for place, name in enumerate(("ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY")):
        connection.create_function(
            name, 1, lambda blob, place=place: (envelope(blob) or (None,) * 4)[place], deterministic=True)
    return connection


def keys_of(connection, table):
    rows = connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)).fetchall()
    return [name.decode() for (name,) in rows]


def differences(base, changed):
    """What makes one file of the other: for each table, the columns, the keys, and the rows deleted, updated and inserted."""
    for table, columns in tables_of(changed).items():
        keys = keys_of(changed, table)
        if not keys or table not in tables_of(base):
            continue
        columns = [column for column in columns if column in tables_of(base)[table]]
        places = [columns.index(key) for key in keys]
        before, after = ({tuple(row[place] for place in places): row for row in rows_of(file, table, columns)} for file in (base, changed))
        deleted = [key for key in before if key not in after]
        updated = [(key, before[key], row) for key, row in after.items() if key in before and before[key] != row]
        inserted = [row for key, row in after.items() if key not in before]
        yield table, columns, keys, deleted, updated, inserted


def value(text):
    return ("CAST(? AS TEXT)", bytes(text)) if isinstance(text, Text) else ("?", text)


def write(store, base, changed):
    connection = open_geo(store)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN")
    for table, columns, keys, deleted, updated, inserted in differences(base, changed):
        where = lambda key: " AND ".join(f"{quoted(name)} = {value(part)[0]}" for name, part in zip(keys, key))
        for key in deleted:
            connection.execute(f"DELETE FROM {quoted(table)} WHERE {where(key)}", [value(part)[1] for part in key])
        for key, before, after in updated:
            changes = [(name, new) for name, old, new in zip(columns, before, after) if (type(old), old) != (type(new), new)]
            if changes:
                connection.execute(
                    f"UPDATE {quoted(table)} SET {', '.join(f'{quoted(name)} = {value(new)[0]}' for name, new in changes)} WHERE {where(key)}",
                    [value(new)[1] for _, new in changes] + [value(part)[1] for part in key])
        for row in inserted:
            insert_row(connection, table, columns, row)
    connection.execute("COMMIT")
    connection.close()


def same_rows(store, expected):
    """The rows of geodiff's result. Keys of new rows are left out of the comparison, and references to them."""
    for table, columns in tables_of(expected).items():
        if not keys_of(expected, table) or table in BY_ITSELF or table.startswith(("rtree_", "gpkg_")) or table not in tables_of(store):
            continue
        here, there = (collections.Counter(map(repr, rows_of(file, table, columns))) for file in (store, expected))
        if here == there:
            continue
        integers = {
            name.decode() for name, kind in expected.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
            if kind.upper() in (b"INTEGER", b"MEDIUMINT", b"INT")}
        rest = [column for column in columns if column not in integers]
        here, there = (collections.Counter(map(repr, rows_of(file, table, rest))) for file in (store, expected))
        assert here == there, f"{table} is not geodiff's: only here {list(here - there)[:3]}, only there {list(there - here)[:3]}"


def main():
    data = Path(sys.argv[1])
    data = next(iter(sorted(data.rglob("testdata"))), data)
    outcomes = Outcomes()
    for base, mine, other, merged in CASES:
        for first in ("here", "there"):
            def case():
                replicas = Replicas(data / base)
                original = open_plain(data / base)
                for store, side in ((replicas.here, mine), (replicas.there, other)):
                    changed = open_plain(data / side)
                    write(store, original, changed)
                    changed.close()
                replicas.meet(first)
                if merged:
                    same_rows(open_plain(replicas.here), open_plain(data / merged))
                replicas.remove()
            outcomes.run(f"{mine} with {other}, {first} first", case)


if __name__ == "__main__":
    main()
