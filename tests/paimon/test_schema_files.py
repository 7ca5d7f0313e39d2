"""Reading and writing single types, schema files and changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.core.errors import Unreadable
from deltacli.paimon.schema import java_text, read_schema
from deltacli.paimon.schema_changes import ChangeKind, Loss, changes_between, judge_cast, sentence
from deltacli.paimon.types import (
    AtomicType,
    BadType,
    ListType,
    Root,
    parse_type,
    simple_text,
    type_json,
    type_text,
)

ROW = {"type": "ROW", "fields": [{"id": 2, "name": "a b", "type": "INT"}]}


def schema_bytes(**changes: Any) -> bytes:  # Any: JSON values
    """Return a schema file with some keys replaced; None removes a key."""
    content = {
        "version": 3,
        "id": 0,
        "fields": [{"id": 0, "name": "k", "type": "BIGINT NOT NULL"}, {"id": 1, "name": "v", "type": "INT"}],
        "highestFieldId": 1,
        "partitionKeys": [],
        "primaryKeys": ["k"],
        "options": {"bucket": "2"},
        "timeMillis": 7,
    }
    merged = {key: value for key, value in (content | changes).items() if value is not None}
    return json.dumps(merged).encode()


def test_types_are_printed_as_json_and_as_sql() -> None:
    found = parse_type({"type": "MAP NOT NULL", "key": "string not  null", "value": {"type": "ARRAY", "element": ROW}})

    assert {"type": "MAP NOT NULL", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": ROW}} == type_json(
        found
    )
    assert "MAP<STRING NOT NULL, ARRAY<ROW<`a b` INT>>> NOT NULL" == type_text(found)
    assert "MAP<STRING NOT NULL, ARRAY<ROW>> NOT NULL" == simple_text(found)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "the type ends too early"),
        ("INT NOT", "unexpected 'NOT'"),
        ("ARRAY<INT>", "ARRAY with parts is a JSON object in schema files, not a string"),
        ("DECIMAL(39, 0)", "the precision must be from 1 to 38"),
        ("CHAR(x)", "CHAR: 'x' is not a whole number"),
        ("VARCHAR(99999999999999999999999)", "is not a whole number"),
        ({"type": "ROW", "fields": [{"id": 1, "name": "a", "type": ROW | {"fields": [{"name": "b"}]}}]}, "a.b: type"),
        ({"type": "MAP", "value": "INT"}, "key is missing"),
    ],
)
def test_a_bad_type_has_a_reason(value: object, reason: str) -> None:
    with pytest.raises(BadType) as caught:
        parse_type(value)

    assert reason in str(caught.value)


def test_deep_types_and_long_strings_are_refused() -> None:
    deep: object = "INT"
    for _ in range(500):
        deep = {"type": "ARRAY", "element": deep}

    for value in (deep, "INT " * 10_000, "(" * 9_000):
        with pytest.raises(BadType):
            parse_type(value)


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"", "paimon.bad-json", "the file is empty"),
        (b" \n", "paimon.bad-json", "the file is empty"),
        (b"\xef\xbb\xbf{}", "paimon.bad-json", "byte order mark"),
        (b"[]", "paimon.bad-json", "not a JSON object"),
        (b'{"id": NaN}', "paimon.bad-json", "NaN"),
        (b'{"a":' * 100_000, "paimon.bad-json", "nested too deeply"),
        (b'{"id": "\xff"}', "paimon.bad-json", "byte 8 is not UTF-8"),
        (schema_bytes(highestFieldId=None), "paimon.missing-key", "highestFieldId is missing"),
        (schema_bytes(highestFieldId="one"), "paimon.bad-value", "highestFieldId is not a whole number"),
        (schema_bytes(fields=[{"name": "k", "type": "INT"}]), "paimon.missing-key", "id is missing at k"),
        (schema_bytes(fields=[{"id": 0, "name": "k", "type": "UUID"}]), "paimon.bad-type", "k: unknown type 'UUID'"),
    ],
)
def test_a_bad_schema_file_has_a_code_and_a_reason(data: bytes, code: str, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_schema(data)

    assert code == caught.value.code
    assert reason in caught.value.message


def test_what_java_reads_and_does_not_write_is_read_and_noted() -> None:
    data = schema_bytes(options={"bucket": 2, "x": None}, partitionKeys=None, more=1)
    data = data.replace(b'"id": 0,', b'"id": 5, "id": 0, "partitionKeys": null,', 1) + b" trailing"

    found = read_schema(data)

    assert {"bucket": "2", "x": "null"} == found.options
    assert (0, ()) == (found.id, found.partition_keys)
    assert {
        ("paimon.duplicate-key", "id"),
        ("paimon.trailing-text", ""),
        ("paimon.unknown-key", "more"),
        ("paimon.null-key", "partitionKeys"),
        ("paimon.option-not-string", "options.bucket"),
        ("paimon.option-not-string", "options.x"),
    } == {(oddity.rule, oddity.place) for oddity in found.oddities}


VECTOR = {"type": "VECTOR", "element": "INT", "length": "2"}


@pytest.mark.parametrize("number", ["3", " +3\n", "03", 3.0])
def test_numbers_in_quotes_or_with_decimals_are_read_and_noted(number: object) -> None:
    fields = [{"id": number, "name": "k", "type": "INT"}, {"id": 4, "name": "v", "type": VECTOR}]

    data = schema_bytes(version=number, id=number, highestFieldId=number, timeMillis=number, fields=fields)
    found = read_schema(data)

    assert (3, 3, 3, 3, 3) == (found.version, found.id, found.highest_field_id, found.time_ms, found.fields[0].id)
    assert ListType(Root.VECTOR, AtomicType(Root.INT), length=2) == found.fields[1].type
    keys = ("version", "id", "highestFieldId", "timeMillis", "k.id", "v.length")
    assert {("paimon.wrong-json-type", key) for key in keys} == {
        (oddity.rule, oddity.place) for oddity in found.oddities
    }


@pytest.mark.parametrize(
    "number", ["", "three", "3.0", "0x3", "٣", "3 3", "9" * 19, "9" * 5_000, 3.5, 1e300, True, [], {}]
)
@pytest.mark.parametrize("key", ["version", "id", "highestFieldId", "timeMillis"])
def test_a_number_of_which_java_makes_another_one_is_refused(key: str, number: object) -> None:
    with pytest.raises(Unreadable) as caught:
        read_schema(schema_bytes(**{key: number}))

    assert "paimon.bad-value" == caught.value.code


@pytest.mark.parametrize(
    ("version", "options"),
    [(None, {"bucket": "1", "file.format": "orc"}), (2, {"file.format": "orc"}), (3, {}), (4, {})],
)
def test_old_versions_have_their_defaults(version: int | None, options: dict[str, str]) -> None:
    found = read_schema(schema_bytes(version=version, options={}))

    assert options == found.options
    assert tuple(options) == found.defaulted


def test_texts_are_escaped_as_java_escapes_them() -> None:
    assert '{\n  "a\\"\\u001F\\n" : [ "é", 1, true ]\n}' == java_text({'a"\x1f\n': ["é", 1, True]})


def test_a_renamed_column_with_the_name_of_a_dropped_one_is_not_that_column() -> None:
    before = read_schema(schema_bytes())
    fields = [{"id": 0, "name": "v", "type": "BIGINT NOT NULL"}, {"id": 2, "name": "k", "type": "INT"}]
    after = read_schema(schema_bytes(id=1, fields=fields, highestFieldId=2, primaryKeys=["v"]))

    changes = changes_between(before, after)

    assert ["drop v INT", "rename k to v", "add k INT", "primary keys (k) -> (v)", "highestFieldId 1 -> 2"] == [
        *map(sentence, changes)
    ]
    assert [Loss.LOSSY, *[Loss.LOSSLESS] * 4] == [change.loss for change in changes]


def test_fields_of_equal_id_and_name_are_matched_one_by_one() -> None:
    found = read_schema(schema_bytes(fields=[{"id": 1, "name": "a", "type": "INT"}] * 3))

    assert () == changes_between(found, found)


def test_a_lone_surrogate_stays_an_escape() -> None:
    found = read_schema(schema_bytes(comment="\ud800"))

    assert "\ud800" == read_schema(found.encode()).comment


def test_a_column_of_the_key_and_an_immutable_option_cannot_change() -> None:
    before = read_schema(schema_bytes())
    fields = [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "INT"}]
    after = read_schema(schema_bytes(id=1, fields=fields, options={"bucket": "2", "merge-engine": "aggregation"}))

    refused = {change.kind: change.reason for change in changes_between(before, after)}
    without_snapshots = changes_between(before, after, has_snapshots=False)

    assert "it is a key" == refused[ChangeKind.TYPE]
    assert "merge-engine cannot be changed once the table has a snapshot" == refused[ChangeKind.SET_OPTION]
    assert [Loss.REFUSED, Loss.LOSSLESS] == [change.loss for change in without_snapshots]


def test_implicit_does_not_mean_lossless() -> None:
    narrowed = judge_cast(parse_type("DECIMAL(12, 4)"), parse_type("DECIMAL(5, 2)"))
    widened = judge_cast(parse_type("DATE"), parse_type("TIMESTAMP(6)"))

    assert (Loss.LOSSY, "implicit") == narrowed[:2]
    assert (Loss.LOSSLESS, "explicit") == widened[:2]
