"""Deletion vectors in every kind of store and under every kind of name: rows that they delete stay deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from deltacli.api.table import open_table
from deltacli.engine.spark.engine import SparkEngine
from deltacli.spark import plan_table, register
from tests.support.s3 import S3Server
from tests.support.small_reading import column, new_table
from tests.support.small_writer import SmallTable

_UUID = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
NAMES = ("plain", "a%b", "a%41b", "a b", "ü", "a#b", "a+b?c", "p=1 %2F#ü")
ROWS = 10
DELETED = {1, 4, 7}


def with_vectors(root: Path, how: str) -> SmallTable:
    """A table with a file in a directory of each name. Three rows of each are deleted."""
    table = new_table(root, column("id", "long", 1))
    files = [
        table.new_file(({1: ROWS * number + row} for row in range(ROWS)), directory=name, name=f"{name}.parquet")
        for number, name in enumerate(NAMES)
    ]
    table.append(files)
    deleted = {file.path: frozenset(DELETED) for file in files}
    table.mark(deleted, table.vectors(deleted, how=how, uuid=_UUID, prefix="ab"))
    return table


REMAINING = sorted(ROWS * number + row for number in range(len(NAMES)) for row in set(range(ROWS)) - DELETED)


def rows_written(uri: str, engine: SparkEngine, place: Path) -> list[int]:
    """The rows that executors write to a directory."""
    written = open_table(uri, engine=engine).snapshot().scan().write_parquet(str(place))
    return sorted(
        row for file in written.files for row in pq.ParquetFile(place / file.name).read().column("id").to_pylist()
    )


@pytest.fixture(params=["tbl", "a b%20ü#"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The directory of a table, plain and odd."""
    return tmp_path / str(request.param)


@pytest.mark.parametrize("how", ["i", "u", "p"])
def test_deleted_rows_stay_deleted_on_a_disk(how: str, root: Path, spark_engine: SparkEngine, tmp_path: Path) -> None:
    """Acceptance case 10."""
    with_vectors(root, how)

    assert REMAINING == rows_written(str(root), spark_engine, tmp_path / "out")


@pytest.mark.parametrize("how", ["i", "u"])
def test_deleted_rows_stay_deleted_in_s3(
    how: str, root: Path, spark_engine: SparkEngine, s3_server: S3Server, tmp_path: Path
) -> None:
    """Acceptance case 10."""
    table = with_vectors(root, how)
    bucket = s3_server.make_bucket()
    for path in root.rglob("*"):
        if path.is_file():
            s3_server.put(bucket, f"{root.name}/{path.relative_to(root)}", path.read_bytes())

    found = rows_written(f"s3://{bucket}/{root.name}", spark_engine, tmp_path / "out")

    assert REMAINING == found
    assert table.versions


@pytest.mark.parametrize("how", ["i", "u", "p"])
def test_deleted_rows_stay_deleted_in_frames(how: str, root: Path, session: Any) -> None:
    """Acceptance case 10, by Spark's own scan."""
    with_vectors(root, how)

    plan = plan_table(session, root)

    assert (len(NAMES), 0) == (plan.native_files, len(plan.own_files))
    assert REMAINING == sorted(row["id"] for row in plan.dataframe().collect())


@pytest.mark.parametrize("reader", ["read", "readStream"])
def test_deleted_rows_of_s3_stay_deleted_in_the_data_source(
    reader: str, root: Path, session: Any, s3_server: S3Server, tmp_path: Path
) -> None:
    """Acceptance case 10, where Spark itself cannot open the store."""
    with_vectors(root, "u")
    bucket = s3_server.make_bucket()
    for path in root.rglob("*"):
        if path.is_file():
            s3_server.put(bucket, f"{root.name}/{path.relative_to(root)}", path.read_bytes())
    register(session)

    frame = getattr(session, reader).format("deltacli").load(f"s3://{bucket}/{root.name}")
    if reader == "readStream":
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        frame = session.read.schema(frame.schema).parquet(str(tmp_path / "out"))

    assert REMAINING == sorted(row["id"] for row in frame.collect())
