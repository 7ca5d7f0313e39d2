"""Which files a predicate leaves unread: the traps of statistics and partition values, and that it leaves out any."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.prune import prune_files
from deltacli.delta.schema.types import ArrayType, PrimitiveType
from tests.delta.predicate.support import adds_of, config_of, kept, pruned, schema_of, stats

CUT = "a" * 32


@pytest.mark.parametrize(("where", "kind", "given", "is_kept"), [
    # simple ranges are left out
    ("c = 5", "long", stats(1, 4), False),
    ("c = 4", "long", stats(1, 4), True),
    ("c > 4", "long", stats(1, 4), False),
    ("c >= 4", "integer", stats(1, 4), True),
    ("c < 1.0", "short", stats(1, 4), False),
    ("c < 1.5", "byte", stats(1, 4), True),
    ("not (c <= 4)", "long", stats(1, 4), False),
    ("c between 5 and 9", "long", stats(1, 4), False),
    ("c not between 1 and 4", "long", stats(1, 4), False),
    ("c in (0, 5, 6)", "long", stats(1, 4), True),  # between them
    ("c in (5, 6)", "long", stats(1, 4), False),
    ("c = 2 and c = 9", "long", stats(1, 4), False),
    ("c = 9 or c = 8", "long", stats(1, 4), False),
    ("c = 99999999999999999999", "long", stats(1, 4), False),
    ("c is null", "long", stats(1, 4), False),
    ("(c > 4) is not false", "long", stats(1, 4), False),
    ("(c > 4) is not false", "long", stats(1, 4, nulls=1), True),
    ("(c > 4) = (c > 5)", "long", stats(1, 4), True),
    ("(c > 4) = (c > 0)", "long", stats(1, 4), False),
    ("(c > 4) is null", "long", stats(1, 4), False),
    ("not (c > 4) is null", "long", stats(1, 4), True),
    ("c <=> null", "long", stats(1, 4), False),
    ("c <> 5", "long", stats(1, 4), True),
    ("c > date '2024-01-02'", "date", stats("2024-01-01", "2024-01-02"), False),
    ("c > timestamp '2024-01-02 00:00:00'", "date", stats("2024-01-01", "2024-01-02"), False),
    ("c >= timestamp '2024-01-02 00:00:00'", "date", stats("2024-01-01", "2024-01-02"), True),
    ("c = '2024-02-30'::string", "string", stats("2024", "2025"), True),
    ("c < 'b'", "string", stats("b", "c"), False),
    ("c > 'd'", "string", stats("b", "c"), False),
    ("c like 'd%'", "string", stats("b", "c"), False),
    ("c like 'a%'", "string", stats("b", "c"), False),
    ("c like 'b_x%'", "string", stats("bbb", "c"), True),
    ("c like '%d'", "string", stats("b", "c"), True),
    ("c = 1.5", "decimal(4,1)", stats(2, 3.5), False),
    ("c < 2", "double", stats(2.5, 3.5), False),
    # strings: an upper bound may be cut, and marked as such
    ("c > 'aab'", "string", stats("a", "aa"), True),
    ("c = 'aab'", "string", stats("a", "aa"), True),
    ("c like 'aab%'", "string", stats("a", "aa"), True),
    ("c > 'aa'", "string", stats("a", "aa"), True),
    ("c >= 'ab'", "string", stats("a", "aa"), False),
    (f"c > '{CUT}😀'", "string", stats("a", CUT + "\ufffd"), True),
    (f"c = '{CUT}\uffffx'", "string", stats("a", CUT + "\ufffd"), True),
    (f"c = '{CUT}ߠ'", "string", stats("a", CUT + "\u07ff"), True),
    (f"c like '{CUT}é%'", "string", stats("a", CUT + "\x7f"), True),
    ("c > 'b'", "string", stats("a", CUT + "\U0010ffff"), False),
    ("c > 'é'", "string", stats("a", "z"), False),
    # times: cut to milliseconds, and only with a zone
    ("c > '2024-01-01 00:00:00.0005'", "timestamp", stats(None, "2024-01-01T00:00:00.000Z"), True),
    ("c > '2024-01-01 00:00:00.001'", "timestamp", stats(None, "2024-01-01T00:00:00.000Z"), False),
    ("c < '1960-01-01'", "timestamp", stats("1960-01-01T00:00:00.000Z", "1961-01-01T00:00:00.000Z"), True),
    ("c > '2024-01-01'", "timestamp", stats("2023-01-01 00:00:00", "2023-06-01 00:00:00"), True),
    ("c > '2024-01-01'", "timestamp", stats("2023-01-01", "2023-06-01"), True),
    ("c > '2024-01-01'", "timestamp", stats("2023-01-01 00:00:00 Asia/Tokyo", "2023-06-01 00:00:00 Asia/Tokyo"), True),
    ("c > '2024-01-01'", "timestamp", stats("2023-01-01T00:00:00+09:00", "2023-06-01T00:00:00+09:00"), False),
    ("c > '2024-01-01'", "timestamp", stats("never", "2023-02-30T00:00:00Z"), True),
    ("c < '2023-06-01'", "timestamp", stats("2023-06-02T00:00:00.1234567Z", None), False),
    ("c > '2024-01-01'", "timestamp_ntz", stats("2023-01-01", "2024-01-01"), True),
    ("c > '2024-01-01 00:00:00.001'", "timestamp_ntz", stats("2023-01-01", "2024-01-01"), False),
    ("c > '2024-01-01 00:00:00.001'", "timestamp_ntz", stats("2023-01-01T00:00:00", "2024-01-01T00:00:00"), False),
    ("c > '2023-12-31 23:30:00'", "timestamp_ntz", stats("2023-01-01T00:00:00", "2024-01-01T00:00:00+01:00"), True),
    ("c > '294247-01-10 04:00:54.775'", "timestamp", stats(None, "294247-01-10T04:00:54.775Z"), True),
    ("c < '-290308-12-21 19:59:05.225'", "timestamp", stats("-290308-12-21T19:59:05.224300Z", None), True),
    # floats: texts of floats, NaN, and words in the place of numbers
    ("c > 0.1 and c < 1", "double", stats(0.1, 0.1), True),
    ("c = CAST(0.1 AS FLOAT)", "double", stats(0.1, 0.1), True),
    ("c = 16777217", "double", stats(16777216, 16777216), True),
    ("c < 0.1", "float", stats(0.2, 0.3), False),
    ("c > 5", "double", stats(1, 2), True),
    ("c <> 1", "float", stats(1, 1), True),
    ("not (c < 5)", "double", stats(1, 2), True),
    ("c >= 'NaN'", "double", stats(1, 2), True),
    ("c < 'NaN'", "double", stats(1, 2), True),
    ("c = 7", "double", stats(1, "NaN"), True),
    ("c = 7", "double", stats(8, "NaN"), False),
    ("c = 7", "double", stats("NaN", None), True),
    ("c = 'Infinity'", "double", stats(1, "Infinity"), True),
    ("c = 1.7976931348623157e308", "double", stats(1, 1.7976931348623157e308), True),
    ("c > 5", "double", stats(1, 2, nulls=10), True),
    ("c > 5", "double", stats(None, None, nulls=10), False),
    # dates and timestamps before 1900-01-02: by the Julian calendar, or in local mean time
    ("c = date '0099-12-30'", "date", stats("0100-01-01", "0100-01-01"), True),
    ("c = date '1850-01-01'", "date", stats("1900-01-01", "1950-01-01"), True),
    ("c = date '1960-01-01'", "date", stats("0001-01-01", "1950-01-01"), False),
    ("c = date '1900-01-01'", "date", stats("1900-01-02", "1900-01-03"), False),
    ("c = timestamp '1899-12-31T12:00:00Z'", "timestamp", stats("1900-01-01T23:59:59.999Z", None), True),
    ("c = timestamp '1899-12-31T12:00:00Z'", "timestamp", stats("1900-01-02T00:00:00.000Z", None), False),
    ("c = '1800-01-01T00:00:00'", "timestamp_ntz", stats(None, "1799-12-31T00:00:00.000"), True),
    ("c is not null", "date", stats("0001-01-01", "0001-01-02", nulls=10), True),
    # decimals: through a double, or larger than Arrow's reader can bear
    ("c > 123456789012345678", "decimal(20,0)", stats(1, 123456789012345680 - 100), True),
    ("c = 0.12345678901234567", "decimal(20,19)", stats(0, "0.12345678901234566"), True),
    ("c > 5", "decimal(20,0)", stats(1, 4), False),
    ("c > 5", "decimal(20,0)", stats("1", "4"), False),
    ("c = 5", "decimal(10,1)", stats(1, 4.25), True),
    ("c = 0.2", "decimal(38,38)", '{"minValues":{"c":0},"maxValues":{"c":1e75}}', True),
    ("c = 0.2", "decimal(38,38)", '{"maxValues":{"c":1E75}}', True),
    ("c = 0.2", "decimal(38,38)", '{"numRecords":1,"maxValues":{"c":' + "9" * 76 + '},"nullCount":{"c":0}}', True),
    # what contradicts itself, or is no value of its type, is not believed
    ("c = 5", "long", stats(9, 1), True),
    ("c = 5", "long", stats(1, 4, nulls=11), True),
    ("c = 5", "long", stats(1, 4, nulls=-1), True),
    ("c = 5", "long", stats(1, 4, nulls="0"), False),
    ("c is null", "long", stats(1, 4, nulls="0"), True),
    ("c = 5", "long", stats(1, 4.0), True),
    ("c = 5", "long", stats(1, "4"), True),
    ("c = 5", "long", stats(1, 1 << 70), True),
    ("c = 5", "long", stats(1, True), True),
    ("c is not null", "long", stats(None, None, nulls=10), False),
    ("c is not null", "long", stats(None, None, nulls=10, records=None), True),
    ("c is not null", "long", stats(1, 2, nulls=10), True),
    ("c is not null", "long", stats(None, None, nulls=0, records=0), True),
    ("c is not null", "long", stats(None, None, nulls=None), True),
    ("c is null", "long", stats(1, 4, nulls=None), True),
    ("c", "boolean", stats(False, False), True),
    ("c", "boolean", stats(None, None, nulls=10), False),
    ("c = X'ff'", "binary", stats("a", "b"), True),
    ("c = X'ff'", "binary", stats(None, None, nulls=10), False),
    ("c = 5", "long", None, True),
    ("c = 5", "long", "", True),
    ("c = 5", "long", "null", True),
    ("c = 5", "long", '{"numRecords":1,"maxValues":{"c":1}} null', True),
    ("c = 5", "long", '{"numRecords":1} null {"maxValues":{"c":1}}', True),
    ("c = 5", "long", '{"numRecords":NaN,"maxValues":{"c":1}}', True),
    ("c = 5", "long", '{"numRecords":1,"maxValues":[1]}', True),
    ("c = 'x'", "string", '{"maxValues":{"c":"a\\ud800"}}', True),
    # types without an order, columns next to columns
    ("c is null", ArrayType(PrimitiveType("long"), True), stats(None, None, nulls=0), True),
])  # fmt: skip
def test_a_file_is_kept_unless_its_statistics_exclude_it(where: str, kind: Any, given: Any, is_kept: bool) -> None:
    assert [is_kept] == kept(where, {"c": kind}, given)


def test_wide_bounds_still_apply_and_null_counts_prove_less() -> None:
    wide = {**stats(1, 4, nulls=3), "tightBounds": False}

    assert [False] == kept("c = 5", {"c": "long"}, wide)
    assert [True] == kept("c is null", {"c": "long"}, wide)
    assert [False] == kept("c is null", {"c": "long"}, {**stats(1, 4, nulls=0), "tightBounds": False})
    assert [False] == kept("c = 5", {"c": "long"}, {**stats(None, None, nulls=10), "tightBounds": False})


def test_fields_of_a_struct_may_be_null_whatever_was_counted() -> None:
    columns = {"s": schema_of({"x": "long"})}
    given = {part: {"s": {"x": value}} for part, value in (("minValues", 1), ("maxValues", 4), ("nullCount", 0))}

    assert [False] == kept("s.x = 5", columns, {"numRecords": 10, **given})
    assert [True] == kept("s.x is null", columns, {"numRecords": 10, **given})
    assert [True] == kept("s is null", columns, {"numRecords": 10, **given})
    assert [False] == kept("s.x = 5", columns, {"numRecords": 10, "nullCount": {"s": {"x": 10}}})


def test_columns_next_to_columns_are_kept() -> None:
    given = {
        "numRecords": 1,
        "minValues": {"a": 1, "b": 5},
        "maxValues": {"a": 2, "b": 6},
        "nullCount": {"a": 0, "b": 0},
    }

    assert [True] == kept("a < b", {"a": "long", "b": "long"}, given)


def test_one_bad_text_does_not_hide_the_others() -> None:
    good = [stats(number, number) for number in range(300)]
    texts = [*good[:150], stats(1, "4"), None, '{"maxValues":{"c":1.5}}', *good[150:]]

    found = kept("c = 200", {"c": "long"}, *texts)

    assert [number for number in range(len(texts)) if number in (150, 151, 152, 203)] == [
        number for number, is_kept in enumerate(found) if is_kept
    ]


def test_physical_names_are_those_of_the_statistics() -> None:
    schema = schema_of({"c": "long", "p": "long"}, {"c": "col-1", "p": "col-2"})
    adds = adds_of([stats(1, 4, name="col-1"), stats(1, 4, name="c")], [{"col-2": "1"}, {"col-2": "2"}])
    config = config_of(schema, ["p"], is_mapped=True)

    assert [False, True] == prune_files(adds, parse_predicate("c = 5", schema), config).kept.to_pylist()
    assert [False, True] == prune_files(adds, parse_predicate("p = 2", schema), config).kept.to_pylist()


MISSING: dict[str, str | None] = {}


@pytest.mark.parametrize(("where", "kind", "values", "is_kept"), [
    ("p = 2", "long", {"p": "2"}, True),
    ("p = 2", "long", {"p": "3"}, False),
    ("p <> 3", "long", {"p": "3"}, False),
    ("p = 2", "long", {"p": "x"}, True),
    ("p = 2", "long", {"p": None}, False),
    ("p is null", "long", {"p": None}, True),
    ("p is null", "long", {"p": ""}, True),
    ("p = 2", "long", {"p": ""}, False),
    ("p = 2", "long", MISSING, True),
    ("p is null", "long", MISSING, True),
    ("p = ''", "string", {"p": ""}, True),
    ("p is null", "string", {"p": ""}, True),
    ("p is null", "string", {"p": "__HIVE_DEFAULT_PARTITION__"}, False),
    ("p = '__HIVE_DEFAULT_PARTITION__'", "string", {"p": "__HIVE_DEFAULT_PARTITION__"}, True),
    ("p like '%b%' and p <> 'abc'", "string", {"p": "abc"}, False),
    ("p > 'ab'", "string", {"p": "ab"}, False),
    ("p = date '2024-01-01'", "date", {"p": "2024-01-01"}, True),
    ("p <> date '2024-01-01'", "date", {"p": "2024-01-01"}, False),
    ("p = '2024-01-01'", "timestamp_ntz", {"p": "2024-01-01"}, True),
    ("p = '2024-01-01'", "timestamp", {"p": "2024-01-01 00:00:00"}, True),
    ("p > '2024-01-01'", "timestamp", {"p": "2024-01-01 00:00:00"}, False),
    ("p > '2024-01-01'", "timestamp", {"p": "2024-01-01 00:00:00 Asia/Tokyo"}, True),
    ("p = 0.1", "double", {"p": "0.1"}, True),
    ("p > 5", "double", {"p": "NaN"}, True),
    ("p > 5", "double", {"p": "4"}, False),
    ("p", "boolean", {"p": "TRUE"}, True),
    ("not p", "boolean", {"p": "true"}, False),
    ("p = 1.50", "decimal(5,2)", {"p": "1.5"}, True),
    ("p = c", "long", {"p": "1"}, True),
])  # fmt: skip
def test_partition_values_are_exact_where_they_parse(
    where: str, kind: str, values: dict[str, str | None], is_kept: bool
) -> None:
    # A second file, without doubt, makes the partition column one in all cases.
    found = pruned(where, {"p": kind, "c": "long"}, [None, None], [values, {"p": None}])

    assert is_kept == found.kept[0].as_py()
    assert (not is_kept) == found.by_partition[0].as_py()


def test_files_pruned_by_partition_and_by_statistics_are_distinguished() -> None:
    found = pruned(
        "p = 1 and c = 5 or p = 3", {"p": "long", "c": "long"},
        [stats(1, 4), stats(1, 9), stats(1, 9), stats(1, 4), None],
        [{"p": "1"}, {"p": "1"}, {"p": "2"}, {"p": "3"}, {"p": "1"}],
    )  # fmt: skip

    assert [False, True, False, True, True] == found.kept.to_pylist()
    assert [False, False, True, False, False] == found.by_partition.to_pylist()


def test_a_batch_may_be_part_of_another_and_may_be_empty() -> None:
    schema = schema_of({"c": "long", "p": "long"})
    adds = adds_of([stats(number, number) for number in range(4)], [{"p": "1"}, {"p": "1"}, {}, {"p": None}])
    predicate, config = parse_predicate("c >= 2 and p is null", schema), config_of(schema, ["p"])

    assert [True, True] == prune_files(adds.slice(2), predicate, config).kept.to_pylist()
    assert [True] == prune_files(adds.slice(3), predicate, config).kept.to_pylist()
    assert [] == prune_files(adds.slice(4), predicate, config).kept.to_pylist()


def test_other_columns_of_the_statistics_are_not_read() -> None:
    given = {
        "numRecords": 1,
        "minValues": {"other": [1, {}], "c": 1},
        "maxValues": {"other": "x", "c": 2},
        "nullCount": {"c": 0},
    }

    assert [False, True] == kept("c = 5", {"c": "long"}, given, json.dumps(given).replace('"c": 2', '"c": 5'))


def test_a_longer_text_than_any_bound_is_compared() -> None:
    long = "a" * 5000

    assert [True, False] == kept(f"c = '{long}'", {"c": "string"}, stats("a", "a" * 3000), stats("A", "B"))


def test_answers_are_never_null() -> None:
    found = pruned("p = 1 and c = 5", {"p": "long", "c": "long"}, [None, stats(1, 2)], [{"p": None}, {"p": "1"}])

    assert (0, 0) == (found.kept.null_count, found.by_partition.null_count)
    assert pa.bool_() == found.kept.type
