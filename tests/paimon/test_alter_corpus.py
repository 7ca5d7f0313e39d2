"""Every alteration of the corpus through the operation of the commands, against the answers of Paimon's Java."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.core.errors import DeltacliError
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration
from deltacli.paimon.evolution.requests import UpdateType, change_json, read_changes
from deltacli.paimon.schema import Schema, java_text, read_schema
from deltacli.paimon.schema_changes import ChangeKind, changes_between
from deltacli.paimon.snapshots import schema_path
from deltacli.paimon.types import parse_type
from deltacli.table.handle import TableHandle
from tests.paimon.evolutions import request_of
from tests.support.in_memory import MemoryStorage
from tests.support.paimon_corpus import Branch, branches, cases

NOW_MS = 1_800_000_000_000

ONLY_JAVA = {
    "add-nested-array-badtoken": "Java takes any word for element; a misspelt path is an error here",
    "type-map-key": "Java changes the values of a MAP where the path says key",
    "set-bucket=2-nosnap": "the option has this value already: no version is created that changes nothing",
    "set-primary-key=dt,id-snap": "as above",
    "set-primary-key=dt,id-nosnap": "as above",
    "set-type=TABLE-snap": "as above",
    "set-type=TABLE-nosnap": "as above",
    "type-qty-INT": "as above, for a type",
    "pk-to-notnull": "as above, for a nullability",
    "null-nested": "as above; Java only writes the file in the newest version of the format",
    "empty-change-list": "as above, for no change",
    "set-then-reset": "as above, for two changes",
}
"""Alterations after which Java creates a version and deltacli does not, each with its reason."""


def test_every_alteration_has_the_bytes_of_java(corpus: Path) -> None:
    wrong = {}
    for case in cases("alters"):
        expected = None
        if case["java_ok"] and case["name"] not in ONLY_JAVA:
            expected = java_text(case["java_result"] | {"timeMillis": NOW_MS})
        created = altered(case)
        if created != expected:
            wrong[case["name"]] = created

    assert 114 == len(cases("alters"))
    assert {} == wrong


def altered(case: dict[str, Any]) -> str | None:
    """Return the new schema file, None where the change was refused or changed nothing."""
    storage = MemoryStorage()
    number = case["schema"]["id"]
    storage.put(f"schema/schema-{number}", json.dumps(case["schema"]).encode())
    if case["has_snapshots"]:
        storage.put("snapshot/snapshot-1", b"{}")
    changes = read_changes(json.dumps(case["changes"]).encode())
    assert [_without_ids(change) for change in case["changes"]] == [_without_ids(change_json(one)) for one in changes]
    try:
        outcome = execute_change(
            SchemaAlteration(AlterRequest(changes, allow_lossy=True)), TableHandle(storage, clock=lambda: NOW_MS)
        )
    except DeltacliError:
        return None
    return None if outcome.committed is None else storage.read(f"schema/schema-{outcome.committed}").decode()


def _without_ids(change: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in change.items() if key != "dataType"}


@pytest.mark.halved
def test_every_allowed_change_of_type_is_made_and_no_other(corpus: Path) -> None:
    wrong = []
    for case in cases("type_changes"):
        before, after = parse_type(case["from"]), parse_type(case["to"])
        schema = column_of(case["from"])
        storage = MemoryStorage()
        storage.put("schema/schema-0", schema)
        request = AlterRequest((UpdateType(("c",), after),), allow_lossy=True)
        strict = AlterRequest((UpdateType(("c",), after),))
        is_made, is_lossless = _is_made(storage, request), _is_made(storage, strict)
        expected = case["java_alter"] and before != after
        if (is_made, is_lossless) != (expected, expected and case["lossless"]):
            wrong.append((case["from"], case["to"], is_made, is_lossless))

    assert 1847 == len(cases("type_changes"))
    assert [] == wrong


def _is_made(storage: MemoryStorage, request: AlterRequest) -> bool:
    copy = MemoryStorage()
    copy.put("schema/schema-0", storage.read("schema/schema-0"))
    try:
        return execute_change(SchemaAlteration(request), TableHandle(copy, clock=lambda: NOW_MS)).committed is not None
    except DeltacliError:
        return False


def column_of(data_type: object) -> bytes:
    """Return a schema with a column of a type and one besides."""
    fields = [{"id": 0, "name": "c", "type": data_type}, {"id": 100, "name": "d", "type": "INT"}]
    content = {"version": 3, "id": 0, "fields": fields, "highestFieldId": 100, "partitionKeys": [], "primaryKeys": []}
    return json.dumps(content | {"options": {}}).encode()


OLDER_JAVA = {
    "append_with_bitmap_alter_table 1": "an older Java renames a column that has an index in data files",
    "blob_append_table_alter_table_with_cast_with_data_evolution 1": "an older Java renames a BLOB column",
    "pk_table_with_mor 4": "an older Java leaves sequence.field alone when two columns exchange their names",
}
"""Tables with the number of a schema that Java does not make in this way any more."""


def test_every_evolution_of_a_real_table_can_be_made_again(corpus: Path) -> None:
    """
    What differs between two neighbouring schemas of a table, asked for as changes, gives the later schema; where Java
    wrote it, with its bytes. Versions of tables by pypaimon that Java refuses to open are refused.
    """
    answers: Counter[str] = Counter()
    wrong = []
    for branch in branches():
        for step in branch.facts["evolution"]:
            before, after = (_schema(corpus, branch, step[name]) for name in ("from", "to"))
            (is_valid,) = (one["valid"] for one in branch.facts["java"] if one["id"] == step["to"])
            answer = _again(before, after)
            if f"{branch.table.rpartition('/')[2]} {step['to']}" in OLDER_JAVA:
                answer = "older Java"
            elif not is_valid and answer not in ("same bytes", "same", "different"):
                answer = "refused"
            answers[answer] += 1
            if answer not in ("same bytes", "older Java") and not (answer == "same" and not branch.is_by_java):
                wrong += [] if answer == "refused" else [(branch.table, step["to"], answer)]

    assert [] == wrong
    assert {"same bytes": 129, "same": 8, "refused": 27, "older Java": 3} == answers


def _schema(corpus: Path, branch: Branch, number: int) -> Schema:
    return read_schema((corpus / branch.table / schema_path(number, branch.name)).read_bytes())


def _again(before: Schema, after: Schema) -> str:
    """Return whether the later schema was made again, or why it is refused."""
    storage = MemoryStorage()
    storage.put(schema_path(before.id), before.encode())
    request = AlterRequest(request_of(before, after), allow_lossy=True, with_options=True)
    try:
        made = execute_change(SchemaAlteration(request), TableHandle(storage, clock=lambda: after.time_ms)).after
    except DeltacliError as fault:
        return fault.message
    assert made is not None
    if made.encode() == after.encode():
        return "same bytes"
    others = [change for change in changes_between(made, after) if change.kind is not ChangeKind.HIGHEST_FIELD_ID]
    return "different" if others else "same"
