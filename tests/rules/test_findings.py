"""Findings as documents and texts, and the types that the fields of actions must have."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.delta.log.segment import Place
from deltacli.rules.log.commit_lines import UNKNOWN_FIELD, FieldFault, describe_value, faults_of, unknown_fields


def test_a_finding_has_only_the_known_parts_of_its_location() -> None:
    place = Place("a.json", version=0, key="")

    found = UNKNOWN_FIELD.at(place, "x", seen=0).as_json()

    assert {"path": "a.json", "version": 0, "key": ""} == found["location"]
    assert ("0", None) == (found["seen"], found["expected"])


@pytest.mark.parametrize(
    ("value", "text"), [("x" * 300, "x" * 300), ("x" * 301, "x" * 299 + "…"), (["a"], "['a']"), ("", ""), (None, None)]
)
def test_the_seen_value_is_shown_up_to_a_length(value: object, text: str | None) -> None:
    found = UNKNOWN_FIELD.at(Place("a"), "x", seen=value, expected=value)

    assert (text, text) == (found.seen, found.expected)


TXN = {"appId": "a", "version": 1}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 1}
METADATA = {
    "id": "x",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": "",
    "partitionColumns": [],
    "configuration": {},
}


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("txn", TXN),
        ("txn", TXN | {"version": 2**63 - 1, "lastUpdated": -(2**63)}),
        ("txn", TXN | {"lastUpdated": None}),
        ("protocol", PROTOCOL | {"minReaderVersion": 2**31 - 1, "minWriterVersion": -(2**31)}),
        ("metaData", METADATA | {"format": {"provider": "p", "options": {"a": "b"}}, "configuration": {"a": "b"}}),
        ("remove", {"path": "a", "dataChange": False, "partitionValues": {"p": None, "q": "a"}}),
        ("remove", {"path": "a", "dataChange": False, "deletionVector": {}, "tags": {"a": 1}}),
        ("commitInfo", {"version": "any"}),
        ("x", {"y": 1}),
    ],
)
def test_fields_of_the_right_types_are_silent(kind: str, action: dict[str, Any]) -> None:
    assert [] == list(faults_of(kind, action))


LONG, INT = "an integer of 64 bits", "an integer of 32 bits"


@pytest.mark.parametrize(
    ("kind", "action", "fault"),
    [
        ("txn", {"version": 1}, ("appId", None, "a string")),
        ("txn", TXN | {"appId": None}, ("appId", None, "a string")),
        ("txn", TXN | {"version": 2**63}, ("version", f"the number {2**63}", LONG)),
        ("txn", TXN | {"version": -(2**63) - 1}, ("version", f"the number {-(2**63) - 1}", LONG)),
        ("txn", TXN | {"version": True}, ("version", "true", LONG)),
        ("txn", TXN | {"version": 1.0}, ("version", "the number 1.0", LONG)),
        ("protocol", PROTOCOL | {"minReaderVersion": 2**31}, ("minReaderVersion", f"the number {2**31}", INT)),
        (
            "protocol",
            PROTOCOL | {"minReaderVersion": -(2**31) - 1},
            ("minReaderVersion", "the number -2147483649", INT),
        ),
        ("protocol", PROTOCOL | {"minReaderVersion": False}, ("minReaderVersion", "false", INT)),
        ("protocol", PROTOCOL | {"readerFeatures": "a"}, ("readerFeatures", 'the string "a"', "an array of strings")),
        ("protocol", PROTOCOL | {"readerFeatures": ["a", None]}, ("readerFeatures", "an array with null", None)),
        ("metaData", METADATA | {"configuration": {"a": None}}, ("configuration.a", "null", "a string")),
        ("metaData", METADATA | {"configuration": []}, ("configuration", "an array", "an object of strings")),
        ("metaData", METADATA | {"format": {"options": {}}}, ("format.provider", None, "a string")),
        ("metaData", METADATA | {"format": {"provider": "p"}}, ("format.options", None, "an object of strings")),
        ("metaData", METADATA | {"format": {"provider": "p", "options": {"a": 1}}}, ("format.options.a", None, None)),
        ("metaData", METADATA | {"format": "parquet"}, ("format", 'the string "parquet"', None)),
        ("remove", {"path": "a", "dataChange": 1}, ("dataChange", "the number 1", "true or false")),
        ("remove", {"path": "a", "dataChange": True, "partitionValues": {"p": 1}}, ("partitionValues.p", None, None)),
        ("remove", {"path": "a", "dataChange": True, "deletionVector": []}, ("deletionVector", "an array", None)),
        (
            "remove",
            {"path": "a", "dataChange": True, "deletionVector": {"offset": 2**31}},
            ("deletionVector.offset", None, INT),
        ),
    ],
)
def test_a_field_of_another_type_is_reported(
    kind: str, action: dict[str, Any], fault: tuple[str, str | None, str | None]
) -> None:
    found = list(faults_of(kind, action))

    name, seen, expected = fault
    assert [name] == [one.name for one in found]
    assert FieldFault(name, seen or found[0].found, expected or found[0].expected) == found[0]


def test_a_missing_field_is_reported_differently_from_a_wrong_one() -> None:
    found = faults_of("remove", {"path": None, "dataChange": {}, "size": "1"})

    assert [("path", None), ("dataChange", "an object"), ("size", 'the string "1"')] == [
        (fault.name, fault.found) for fault in found
    ]


def test_long_values_are_cut() -> None:
    assert f'the string "{"x" * 60}"' == describe_value("x" * 61)
    assert 80 == len(describe_value(10**100))


def test_unknown_fields_are_sorted_and_free_kinds_have_none() -> None:
    assert ["a", "b"] == unknown_fields("txn", {"b": 1, "appId": "x", "a": 1})
    assert [] == unknown_fields("commitInfo", {"b": 1})
