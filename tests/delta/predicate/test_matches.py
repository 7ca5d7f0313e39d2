"""What a predicate keeps, and what it refuses."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.schema.types import ArrayType, PrimitiveType, StructField, StructType
from tests.delta.predicate.support import batch_of, schema_of

NAN = float("nan")
FLOAT_TENTH = 0.10000000149011612


def rows_kept(where: str, kind: Any, values: list[Any]) -> list[Any]:
    """The values of a column `c` that a predicate keeps."""
    schema = schema_of({"c": kind})
    found = parse_predicate(where, schema).matches(batch_of(schema, [{"c": value} for value in values]))
    assert 0 == found.null_count
    return [value for value, is_kept in zip(values, found.to_pylist(), strict=True) if is_kept]


WHOLE = [-(1 << 63), -1, 0, 1, 2, (1 << 63) - 1, None]
INTEGERS: tuple[tuple[str, list[Any]], ...] = (
    ("c = 1", [1]),
    ("c == 1", [1]),
    ("c <> 1", [-(1 << 63), -1, 0, 2, (1 << 63) - 1]),
    ("c != 1", [-(1 << 63), -1, 0, 2, (1 << 63) - 1]),
    ("c > 1.5", [2, (1 << 63) - 1]),
    ("c >= 1.5", [2, (1 << 63) - 1]),
    ("c < 1.5 and c > -1", [0, 1]),
    ("c <= -0.5", [-(1 << 63), -1]),
    ("1 < c", [2, (1 << 63) - 1]),
    ("1 !> c", [1, 2, (1 << 63) - 1]),
    ("c !< 1", [1, 2, (1 << 63) - 1]),
    ("c = 99999999999999999999", []),
    ("c < 99999999999999999999", WHOLE[:-1]),
    ("c > -99999999999999999999", WHOLE[:-1]),
    ("c >= 9223372036854775808", []),
    ("c <= 9223372036854775807", WHOLE[:-1]),
    ("c = 9223372036854775807", [(1 << 63) - 1]),
    ("c = 9223372036854775806.9", []),
    ("c >= -9223372036854775808", WHOLE[:-1]),
    ("c < -9223372036854775807.5", [-(1 << 63)]),
    ("c = 1e0", [1]),
    ("c = 1L", [1]),
    ("c = 'nan'::double or c < 'infinity'::double and c > 1", [2, (1 << 63) - 1]),
    ("c = ' 1 '", [1]),
    ("c = CAST('2' AS INT)", [2]),
    ("c = '2'::int", [2]),
    ("c = CAST(1.9 AS BIGINT)", [1]),
    ("c = CAST(true AS int)", [1]),
    ("c = try_cast('x' AS int) or c = 0", [0]),
    ("c in (1, 2, 7.5, 1e30)", [1, 2]),
    ("c in (0)", [0]),
    ("c in (7.5, 1e30)", []),
    ("c in (1, null)", [1]),
    ("c not in (1, 2)", [-(1 << 63), -1, 0, (1 << 63) - 1]),
    ("c not in (1, null)", []),
    ("c not in (1.5, 7.5)", WHOLE[:-1]),
    ("c between 0 and 1", [0, 1]),
    ("c not between 0 and 1", [-(1 << 63), -1, 2, (1 << 63) - 1]),
    ("c between 1 and 0", []),
    ("c is null", [None]),
    ("c is not null", WHOLE[:-1]),
    ("c <=> null", [None]),
    ("c <=> 1", [1]),
    ("not (c <=> 1)", [-(1 << 63), -1, 0, 2, (1 << 63) - 1, None]),
    ("c is distinct from 1", [-(1 << 63), -1, 0, 2, (1 << 63) - 1, None]),
    ("c is not distinct from 1", [1]),
    ("c = null", []),
    ("not (c = null)", []),
    ("(c = null) is null", WHOLE),
    ("(c > 1) is true", [2, (1 << 63) - 1]),
    ("(c > 1) is not true", [-(1 << 63), -1, 0, 1, None]),
    ("(c > 1) is false", [-(1 << 63), -1, 0, 1]),
    ("(c > 1) is not false", [2, (1 << 63) - 1, None]),
    ("(c > 1) is unknown", [None]),
    ("(c > 1) is not null", WHOLE[:-1]),
    ("(c > 1) = (c > 0)", [-(1 << 63), -1, 0, 2, (1 << 63) - 1]),
    ("(c > 1) <=> (c > null)", [None]),
    ("(c > 1) < true", [-(1 << 63), -1, 0, 1]),
    ("not c > 1", [-(1 << 63), -1, 0, 1]),
    ("! c > 1", [-(1 << 63), -1, 0, 1]),
    ("c = 1 or c = 2 and c = 3", [1]),
    ("(c = 1 or c = 2) and c = 2", [2]),
    ("c = 1 or null", [1]),
    ("true", WHOLE),
    ("false or null", []),
    ("c = -1 or c = + 1", [-1, 1]),
    ("1 < 2 and 'a' < 'b' and 1 in (1, 2) and c = 1", [1]),
    ("date '2024-01-01' <= timestamp '2024-01-01 00:00:00Z' and c = 1", [1]),
)


@pytest.mark.parametrize(("where", "expected"), INTEGERS)
def test_integers(where: str, expected: list[Any]) -> None:
    assert expected == rows_kept(where, "long", WHOLE)


@pytest.mark.parametrize(("where", "expected"), [
    ("c = 0", [-0.0, 0.0]),
    ("c > 1", [math.inf, NAN]),
    ("c < 1", [-math.inf, -0.0, 0.0, FLOAT_TENTH]),
    ("not (c < 1)", [math.inf, NAN]),
    ("c <> 0", [-math.inf, FLOAT_TENTH, math.inf, NAN]),
    ("c = 'NaN'", [NAN]),
    ("c < 'NaN'", [-math.inf, -0.0, 0.0, FLOAT_TENTH, math.inf]),
    ("c >= 'NaN'", [NAN]),
    ("c <= CAST('nan' AS DOUBLE)", [-math.inf, -0.0, 0.0, FLOAT_TENTH, math.inf, NAN]),
    ("c = '-Infinity'", [-math.inf]),
    ("c in (0, 'NaN')", [-0.0, 0.0, NAN]),
    ("c = 0.1", []),
    ("c = 0.1F", [FLOAT_TENTH]),
    ("c = CAST(0.1 AS FLOAT)", [FLOAT_TENTH]),
    ("c is null", [None]),
])  # fmt: skip
def test_doubles_have_sparks_order(where: str, expected: list[Any]) -> None:
    values = [-math.inf, -0.0, 0.0, FLOAT_TENTH, math.inf, NAN, None]

    assert repr(expected) == repr(rows_kept(where, "double", values))


def test_a_float_column_is_widened_before_it_meets_a_number() -> None:
    assert [] == rows_kept("c = 0.1", "float", [FLOAT_TENTH])
    assert [FLOAT_TENTH] == rows_kept("c > 0.1", "float", [FLOAT_TENTH])
    assert [FLOAT_TENTH] == rows_kept("c = '0.1'", "float", [FLOAT_TENTH])


@pytest.mark.parametrize(("where", "expected"), [
    ("c = 1.005", ["1.005"]),
    ("c > 1.0045", ["1.005", "12345678901234567890123456789012345.678"]),
    ("c = 1.0050000", ["1.005"]),
    ("c = 12345678901234567890123456789012345.678", ["12345678901234567890123456789012345.678"]),
    ("c < 12345678901234567890123456789012345.6779", ["-1.000", "1.005"]),
    ("c < 1e60 and c > -1e60", ["-1.000", "1.005", "12345678901234567890123456789012345.678"]),
    ("c in (1.005, -1, 1.0001)", ["-1.000", "1.005"]),
    ("c = '-1'", ["-1.000"]),
    ("c = CAST('1.0049999' AS DECIMAL(10,3))", ["1.005"]),
])  # fmt: skip
def test_decimals_are_exact(where: str, expected: list[str]) -> None:
    values = [Decimal(text) for text in ("-1.000", "1.005", "12345678901234567890123456789012345.678")]

    assert [Decimal(text) for text in expected] == rows_kept(where, "decimal(38,3)", [*values, None])


TEXTS = ["", "A", "a", "a%b", "a_b", "ab\nc", "é", "\uffff", "😀", None]


@pytest.mark.parametrize(("where", "expected"), [
    ("c > '\uffff'", ["😀"]),
    ("c < 'a'", ["", "A"]),
    ("c = \"a\"", ["a"]),
    ("c like 'a%'", ["a", "a%b", "a_b", "ab\nc"]),
    ("c like '%c'", ["ab\nc"]),
    ("c like '_'", ["A", "a", "é", "\uffff", "😀"]),
    ("c like 'a_b'", ["a%b", "a_b"]),
    ("c like 'a\\_b'", ["a_b"]),
    ("c like 'a!%b' escape '!'", ["a%b"]),
    ("c like '%!%%' escape '!'", ["a%b"]),
    ("c like ''", [""]),
    ("c like 'a'", ["a"]),
    ("c like '%'", TEXTS[:-1]),
    ("c not like 'a%'", ["", "A", "é", "\uffff", "😀"]),
    ("c like null", []),
    ("c = 'ab\\nc'", ["ab\nc"]),
    ("c = r'ab\\nc'", []),
    ("c = '\\u00e9'", ["é"]),
    ("c = '\\uD83D\\uDE00'", ["😀"]),
    ("c in ('', 'é', null)", ["", "é"]),
    ("c between 'a' and 'ab'", ["a", "a%b", "a_b"]),
])  # fmt: skip
def test_strings_are_bytes_in_order(where: str, expected: list[str]) -> None:
    assert expected == rows_kept(where, "string", TEXTS)


def test_regular_expression_syntax_has_no_effect_in_like() -> None:
    assert ["a.+(b)[c]\\"] == rows_kept("c like '%.+(b)[_]\\\\\\\\'", "string", ["a.+(b)[c]\\", "axx(b)cc"])


@pytest.mark.parametrize(("where", "expected"), [
    ("c = '2024-02-29'", [0]),
    ("c > DATE '2024-02-29'", [1]),
    ("c >= timestamp '2024-02-29 00:00:01'", [1]),
    ("c < '2024-03-01'", [0]),
    ("c = cast('2024-02-29' as date)", [0]),
    ("c = timestamp_ntz '2024-03-01'", [1]),
    ("c <= timestamp '2024-03-01 01:00:00+02:00'", [0]),
])  # fmt: skip
def test_dates(where: str, expected: list[int]) -> None:
    days = [date(2024, 2, 29), date(2024, 3, 1)]

    assert [days[number] for number in expected] == rows_kept(where, "date", [*days, None])


@pytest.mark.parametrize(("where", "expected"), [
    ("c = '2024-02-29 12:00:00.000001'", [0]),
    ("c = TIMESTAMP '2024-02-29T14:00:00.000001+02:00'", [0]),
    ("c > date '2024-02-29'", [0, 1]),
    ("c > date '2024-03-01'", []),
    ("c >= date '2024-03-01'", [1]),
])  # fmt: skip
def test_a_timestamp_without_a_zone_is_utc(where: str, expected: list[int]) -> None:
    times = [datetime(2024, 2, 29, 12, 0, 0, 1, UTC), datetime(2024, 3, 1, tzinfo=UTC)]

    assert [times[number] for number in expected] == rows_kept(where, "timestamp", [*times, None])
    if "+02:00" not in where:
        locals_ = [time.replace(tzinfo=None) for time in times]
        assert [locals_[number] for number in expected] == rows_kept(where, "timestamp_ntz", [*locals_, None])


def test_binary_and_boolean() -> None:
    assert [b"\x80"] == rows_kept("c > X'7fFF'", "binary", [b"\x7f", b"\x80", None])
    assert [b"\x01"] == rows_kept("c = x'1'", "binary", [b"\x01", b""])
    assert [True] == rows_kept("c", "boolean", [True, False, None])
    assert [False] == rows_kept("not c", "boolean", [True, False, None])
    assert [False] == rows_kept("c = 'no'", "boolean", [True, False, None])
    assert [True, False] == rows_kept("c in (true, false)", "boolean", [True, False, None])
    assert [False, None] == rows_kept("c is not true", "boolean", [True, False, None])


MIXED = schema_of({
    "i": "integer", "f": "float", "d": "decimal(20,2)", "t": "timestamp", "y": "date", "s": "string", "v": "double",
})  # fmt: skip


@pytest.mark.parametrize(("where", "is_kept"), [
    ("i = d", True), ("i < d", False), ("i <= f", True), ("f = d", False), ("f > d", True), ("f = v", False),
    ("f < v", True), ("y < t", True), ("t <= y", False), ("y <=> t", False), ("s = s", True), ("i in (7, d)", True),
    ("3 in (d, i)", True), ("v between i and f", False), ("f = f and v = v", True), ("v <= f", False),
    ("f <= v", True), ("v <= v", True), ("v < v", False),
])  # fmt: skip
def test_columns_next_to_columns(where: str, is_kept: bool) -> None:
    row = {
        "i": 3, "f": 3.0999999046325684, "d": Decimal("3.00"), "t": datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC),
        "y": date(2024, 1, 1), "s": "x", "v": NAN,
    }  # fmt: skip

    assert [is_kept] == parse_predicate(where, MIXED).matches(batch_of(MIXED, [row])).to_pylist()


def test_the_last_days_there_are_compare_with_times() -> None:
    days = pa.array([(1 << 31) - 1, -(1 << 31)], pa.int32()).view(pa.date32())
    times = pa.array([(1 << 63) - 1, -(1 << 63)], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([days, times], ["y", "t"])

    assert [True, False] == parse_predicate("y > t", MIXED).matches(batch).to_pylist()
    assert [True, False] == parse_predicate("y > timestamp '2024-01-01'", MIXED).matches(batch).to_pylist()


NAMES = StructType((
    StructField("a", StructType((StructField("b", PrimitiveType("long"), True, {}),)), True, {}),
    StructField("a.b", PrimitiveType("long"), True, {}),
    StructField("Case", PrimitiveType("long"), True, {}),
    StructField("case", PrimitiveType("long"), True, {}),
    StructField("list", ArrayType(PrimitiveType("long"), True), True, {}),
    StructField("collated", PrimitiveType("string"), True, {"__COLLATIONS": {"collated": "spark.UTF8_LCASE"}}),
))  # fmt: skip


@pytest.mark.parametrize(("where", "columns", "expected"), [
    ("a.b = 1", [("a", "b")], [True, False, False]),
    ("A.B is null", [("a", "b")], [False, True, True]),
    ("a is null", [("a",)], [False, True, False]),
    ("`a.b` = 2", [("a.b",)], [True, False, False]),
    ("`case` = 4", [("case",)], [True, False, False]),
    ("`Case` = 3", [("Case",)], [True, False, False]),
    ("list is not null and collated is null", [("list",), ("collated",)], [True, False, False]),
])  # fmt: skip
def test_names_lead_to_columns(where: str, columns: list[tuple[str, ...]], expected: list[bool]) -> None:
    rows: list[dict[str, Any]] = [
        {"a": {"b": 1}, "a.b": 2, "Case": 3, "case": 4, "list": []}, {"a": None}, {"a": {"b": None}},
    ]  # fmt: skip
    predicate = parse_predicate(where, NAMES)

    assert expected == predicate.matches(batch_of(NAMES, rows)).to_pylist()
    assert tuple(columns) == predicate.columns


def test_a_null_struct_hides_the_values_of_its_fields() -> None:
    struct = pa.StructArray.from_arrays([pa.array([1, 1])], names=["b"], mask=pa.array([False, True]))
    batch = pa.RecordBatch.from_arrays([struct], ["a"])

    assert [True, False] == parse_predicate("a.b = 1", NAMES).matches(batch).to_pylist()


@pytest.mark.parametrize(
    "where", ["c in ('b', 'x')", "c = 'b'", "c >= 'b'", "c like '%b'", "c like 'b%'", "c = b", "c <=> 'b'"]
)
def test_other_encodings_of_strings_are_read_as_well(where: str) -> None:
    schema = schema_of({"c": "string", "b": "string"})
    for values in (pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"], pa.large_string())):
        batch = pa.RecordBatch.from_arrays([values, pa.array(["b", "b"])], ["c", "b"])

        assert [False, True] == parse_predicate(where, schema).matches(batch).to_pylist()


def test_a_decimal_next_to_a_double_is_the_nearest_double() -> None:
    schema = schema_of({"d": "decimal(38,16)", "v": "double"})
    number = Decimal("-14096797295652133.6528702687156")
    batch = batch_of(schema, [{"d": number, "v": float(number)}])

    assert [True] == parse_predicate("d = v", schema).matches(batch).to_pylist()


REFUSED = {
    "lower(s) = 'x'": ("functions are not supported, such as lower(…)", "character 1"),
    "s = 'x' and i + 1 = 2": ("arithmetic is not supported, such as +", "character 13"),
    "y = 2026-01-01": ("a date needs quotes: '2026-01-01'", "character 5"),
    "y in (2026-01-01)": ("a date needs quotes: '2026-01-01'", "character 7"),
    "y between 2026-1-1 and '2026-02-01'": ("a date needs quotes: '2026-1-1'", "character 11"),
    "y = 2026-01-01-1": ("arithmetic is not supported, such as -", "character 5"),
    "-i = 2": ("arithmetic is not supported, and -", "character 1"),
    "case when s = 'x' then true end": ("CASE is not supported", "character 1"),
    "i in (select 1)": ("subqueries are not supported", "character 7"),
    "(i, d) in ((1, 2))": ("rows in brackets", "character 1"),
    "cast(s as int) = 1": ("only literals can be cast", "character 1"),
    "s rlike 'x'": ("rlike is not supported", "character 1"),
    "s like any ('x')": ("LIKE ANY is not supported", "character 1"),
    "i like '1%'": ("LIKE requires strings, but i is of type integer", "character 1"),
    "s like 'a\\\\'": ("the escape character", "character 1"),
    "s like 'a' escape 'ab'": ("ESCAPE requires one character", "character 1"),
    "nope = 1": ("there is no column nope", "character 1"),
    "i.x = 1": ("i is of type integer and has no field x", "character 1"),
    "i = 'x'": ("i is of type integer: 'x' is not an integer", "character 5"),
    "i = '1.5'": ("'1.5' is not an integer", "character 5"),
    "y = '2024-02-30'": ("'2024-02-30' is not a date", "character 5"),
    "y = '2024-02-03 10:00:00'": ("is not a date", "character 5"),
    "t = 'now'": ("'now' is not a timestamp", "character 5"),
    "t = '2024-01-01 00:00:00 Europe/Berlin'": ("has a named time zone", "character 5"),
    "n = '2024-01-01 00:00:00Z'": ("has a time zone", "character 5"),
    "n = timestamp '2024-01-01 00:00:00+01:00'": ("has no time zone, but the literal has one", "character 5"),
    "n = timestamp_ntz '2024-01-01 00:00:00Z'": ("has a time zone", "character 5"),
    "s = 5": ("s is of type string and cannot be compared with a number", "character 5"),
    "i = date '2024-01-01'": ("cannot be compared with a date", "character 5"),
    "b = 'x'": ("b is binary", "character 5"),
    "b = X'0g'": ("is not a hexadecimal number", "character 5"),
    "f = 'x'": ("'x' is not a number", "character 5"),
    "f = 1e400": ("too large for a double", "character 5"),
    "i = 1e999999999": ("too many digits", "character 5"),
    "f = CAST('300' AS TINYINT)": ("out of range for a byte", "character 5"),
    "i": ("a condition is expected, but i is of type integer", "character 1"),
    "i and true": ("a condition is expected", "character 1"),
    "'true'": ("a condition is expected, but there is a string", "character 1"),
    "(i = 1) = 5": ("TRUE or FALSE is expected", "character 1"),
    "s = i": ("they cannot be compared", "character 1"),
    "i = 1 and": ("it ends where a value is expected", "the end"),
    "i = (1": ("a ( is never closed", "character 5"),
    "i = 1 limit": ("it could not be parsed", "character 7"),
    "": ("it is empty", "the end"),
    "s = '\ud800'": ("half a character", "character 5"),
    "s = 1::blob": ("a cast to blob is not supported", "character 5"),
    f"i = 1{'::int' * 3000}": ("nested too deeply", "character"),
    f"i{' = 1' * 300}": ("nested too deeply", "character"),
}  # fmt: skip


@pytest.mark.parametrize("where", REFUSED)
def test_unsupported_syntax_is_named_with_its_position(where: str) -> None:
    reason, place = REFUSED[where]
    schema = StructType((*MIXED.fields, *schema_of({"n": "timestamp_ntz", "b": "binary"}).fields))

    with pytest.raises(UsageError) as caught:
        parse_predicate(where, schema)

    assert "usage.where" == caught.value.code
    assert 2 == caught.value.exit_code
    assert reason in caught.value.message
    assert caught.value.facts["at"].startswith(place)


@pytest.mark.parametrize(("where", "reason"), [
    ("a = 1", "a is of type struct, so only IS [NOT] NULL is supported"),
    ("list = 1", "list is of type array<long>"),
    ("CASE = 1", "CASE may be any of the columns Case, case"),
    ("collated = 'x'", "collated has a collation"),
    ("collated like 'x'", "collated has a collation"),
])  # fmt: skip
def test_columns_without_an_order_are_refused(where: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_predicate(where, NAMES)

    assert reason in caught.value.message


def test_an_unknown_column_is_reported_with_the_existing_ones() -> None:
    with pytest.raises(UsageError) as caught:
        parse_predicate("b = 1", NAMES)

    assert "a, `a.b`, Case, case, list, collated" == caught.value.facts["columns"]


def test_a_batch_may_be_part_of_another_and_may_be_empty() -> None:
    rows: list[dict[str, Any]] = [
        {"a": None, "case": 1},
        {"a": {"b": 1}},
        {"a": {"b": None}},
        {"a": {"b": 1}, "case": 2},
    ]
    batch, predicate = batch_of(NAMES, rows), parse_predicate("a.b = 1 and `case` is null", NAMES)

    assert [True, False, False] == predicate.matches(batch.slice(1)).to_pylist()
    assert [] == predicate.matches(batch.slice(4)).to_pylist()


def test_a_thousand_alternatives_do_not_count_as_nesting() -> None:
    where = " or ".join(f"c = {number}" for number in range(1000))

    assert [7, 999] == rows_kept(where, "long", [7, 999, 1000])
