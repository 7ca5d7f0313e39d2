"""Files with timestamps of the type INT96 beyond 64-bit nanoseconds: `validate` finds them, a purge rewrites them."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.delta.stats.nanosecond_range import FIRST_MICROSECOND, LAST_MICROSECOND, may_exceed_nanoseconds
from deltacli.rules.framework.base import Severity
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.optimizing import live_paths
from tests.support.reading import open_at

RULE = "data.int96-beyond-nanoseconds"
TIME = pa.timestamp("us", "UTC")
ARROW = pa.schema(
    [
        ("t", TIME),
        ("inside", pa.struct([("u", TIME)])),
        ("list", pa.list_(TIME)),
        ("map", pa.map_(pa.string(), TIME)),
    ]
)


def column(name: str, kind: Any) -> dict[str, Any]:  # Any: JSON
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            column("t", "timestamp"),
            column("inside", {"type": "struct", "fields": [column("u", "timestamp")]}),
            column("list", {"type": "array", "elementType": "timestamp", "containsNull": True}),
            column("map", {"type": "map", "keyType": "string", "valueType": "timestamp", "valueContainsNull": True}),
        ],
    }
)


def microseconds(year: int) -> int:
    return int((datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000


JULIAN_1970 = 2_440_588
SENTINEL, EARLY, TODAY = microseconds(9999), microseconds(1500), microseconds(2026)


def file_of(t: int | None = None, *, is_int96: bool = True, is_of_spark: bool = True, **nested: Any) -> bytes:
    """Return a file of one row. Spark's files are INT96 and have no Arrow schema in their footers."""
    row = {"t": t, "inside": None, "list": None, "map": None} | nested
    sink = BytesIO()
    pq.write_table(
        pa.Table.from_pylist([row], ARROW),
        sink,
        use_deprecated_int96_timestamps=is_int96,
        store_schema=not is_of_spark,
    )
    return sink.getvalue()


def table_of(*files: bytes, stats: dict[str, Any] | None = None) -> Table:
    builder = TableBuilder().commit(
        commit_info("CREATE TABLE"), protocol(1, 2), metadata(partition_columns=[], schema_string=SCHEMA)
    )
    lines: list[Any] = [commit_info("WRITE")]
    for number, data in enumerate(files):
        builder.file(f"part-{number}.parquet", data)
        line = add(f"part-{number}.parquet", size=len(data), records=1, partition_values={})
        if stats is not None:
            line["add"]["stats"] = json.dumps({"numRecords": 1, **stats})
        lines.append(line)
    return open_at(builder.commit(*lines).in_memory())


def rows_of(table: Table) -> list[str]:
    return sorted(str(row) for batch in table.snapshot().scan() for row in batch.to_pylist())


def affected(table: Table) -> list[tuple[str, str, Severity]]:
    """Return file, column and severity of each finding."""
    findings = [found for found in table.validate(level="data").findings if found.rule.id == RULE]
    return sorted((found.place.key or "", found.message.split()[1], found.severity) for found in findings)


@pytest.mark.parametrize(
    ("time", "is_beyond"),
    [
        (SENTINEL, True),
        (EARLY, True),
        (TODAY, False),
        (None, False),
        (FIRST_MICROSECOND, False),
        (FIRST_MICROSECOND - 1, True),
        (LAST_MICROSECOND, False),
        (LAST_MICROSECOND + 1, True),
    ],
)
def test_times_that_do_not_fit_into_64_bit_nanoseconds_are_reported(time: int | None, is_beyond: bool) -> None:
    found = affected(table_of(file_of(time)))

    assert found == ([("part-0.parquet", "t", Severity.WARNING)] if is_beyond else [])


@pytest.mark.parametrize(
    ("column", "nested"),
    [
        ("inside", {"inside": {"u": SENTINEL}}),
        ("list", {"list": [TODAY, SENTINEL]}),
        ("map", {"map": [("a", EARLY)]}),
    ],
)
def test_nested_times_are_looked_at(column: str, nested: dict[str, Any]) -> None:
    table = table_of(file_of(TODAY, **nested))

    assert [("part-0.parquet", column, Severity.WARNING)] == affected(table)
    table.optimize(purge=True)
    assert [] == affected(table)


def test_int64_is_read_by_every_engine_and_an_arrow_schema_leaves_only_chdb() -> None:
    table = table_of(file_of(SENTINEL, is_int96=False), file_of(SENTINEL, is_of_spark=False))

    assert [("part-1.parquet", "t", Severity.INFO)] == affected(table)
    assert table.optimize(purge=True, dry_run=True).plan.is_noop


