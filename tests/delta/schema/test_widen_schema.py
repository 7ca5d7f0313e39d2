"""What a schema keeps when a type in it changes, and what its history says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.core.errors import Unreadable
from deltacli.delta.schema.column_path import ColumnFinder
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.schema.widened_schema import Widened, history_of, read_exactly, widened_schema, write_exactly
from tests.support.widening import Json, array, compact, field, map_of, struct


def widened(schema: Json, path: str, from_type: str, to_type: str, version: int | None = None) -> str:
    text = schema if isinstance(schema, str) else compact(schema)
    place = ColumnFinder(parse_schema(text)).find(path)
    return widened_schema(text, [Widened(place, from_type, to_type)], version)


def test_unknown_fields_are_kept() -> None:
    schema = (
        '{"kind":1.50,"type":"struct","fields":['
        '{"metadata":{"exact":1e400,"long":123456789012345678901234567890,"half":0.10,"non":NaN,"é\\u2028":null},'
        '"nullable":false,"type":"integer","name":"ü","later":[true,{}]},'
        '{"name":"b","type":{"type":"array","elementType":"date","containsNull":false,"more":-0}}],"end":"\\\\"}'
    )

    after = widened(schema, "ü", "integer", "long")

    expected = schema.replace('"type":"integer"', '"type":"long"').replace("\\u2028", "\u2028")
    entry = '"delta.typeChanges":[{"fromType":"integer","toType":"long"}]'
    assert expected.replace('":null}', f'":null,{entry}}}') == after


def test_a_field_without_metadata_gets_it() -> None:
    schema = {"type": "struct", "fields": [{"name": "b", "type": array("date")}]}

    after = json.loads(widened(schema, "b.element", "date", "timestamp_ntz"))

    entry = {"fromType": "date", "toType": "timestamp_ntz", "fieldPath": "element"}
    assert {"delta.typeChanges": [entry]} == after["fields"][0]["metadata"]


def test_blanks_go() -> None:
    schema = json.dumps(struct(field("a", "decimal(10, 2)", comment="a  b")), indent=2)

    after = widened(schema, "a", "decimal(10,2)", "decimal(12,2)")

    assert after.startswith('{"type":"struct","fields":[{"name":"a","type":"decimal(12,2)","nullable":true,')
    assert '"comment":"a  b"' in after


def test_halves_of_characters_stay_halves() -> None:
    schema = compact(struct(field("a", "byte", comment="x"))).replace('"x"', '"\\ud800é"')

    after = widened(schema, "a", "byte", "long")

    assert after.encode()
    assert "\ud800é" == json.loads(after)["fields"][0]["metadata"]["comment"]


def test_a_further_change_is_added_to_the_history() -> None:
    old = {"toType": "integer", "fromType": "byte", "tableVersion": 2, "by": "somebody"}
    schema = struct(field("a", "integer", **{"delta.typeChanges": [old], "comment": "c"}))

    after = json.loads(widened(schema, "a", "integer", "long", version=7))

    entry = {"fromType": "integer", "toType": "long", "tableVersion": 7}
    assert {"delta.typeChanges": [old, entry], "comment": "c"} == after["fields"][0]["metadata"]


def test_without_the_preview_older_versions_stay_and_no_new_one_is_written() -> None:
    old = {"fromType": "byte", "toType": "integer", "tableVersion": 2}
    schema = struct(field("a", "integer", **{"delta.typeChanges": [old]}))

    after = json.loads(widened(schema, "a", "integer", "long"))

    assert [old, {"fromType": "integer", "toType": "long"}] == after["fields"][0]["metadata"]["delta.typeChanges"]


@pytest.mark.parametrize("metadata", ["text", ["list"], {"delta.typeChanges": "[]x"}, {"delta.typeChanges": {"a": 1}}])
def test_a_history_that_cannot_be_continued_is_an_error(metadata: Any) -> None:  # Any: JSON values
    schema = {"type": "struct", "fields": [{"name": "a", "type": "byte", "nullable": True, "metadata": metadata}]}

    with pytest.raises(Unreadable, match="the history of a cannot be continued"):
        widened(schema, "a", "byte", "long")


def test_json_too_deep_to_read_or_write_is_an_error() -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        read_exactly("[" * 100_000)
    value: Json = "x"
    for _ in range(100_000):
        value = [value]
    with pytest.raises(Unreadable, match="nested too deeply"):
        write_exactly(value)


# -- history ---------------------------------------------------------------------------------------------------------

SEED = field(
    "e",
    array(map_of("string", "decimal(10, 4)")),
    **{
        "delta.typeChanges": [
            {"fromType": "decimal(6, 2)", "toType": "decimal(10, 4)", "fieldPath": "element.key"},
        ]
    },
)
"""The example of the draft, whose fieldPath names the key although the value was changed."""


def test_a_change_recorded_under_the_key_is_recognised_as_one_of_the_value() -> None:
    place = ColumnFinder(parse_schema(compact(struct(SEED)))).find("e.element.value")

    history = history_of(place)

    assert (None, ("element.key",)) == (history.fault, history.misplaced)
    assert ["decimal(10,4)"] == [entry.to_type for entry in history.entries]


def test_a_change_recorded_under_the_key_is_kept_and_never_written() -> None:
    after = json.loads(widened(struct(SEED), "e.element.value", "decimal(10,4)", "decimal(12,4)"))

    entries = after["fields"][0]["metadata"]["delta.typeChanges"]
    assert SEED["metadata"]["delta.typeChanges"] == entries[:1]
    assert [{"fromType": "decimal(10,4)", "toType": "decimal(12,4)", "fieldPath": "element.value"}] == entries[1:]


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([("byte", "short"), ("short", "integer")], None),
        ([("byte", "int")], None),
        ([("byte", "short"), ("byte", "integer")], "it was changed to short, but the next change is from byte"),
        ([("byte", "short")], "its last change is to short, but its type is integer"),
    ],
)
def test_a_history_connects_each_type_to_the_next_and_to_the_current_one(
    entries: list[tuple[str, str]], fault: str | None
) -> None:
    changes = [{"fromType": one, "toType": other} for one, other in entries]
    place = ColumnFinder(parse_schema(compact(struct(field("a", "integer", **{"delta.typeChanges": changes}))))).find(
        "a"
    )

    assert fault == history_of(place).fault


def test_changes_of_the_key_are_not_history_of_the_value() -> None:
    changes = [{"fromType": "byte", "toType": "short", "fieldPath": "key"}]
    column = field("m", map_of("short", "short"), **{"delta.typeChanges": changes})
    schema = parse_schema(compact(struct(column)))

    assert () == history_of(ColumnFinder(schema).find("m.value")).entries
    assert 1 == len(history_of(ColumnFinder(schema).find("m.key")).entries)
