"""A small healthy table whose data files are real, for what only footers and rows tell.

The commits are those of `TableBuilder`, and each file named by an add is written from rows; sizes and statistics follow
from the bytes. A damage changes rows, the way they are written, or what the log says of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.rules.table_builder import Action, TableBuilder, column, set_time, struct

Rows: TypeAlias = "pa.Table"

DATA_SCHEMA = struct(column("id", "long"), column("name", "string"), column("p", "string"))


def rows_of(number: int) -> Rows:
    """The rows of the n-th file: ids from 10 n, a name that is null once."""
    ids = list(range(number * 10, number * 10 + 10))
    names = [None, *(f"name {identity}" for identity in ids[1:])]
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())})


class DataTable(TableBuilder):
    """Partitioned by `p` by default; level `data` reports nothing about it.

    `tables` has the rows of each file by the path of its add, `options` what `write_table` is told for it.
    """

    level = "data"

    def __init__(self, *, rows: Callable[[int], Rows] = rows_of, **options: Any) -> None:
        super().__init__(**({"schema": DATA_SCHEMA} | options))
        self.tables: dict[str, Rows] = {}
        self.options: dict[str, dict[str, Any]] = {}
        self.bytes: dict[str, bytes] = {}
        for version, actions in self.commits.items():
            for action in actions:
                if "add" in action:
                    number = int(action["add"]["path"].rsplit("part-", 1)[1][:5])
                    self.put_rows(action["add"], rows(number), version)
        self.action(2, "remove")["size"] = self.add(1)["size"]

    def put_rows(self, add: Action, rows: Rows, version: int, **options: Any) -> Action:
        """Give a file its rows; size and statistics of its add follow. `options` are those of `write_table`."""
        path = unquote(add["path"])
        self.tables[path], self.options[path] = rows, options
        self.bytes[path] = encoded(rows, **options)
        add["size"] = len(self.bytes[path])
        add["stats"] = json.dumps(statistics_of(rows), separators=(",", ":"))
        add["modificationTime"] = self.time_of(version) - 1000
        return add

    def rewrite(self, version: int, rows: Rows, *, number: int = 0, **options: Any) -> None:
        """Write other rows to a file; only the size in the log changes."""
        add = self.add(version, number)
        path = unquote(add["path"])
        self.bytes[path] = encoded(rows, **options)
        add["size"] = len(self.bytes[path])

    def replace_bytes(self, version: int, data: bytes, *, number: int = 0) -> None:
        """Write other bytes to a file; only the size in the log changes."""
        add = self.add(version, number)
        self.bytes[unquote(add["path"])] = data
        add["size"] = len(data)

    def _write_files(self, root: Path) -> None:
        for version, actions in self.commits.items():
            for action in actions:
                for kind in ("add", "remove", "cdc"):
                    path = unquote(action.get(kind, {}).get("path", ""))
                    if path in self.bytes and not (root / path).exists():
                        (root / path).parent.mkdir(parents=True, exist_ok=True)
                        (root / path).write_bytes(self.bytes[path])
                        set_time(root / path, self.time_of(version) - 1000)


def encoded(rows: Rows, **options: Any) -> bytes:
    """A Parquet file of these rows."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return sink.getvalue()


def statistics_of(rows: Rows) -> Action:
    """Exact statistics of the top-level columns that have an order JSON can tell."""
    bounds: dict[str, Action] = {"minValues": {}, "maxValues": {}}
    nulls = {}
    for name in rows.schema.names:
        values = rows.column(name)
        if not pa.types.is_struct(values.type):
            nulls[name] = values.null_count
        known = [value for value in values.to_pylist() if value is not None]
        if known and isinstance(known[0], int | str) and not isinstance(known[0], bool):
            bounds["minValues"][name], bounds["maxValues"][name] = min(known), max(known)
    return {"numRecords": rows.num_rows, **bounds, "nullCount": nulls}
