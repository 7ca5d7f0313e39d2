"""Which files a hint leaves out: what clients evaluate in different ways, limits, and junk."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.sharing.hints.file_selection import Hints, select_files
from tests.delta.predicate.support import adds_of, config_of, schema_of, stats


def column(value_type: str, name: str = "c") -> dict[str, Any]:
    return {"op": "column", "name": name, "valueType": value_type}


def literal(value: Any, value_type: str) -> dict[str, Any]:
    return {"op": "literal", "value": value, "valueType": value_type}


def binary(op: str, value_type: str, value: Any, literal_type: str = "") -> dict[str, Any]:
    return {"op": op, "children": [column(value_type), literal(value, literal_type or value_type)]}


def negation(part: Any) -> dict[str, Any]:
    return {"op": "not", "children": [part]}


def is_kept(kind: str, given: Any, **hints: Any) -> tuple[bool, str]:
    """Whether a file with the statistics of one column is kept, and why."""
    found = select_files(adds_of([given]), config_of(schema_of({"c": kind})), Hints(**hints))
    return found.kept is None, found.reason


@pytest.mark.parametrize(("kind", "given", "part", "expected"), [
    ("long", stats(1, 10), binary("equal", "long", "11"), False),
    ("long", stats(1, 10), negation(binary("equal", "long", "5")), True),  # the reference server loses these rows
    ("long", stats(1, 10), negation(binary("lessThan", "long", "11")), False),
    ("long", stats(1, 10), binary("equal", "long", 11), False),
    ("long", stats(1, 10), binary("equal", "int", "11"), False),
    ("long", stats(1, 1 << 40), binary("equal", "int", "-5"), True),  # the cast may wrap around
    ("integer", stats(1, 10), binary("greaterThan", "double", "10.5"), False),
    ("integer", stats(1, 10), binary("greaterThan", "float", "10.5"), True),
    ("long", stats(1, 10), binary("greaterThan", "double", "10.5"), True),
    ("long", stats(1, 10), binary("equal", "string", "11"), True),
    ("long", stats(1, 10), binary("equal", "long", "eleven"), True),
    ("long", stats(1, 10), binary("equal", "int", str(1 << 31)), True),
    ("string", stats("a", "b"), binary("equal", "string", "c"), False),
    ("string", stats("a", "b" * 32), binary("equal", "string", "b" * 33), True),  # a truncated bound
    ("string", stats("a", "b"), binary("equal", "date", "2024-01-01"), True),
    ("date", stats("2024-01-01", "2024-01-02"), binary("greaterThan", "date", "2024-01-02"), False),
    ("date", stats("2024-01-01", "2024-01-02"), binary("greaterThan", "date", "2024-1-2"), True),
    ("date", stats("2024-01-01", "2024-01-02"), binary("greaterThan", "timestamp", "2024-01-02T12:00:00Z"), True),
    ("date", stats("2024-01-01", "2024-01-02"), binary("greaterThan", "timestamp", "2024-01-03T00:00:00Z"), False),
    ("boolean", stats(None, None, nulls=10), binary("equal", "bool", "true"), False),
    ("boolean", stats(None, None), binary("equal", "bool", "true"), True),
    ("double", stats(8, 9), binary("lessThan", "double", "5"), False),
    ("double", stats(8, 9), negation(binary("greaterThan", "double", "5")), True),  # NaN, which may be in no order
    ("double", stats(1, 2), binary("greaterThan", "double", "5"), True),  # NaN, which may be above all
    ("double", stats(1, 2), binary("lessThan", "double", "NaN"), True),
    ("float", stats(0.1, 0.1), binary("equal", "float", "0.1"), True),
    ("float", stats(0.2, 0.3), binary("equal", "float", 0.1), False),
    ("timestamp", stats("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
     binary("greaterThan", "timestamp", "2024-01-02T01:00:00Z"), False),
    ("timestamp", stats("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
     binary("greaterThan", "timestamp", "2024-01-02 01:00:00"), True),  # in the zone of the client
    ("timestamp", stats("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
     binary("greaterThan", "timestamp", "2024-01-02 19:00:00"), False),
    ("timestamp_ntz", stats("2024-01-01T00:00:00", "2024-01-02T00:00:00"),
     binary("greaterThan", "timestamp", "2024-01-02T01:00:00Z"), True),
    ("timestamp", stats("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
     binary("greaterThan", "timestamp", "2024-01-02T01:00:00 Asia/Tokyo"), True),
    ("long", stats(1, 10), {"op": "isNull", "children": [column("long")]}, False),
    ("long", stats(1, 10, nulls=None), {"op": "isNull", "children": [column("long")]}, True),
    ("string", stats("a", "b"), {"op": "isNull", "children": [column("int")]}, True),  # a failed cast is null
    ("long", stats(1, 10), {"op": "and", "children": [binary("equal", "long", "11"), {"op": "in"}]}, False),
    ("long", stats(1, 10), {"op": "or", "children": [binary("equal", "long", "11"), {"op": "in"}]}, True),
    ("long", stats(1, 10), {"op": "or", "children": [binary("equal", "long", str(n)) for n in range(11, 40)]}, False),
    ("long", stats(1, 10), {"op": "or", "children": [binary("equal", "long", str(n)) for n in range(9, 40)]}, True),
    ("long", None, binary("equal", "long", "11"), True),
    ("long", "{", binary("equal", "long", "11"), True),
])  # fmt: skip
def test_a_json_hint_leaves_out_files_without_a_matching_row(kind: str, given: Any, part: Any, expected: bool) -> None:
    assert expected == is_kept(kind, given, json=json.dumps(part))[0]


@pytest.mark.parametrize(("kind", "given", "sql", "expected"), [
    ("long", stats(1, 10), "11 = C", False),
    ("long", stats(1, 10), "c <> 5", True),
    ("long", stats(1, 10), "c IS NULL", False),
    ("long", stats(1, 10), "(c IS NOT NULL) AND (c > 10)", False),
    ("long", stats(1, 10), '"c" = 11', True),  # a name in some dialects, a string in others
    ("long", stats(1, 10), "c = 11 -- and more", True),
    ("long", stats(1, 10), "c = 1.1e1", True),  # compared as doubles, which merge large numbers
    ("long", stats(1, 10), "c = cast(11 as double)", True),
    ("integer", stats(1, 10), "c = cast(10.7 as int)", True),
    ("string", stats("a", "b"), "c = 'it''s'", True),
    ("string", stats("a", "b"), "c = 'c\\'", True),
    ("string", stats("a", "b"), "c like 'c%'", True),
    ("string", stats("a", "b"), "c = 'c'", False),
    ("decimal(38,10)", stats(1, 2), "c = '3'", True),
    ("decimal(38,10)", stats(1, 2), "c = 3", False),
    ("double", stats(8, 9), "NOT (c > 5)", True),
    ("date", stats("2024-01-01", "2024-01-02"), "c >= '2024-01-03'", False),
    ("date", stats("2024-01-01", "2024-01-02"), "c >= TIMESTAMP '2024-01-02 12:00:00'", True),
    ("timestamp", stats("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"), "c > '2024-01-02 17:00:00'", True),
    ("timestamp", stats("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"), "c > '2024-01-02 19:00:00'", False),
    ("timestamp", stats("2024-01-05T00:00:00Z", "2024-01-06T00:00:00Z"),
     "c in ('2024-01-01 00:00:00', '2024-01-02 00:00:00')", False),
    ("long", stats(1, 10), "1 = 2", True),
    ("long", stats(1, 10), "false", True),
    ("long", stats(1, 10), "string", True),
    ("long", stats(1, 10), "c = '11' and", True),
])  # fmt: skip
def test_a_sql_hint_leaves_out_files_without_a_matching_row(kind: str, given: Any, sql: str, expected: bool) -> None:
    assert expected == is_kept(kind, given, sql=(sql,))[0]


@pytest.mark.parametrize("text", [
    "", "[", "null", "5", '"x"', "[]", "{}", '{"op":5}', '{"op":"and"}', '{"op":"equal","children":[1,2]}',
    '{"op":"not","children":{}}', '{"op":"column","name":"c","valueType":"int"}', '{"op":"literal"}',
    '{"op":"equal","children":[{"op":"column","name":"\\ud800","valueType":"int"},{"op":"literal"}]}',
    '{"op":"isNull","children":[{"op":"column","name":"a.b.c","valueType":"int"}]}',
    '{"op":"not","children":[' * 200 + "1" + "]}" * 200, "[" * 100_000, " " * (1 << 20) + "{}",
    json.dumps(binary("equal", "long", "1" * 5_000)), json.dumps({"op": "and", "children": [{}] * 30_000}),
])  # fmt: skip
def test_junk_is_skipped_with_a_reason(text: str) -> None:
    kept, reason = is_kept("long", stats(1, 10), json=text)

    assert kept
    assert "jsonPredicateHints skipped: " in reason


def test_a_predicate_at_the_limit_of_depth_is_used() -> None:
    part: Any = binary("equal", "long", "11")
    for _ in range(98):
        part = negation(part)

    assert (False, "0 of 1 files; jsonPredicateHints used") == is_kept("long", stats(1, 10), json=json.dumps(part))


def test_padded_strings_and_collations_are_not_compared() -> None:
    padded = StructField("c", PrimitiveType("string"), True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    collated = StructField("d", PrimitiveType("string"), True, {"__COLLATIONS": {"d": "icu.UNICODE_CI"}})
    config = config_of(StructType((padded, collated)))
    adds = adds_of([{"numRecords": 1, "minValues": {"c": "a    ", "d": "a"}, "maxValues": {"c": "a    ", "d": "a"}}])

    found = [select_files(adds, config, Hints(sql=(hint,))).kept for hint in ("c = 'b'", "d = 'B'")]

    assert [None, None] == found


def test_names_are_logical_and_found_in_any_case() -> None:
    config = config_of(schema_of({"a.b": "long", "P": "string"}, {"a.b": "col-1", "P": "col-2"}), ["P"], is_mapped=True)
    adds = adds_of(
        [{"numRecords": 1, "minValues": {"col-1": n}, "maxValues": {"col-1": n}} for n in (1, 2, 3)],
        [{"col-2": text} for text in ("x", "x", "y")],
    )
    part = {"op": "equal", "children": [column("long", "A.B"), literal("2", "long")]}

    found = select_files(adds, config, Hints(sql=("p = 'x'",), json=json.dumps(part)))

    assert [False, True, False] == (found.kept.to_pylist() if found.kept else None)
    assert found.reason == "1 of 3 files; predicateHints[0] used; jsonPredicateHints used"


FIVE = [{"numRecords": 10, "minValues": {"c": 10 * n}, "maxValues": {"c": 10 * n + 9}, "nullCount": {"c": 0}}
        for n in range(5)]  # fmt: skip


@pytest.mark.parametrize(("hints", "cardinality", "expected"), [
    (Hints(limit=10), 0, "10000"),
    (Hints(limit=11), 0, "11000"),
    (Hints(limit=10), 1, "11000"),  # deleted rows do not count
    (Hints(limit=10), 11, "11111"),  # neither does a file whose numbers contradict each other
    (Hints(limit=0), 0, "11111"),
    (Hints(sql=("c >= 10",), limit=10), 0, "01000"),
    (Hints(sql=("c >= 15",), limit=10), 0, "01100"),  # only some rows of the second file match
    (Hints(sql=("c >= 10", "junk"), limit=10), 0, "01111"),
    (Hints(json='{"op":"in"}', limit=10), 0, "11111"),
])  # fmt: skip
def test_the_limit_counts_rows_that_surely_match(hints: Hints, cardinality: int, expected: str) -> None:
    adds = adds_of(FIVE)
    place = adds.schema.get_field_index("deletionVector")
    vector = [{"storageType": "u", "cardinality": cardinality} if cardinality else None] * 5
    adds = adds.set_column(place, adds.schema.field(place), pa.array(vector, adds.schema.field(place).type))

    found = select_files(adds, config_of(schema_of({"c": "long"})), hints)

    assert expected == "".join(str(int(kept)) for kept in (found.kept.to_pylist() if found.kept else [1] * 5))


def test_a_table_without_files_and_files_in_many_chunks() -> None:
    config, hints = config_of(schema_of({"c": "long"})), Hints(sql=("c >= 15",), limit=100)
    table = pa.Table.from_batches([adds_of([one]) for one in FIVE])

    found = [select_files(files, config, hints) for files in (table.slice(0, 0), adds_of([]), table, table.slice(2))]

    assert ["0 of 0", "0 of 0", "4 of 5", "3 of 3"] == [one.reason.partition(" files")[0] for one in found]


def test_the_reason_is_one_line_of_ascii_without_literals() -> None:
    _, reason = is_kept("date", stats(None, None), sql=("c = 'secret ☃\n'", "straße = 1"))

    assert reason.isascii()
    assert reason.isprintable()
    assert "secret" not in reason
