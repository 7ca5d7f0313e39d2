"""`stats_parsed` and `partitionValues_parsed` at the edges of their types: a value is exact or missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.checkpoint.content import parse_statistics, stats_type
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.partitions.values import parse_partition_values, partition_type
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import parse_schema

LARGEST = 1.7976931348623157e308
NEXT_TO_LARGEST = 1.7976931348623155e308
MICROSECONDS = 1_000_000
DAY = 86_400 * MICROSECONDS


def config(
    columns: Mapping[str, Any],
    *,
    partitions: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
) -> TableConfiguration:
    """What holds for a table of these columns."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = Metadata("id", None, None, "parquet", {}, schema, partitions, properties or {}, None)
    return TableConfiguration(protocol=Protocol(1, 2), metadata=metadata, schema=parse_schema(schema))


def plain(column: Any) -> list[Any]:  # Any: an Arrow array
    """The values of a column, times as microseconds and dates as days: Python knows no year 10000."""
    if pa.types.is_temporal(column.type):
        return list(column.view(pa.int32() if pa.types.is_date(column.type) else pa.int64()).to_pylist())
    return list(column.to_pylist())


def bounds_of(kind: str, values: list[Any], *, others: tuple[str | None, ...] = ()) -> list[Any]:
    """The parsed minimum of each value of a column of this type."""
    table = config({"c": kind})
    texts = [json.dumps({"numRecords": 1, "minValues": {"c": value}}) for value in values]
    parsed = parse_statistics(pa.array([*texts, *others], pa.string()), table, stats_type(table))
    parsed.validate(full=True)
    return plain(parsed.field("minValues").field("c"))[: len(values)]


def test_the_largest_doubles_are_themselves_and_not_the_words_they_stand_for() -> None:
    values = [LARGEST, NEXT_TO_LARGEST, -LARGEST, -NEXT_TO_LARGEST]

    assert values == bounds_of("double", values)
    assert [*values, 1.5, inf] == bounds_of("double", [*values, 1.5, "Infinity"])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_nan_and_the_infinities_are_read_from_their_words(kind: str) -> None:
    first, *rest = bounds_of(kind, ["NaN", "Infinity", "-Infinity", 0.5])

    assert isnan(first)
    assert [inf, -inf, 0.5] == rest


@pytest.mark.parametrize(
    "kind, values, expected",
    [
        ("byte", [-128, 127, 128, "1", 1.5], [-128, 127, None, None, None]),
        ("long", [2**63 - 1, 2**63, -(2**63)], [2**63 - 1, None, -(2**63)]),
        ("decimal(5,2)", [999.99, 1.234, 1000, 100.0], [Decimal("999.99"), None, None, Decimal("100.00")]),
        ("date", ["1970-01-02", "+12345-01-01", "+99999999-01-01", "2020-13-01"], [1, 3_789_391, None, None]),
        ("timestamp", ["1970-01-01T00:00:01Z", "1970-01-01 00:00:00", "x"], [MICROSECONDS, 0, None]),
        ("timestamp_ntz", ["1970-01-02", "1970-01-01T00:00:00.000001"], [DAY, 1]),
        ("timestamp", ["+294247-01-10T04:00:54.775Z", "+294248-01-10T04:00:54.775Z"], [2**63 - 808, None]),
        ("string", ["\x00", "\U0010ffff", 5], ["\x00", "\U0010ffff", None]),
    ],
)
def test_a_bound_is_exact_or_absent(kind: str, values: list[Any], expected: list[Any]) -> None:
    odd = (None, "", "x", "{}", "[]", '{"numRecords":"5"}', '{"minValues":5}')

    assert expected == bounds_of(kind, values)
    assert expected == bounds_of(kind, values, others=odd)
    assert expected * 80 == bounds_of(kind, values * 80, others=odd)  # too many to be read one by one


def test_invalid_json_statistics_are_null_and_the_others_keep_their_rows() -> None:
    table = config({"c": "integer"})
    texts = pa.array([None, '{"numRecords":1}', "x", '{"numRecords":2,"nullCount":{"c":1}}', ""])

    parsed = parse_statistics(texts, table, stats_type(table))

    assert [False, True, False, True, False] == parsed.is_valid().to_pylist()
    assert [None, 1, None, 2, None] == parsed.field("numRecords").to_pylist()
    assert [None, None, None, 1, None] == parsed.field("nullCount").field("c").to_pylist()


def test_columns_without_bounds_are_counted_all_the_same() -> None:
    array = {"type": "array", "elementType": "integer", "containsNull": True}
    empty = {"type": "struct", "fields": []}
    kind = stats_type(config({"a": array, "b": "boolean", "x": "binary", "v": "variant", "n": "void", "e": empty}))

    counts = pa.struct([(name, pa.int64()) for name in ("a", "b", "x", "v", "n")])
    assert pa.struct([("numRecords", pa.int64()), ("nullCount", counts)]) == kind


@pytest.mark.parametrize(
    "properties, expected",
    [
        ({}, 32),
        ({"delta.dataSkippingNumIndexedCols": "3"}, 3),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, 40),
        ({"delta.dataSkippingNumIndexedCols": "0"}, 0),
        ({"delta.dataSkippingStatsColumns": "c7, `c9`", "delta.dataSkippingNumIndexedCols": "1"}, 2),
    ],
)
def test_properties_choose_the_columns_that_have_statistics(properties: Mapping[str, str], expected: int) -> None:
    kind = stats_type(config({f"c{number}": "integer" for number in range(40)}, properties=properties))

    index = kind.get_field_index("minValues")
    assert expected == (kind.field(index).type.num_fields if index >= 0 else 0)


@pytest.mark.parametrize(
    "kind, texts, expected",
    [
        ("byte", ["1", "300", " 1 ", "+5"], [1, None, 1, 5]),
        ("decimal(5,2)", ["1.234", "1e2", "123456", "1.2"], [None, Decimal(100), None, Decimal("1.2")]),
        ("double", ["1d", "Infinity", "x"], [1.0, inf, None]),
        ("date", ["1970-01-02", "1970-1-3", "+99999999-01-01"], [1, 2, None]),
        ("timestamp", ["1970-01-01 00:00:00", "1970-01-01T05:00:00+05:00", "+294248-01-10 00:00:00"], [0, 0, None]),
        ("timestamp_ntz", ["1970-01-02"], [DAY]),
        ("boolean", ["TRUE", "false", "x"], [True, False, None]),
        ("binary", ["é"], [b"\xc3\xa9"]),
        ("string", ["", " x "], [None, " x "]),
        ("varchar(3)", ["x"], ["x"]),
    ],
)
def test_a_partition_value_is_exact_or_absent(kind: str, texts: list[str], expected: list[Any]) -> None:
    table = config({"p": kind}, partitions=("p",))
    rows = [[("p", text)] for text in texts]
    maps = pa.array([*rows, [("p", None)], [], None], pa.map_(pa.string(), pa.string()))

    parsed = parse_partition_values(maps, table, partition_type(table))

    parsed.validate(full=True)
    assert [*expected, None, None, None] == plain(parsed.field("p"))


def test_a_partition_of_nan_is_nan() -> None:
    table = config({"p": "double"}, partitions=("p",))
    maps = pa.array([[("p", "NaN")]], pa.map_(pa.string(), pa.string()))

    (found,) = parse_partition_values(maps, table, partition_type(table)).field("p").to_pylist()

    assert repr(nan) == repr(found)
