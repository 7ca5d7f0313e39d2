"""Every type of a table as text and as JSON, with its extremes."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.cli.render.data.rows import (
    json_column,
    json_objects,
    size_texts,
    text_column,
    timestamp_texts,
)
from deltacli.core.times import format_timestamp
from deltacli.core.units import format_size
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, date_text, moment_text, parse_date, parse_moment

LEAST, MOST = -(2**63), 2**63 - 1
DAY = pa.date32()
INSTANT, NAIVE = pa.timestamp("us", "UTC"), pa.timestamp("us")
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
POINT = pa.struct([("x", pa.int32()), ("y", pa.float64())])
VARIANT = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])

SCALARS: list[tuple[Any, list[tuple[Any, str]]]] = [  # Any: an Arrow type, a value of it
    (pa.int64(), [(LEAST, "-9223372036854775808"), (MOST, "9223372036854775807"), (0, "0")]),
    (pa.int8(), [(-128, "-128")]),
    (pa.bool_(), [(True, "true"), (False, "false")]),
    (
        pa.float64(),
        [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e20, "1e+20"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ],
    ),
    (pa.float32(), [(0.10000000149011612, "0.1"), (16777216.0, "16777216.0")]),
]
QUOTED: list[tuple[Any, list[tuple[Any, str]]]] = [
    (pa.float64(), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")]),
    (pa.decimal128(38, 0), [(Decimal("-" + "9" * 38), "-" + "9" * 38)]),
    (pa.decimal128(8, 2), [(Decimal("0.50"), "0.50"), (Decimal("-123456.78"), "-123456.78"), (Decimal(0), "0.00")]),
    (
        pa.decimal128(38, 38),
        [
            (Decimal("1e-38"), "0." + "0" * 37 + "1"),
            (Decimal("-0." + "9" * 38), "-0." + "9" * 38),
            (Decimal(0), "0." + "0" * 38),
        ],
    ),
    (pa.decimal128(20, 8), [(Decimal("123456789012.00000001"), "123456789012.00000001")]),
    (
        DAY,
        [
            (19_723, "2024-01-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (-719_162, "0001-01-01"),
            (-719_163, "0000-12-31"),
            (-719_529, "-0001-12-31"),
            (2**31 - 1, "+5881580-07-11"),
            (-(2**31), "-5877641-06-23"),
        ],
    ),
    (
        INSTANT,
        [
            (1_704_096_764_000_000, "2024-01-01T08:12:44Z"),
            (1_704_096_764_123_456, "2024-01-01T08:12:44.123456Z"),
            (1_704_096_764_100_000, "2024-01-01T08:12:44.100000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (-1_000_000, "1969-12-31T23:59:59Z"),
            (YEAR_1, "0001-01-01T00:00:00Z"),
            (YEAR_1 - 1, "0000-12-31T23:59:59.999999Z"),
            (YEAR_9999, "9999-12-31T23:59:59.999999Z"),
            (YEAR_9999 + 1, "+10000-01-01T00:00:00Z"),
            (2**62, "+148108-07-06T14:00:27.387904Z"),
            (MOST, "+294247-01-10T04:00:54.775807Z"),
            (LEAST, "-290308-12-21T19:59:05.224192Z"),
        ],
    ),
    (NAIVE, [(1_704_096_764_000_000, "2024-01-01T08:12:44"), (1_704_096_764_000_001, "2024-01-01T08:12:44.000001")]),
    (pa.binary(), [(b"", ""), (b"\x00\xff", "00ff"), (b"ab", "6162")]),
]
TEXTS = [
    "",
    "plain",
    'quote " and \\',
    "line\nbreak\r\t",
    "\x00\x1b[2J\x7f",
    "日本語 é\u202e",
    "null",
    "a,b",
    "\x7f\x7f",
]
NESTED: list[tuple[Any, Any, str]] = [
    (POINT, {"x": 1, "y": None}, '{"x":1,"y":null}'),
    (POINT, {"x": None, "y": float("nan")}, '{"x":null,"y":"NaN"}'),
    (pa.struct([]), {}, "{}"),
    (VARIANT, {"metadata": b"\x01\x00", "value": b"\x0c"}, '{"metadata":"0100","value":"0c"}'),
    (pa.list_(pa.int64()), [], "[]"),
    (pa.list_(pa.int64()), [1, None, 3], "[1,null,3]"),
    (pa.list_(POINT), [{"x": 1, "y": 0.5}, None], '[{"x":1,"y":0.5},null]'),
    (pa.list_(pa.list_(pa.string())), [["a"], None, []], '[["a"],null,[]]'),
    (pa.map_(pa.string(), pa.string()), [], "{}"),
    (pa.map_(pa.string(), pa.string()), [('k"', None), ("l", "v")], '{"k\\"":null,"l":"v"}'),
    (pa.map_(pa.int64(), pa.bool_()), [(MOST, True)], '{"9223372036854775807":true}'),
    (
        pa.map_(DAY, pa.decimal128(4, 2)),
        [(datetime.date(2024, 1, 1), Decimal("1.50"))],
        '{"2024-01-01":"1.50"}',
    ),
    (pa.map_(pa.binary(), pa.int8()), [(b"\xff", 1)], '{"ff":1}'),
    (
        pa.map_(POINT, pa.list_(pa.int64())),
        [({"x": 1, "y": 2.0}, [1])],
        '[{"key":{"x":1,"y":2.0},"value":[1]}]',
    ),
]


def column(kind: Any, values: list[Any]) -> Any:  # Any: Arrow types, values and arrays
    """A column that is a part of a longer one, with a null between its values."""
    integer = {DAY: pa.int32(), INSTANT: pa.int64(), NAIVE: pa.int64()}.get(kind)
    spread = [values[0], *(value for found in values for value in (found, None)), values[-1]]
    whole = pa.array(spread, integer or kind)
    return (whole.view(kind) if integer else whole)[1:-1]


def texts(found: Any) -> list[str]:
    """The values of such a column; the nulls between them stayed null."""
    assert pa.string() == found.type
    assert [None] * (len(found) // 2) == found.to_pylist()[1::2]
    return list(found.to_pylist()[::2])


@pytest.mark.parametrize(("kind", "cases"), SCALARS, ids=[str(kind) for kind, _ in SCALARS])
def test_numbers_are_numbers_of_json(kind: Any, cases: list[tuple[Any, str]]) -> None:
    found = column(kind, [value for value, _ in cases])

    assert [text for _, text in cases] == texts(text_column(found)) == texts(json_column(found))
    assert [value for value, _ in cases] == [
        pa.array([json.loads(t)], kind)[0].as_py() for t in texts(json_column(found))
    ]


@pytest.mark.parametrize(("kind", "cases"), QUOTED, ids=[str(kind) for kind, _ in QUOTED])
def test_values_that_json_could_round_or_reject_are_strings(kind: Any, cases: list[tuple[Any, str]]) -> None:
    found = column(kind, [value for value, _ in cases])

    assert [text for _, text in cases] == texts(text_column(found))
    assert [f'"{text}"' for _, text in cases] == texts(json_column(found))


def test_text_keeps_every_character() -> None:
    found = column(pa.string(), TEXTS)

    assert texts(text_column(found)) == TEXTS
    assert TEXTS == [json.loads(text) for text in texts(json_column(found))]


@pytest.mark.parametrize(("kind", "value", "expected"), NESTED)
def test_nested_values_are_json(kind: Any, value: Any, expected: str) -> None:
    found = pa.array([value, value, None, value], kind)[1:]

    assert [expected, None, expected] == text_column(found).to_pylist() == json_column(found).to_pylist()


def test_unusual_types_are_read_by_their_values() -> None:
    assert ["a", "b", "a"] == text_column(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist()
    assert ['"a"'] == json_column(pa.array(["a"], pa.large_string())).to_pylist()
    assert ['"a"'] == json_column(pa.array(["a"], pa.string_view())).to_pylist()
    assert ['"6162"'] == json_column(pa.array([b"ab"], pa.binary(2))).to_pylist()
    assert ['["a"]'] == json_column(pa.array([["a"]], pa.large_list(pa.large_string()))).to_pylist()
    assert [None] == json_column(pa.nulls(1)).to_pylist()
    assert ["1969-12-31T23:59:59.999999999"] == text_column(pa.array([-1], pa.timestamp("ns"))).to_pylist()


def test_rows_are_objects_with_every_field() -> None:
    columns = [("a", pa.array([1, None])), ('b"', pa.array(["x", "y"])), ("c", pa.array([None, None], pa.string()))]

    found = json_objects(columns, 2, opening='{"row":{', closing="}}")

    assert ['{"row":{"a":1,"b\\"":"x","c":null}}', '{"row":{"a":null,"b\\"":"y","c":null}}'] == found.to_pylist()
    assert ["{}", "{}"] == json_objects([], 2).to_pylist()


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_date_is_read_back_from_its_text(days: int) -> None:
    text = date_text(days)

    assert days == parse_date(text) or len(text.lstrip("+-")) > len("999999-01-01")
    if -719_162 <= days <= 2_932_896:
        assert text == (datetime.date(1970, 1, 1) + datetime.timedelta(days)).isoformat()


@given(st.integers(LEAST, MOST))
def test_a_time_is_read_back_from_its_text(microseconds: int) -> None:
    found = parse_moment(moment_text(microseconds))

    assert found is not None
    assert (microseconds, False) == (found.microseconds, found.has_zone)
    assert [moment_text(microseconds)] == text_column(pa.array([microseconds], pa.int64()).view(NAIVE)).to_pylist()


@given(
    st.lists(
        st.one_of(st.none(), st.integers(YEAR_1, YEAR_9999), st.integers(-(10**6), 10**6).map(lambda n: n * 10**6))
    )
)
def test_columns_of_times_are_written_like_each_of_them(values: list[int | None]) -> None:
    expected = [None if value is None else moment_text(value) for value in values]

    assert expected == text_column(pa.array(values, pa.int64()).view(NAIVE)).to_pylist()


def test_a_day_has_a_fixed_length() -> None:
    assert ("1970-01-02T00:00:00", "1969-12-31T00:00:00") == (
        moment_text(MICROSECONDS_A_DAY),
        moment_text(-MICROSECONDS_A_DAY),
    )


@pytest.mark.halved
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "n": st.one_of(st.none(), st.integers(LEAST, MOST)),
                "t": st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))),
                "f": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
                "l": st.one_of(
                    st.none(), st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))))
                ),
                "s": st.one_of(st.none(), st.fixed_dictionaries({"a": st.one_of(st.none(), st.booleans())})),
            }
        )
    ),
    st.integers(0, 3),
)
def test_json_of_rows_is_read_back(rows: list[dict[str, Any]], start: int) -> None:
    kinds = {"n": pa.int64(), "t": pa.string(), "f": pa.float64(), "l": pa.list_(pa.string())}
    schema = pa.schema([*kinds.items(), ("s", pa.struct([("a", pa.bool_())]))])
    batch = pa.RecordBatch.from_pylist(rows, schema)[start:]

    found = json_objects(list(zip(schema.names, batch.columns, strict=True)), batch.num_rows)

    assert rows[start:] == [json.loads(text) for text in found.to_pylist()]


def test_sizes_and_times_of_a_column_are_those_of_one_value() -> None:
    sizes = [None, 0, 1023, 1024, 1075, 1126, 1_048_524, 1_048_525, 1_048_575, 2**40 - 1, 2**40, 2**62, -5, -2000]
    sizes += [size + by for size in (10_240, 5_368_709_120) for by in range(200)]
    times = [None, 0, -1, 1_740_000_000_123, 253_402_300_799_999, -62_135_596_800_000]
    beyond = [*times, MOST]

    assert [size if size is None else format_size(size) for size in sizes] == size_texts(pa.array(sizes)).to_pylist()
    for several in (times, beyond):
        written = [time if time is None else format_timestamp(time) for time in several]
        assert written == timestamp_texts(pa.array(several, pa.int64())).to_pylist()
    assert [None] == timestamp_texts(pa.array([None], pa.int64())).to_pylist()
