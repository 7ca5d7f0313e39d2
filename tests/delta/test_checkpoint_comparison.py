"""File actions of a checkpoint against those of the log, in columns."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.checkpoint.comparison import (
    CheckpointComparison,
    Difference,
    DuplicateFinder,
    comparable_adds,
    compare,
    parsed_partition_differences,
    parsed_record_differences,
)
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.state import TableConfiguration

VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def add_of(path: str = "a", **fields: Any) -> dict[str, Any]:
    values = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"path": path} | values | fields


def batch_of(*adds: dict[str, Any]) -> pa.RecordBatch:
    maps = ("partitionValues", "tags")
    rows = [add | {name: list(add[name].items()) for name in maps if isinstance(add.get(name), dict)} for add in adds]
    return pa.RecordBatch.from_pylist(rows, schema=action_schemas().add)


def compared(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> CheckpointComparison:
    return compare(comparable_adds(batch_of(*found)), comparable_adds(batch_of(*expected)), TableConfiguration())


def fields_that_differ(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the reported fields of one file, which do not depend on which of the two is the checkpoint's."""
    one, other = compared([add_of(**found)], [add_of(**expected)]), compared([add_of(**expected)], [add_of(**found)])
    assert ([], []) == (one.missing, one.extra) == (other.missing, other.extra)
    fields = [difference.field for difference in one.different]
    assert fields == [difference.field for difference in other.different]
    return fields


def test_files_are_missing_extra_or_different_by_path_and_vector() -> None:
    deleted = VECTOR | {"cardinality": 1}
    found = [add_of("a"), add_of("b", size=2), add_of("c", deletionVector=deleted)]
    expected = [add_of("b"), add_of("c"), add_of("%61"), add_of("d")]

    assert CheckpointComparison(["c", "d"], ["c"], [Difference("b", "size", 2, 1)]) == compared(found, expected)


