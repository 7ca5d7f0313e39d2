"""Every command that writes Parquet states the calendar of dates and times, also of old ones, in the footer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import Table, open_table
from deltacli.cli.app import run
from deltacli.delta.schema.file_columns import CORRECT_SINCE, VERSION_KEY
from tests.support.actions import add, metadata, protocol
from tests.support.appending import append
from tests.support.builder import TableBuilder
from tests.support.optimizing import live_paths
from tests.support.rows import parquet_bytes, schema_of

KEY = VERSION_KEY.encode()
OLD = pa.table(
    {
        "id": pa.array([1], pa.int64()),
        "d": pa.array([date(1, 1, 1)], pa.date32()),
        "t": pa.array([datetime(1850, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    }
)
STATS = {
    "numRecords": 1,
    "minValues": {"id": 1, "d": "0001-01-01", "t": "1850-01-01T00:00:00.000Z"},
    "maxValues": {"id": 1, "d": "0001-01-01", "t": "1850-01-01T00:00:00.000Z"},
    "nullCount": {"id": 0, "d": 0, "t": 0},
}


def table_at(
    root: Path, marks: Mapping[str, str] | None = None, configuration: Mapping[str, str] | None = None
) -> Table:
    """A table of two files with old dates and times, with these marks in their footers."""
    configuration = dict(configuration or {})
    data = parquet_bytes(OLD.replace_schema_metadata(marks), store_schema=False)
    features = ["v2Checkpoint"] if configuration.get("delta.checkpointPolicy") == "v2" else []
    lines = [
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schema_string=schema_of(OLD), configuration=configuration, partition_columns=[]),
    ]
    table = TableBuilder()
    for name in ("a.parquet", "b.parquet"):
        table.file(name, data)
        action = add(name, size=len(data), partition_values={})["add"]
        lines.append({"add": {**action, "stats": json.dumps(STATS)}})
    return open_table(table.commit(*lines).write(root))


def versions_stated(paths: list[Path]) -> list[bytes | None]:
    """The version of Spark in the footer of each file."""
    assert paths
    return [(pq.read_metadata(path).metadata or {}).get(KEY) for path in paths]


@pytest.mark.parametrize("marks", [None, {VERSION_KEY: "4.1.4"}], ids=["unmarked", "of Spark 4"])
def test_rewritten_files(marks: Mapping[str, str] | None, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", marks)

    assert 0 == run(["optimize", table.uri, "--verify", "--yes", "-q"])

    (path,) = live_paths(open_table(table.uri))
    assert [CORRECT_SINCE.encode()] == versions_stated([tmp_path / "t" / path])
    read = open_table(table.uri).snapshot().scan().to_arrow()
    assert OLD.to_pylist() * 2 == read.to_pylist()


def test_appended_files(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    before = live_paths(table)

    append(table, OLD)

    new = live_paths(open_table(table.uri)) - before
    assert [CORRECT_SINCE.encode()] == versions_stated([tmp_path / "t" / path for path in new])


def test_rows_that_are_read_into_files(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")

    assert 0 == run(["read", table.uri, "--output", f"{tmp_path}/out/"])
    assert 0 == run(["read", table.uri, "--output", f"{tmp_path}/one.parquet"])

    written = [*(tmp_path / "out").glob("*.parquet"), tmp_path / "one.parquet"]
    assert {CORRECT_SINCE.encode()} == set(versions_stated(written))


@pytest.mark.parametrize("layout", ["classic", "v2"])
def test_parsed_statistics_of_a_checkpoint(layout: str, tmp_path: Path) -> None:
    configuration = {"delta.checkpoint.writeStatsAsStruct": "true"}
    configuration |= {"delta.checkpointPolicy": "v2"} if layout == "v2" else {}
    table = table_at(tmp_path / "t", configuration=configuration)

    assert 0 == run(["checkpoint", table.uri, "--layout", layout, "-q"])

    log = tmp_path / "t" / "_delta_log"
    written = [path for path in log.rglob("*.parquet") if "stats_parsed" in str(pq.read_schema(path))]
    assert {CORRECT_SINCE.encode()} == set(versions_stated(written))


def test_parsed_partition_values_of_a_checkpoint(tmp_path: Path) -> None:
    data = parquet_bytes(OLD.select(["id"]), store_schema=False)
    lines = [
        protocol(),
        metadata(
            schema_string=schema_of(OLD.select(["id", "d"])),
            partition_columns=["d"],
            configuration={"delta.checkpoint.writeStatsAsStruct": "true"},
        ),
        add("a.parquet", size=len(data), partition_values={"d": "0001-01-01"}),
    ]
    root = TableBuilder().file("a.parquet", data).commit(*lines).write(tmp_path / "t")

    assert 0 == run(["checkpoint", str(root), "-q"])

    assert [CORRECT_SINCE.encode()] == versions_stated(list((root / "_delta_log").glob("*.checkpoint.parquet")))
