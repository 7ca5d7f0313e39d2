"""A table whose columns are renamed, dropped and replaced between commits of rows, with a change data feed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltacli import open_table
from deltacli.changing.consent import consent_to_command
from deltacli.changing.execution import ChangeExecution
from deltacli.operations.change.drop_feature import DropFeature
from deltacli.operations.change.remove_mapping import remove_mapping
from tests.support.actions import Line, add, metadata, protocol, remove
from tests.support.altering import MAPPED, drop, rename
from tests.support.altering import add as add_column
from tests.support.appending import append
from tests.support.builder import TableBuilder, commit_path
from tests.support.rows import parquet_bytes, schema_of

Row = dict[str, Any]
S = pa.struct({"p": pa.int64()})
FIRST = pa.table({"id": [1, 2], "a": ["x", "y"], "s": pa.array([{"p": 1}, None], S)})
UPDATED = pa.table({"id": [1, 2], "a": ["X", "y"], "s": FIRST["s"]})

VERSIONS: dict[int, list[Row]] = {
    0: FIRST.to_pylist(),
    1: UPDATED.to_pylist(),
    2: UPDATED.to_pylist(),
    3: [{"id": 1, "name": "X", "s": {"p": 1}}, {"id": 2, "name": "y", "s": None}],
    4: [{"id": 1, "name": "X", "s": {"q": 1}}, {"id": 2, "name": "y", "s": None}],
    5: [
        {"id": 1, "name": "X", "s": {"q": 1}},
        {"id": 2, "name": "y", "s": None},
        {"id": 3, "name": "m", "s": {"q": 3}},
    ],
    6: [{"id": 1, "s": {"q": 1}}, {"id": 2, "s": None}, {"id": 3, "s": {"q": 3}}],
    7: [{"id": 1, "s": {"q": 1}, "a": None}, {"id": 2, "s": None, "a": None}, {"id": 3, "s": {"q": 3}, "a": None}],
    8: [
        {"id": 1, "s": {"q": 1}, "a": None},
        {"id": 2, "s": None, "a": None},
        {"id": 3, "s": {"q": 3}, "a": None},
        {"id": 4, "s": {"q": 4}, "a": "new"},
    ],
    9: [{"id": 3, "s": {"q": 3}, "a": None}, {"id": 4, "s": {"q": 4}, "a": "new"}],
}
"""Version -> its rows, by the names of that version. 2 has column mapping, 3 and 4 rename, 6 drops, 7 adds `a` anew."""

CHANGES: dict[tuple[int, int], list[Row]] = {
    (0, 2): [
        {"id": 1, "a": "x", "s": {"p": 1}, "_change_type": "insert", "_commit_version": 0},
        {"id": 2, "a": "y", "s": None, "_change_type": "insert", "_commit_version": 0},
        {"id": 1, "a": "x", "s": {"p": 1}, "_change_type": "update_preimage", "_commit_version": 1},
        {"id": 1, "a": "X", "s": {"p": 1}, "_change_type": "update_postimage", "_commit_version": 1},
    ],
    (1, 5): [
        {"id": 1, "name": "x", "s": {"q": 1}, "_change_type": "update_preimage", "_commit_version": 1},
        {"id": 1, "name": "X", "s": {"q": 1}, "_change_type": "update_postimage", "_commit_version": 1},
        {"id": 3, "name": "m", "s": {"q": 3}, "_change_type": "insert", "_commit_version": 5},
    ],
    (1, 9): [
        {"id": 1, "s": {"q": 1}, "a": None, "_change_type": "update_preimage", "_commit_version": 1},
        {"id": 1, "s": {"q": 1}, "a": None, "_change_type": "update_postimage", "_commit_version": 1},
        {"id": 3, "s": {"q": 3}, "a": None, "_change_type": "insert", "_commit_version": 5},
        {"id": 4, "s": {"q": 4}, "a": "new", "_change_type": "insert", "_commit_version": 8},
        {"id": 1, "s": {"q": 1}, "a": None, "_change_type": "delete", "_commit_version": 9},
        {"id": 2, "s": None, "a": None, "_change_type": "delete", "_commit_version": 9},
    ],
}
"""First and last version -> the changes, by the names of the last one."""


def make_renamed(root: Path) -> None:
    """Write the table of `VERSIONS` and `CHANGES`."""
    images = pa.concat_tables([FIRST.slice(0, 1), UPDATED.slice(0, 1)])
    images = images.append_column("_change_type", pa.array(["update_preimage", "update_postimage"]))
    feed = parquet_bytes(images)
    builder = TableBuilder()
    files = {"f": parquet_bytes(FIRST), "g": parquet_bytes(UPDATED), "_change_data/c": feed}
    for path, data in files.items():
        builder.file(path, data)
    configuration = {"delta.enableChangeDataFeed": "true"}
    builder.commit(
        protocol(1, 4),
        metadata(schema_string=schema_of(FIRST), configuration=configuration),
        add("f", size=len(files["f"])),
    )
    builder.commit(
        remove("f", size=len(files["f"]), partitionValues={}),
        add("g", size=len(files["g"])),
        {"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": len(feed), "dataChange": False}},
    )
    builder.write(root)
    _alter(root, MAPPED, rename("a", "name"), rename("s.p", "q"))
    table = open_table(root)
    append(table, pa.table({"id": [3], "name": ["m"], "s": [{"q": 3}]}))
    _alter(root, drop("name"), add_column("a", "string"))
    append(table, pa.table({"id": [4], "s": [{"q": 4}], "a": ["new"]}))
    _commit(root, 9, remove("g", size=len(files["g"]), partitionValues={}))


def make_swapped(root: Path) -> int:
    """Write a table whose columns `a` and `b` have each other's names since a mapping that was removed, though its
    feature was not; return the version that removed it.
    """
    data = parquet_bytes(rows := pa.table({"a": [1], "b": [2]}))
    builder = TableBuilder().file("f", data)
    feed = {"delta.enableChangeDataFeed": "true"}
    born = metadata(schema_string=schema_of(rows), configuration=feed)
    builder.commit(protocol(2, 5), born, add("f", size=len(data))).write(root)
    _alter(root, MAPPED, rename("a", "t"), rename("b", "a"), rename("t", "b"))
    change, table = DropFeature("columnMapping"), open_table(root)
    plan = change.plan(table)
    removed = remove_mapping(ChangeExecution(change.plan, plan, consent_to_command, plan), {})
    assert removed is not None
    return removed


def _alter(root: Path, *changes: dict[str, Any]) -> None:
    for one in changes:
        open_table(root).alter([one], upgrade_protocol=True)


def _commit(root: Path, version: int, *lines: Line) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (root / commit_path(version)).write_text(text)


def in_order(rows: Iterable[Row]) -> Sequence[str]:
    """Rows in an order of their own, with the order of their columns."""
    return sorted(json.dumps(row) for row in rows)


def replaced_table(*versions: str | tuple[str, str]) -> TableBuilder:
    """A table that each version replaces, by one with a column of this name, mapped where it has a name in files."""
    builder = TableBuilder()
    for number, version in enumerate(versions):
        name, physical = (version, version) if isinstance(version, str) else version
        is_mapped = not isinstance(version, str)
        entries = {"delta.columnMapping.id": number + 1, "delta.columnMapping.physicalName": physical}
        field = {"name": name, "type": "long", "nullable": True, "metadata": entries if is_mapped else {}}
        mode = {"delta.columnMapping.mode": "name"} if is_mapped else {}
        born = metadata(
            schema_string=json.dumps({"type": "struct", "fields": [field]}),
            configuration=mode | {"delta.enableChangeDataFeed": "true"},
        )
        gone = remove(f"f{number - 1}", partitionValues={}) if number else protocol(2, 5)
        data = parquet_bytes(pa.table({physical: [number]}))
        builder.file(f"f{number}", data).commit(gone, born, add(f"f{number}", size=len(data)))
    return builder


def retyped_table(*versions: pa.Array) -> TableBuilder:
    """A table that each version replaces, by one whose column `a` has these values and their type."""
    builder = TableBuilder()
    for number, values in enumerate(versions):
        rows = pa.table({"a": values})
        data = parquet_bytes(rows)
        gone = remove(f"f{number - 1}", partitionValues={}) if number else protocol(1, 2)
        born = metadata(schema_string=schema_of(rows))
        builder.file(f"f{number}", data).commit(gone, born, add(f"f{number}", size=len(data)))
    return builder
