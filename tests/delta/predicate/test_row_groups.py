"""Which row groups a predicate leaves unread, and that no footer can end the process."""

from __future__ import annotations

import contextlib
import io
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from deltacli.arrow.parquet import read_footer_bytes
from deltacli.delta.footers.thrift import LeafStatistics, read_statistics
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.row_groups import PredicateLeaf, kept_row_groups
from tests.delta.predicate.support import schema_of

Leaves = dict[tuple[str, ...], PredicateLeaf]


def file_of(table: pa.Table, **settings: Any) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, row_group_size=2, **settings)
    return sink.getvalue()


def footer_of(data: bytes) -> bytes:
    return read_footer_bytes(io.BytesIO(data))


def groups(where: str, kind: str, values: pa.Array, *, footer: bytes | None = None, **settings: Any) -> list[int]:
    """The row groups of two rows each that are kept of a file with a column `c`."""
    data = file_of(pa.table({"c": values}), **settings)
    leaves: Leaves = {("c",): PredicateLeaf(0, values.type)}
    predicate = parse_predicate(where, schema_of({"c": kind}))
    metadata = pa.parquet.read_metadata(io.BytesIO(data))
    return kept_row_groups(predicate, metadata, leaves, footer_of(data) if footer is None else footer)


DAYS = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 4)]
TIMES = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4)]
DECIMALS = [Decimal(number) for number in ("1.00", "-2.00", "3.00", "4.00")]


@pytest.mark.parametrize(("where", "kind", "values", "expected"), [
    ("c > 2", "long", pa.array([1, 2, 3, 4]), [1]),
    ("c < -1", "long", pa.array([-1, -2, 3, 4]), [0]),
    ("c is null", "long", pa.array([1, None, 3, 4]), [0]),
    ("c is not null", "long", pa.array([None, None, 3, 4]), [1]),
    ("c = 3", "long", pa.array([1, 2, 3, 4], pa.int32()), [1]),
    ("c = 3", "short", pa.array([1, 2, 3, 4], pa.int16()), [1]),
    ("c = 3", "double", pa.array([1, 2, 3, 4], pa.int32()), [1]),
    ("c = 3", "decimal(12,2)", pa.array([1, 2, 3, 4], pa.int32()), [1]),
    ("c < 3", "double", pa.array([1, 2, 3, 4], pa.float32()), [0]),
    ("c > 3", "double", pa.array([1, 2, math.nan, 1]), [0, 1]),
    ("c < 1", "double", pa.array([1, math.nan, 0.5, 4]), [1]),
    ("c < 0", "double", pa.array([0.0, -0.0, -1, 1]), [1]),
    ("c >= 3", "string", pa.array([1, 2, 3, 4]), [0, 1]),
    ("c > 'b'", "string", pa.array(["a", "b", "c", "d"]), [0, 1]),  # b may have been cut
    ("c > 'c'", "string", pa.array(["a", "b", "c", "d"]), [1]),
    ("c like 'c%'", "string", pa.array(["a", "b", "c", "d"]), [1]),
    ("c > date '2024-01-02'", "date", pa.array(DAYS), [1]),
    ("c > '2024-01-02'", "timestamp_ntz", pa.array(DAYS), [1]),
    ("c > '2024-01-02'", "timestamp", pa.array(TIMES, pa.timestamp("us", "UTC")), [1]),
    ("c > '2024-01-02'", "timestamp", pa.array(TIMES, pa.timestamp("ms", "UTC")), [1]),
    ("c > '2024-01-02'", "timestamp", pa.array(TIMES, pa.timestamp("ns", "UTC")), [1]),
    ("c < 0", "decimal(12,2)", pa.array(DECIMALS, pa.decimal128(12, 2)), [0]),
    ("c < 0", "decimal(30,4)", pa.array(DECIMALS, pa.decimal128(12, 2)), [0]),
    ("c < 0", "decimal(30,2)", pa.array(DECIMALS, pa.decimal128(30, 2)), [0]),
    ("c", "boolean", pa.array([True, True, None, None]), [0]),
    ("c = X'01'", "binary", pa.array([b"\1", b"\2", b"\3", b"\4"]), [0, 1]),
])  # fmt: skip
def test_row_groups_are_skipped_by_their_bounds(where: str, kind: str, values: Any, expected: list[int]) -> None:
    if kind == "string" and pa.types.is_integer(values.type):
        where = "c >= '3'"  # a type that never becomes a string says nothing of one

    assert expected == groups(where, kind, values)
    assert expected == groups(where, kind, values, store_decimal_as_integer=True, data_page_version="2.0")


