"""Every type, schema file and table of the corpus against the answers of Paimon's own code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import Unreadable
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.paimon.table_files import (
    collect_schema_references,
    is_paimon,
    list_branches,
    list_schemas,
    read_branch,
)
from deltacli.paimon.schema import Schema, read_schema
from deltacli.paimon.schema_changes import Change, ChangeKind, Loss, changes_between, judge_cast
from deltacli.paimon.snapshots import schema_path
from deltacli.paimon.types import BadType, parse_type, type_json
from deltacli.storage import open_storage
from tests.support.paimon_corpus import Branch, branches, cases

KINDS = {
    "add_column": ChangeKind.ADD_COLUMN,
    "drop_column": ChangeKind.DROP_COLUMN,
    "rename_column": ChangeKind.RENAME_COLUMN,
    "change_type": ChangeKind.TYPE,
    "change_nullability": ChangeKind.NULLABILITY,
    "change_comment": ChangeKind.COMMENT,
    "change_default": ChangeKind.DEFAULT,
    "reorder": ChangeKind.POSITION,
    "set_option": ChangeKind.SET_OPTION,
    "remove_option": ChangeKind.REMOVE_OPTION,
    "change_table_comment": ChangeKind.TABLE_COMMENT,
    "highest_field_id": ChangeKind.HIGHEST_FIELD_ID,
    "change_primaryKeys": ChangeKind.PRIMARY_KEYS,
    "change_partitionKeys": ChangeKind.PARTITION_KEYS,
}
USERS = ("data_file", "manifest", "snapshot", "tag", "changelog")
READ_HERE = {
    "bucket-key-unknown": "Java's reader needs the columns of bucket-key at once; here a rule of validate reports them",
    "bucket-key-space": "as above",
}
"""Schema files that Java's reader refuses and that are read here, each with its reason."""


def test_every_type_is_accepted_printed_or_refused_as_by_java(corpus: Path) -> None:
    answers = {str(case["type"]): _parsed(case["type"]) for case in cases("type_strings")}

    assert 91 == len(answers)
    assert {str(case["type"]): case["canonical"] for case in cases("type_strings")} == answers


def _parsed(value: object) -> Any:  # Any: JSON values
    try:
        return type_json(parse_type(value))
    except BadType:
        return None


def test_every_change_of_type_has_the_verdict_of_java(corpus: Path) -> None:
    wrong = []
    for case in cases("type_changes"):
        verdict = judge_cast(parse_type(case["from"]), parse_type(case["to"]))
        is_allowed = verdict.loss is not Loss.REFUSED
        is_implicit = is_allowed and verdict.paimon == "implicit"
        answer = (is_allowed, is_implicit, verdict.loss is Loss.LOSSLESS)
        if answer != (case["java_alter"], case["java_alter_explicit_disabled"], case["lossless"]):
            wrong.append((case["from"], case["to"], answer))

    assert 1847 == len(cases("type_changes"))
    assert [] == wrong


def test_every_schema_file_is_read_as_by_java(corpus: Path) -> None:
    wrong = []
    for case in cases("schema_files"):
        name, content = case["name"], _content(case["text"])
        expected = case.get("java_normalised") if case["java_parse"] else None
        if content != expected and name not in READ_HERE:
            wrong.append((name, content))

    assert 73 == len(cases("schema_files"))
    assert [] == wrong


def _content(text: str) -> Any:  # Any: JSON values
    try:
        return read_schema(text.encode()).as_json()
    except Unreadable:
        return None


def test_schema_files_by_java_are_written_byte_for_byte(corpus: Path) -> None:
    files = [path for path in corpus.glob("java/**/schema/schema-*") if path.is_file()]

    different = [path for path in files if read_schema(path.read_bytes()).encode() != path.read_bytes()]

    assert 79 == len(files)
    assert [] == different


def _read(corpus: Path, branch: Branch, schema_id: int) -> Schema:
    return read_schema((corpus / branch.table / schema_path(schema_id, branch.name)).read_bytes())


def test_every_evolution_is_explained_by_field_id(corpus: Path) -> None:
    wrong, seen = [], 0
    for branch in branches():
        for step in branch.facts["evolution"]:
            before, after = (_read(corpus, branch, step[name]) for name in ("from", "to"))
            explained = Counter(map(_explained, changes_between(before, after)))
            if Counter(map(_expected, step["changes"])) != explained:
                wrong.append((branch.table, step["to"], explained))
            seen += 1

    assert 167 == seen
    assert [] == wrong


def _explained(change: Change) -> tuple[ChangeKind, tuple[str, ...], int | None, bool | None]:
    is_type = change.kind is ChangeKind.TYPE
    path = tuple(change.after) if change.kind is ChangeKind.POSITION else change.path
    return change.kind, path, change.field_id, (change.loss is not Loss.REFUSED) if is_type else None


def _expected(fact: dict[str, Any]) -> tuple[ChangeKind, tuple[str, ...], int | None, bool | None]:  # Any: JSON values
    kind = KINDS[fact["kind"]]
    path = fact["order"] if kind is ChangeKind.POSITION else fact.get("path", [fact["key"]] if "key" in fact else [])
    return kind, tuple(path), fact.get("id"), fact["java"]["alter"] if kind is ChangeKind.TYPE else None


@pytest.mark.halved
def test_every_reference_to_a_schema_is_found(corpus: Path) -> None:
    engine, seen = EmbeddedEngine(), 0
    for branch in branches():
        storage, facts = open_storage(str(corpus / branch.table)), branch.facts

        files = read_branch(storage, engine, branch.name)
        found = collect_schema_references(storage, engine, files)

        assert is_paimon(storage)
        assert branch.name in list_branches(storage)
        ids = list_schemas(storage, branch.name).ids
        assert (tuple(facts["schema_ids"]), ()) == (ids, found.broken)
        assert facts["referenced"] == {str(number): sorted(_users(found.usage[number])) for number in found.usage}
        assert facts["unreferenced"] == [number for number in ids[:-1] if not found.of(number)]
        live = {str(number): usage.files for number, usage in found.usage.items() if usage.files}
        assert facts.get("latest_snapshot_live_files_by_schema", {}) == live
        seen += 1

    assert 77 == seen


def _users(usage: Any) -> list[str]:  # Any: Usage
    lists = (usage.has_data_files, usage.manifests, usage.snapshots, usage.tags, usage.changelogs)
    return [user for user, one in zip(USERS, lists, strict=True) if one]
