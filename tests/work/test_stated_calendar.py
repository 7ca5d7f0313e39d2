"""Parquet files with dates or times state in their footers that these are in the calendar of today."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.schema.file_columns import CORRECT_SINCE, VERSION_KEY, is_hybrid
from deltacli.work.parquet_writing import ParquetStream, write_parquet

KEY = VERSION_KEY.encode()
DATE, TIME = pa.date32(), pa.timestamp("us", "UTC")


def footer_after(rows: pa.Table, *, store_schema: bool = False) -> dict[bytes, bytes]:
    """The key-value metadata of a file with these rows, without Arrow's own."""
    sink = io.BytesIO()
    with ParquetStream(sink, rows.schema, store_schema=store_schema) as stream:
        stream.add(rows)
    return marks_of(sink.getvalue()) or {}


def marks_of(data: bytes) -> dict[bytes, bytes] | None:
    marks = pq.read_metadata(io.BytesIO(data)).metadata
    return None if marks is None else {key: value for key, value in marks.items() if key != b"ARROW:schema"}


@pytest.mark.parametrize(
    "kind",
    [
        DATE,
        TIME,
        pa.timestamp("us"),
        pa.list_(DATE),
        pa.large_list(TIME),
        pa.map_(DATE, pa.string()),
        pa.map_(pa.string(), TIME),
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", DATE)])))]),
    ],
    ids=str,
)
def test_files_with_dates_or_times_at_any_depth_state_their_calendar(kind: Any) -> None:
    rows = pa.table({"id": pa.array([None], pa.int64()), "c": pa.array([None], kind)})

    assert {KEY: CORRECT_SINCE.encode()} == footer_after(rows)


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.decimal128(9, 2), pa.list_(pa.binary()), pa.struct([("a", pa.float64())])]
)
def test_other_files_state_nothing(kind: Any) -> None:
    rows, sink, plain = pa.table({"c": pa.array([None], kind)}), io.BytesIO(), io.BytesIO()

    with ParquetStream(sink, rows.schema, store_schema=False) as stream:
        stream.add(rows)

    pq.write_table(rows, plain, store_schema=False, compression="zstd")
    assert len(plain.getvalue()) == len(sink.getvalue())
    assert marks_of(sink.getvalue()) is None


def test_no_physical_type_of_such_a_file_is_in_the_older_calendar() -> None:
    assert [] == [kind for kind in ("INT32", "INT64", "INT96") if is_hybrid(kind, {VERSION_KEY: CORRECT_SINCE})]
    # Spark compares versions as text.
    assert CORRECT_SINCE >= "3.1.0"


def test_other_metadata_of_a_schema_is_kept() -> None:
    rows = pa.table({"d": pa.array([date(1, 1, 1)], DATE)}).replace_schema_metadata({"owner": "us"})

    assert {KEY: CORRECT_SINCE.encode(), b"owner": b"us"} == footer_after(rows, store_schema=True)


def test_a_footer_without_the_bounds_of_nan_states_the_calendar_as_well() -> None:
    rows = pa.table({"f": [math.nan, 1.0], "t": pa.array([datetime(1, 1, 1, tzinfo=UTC)] * 2, TIME)})

    assert {KEY: CORRECT_SINCE.encode()} == footer_after(rows)


def test_results_that_are_written_as_parquet_state_the_calendar() -> None:
    rows = pa.table({"d": pa.array([date(1, 1, 1)], DATE)})
    sink = io.BytesIO()

    write_parquet(sink, rows.schema, rows.to_batches())

    written = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    assert CORRECT_SINCE.encode() == written.metadata.metadata[KEY]
    assert rows.equals(written.read())
