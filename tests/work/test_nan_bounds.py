"""A column chunk with NaN has no bounds in the footers that deltacli writes; all other chunks keep theirs."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.arrow.parquet import read_footer_bytes
from deltacli.delta.footers.chunk_bounds import find_numeric_bounds, remove_bounds
from deltacli.work.parquet_writing import ParquetStream
from tests.support.effort import examples

NAN = math.nan

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("double", pa.float64()),
        ("inside", pa.struct([("text", pa.string()), ("single", pa.float32())])),
        ("list", pa.list_(pa.float64())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("later", pa.float64()),
    ]
)
FLOAT_LEAVES = {"double", "inside.single", "list.list.element", "map.key_value.value", "later"}

floats = st.none() | st.sampled_from([NAN, 1.0, -2.5, 0.0, -0.0, math.inf, -math.inf])
rows_of_floats = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "double": floats,
        "inside": st.none() | st.fixed_dictionaries({"text": st.sampled_from(["a", "b"]), "single": floats}),
        "list": st.none() | st.lists(floats, max_size=3),
        "map": st.none() | st.dictionaries(st.sampled_from(["k", "l"]), floats).map(lambda made: list(made.items())),
        "later": floats,
    }
)


def write(rows: pa.Table, group_rows: int = 1 << 20) -> bytes:
    sink = io.BytesIO()
    with ParquetStream(sink, rows.schema, group_rows=group_rows) as stream:
        stream.add(rows)
    assert stream.size_bytes == len(sink.getvalue())
    return sink.getvalue()


def values_in(value: Any) -> list[Any]:  # Any: a value of a row
    """Return the numbers within a value of a row."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in values_in(part)]
    if isinstance(value, list | tuple):
        return [number for part in value for number in values_in(part)]
    return [value]


def has_nan(column: pa.ChunkedArray) -> bool:
    numbers = [number for value in column.to_pylist() for number in values_in(value)]
    return any(isinstance(number, float) and math.isnan(number) for number in numbers)


@examples(200)
@given(st.lists(rows_of_floats, min_size=1, max_size=12), st.integers(1, 5))
def test_only_chunks_with_nan_lose_their_bounds(rows: list[dict[str, Any]], group_rows: int) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    plain = io.BytesIO()
    pq.write_table(table, plain, compression="zstd")

    data = write(table, group_rows)

    written = pq.ParquetFile(io.BytesIO(data))
    assert repr(table.to_pylist()) == repr(written.read().to_pylist())
    begin = 0
    for group in range(written.metadata.num_row_groups):
        facts = written.metadata.row_group(group)
        expected = io.BytesIO()
        slice_of_group = table.slice(begin, facts.num_rows)
        pq.write_table(slice_of_group, expected)
        by_arrow = pq.read_metadata(expected).row_group(0)
        begin += facts.num_rows
        for number in range(facts.num_columns):
            chunk, chunk_by_arrow = facts.column(number), by_arrow.column(number)
            name = chunk.path_in_schema
            bounds_are_wrong = name in FLOAT_LEAVES and has_nan(slice_of_group.column(name.partition(".")[0]))
            if bounds_are_wrong:
                assert not chunk.statistics.has_min_max, name
                assert chunk_by_arrow.statistics.null_count == chunk.statistics.null_count
            else:
                assert repr(chunk_by_arrow.statistics.to_dict()) == repr(chunk.statistics.to_dict()), name


@pytest.mark.parametrize("rows", [0, 1])
def test_files_of_no_rows_and_of_nan_alone_can_be_read(rows: int) -> None:
    table = pa.table({"f": [NAN] * rows}, schema=pa.schema([("f", pa.float64())]))

    read = pq.read_table(io.BytesIO(write(table)))

    assert rows == read.num_rows


def test_the_first_and_the_last_of_many_row_groups_are_told_apart() -> None:
    table = pa.table({"f": [NAN, 1.0, 2.0, 3.0, 4.0, NAN]})

    metadata = pq.read_metadata(io.BytesIO(write(table, group_rows=2)))

    bounds = [metadata.row_group(group).column(0).statistics.has_min_max for group in range(3)]
    assert [False, True, False] == bounds


def test_removing_bounds_changes_nothing_else_in_a_footer() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"i": [1, 2, None], "f": [1.0, 2.0, None], "t": ["a", "b", None]}), sink, row_group_size=2)
    footer = read_footer_bytes(sink)

    changed = remove_bounds(footer, {(1, 1), (0, 2)})

    file = b"PAR1" + changed + len(changed).to_bytes(4, "little") + b"PAR1"
    before, after = (pq.read_metadata(io.BytesIO(data)).to_dict() for data in (sink.getvalue(), file))
    for group, leaf in ((1, 1), (0, 2)):
        statistics = after["row_groups"][group]["columns"][leaf].pop("statistics")
        expected = before["row_groups"][group]["columns"][leaf].pop("statistics")
        assert not statistics["has_min_max"]
        assert expected["null_count"] == statistics["null_count"]
    assert before | {"serialized_size": 0} == after | {"serialized_size": 0}


def test_bounds_that_are_nan_are_not_trusted() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"f": [1.0, 2.0], "g": [1.0, 2.0]}), sink)
    two = b"\x00\x00\x00\x00\x00\x00\x00\x40"
    footer = read_footer_bytes(sink)
    # As Spark writes it: the maximum of the first column is NaN. It is written twice, for old and for new readers.
    start = footer.index(two)
    with_nan = footer[:start] + footer[start:].replace(two, b"\x00\x00\x00\x00\x00\x00\xf8\x7f", 2)

    assert [(0, 0), (0, 1)] == list(find_numeric_bounds(footer, {0, 1}))
    assert [(0, 1)] == list(find_numeric_bounds(with_nan, {0, 1}))