def test_an_arrow_schema_in_nanoseconds_does_not_help() -> None:
    """Its writer cannot have such times, but others can: the bytes of one value are replaced."""
    sink = BytesIO()
    times = pa.table({"t": pa.array([microseconds(2026) * 1_000], pa.timestamp("ns", "UTC"))})
    pq.write_table(
        times,
        sink,
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    days = microseconds(2026) // 86_400_000_000 + JULIAN_1970
    data = sink.getvalue().replace(struct.pack("<QI", 0, days), struct.pack("<QI", 0, JULIAN_1970 + 2_932_896))
    table = table_of(data)

    assert [("part-0.parquet", "t", Severity.WARNING)] == affected(table)
    assert 1 == table.optimize(purge=True).files_removed
    assert [] == affected(table)


def test_a_purge_rewrites_such_files_and_no_others() -> None:
    table = table_of(file_of(SENTINEL), file_of(TODAY), file_of(EARLY), file_of(None))
    rows = rows_of(table)

    done = table.optimize(purge=True)

    assert 2 == done.files_removed
    assert {"part-1.parquet", "part-3.parquet"} < live_paths(table)
    assert [] == affected(table)
    assert rows == rows_of(table)
    assert table.optimize(purge=True, dry_run=True).plan.is_noop


def bounds(low: str, high: str) -> dict[str, Any]:
    """Return statistics in which only the column `t` has values."""
    return {
        "minValues": {"t": low},
        "maxValues": {"t": high},
        "nullCount": {"t": 0, "inside": {"u": 1}, "list": 1, "map": 1},
    }


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (bounds("2020-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"), True),
        (bounds("2020-01-01T00:00:00.000Z", "9999-12-31T00:00:00.000Z"), None),
        (bounds("0001-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"), None),
        (bounds("2020-01-01T00:00:00.000Z", "2262-04-11T23:47:16.854Z"), None),  # it may have 999 microseconds more
        (bounds("2020-01-01T00:00:00.000Z", "+12026-01-01T00:00:00.000Z"), None),
        (None, None),
        ({"minValues": {}, "maxValues": {}, "nullCount": {"t": 1, "inside": {"u": 1}, "list": 1, "map": 1}}, True),
        ({"minValues": {"t": 7}, "maxValues": {"t": 7}, "nullCount": {"t": 0}}, None),
    ],
)
def test_explain_asks_the_bounds_in_the_log(stats: dict[str, Any] | None, expected: bool | None) -> None:
    explanation = table_of(file_of(TODAY), stats=stats).explain()

    for client in ("deltalake", "polars", "chdb"):
        access = explanation.client(client).access
        assert expected == access.reads
        assert (expected is None) == any("INT96" in note for note in access.notes)
    for client in ("spark", "duckdb", "kernel"):
        assert explanation.client(client).access.reads is True


def test_a_table_without_timestamps_has_no_such_times() -> None:
    schema = json.dumps({"type": "struct", "fields": [column("a", "long"), column("day", "date")]})
    lines = (commit_info("CREATE TABLE"), protocol(1, 2), metadata(partition_columns=[], schema_string=schema))
    table = open_at(TableBuilder().commit(*lines, add("a", partition_values={})).in_memory())

    assert table.explain().client("deltalake").access.reads is True


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], []),
        ([None, "", "[]", "{", " {}"], [True] * 5),
        (['{"numRecords":0,"nullCount":{"xs":0}}', '{"numRecords":2,"nullCount":{"xs":2}}'], [False, False]),
        (['{"numRecords":2,"nullCount":{"xs":1},"minValues":{"xs":1}}', '{"numRecords":2}'], [True, True]),
        (['{"numRecords":2,"minValues":null}', '{"numRecords":null}', '{"numRecords":"2"}'], [True] * 3),
    ],
)
def test_timestamps_in_arrays_are_within_only_where_there_are_none(
    texts: list[str | None], expected: list[bool]
) -> None:
    xs = column("xs", {"type": "array", "elementType": "timestamp", "containsNull": True})
    schema = json.dumps({"type": "struct", "fields": [column("id", "long"), xs]})
    lines = (commit_info("CREATE TABLE"), protocol(1, 2), metadata(partition_columns=[], schema_string=schema))
    config = open_at(TableBuilder().commit(*lines).in_memory()).snapshot().config

    assert expected == may_exceed_nanoseconds(pa.array(texts, pa.string()), config).to_pylist()


def test_a_sentinel_without_a_zone_is_no_int96_for_explain() -> None:
    schema = json.dumps({"type": "struct", "fields": [column("t", "timestamp_ntz")]})
    ntz = {"reader_features": ["timestampNtz"], "writer_features": ["timestampNtz"]}
    lines = (commit_info("CREATE TABLE"), protocol(3, 7, **ntz), metadata(partition_columns=[], schema_string=schema))
    table = open_at(TableBuilder().commit(*lines, add("a", partition_values={})).in_memory())

    assert table.explain().client("deltalake").access.reads is True
