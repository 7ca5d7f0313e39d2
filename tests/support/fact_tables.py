"""Tables by facts that many users ask about: what a footer, a type, statistics, vectors, partition values and hidden
names mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.operations.test_hybrid_calendar import MARKED, table_at
from tests.operations.test_row_counts import DATA, DELETED, GONE, LOGICAL, LOOSE, ROWS, file
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.odd_types import GEOMETRY, make
from tests.support.rows import parquet_bytes, schema_of
from tests.support.small_vectors import inline


def marked(root: Path) -> None:
    table_at(root, MARKED)


def typed(name: str) -> Callable[[Path], object]:
    return lambda root: make(root, name, has_vector=True)


def counted(*commits: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    def build(root: Path) -> Path:
        features = ["deletionVectors"]
        table = TableBuilder().file("a.parquet", DATA)
        first = [
            protocol(3, 7, reader_features=features, writer_features=features),
            metadata(schema_string=schema_of(ROWS)),
        ]
        for number, lines in enumerate(commits):
            data = [{"add": {**line["add"], "dataChange": True}} if "add" in line else line for line in lines]
            table.commit(*(first if number == 0 else []), *data)
        return table.write(root)

    return build


def spelled(root: Path) -> Path:
    """Partition values that kernels refuse, of which one is the spelling of another."""
    stored = parquet_bytes(pa.table({"id": pa.array([1, 2], pa.int64())}))
    columns = pa.schema([("id", pa.int64()), ("p", pa.decimal128(5, 2)), ("d", pa.date32())])
    table = TableBuilder()
    lines = [protocol(), metadata(schema_string=schema_of(columns.empty_table()), partition_columns=["p", "d"])]
    for name, text in (("a.parquet", "1.5"), ("b.parquet", "1.50")):
        table.file(name, stored)
        lines.append(add(name, size=len(stored), records=2, partition_values={"p": text, "d": "2026-01-02"}))
    return table.commit(*lines).write(root)


def hidden(root: Path) -> Path:
    """Files of other tools in hidden directories, which belong to no version."""
    table = counted([file(LOOSE)])(root)
    assert isinstance(table, Path)
    for name in ("_backup=2024/x.parquet", ".staging/y.parquet", "orphan.parquet"):
        (table / name).parent.mkdir(exist_ok=True)
        (table / name).write_bytes(DATA)
    return table


TABLES: Mapping[str, tuple[Callable[[Path], object], int, tuple[str, ...]]] = {
    "calendar": (marked, 2, ()),
    "geometry": (typed(GEOMETRY), 5, ("g",)),
    "interval": (typed("interval day"), 5, ()),
    "nanoseconds": (typed("timestamp_nanos"), 5, ()),
    "vector-beyond": (counted([file(LOOSE, inline([1, 10, 2**33]))]), 9, ()),
    "logical-records": (counted([file(LOGICAL, DELETED)]), 6, ()),
    "records-disagree": (counted([file(LOOSE)], [GONE, file(LOGICAL, DELETED)]), 6, ()),
    "partition-texts": (spelled, 4, ()),
    "hidden": (hidden, 10, ()),
}
"""What a table is about -> how it is made, its rows, and the columns that every user leaves out."""