def test_nanoseconds_are_rounded_outwards() -> None:
    values = pa.array([1999, 1001, 3000, 3000], pa.timestamp("ns", "UTC"))

    assert [0] == groups("c < '1970-01-01 00:00:00.000002'", "timestamp", values)
    assert [0] == groups("c = '1970-01-01 00:00:00.000002'", "timestamp", values)


def test_the_old_times_of_96_bits_are_not_known() -> None:
    values = pa.array(TIMES, pa.timestamp("ns"))

    assert [0, 1] == groups("c > '2030-01-01'", "timestamp", values, use_deprecated_int96_timestamps=True)


def test_without_a_footer_everything_is_kept() -> None:
    assert [0, 1] == groups("c > 9", "long", pa.array([1, 2, 3, 4]), footer=b"")


def test_columns_without_a_leaf_are_null_or_constant() -> None:
    kinds = {"c": "long", "p": "long", "gone": "string"}
    data = file_of(pa.table({"c": [1, 2, 3, 4]}))
    leaves: Leaves = {
        ("c",): PredicateLeaf(0, pa.int64()),
        ("p",): PredicateLeaf(None, None, constant=pa.scalar(7)),
        ("gone",): PredicateLeaf(None, None, absent=True),
    }
    expected: dict[str, list[int]] = {
        "c > 2 and p = 7": [1], "p = 8": [], "gone is null": [0, 1], "gone = 'x' or c > 2": [1], "p is null": [],
        "gone <=> null and p in (7, 8)": [0, 1], "gone like '%'": [], "p > c": [0, 1],
    }  # fmt: skip

    for where, found in expected.items():
        metadata = pa.parquet.read_metadata(io.BytesIO(data))
        predicate = parse_predicate(where, schema_of(kinds))
        assert found == kept_row_groups(predicate, metadata, leaves, footer_of(data)), where
        assert kept_row_groups(predicate, metadata, {}, footer_of(data)) == [0, 1]


def test_a_name_with_a_point_is_not_taken_for_a_field() -> None:
    table = pa.table({"a": pa.array([{"b": 1}] * 2), "a.b": [5, 5]})
    data = file_of(table)
    leaves: Leaves = {("a.b",): PredicateLeaf(1, pa.int64())}
    predicate = parse_predicate("`a.b` = 5", schema_of({"a.b": "long"}))

    assert [0] == kept_row_groups(predicate, pa.parquet.read_metadata(io.BytesIO(data)), leaves, footer_of(data))


def test_fields_of_structs_have_bounds_and_may_always_be_null() -> None:
    data = file_of(pa.table({"s": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}]}))
    leaves: Leaves = {("s", "x"): PredicateLeaf(0, pa.int64())}
    metadata, schema = pa.parquet.read_metadata(io.BytesIO(data)), schema_of({"s": schema_of({"x": "long"})})

    assert [1] == kept_row_groups(parse_predicate("s.x > 2", schema), metadata, leaves, footer_of(data))
    assert [0, 1] == kept_row_groups(parse_predicate("s.x is null", schema), metadata, leaves, footer_of(data))


def patched(data: bytes, old: bytes, new: bytes) -> bytes:
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - length : -8]
    assert old in footer
    footer = footer.replace(old, new)
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize("bound", [b"", b"\1", b"\1\0\0", b"\1\0\0\0\0"])
def test_a_bound_with_a_length_unlike_its_type_is_ignored(bound: bytes) -> None:
    """
    pyarrow 26.0.1 ends the process when it is asked for the statistics of such a footer.
    """
    data = file_of(pa.table({"c": pa.array([99, 99, 77, 77], pa.int32())}))
    old = b"\x04" + struct.pack("<i", 99)
    data = patched(data, old, bytes([len(bound)]) + bound)
    metadata = pa.parquet.read_metadata(io.BytesIO(data))
    leaves: Leaves = {("c",): PredicateLeaf(0, pa.int32())}
    predicate = parse_predicate("c = 5", schema_of({"c": "integer"}))

    assert [0] == kept_row_groups(predicate, metadata, leaves, footer_of(data))