def test_an_offset_that_an_inline_vector_does_not_need_is_a_field_that_differs() -> None:
    vector = {"storageType": "i", "pathOrInlineDv": "@0", "sizeInBytes": 40, "cardinality": 1}

    assert ["deletionVector"] == fields_that_differ(
        {"deletionVector": vector | {"offset": 0}}, {"deletionVector": vector}
    )
    one, other = ([add_of(deletionVector=VECTOR | {"cardinality": 1, "offset": offset})] for offset in (4, 5))
    assert (["a"], ["a"]) == compared(one, other)[:2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"size": 1}, {"size": 2}),
        ({"modificationTime": 1}, {"modificationTime": 2}),
        ({"baseRowId": 0}, {"baseRowId": None}),
        ({"defaultRowCommitVersion": 0}, {"defaultRowCommitVersion": 1}),
        ({"partitionValues": {"p": "a"}}, {"partitionValues": {"p": "b"}}),
        ({"partitionValues": {"p": "a"}}, {"partitionValues": {}}),
        ({"clusteringProvider": "x"}, {"clusteringProvider": None}),
        ({"clusteringProvider": "x"}, {"clusteringProvider": "X"}),
        ({"deletionVector": VECTOR | {"cardinality": 1}}, {"deletionVector": VECTOR | {"cardinality": 2}}),
        ({"tags": {"a": "1"}}, {"tags": {"a": "2"}}),
        ({"tags": {"a": "1"}}, {"tags": None}),
        ({"stats": '{"numRecords":1}'}, {"stats": '{"numRecords":2}'}),
        ({"stats": '{"numRecords":1}'}, {"stats": "[1]"}),
        ({"stats": '{"numRecords":1}'}, {"stats": '{"numRecords":1'}),
    ],
)
def test_each_field_may_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert list(one) == fields_that_differ(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tags": {}}, {"tags": None}),
        ({"tags": {"a": "1", "b": "2"}}, {"tags": {"b": "2", "a": "1"}}),
        ({"partitionValues": {"p": "a", "q": ""}}, {"partitionValues": {"q": None, "p": "a"}}),
        ({"stats": '{"numRecords":1}'}, {"stats": None}),
        ({"stats": '{"numRecords":1}'}, {"stats": '{ "numRecords" : 1.0 }'}),
        ({"stats": "[1]"}, {"stats": "[ 1 ]"}),
        ({"dataChange": True}, {"dataChange": False}),
    ],
)
def test_equal_values_in_other_forms_are_not_a_difference(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert [] == fields_that_differ(one, other)


def test_values_missing_in_a_checkpoint_are_reported_as_absent() -> None:
    found = compared([add_of(clusteringProvider=None)], [add_of(clusteringProvider="x")])

    assert [Difference("a", "clusteringProvider", None, "x")] == found.different


def test_files_that_occur_twice_are_found_by_path_and_vector() -> None:
    finder = DuplicateFinder()
    assert [] == finder.paths()
    finder.take(batch_of(add_of("a"), add_of("b"), add_of("c", deletionVector=VECTOR | {"cardinality": 1})))
    finder.take(batch_of(add_of("%62"), add_of("c"), add_of("d")))

    assert ["b"] == finder.paths()


def partition_differences(kind: pa.DataType, parsed: Any, text: str | None) -> list[tuple[object, object]]:
    values = pa.array([[("p", text)]], pa.map_(pa.string(), pa.string()))
    column = pa.array([{"p": parsed}], pa.struct([("p", kind)]))
    found = list(parsed_partition_differences(values, column, pa.array(["a"]), ["p", "q"]))
    assert all(("a", "p") == (difference.path, difference.field) for difference in found)
    return [(difference.seen, difference.expected) for difference in found]


@pytest.mark.parametrize(
    ("kind", "parsed", "text"),
    [
        (pa.int32(), 5, "5"),
        (pa.int32(), 5, "+05"),
        (pa.bool_(), True, "TRUE"),
        (pa.bool_(), False, "False"),
        (pa.string(), "05", "05"),
        (pa.string(), None, ""),
        (pa.string(), None, None),
        (pa.float64(), 1.0, "1"),
    ],
)
def test_parsed_partition_values_may_be_spelled_otherwise(kind: pa.DataType, parsed: Any, text: str | None) -> None:
    assert [] == partition_differences(kind, parsed, text)


@pytest.mark.parametrize(
    ("kind", "parsed", "text", "seen"),
    [
        (pa.int32(), 5, "6", "5"),
        (pa.int32(), 5, "five", "5"),
        (pa.int32(), 5, None, "5"),
        (pa.int32(), None, "5", None),
        (pa.bool_(), True, "false", "true"),
        (pa.bool_(), True, "1", "true"),
        (pa.bool_(), True, None, "true"),
        (pa.bool_(), None, "true", None),
        (pa.string(), "05", "5", '"05"'),
        (pa.string(), "", "a", '""'),
        (pa.float64(), None, "1", None),
    ],
)
def test_parsed_partition_values_that_differ_are_reported(
    kind: pa.DataType, parsed: Any, text: str | None, seen: str | None
) -> None:
    assert [(seen, text)] == partition_differences(kind, parsed, text)


STATS = pa.struct([("numRecords", pa.int64()), ("maxValues", pa.struct([("t", pa.string()), ("x", pa.float64())]))])


def record_differences(*rows: tuple[dict[str, Any] | None, str | None], kind: pa.DataType = STATS) -> list[Difference]:
    stats = pa.array([text for _, text in rows], pa.string())
    parsed = pa.array([value for value, _ in rows], kind)
    return list(parsed_record_differences(stats, parsed, pa.array([str(row) for row in range(len(rows))])))


def test_floats_are_compared_in_their_own_precision() -> None:
    inner = pa.struct([("y", pa.float32())])
    bounds = pa.struct([("x", pa.float32()), ("s", inner)])
    kind = pa.struct([("numRecords", pa.int64()), ("minValues", bounds)])
    parsed = {"numRecords": 1, "minValues": {"x": 0.1, "s": {"y": 123456792.0}}}

    def differing(x: float, y: float) -> list[str]:
        text = json.dumps({"numRecords": 1, "minValues": {"x": x, "s": {"y": y}}})
        return sorted(one.field for one in record_differences((parsed, text), kind=kind))

    assert [] == differing(0.10000000149011612, 123456792.0) == differing(0.1, 123456790)
    assert ["minValues.s.y", "minValues.x"] == differing(0.10000001, 123456800)


@pytest.mark.parametrize(
    ("kind", "parsed", "text"),
    [
        (pa.bool_(), False, True),
        (pa.float64(), 123456789000.0, 123456789012.0),
        (pa.decimal128(20, 2), Decimal("123456789000.00"), 123456789012.0),
    ],
)
def test_parsed_bounds_of_every_type_are_compared(kind: pa.DataType, parsed: Any, text: Any) -> None:
    struct = pa.struct([("numRecords", pa.int64()), ("maxValues", pa.struct([("x", kind)]))])

    def fields(value: Any) -> list[str]:
        row = {"numRecords": 1, "maxValues": {"x": value}}
        return [one.field for one in record_differences((row, json.dumps(wanted)), kind=struct)]

    wanted = {"numRecords": 1, "maxValues": {"x": text}}
    same = Decimal(text) if isinstance(parsed, Decimal) else text

    assert (["maxValues.x"], []) == (fields(parsed), fields(same))


def test_parsed_statistics_are_compared_where_both_are_there() -> None:
    sound = {"numRecords": 1, "maxValues": {"t": "a", "x": 1.5}}

    assert [] == record_differences((sound, None), (None, '{"numRecords":2}'))
    assert [Difference("2", "numRecords", 1, 2), Difference("3", "maxValues.t", "a", "b")] == record_differences(
        (sound, None),
        (sound, json.dumps(sound)),
        (sound, '{"numRecords":2}'),
        (sound, '{"maxValues":{"x":1.5000000000000002,"t":"b"}}'),
        (sound, '{"numRecords":"1","maxValues":{"t":null,"x":true}}'),
        (sound, '{"numRecords":'),
        (sound, "[1]"),
        (None, '{"numRecords":2}'),
    )


def test_parsed_statistics_without_a_count_of_records_are_not_compared() -> None:
    assert [] == record_differences(({"x": 1}, '{"x":2}'), kind=pa.struct([("x", pa.int64())]))


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00.999999Z", False),
        ("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:01.000Z", True),
        ("2020-01-01T00:00:00.000Z", "2020-01-01T09:00:00.000+09:00", False),
        ("2020-01-01 00:00:00", "2020-01-01", False),
        ("2020-01-01", "2020-01-02", True),
        ("2020-01-01", "2020-01-32", True),
        ("2020-01-01", "text", True),
    ],
)
def test_times_that_are_a_second_apart_differ(one: str, other: str, differ: bool) -> None:
    for parsed, text in ((one, other), (other, one)):
        found = record_differences(({"numRecords": 1, "maxValues": {"t": parsed}}, f'{{"maxValues":{{"t":"{text}"}}}}'))

        assert ([Difference("0", "maxValues.t", parsed, text)] if differ else []) == found
