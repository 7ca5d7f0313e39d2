"""The SQL of tables over rows: who violates it, what is not evaluated, and why."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.core.errors import install_command
from deltacli.delta.schema.to_arrow import build_arrow_schema
from deltacli.delta.schema.types import ArrayType, DataType, PrimitiveType, StructField, StructType
from deltacli.work.rows import duckdb_evaluation as duckdb_session
from deltacli.work.rows.compiled_conditions import (
    Condition,
    Expression,
    Unchecked,
    compile_condition,
    compile_expression,
)
from deltacli.work.rows.duckdb_evaluation import NotEvaluated
from tests.support.stored_rows import SCHEMA
from tests.support.waiting import join

NAN, INFINITY = float("nan"), float("inf")
MOST, LEAST = 2**31 - 1, -(2**31)


def schema_of(columns: Mapping[str, str]) -> StructType:
    return StructType(tuple(StructField(name, PrimitiveType(kind), True, {}) for name, kind in columns.items()))


def condition(text: str, schema: StructType = SCHEMA) -> Condition:
    found = compile_condition(text, schema)
    assert isinstance(found, Condition), found
    return found


def expression(text: str, kind: str, schema: StructType = SCHEMA) -> Expression:
    found = compile_expression(text, schema, PrimitiveType(kind))
    assert isinstance(found, Expression), found
    return found


def batch_of(rows: list[dict[str, Any]], schema: StructType = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, build_arrow_schema(schema.fields))


def value_of(text: str, kind: str, row: dict[str, Any], expected: Any) -> bool:
    """Whether an expression has a value for a row."""
    column = StructField("generated", PrimitiveType(kind), True, {})
    schema = StructType((*SCHEMA.fields, column))
    batch = batch_of([{**row, "generated": expected}], schema)
    found: list[bool] = expression(text, kind, schema).differences(batch, "generated").to_pylist()
    return found == [False]


VALUES: tuple[tuple[str, str, dict[str, Any], Any], ...] = (
    ("i / 2", "double", {"i": 7}, 3.5),
    ("i div 2", "long", {"i": -7}, -3),
    ("i % 3", "integer", {"i": -7}, -1),
    ("pmod(i, 3)", "integer", {"i": -7}, 2),
    ("m * o", "decimal(16,5)", {"m": Decimal("1.50"), "o": Decimal("2.500")}, Decimal("3.75000")),
    ("round(m, 1)", "decimal(10,1)", {"m": Decimal("-2.25")}, Decimal("-2.3")),
    ("i + 1", "integer", {"i": None}, None),
    ("i ^ 6", "integer", {"i": 5}, 3),
    ("cast(d as int)", "integer", {"d": -2.9}, -2),
    ("cast(m as int)", "integer", {"m": Decimal("-2.50")}, -2),
    ("cast(s as date)", "date", {"s": "2020-02-29"}, date(2020, 2, 29)),
    ("cast(dt as string)", "string", {"dt": date(7, 2, 1)}, "0007-02-01"),
    ("cast(ts as bigint)", "long", {"ts": datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC)}, -1),
    ("substring(s, 0, 2)", "string", {"s": "日本語"}, "日本"),
    ("substring(s, -5, 4)", "string", {"s": "abc"}, "ab"),
    ("substring(s, -2)", "string", {"s": "abc"}, "bc"),
    ("right(s, 2)", "string", {"s": "abc"}, "bc"),
    ("length(s)", "integer", {"s": "e\u0301😀"}, 3),
    ("trim(s)", "string", {"s": " \ta\u00a0 "}, "\ta\u00a0"),
    ("concat(s, t)", "string", {"s": "a", "t": None}, None),
    ("concat_ws('-', s, t, 'c')", "string", {"s": "a", "t": None}, "a-c"),
    ("replace(s, 'a', '')", "string", {"s": "banana"}, "bnn"),
    ("dayofweek(dt)", "integer", {"dt": date(2021, 1, 3)}, 1),
    ("weekday(dt)", "integer", {"dt": date(2021, 1, 3)}, 6),
    ("weekofyear(dt)", "integer", {"dt": date(2021, 1, 3)}, 53),
    ("date_format(ts, 'yyyyMMdd-HH')", "string", {"ts": datetime(2, 1, 3, 4, tzinfo=UTC)}, "00020103-04"),
    ("greatest(d, e)", "double", {"d": NAN, "e": INFINITY}, NAN),
    ("least(i, j, null)", "integer", {"i": 3, "j": None}, 3),
    ("nullif(i, 1)", "integer", {"i": 1}, None),
    ("coalesce(m, 0)", "decimal(12,2)", {"m": None}, Decimal("0.00")),
    ("ar[1]", "integer", {"ar": [5, 6]}, 6),
    ("mp['b']", "integer", {"mp": [("a", 1)]}, None),
    ("st.`B c` || 'x'", "string", {"st": {"a": 1, "B c": "y"}}, "yx"),
    ("case i when 1 then s when 2 then t end", "string", {"i": 2, "s": "a", "t": "b"}, "b"),
    ("case when i = 2 then s else t end", "string", {"i": 2, "s": "a", "t": "b"}, "a"),
    ("array_contains(ar, 9)", "boolean", {"ar": [1, None]}, None),
)


@pytest.mark.parametrize(("text", "kind", "row", "expected"), VALUES)
def test_an_expression_has_sparks_value(text: str, kind: str, row: dict[str, Any], expected: Any) -> None:
    assert value_of(text, kind, row, expected)
    assert not value_of(text, kind, row, None if expected is not None else type_values(kind))


def type_values(kind: str) -> Any:
    return {"integer": 1, "string": "x", "boolean": False}[kind]


VIOLATIONS: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("i > 0", {"i": None}, True),
    ("i + j > 0", {"i": None, "j": 1}, True),
    ("length(s) > 0 or p", {"s": None, "p": True}, False),
    ("l > 1e3", {"l": 1001}, False),
    ("l = d", {"l": 2**53 + 1, "d": float(2**53)}, False),
    ("d * 2 = e", {"d": NAN, "e": NAN}, False),
    ("d + 0D = e", {"d": -0.0, "e": 0.0}, False),
    ("s rlike '^abc$'", {"s": "abc\n"}, False),
    ("s rlike '^a.c$'", {"s": "a\nc"}, True),
    ("s rlike '\\\\s'", {"s": "\x0b"}, False),
    ("upper(s) like 'A\\\\_%'", {"s": "a_b"}, False),
    ("upper(s) like 'A\\\\_%'", {"s": "axb"}, True),
    ("i <> 0 and 10 / i > 1", {"i": 0}, True),
    ("i = 0 or 10 / i > 1", {"i": 0}, False),
    ("size(ar) > 1", {"ar": [1, None]}, False),
    ("year(dt) = 2020 and `Odd name` in (1, 2)", {"dt": date(2020, 1, 1), "Odd name": 2}, False),
)


@pytest.mark.parametrize(("text", "row", "expected"), VIOLATIONS)
def test_a_row_violates_what_is_false_or_null(text: str, row: dict[str, Any], expected: bool) -> None:
    assert [expected] == condition(text).violations(batch_of([row])).to_pylist()


RAISES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("i + 1 > 5", {"i": MOST}, "Overflow in addition of INT32 (2147483647 + 1)!"),
    ("-i > 5", {"i": LEAST}, "Overflow in negation of"),
    ("i / j > 1", {"i": 1, "j": 0}, "division by zero"),
    ("d / e > 1", {"d": 1.0, "e": -0.0}, "division by zero"),
    ("cast(s as int) > 1", {"s": "12a"}, "a string is not a value of type integer in every engine"),
    ("upper(s) = 'É'", {"s": "é"}, "upper is applied to letters outside ASCII"),
    (
        "s rlike 'a$'",
        {"s": "a\r\n"},
        "a string contains a line ending that regular expression engines treat differently",
    ),
    ("ar[2] > 1", {"ar": [1, 2]}, "an array has fewer than 3 elements"),
    ("size(ar) > 0", {"ar": None}, "the size of null is undefined"),
    ("concat(case when i > 1 then 'a' end, at[0]) = 'a'", {"at": []}, "an array has fewer than 1 elements"),
    ("j + (i + 1) > 1", {"i": MOST}, "Overflow in addition of INT32 (2147483647 + 1)!"),
    ("j < i + 1", {"i": MOST}, "Overflow in addition of INT32 (2147483647 + 1)!"),
    ("at[0] || null = 'a'", {"at": []}, "an array has fewer than 1 elements"),
)


@pytest.mark.parametrize(("text", "row", "reason"), RAISES)
def test_values_that_depend_on_settings_of_spark_are_not_evaluated(text: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotEvaluated) as caught:
        condition(text).violations(batch_of([row]))

    assert reason in str(caught.value)


def test_a_date_beyond_the_years_is_not_evaluated() -> None:
    schema = schema_of({"dt": "date"})
    far = pa.record_batch(
        [pa.array([2**31 - 1], pa.int32()).cast(pa.date32())], schema=build_arrow_schema(schema.fields)
    )

    with pytest.raises(NotEvaluated, match="a date is outside the years 1 to 9999"):
        condition("year(dt) > 1", schema).violations(far)


def test_a_string_that_is_not_utf8_is_not_evaluated() -> None:
    schema = schema_of({"s": "string"})
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    batch = pa.record_batch([broken], schema=build_arrow_schema(schema.fields))

    with pytest.raises(NotEvaluated, match="a string is not UTF-8"):
        condition("length(s) > 1", schema).violations(batch)


UNCHECKED = (
    ("reverse(s) = 'a'", "the function reverse is not supported"),
    ("rand() > 0.5", "the function rand is not supported"),
    ("current_date() > dt", "the function current_date is not supported"),
    ("datediff(month, dt, du) > 1", "the function datediff is not supported"),
    ("trim(leading from s) = 'a'", "the function trim is not supported with leading"),
    ("left(len => 2, str => s) = 'a'", "named arguments are not supported"),
    ("s > 1", "values of types string and integer are combined"),
    ("i = 'x'", "values of types string and integer are combined"),
    ("dt > '2020-2-9'", "the date '2020-2-9' is not in the form yyyy-mm-dd"),
    ("f > i", "a float is combined with a value of type integer, and the result may be float or double"),
    ("w + 1 > 0", "a decimal has more than 38 digits, which engines round differently"),
    ("m / 2 > 1", "dividing decimals by / is not supported, because it rounds"),
    ("s rlike '(?i)a'", "the regular expression '(?i)a' contains unsupported syntax: (?i)"),
    ("s rlike 'a\\\\b'", "the regular expression 'a\\b' contains unsupported syntax: \\b"),
    ("round(d) > 1", "round is supported for decimals with a constant, non-negative number of digits only"),
    ("nowhere > 1", "nowhere is not a column or is ambiguous"),
    ("\"s\" = 'a'", '"s" is a string in Spark and a column in other engines'),
    ("exists(ar, v -> v > 1)", "EXISTS is not supported"),
    ("i", "a value of type integer is used as a condition"),
    ("i >", "it ends where a value is expected"),
    ("i in (select 1)", "the expression could not be parsed"),
)


@pytest.mark.parametrize(("text", "reason"), UNCHECKED)
def test_expressions_that_may_differ_between_engines_are_unchecked(text: str, reason: str) -> None:
    assert Unchecked(reason) == compile_condition(text, SCHEMA)


def test_ambiguous_names_are_unchecked_and_unusual_ones_are_not() -> None:
    schema = schema_of(
        {"Id": "integer", "id": "integer", 'select "x"; --': "integer", "c1": "integer", "c0": "integer"}
    )

    assert Unchecked("ID is not a column or is ambiguous") == compile_condition("ID + 1 > 1", schema)
    found = condition('`select "x"; --` + c1 > c0 + 1', schema)
    batch = batch_of([{'select "x"; --': 1, "c1": 2, "c0": 1}, {'select "x"; --': 1, "c1": 0, "c0": 1}], schema)
    assert [False, True] == found.violations(batch).to_pylist()


@pytest.mark.parametrize(
    ("metadata", "kind", "reason"),
    (
        ({"__COLLATIONS": {"c": "icu.UNICODE_CI"}}, "string", "the column c has a collation"),
        ({"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}, "string", "the column c is padded with spaces"),
        ({}, "char(5)", "the column c is padded with spaces"),
    ),
)
def test_strings_with_rules_of_their_own_are_unchecked(metadata: dict[str, Any], kind: str, reason: str) -> None:
    schema = StructType((StructField("c", PrimitiveType(kind), True, metadata),))

    assert Unchecked(reason) == compile_condition("c = 'a'", schema)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    (
        ({"__COLLATIONS": {"c.element": "spark.UTF8_LCASE"}}, "the column c has a collation"),
        ({"__CHAR_VARCHAR_TYPE_STRING": "array<char(5)>"}, "the column c is padded with spaces"),
    ),
)
def test_strings_with_rules_of_their_own_are_unchecked_within_arrays(metadata: dict[str, Any], reason: str) -> None:
    schema = StructType((StructField("c", ArrayType(PrimitiveType("string"), True), True, metadata),))

    assert Unchecked(reason) == compile_condition("array_contains(c, 'a')", schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("ts > '2020-01-01 00:00:00'", True),
        ("dt < ts", True),
        ("cast(ts as date) = dt", True),
        ("hour(ts) > 1", True),
        ("hour(nt) > 1", False),
        ("ts < tt", False),
        ("year(dt) > 1", False),
        ("cast(ts as bigint) > 1", False),
        ("dt > '2020-01-01'", False),
    ),
)
def test_dependence_on_the_session_time_zone_is_marked(text: str, expected: bool) -> None:
    assert expected is condition(text).assumes_utc


def test_a_generated_column_of_another_type_is_compared_by_value() -> None:
    schema = schema_of({"i": "integer", "g": "long"})
    batch = batch_of([{"i": 1, "g": 2}, {"i": 1, "g": 3}, {"i": None, "g": None}, {"i": None, "g": 1}], schema)

    assert [False, True, False, True] == expression("i + 1", "long", schema).differences(batch, "g").to_pylist()
    refused = compile_expression("i + 1", schema, PrimitiveType("string"))
    assert Unchecked("values of types string and integer are combined") == refused


def test_a_generated_column_with_parts_is_unchecked() -> None:
    kind: DataType = StructType(())

    assert Unchecked("a generated column has the unsupported type struct") == compile_expression("st", SCHEMA, kind)


# -- DuckDB ---------------------------------------------------------------------------------------------------------


def test_duckdb_is_imported_only_when_needed() -> None:
    code = "import deltacli.work.rows.row_conditions, sys; sys.exit('duckdb' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_plain_comparisons_need_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)

    found = condition("i > 0 and s like 'a%'")
    assert [False, True] == found.violations(batch_of([{"i": 1, "s": "ab"}, {"i": 1}])).to_pylist()
    missing = Unchecked(f"DuckDB, which evaluates it, is not installed: {install_command('constraints')}")
    assert missing == compile_condition("i + 1 > 0", SCHEMA)
    assert missing == compile_expression("i + 1", SCHEMA, PrimitiveType("integer"))
    assert Unchecked("the function reverse is not supported") == compile_condition("reverse(s) = 'a'", SCHEMA)


def test_doubles_next_to_integers_are_not_for_the_engine_that_is_exact() -> None:
    assert condition("l > 1").predicate is not None
    assert condition("d > 1").predicate is not None
    assert condition("l > 1e3").predicate is None
    assert condition("m < d").predicate is None


def test_duckdb_touches_nothing_outside(tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")

    for sql in (
        f"(SELECT count(*) FROM read_csv('{file}')) > 0",
        f"(SELECT count(*) FROM '{file}') > 0",
        "(SELECT count(*) FROM columns) > 0",
        "current_setting('threads') <> 1",
        "current_setting('enable_external_access')",
        "current_setting('autoload_known_extensions')",
        "current_setting('autoinstall_known_extensions')",
        "current_setting('temp_directory') <> ''",
        "current_setting('TimeZone') <> 'UTC'",
    ):
        columns = {"c0": pa.array([1])}
        try:
            assert [False] == duckdb_session.evaluate_sql(sql, columns).to_pylist(), sql
        except NotEvaluated:
            assert "SELECT" in sql
    with pytest.raises(Exception, match="configuration has been locked"):
        duckdb_session._get_session().execute("SET threads = 2")


def test_each_thread_has_a_database_of_its_own() -> None:
    found = []

    def ask() -> None:
        found.append(duckdb_session._get_session())
        assert [True] == duckdb_session.evaluate_sql("c0 = 1", {"c0": pa.array([1])}).to_pylist()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)

    assert 3 == len({id(session) for session in (*found, duckdb_session._get_session())})


def test_many_rows_keep_their_order() -> None:
    schema = schema_of({"i": "integer"})
    batch = pa.record_batch([pa.array(range(300_000), pa.int32())], schema=build_arrow_schema(schema.fields))

    found = condition("i % 100000 <> 7", schema).violations(batch)

    assert [7, 100_007, 200_007] == [row for row, is_bad in enumerate(found.to_pylist()) if is_bad]


def test_an_expression_with_many_parts_within_each_other_is_unchecked() -> None:
    text = "i"
    for _ in range(40):
        text = f"(1 / {text})"

    assert Unchecked("the expression has too many nested parts") == compile_condition(f"{text} > 0", SCHEMA)
    assert isinstance(compile_condition(" and ".join(["i + 1 > 0"] * 3_000), SCHEMA), Unchecked)


def test_a_list_without_end_is_unchecked_at_once() -> None:
    numbers = ", ".join(map(str, range(200_000)))

    compiled = compile_condition(f"i in ({numbers})", SCHEMA)

    assert Unchecked("the expression is longer than 65,536 characters") == compiled