ONE = struct.pack("<d", 1.0)
TWO = struct.pack("<d", 2.0)
NAN = struct.pack("<d", math.nan)
CONTRADICTIONS = {
    "NaN as a bound": ("c = 1.0", ONE, NAN),
    "the greatest below the least": ("c = 1.0", b"\x08" + TWO + b"\x18\x08" + ONE, b"\x08" + ONE + b"\x18\x08" + TWO),
    "all null, and yet with bounds": ("c is not null and c = 1.0", b"\x16\x00\x28", b"\x16\x04\x28"),
    "more nulls than values": ("c = 9", b"\x16\x00\x28", b"\x16\x06\x28"),
    "fewer nulls than none": ("c = 9", b"\x16\x00\x28", b"\x16\x01\x28"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradictory_footer_is_ignored(what: str) -> None:
    where, old, new = CONTRADICTIONS[what]
    data = patched(file_of(pa.table({"c": [1.0, 2.0]})), old, new)
    metadata = pa.parquet.read_metadata(io.BytesIO(data))
    leaves: Leaves = {("c",): PredicateLeaf(0, pa.float64())}
    predicate = parse_predicate(where, schema_of({"c": "double"}))

    assert [0] == kept_row_groups(predicate, metadata, leaves, footer_of(data))


@pytest.mark.halved
def test_no_flipped_bit_of_a_footer_ends_the_process() -> None:
    table = pa.table({
        "i": pa.array([1, 2, 3, 4], pa.int32()), "s": ["a", "b", "c", "d"], "d": [1.0, 2, 3, 4],
        "n": pa.array(DECIMALS, pa.decimal128(30, 2)),
    })  # fmt: skip
    kinds = {"i": "integer", "s": "string", "d": "double", "n": "decimal(30,2)"}
    whole = file_of(table)
    leaves: Leaves = {(name,): PredicateLeaf(at, table.column(name).type) for at, name in enumerate(kinds)}
    predicate = parse_predicate("i = 9 and s < '' and d < -1 and n < -9", schema_of(kinds))
    start, tried = len(whole) - 8 - len(footer_of(whole)), 0
    assert [] == kept_row_groups(predicate, pa.parquet.read_metadata(io.BytesIO(whole)), leaves, footer_of(whole))

    for position in range(start, len(whole) - 8):
        data = whole[:position] + bytes([whole[position] ^ (1 << position % 8)]) + whole[position + 1 :]
        with contextlib.suppress(OSError, pa.ArrowException):
            metadata = pa.parquet.read_metadata(io.BytesIO(data))
            if len(metadata.schema) == len(kinds):
                kept_row_groups(predicate, metadata, leaves, footer_of(data))
                tried += 1

    assert tried > 100


def test_a_footer_is_read_as_arrow_reads_it() -> None:
    data = file_of(pa.table({"a" * 300: [1, 2, None, 4], "s": [{"x": "b"}, None, {"x": "a"}, {"x": None}]}))
    metadata = pa.parquet.read_metadata(io.BytesIO(data))

    for index, leaf in enumerate(("a" * 300, "s.x")):
        for group, found in enumerate(read_statistics(footer_of(data), leaf, 2)):
            chunk = metadata.row_group(group).column(index)
            known = chunk.statistics
            low = struct.pack("<q", known.min) if index == 0 else known.min.encode()
            assert (chunk.num_values, known.null_count, low) == (found.values, found.nulls, found.low)
    assert [LeafStatistics()] * 2 == read_statistics(footer_of(data), "nope", 2)
    assert [LeafStatistics()] * 2 == read_statistics(footer_of(data), ".".join("a" * 15), 2)
