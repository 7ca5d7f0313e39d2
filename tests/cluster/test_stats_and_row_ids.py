"""Statistics and row ids by a cluster are those of the embedded engine, and frames have the ids of our own scan."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone
from deltacli.engine.spark.engine import SparkEngine
from deltacli.spark import read_changes, read_table, register
from tests.cluster.spark_rows import counted, counts_of
from tests.support.actions import Line, add, commit_info, domain, metadata, protocol, to_bytes
from tests.support.builder import TableBuilder, commit_path
from tests.support.rows import parquet_bytes, schema_of
from tests.support.small_vectors import inline


def _rows(first: int, count: int = 7) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": [None if one % 5 == 0 else f"{one:03d}" + "é" * 40 for one in numbers],
            "real": [one / 4 for one in numbers],
            "amount": pa.array([Decimal(one) / 100 for one in numbers], pa.decimal128(9, 2)),
            "day": [date(2026, 1, 1 + one % 28) for one in numbers],
            "at": pa.array([datetime(2026, 1, 1, 0, 0, 0, one + 1, tzinfo=UTC) for one in numbers]),
        }
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table without statistics: files of several row groups, one with deleted rows, and a file of a later version."""
    features, builder = ["deletionVectors"], TableBuilder()
    schema, feed = schema_of(_rows(0)), {"delta.enableChangeDataFeed": "true"}
    born = protocol(3, 7, reader_features=features, writer_features=[*features, "changeDataFeed"])
    lines: list[Line] = [commit_info(), born, metadata(schema_string=schema, configuration=feed)]
    for number in range(3):
        lines.append(_file(builder, f"f{number}.parquet", number * 10, deleted=(0, 3) if number == 1 else ()))
    builder.commit(*lines)
    builder.commit(commit_info(), _file(builder, "later.parquet", 100))
    return builder.write(tmp_path / "here")


def _file(builder: TableBuilder, name: str, first: int, deleted: Sequence[int] = ()) -> Line:
    data = parquet_bytes(_rows(first), row_group_size=3)
    builder.file(name, data)
    return add(name, size=len(data), vector=inline(deleted) if deleted else None)


def _append(place: Path) -> None:
    """Commit version 5: a file whose rows have the ids from 100 on."""
    builder = TableBuilder()
    line = _file(builder, "after.parquet", 200)
    line["add"] |= {"baseRowId": 100, "defaultRowCommitVersion": 5}
    (place / "after.parquet").write_bytes(builder.files["after.parquet"].data)
    lines = [commit_info(), line, domain("delta.rowTracking", '{"rowIdHighWaterMark":106}')]
    (place / commit_path(5)).write_bytes(to_bytes(lines))


def _files(table: Table) -> list[dict[str, Any]]:
    """Return the live files as the log has them."""
    found = [
        one
        for batch in table.snapshot().file_actions.map_actions("add", lambda adds: adds.to_pylist())
        for one in batch
    ]
    return sorted(found, key=lambda one: str(one["path"]))


def _computed(table: Table, read: str) -> tuple[Any, ...]:
    """Compute statistics, and return what is said of the file that cannot be read."""
    with pytest.raises(PartlyDone) as partly:
        table.stats(read=read)
    return partly.value.code, partly.value.facts


def test_statistics_are_those_of_the_embedded_engine(spark_engine: SparkEngine, place: Path) -> None:
    other = Path(shutil.copytree(place, place.with_name("there")))
    (place / "f2.parquet").write_bytes(b"no Parquet")
    (other / "f2.parquet").write_bytes(b"no Parquet")

    for read, version in (("footers", 2), ("rows", 3)):
        here, there = (_computed(table, read) for table in (open_table(place), open_table(other, engine=spark_engine)))
        assert here == there
        assert _files(open_table(place)) == _files(open_table(other))
        assert version == open_table(other).snapshot().version


def test_row_ids_are_those_of_the_embedded_engine(session: Any, spark_engine: SparkEngine, place: Path) -> None:
    other = Path(shutil.copytree(place, place.with_name("there")))
    tables = open_table(place), open_table(other, engine=spark_engine)
    for table in tables:
        made = table.set_properties({"delta.enableRowTracking": "true"}, upgrade_protocol=True)
        assert [2, 3, 4] == made.versions
    given = [[one["baseRowId"] for one in _files(open_table(one))] for one in (place, other)]
    assert given[0] == given[1]

    _append(other)
    open_table(other).optimize()
    table = open_table(other)
    expected = table.snapshot().scan(row_ids=True).to_arrow()
    assert 33 == len(set(expected.column("_row_id").to_pylist()))
    assert counted(expected) == counted(open_table(other, engine=spark_engine).snapshot().scan(row_ids=True).to_arrow())
    wanted = table.snapshot().scan(row_ids=True, columns=["id"], where="_row_id >= 20").to_arrow()
    assert counted(wanted) == counts_of(read_table(session, other, row_ids=True, columns=["id"], where="_row_id >= 20"))
    register(session)
    reader = session.read.format("deltacli").option("rowIds", "true")
    assert counted(expected) == counts_of(reader.load(str(other)))
    changes = table.changes(from_version=5, row_ids=True).to_arrow()
    assert [*range(100, 107)] == sorted(changes.column("_row_id").to_pylist())
    assert counted(changes) == counts_of(read_changes(session, other, 5, row_ids=True))
