"""`alter` of a Delta table on the command line; the sample table has 15 versions, and no column mapping."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.evolution.requests import change_json, read_changes
from tests.cli.support import Result, deltacli
from tests.cli.test_terminal import ESCAPE, on_terminal
from tests.docs.test_schemas import VALIDATORS, faults, line_faults

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def alter(home: Path, *arguments: str) -> Result:
    return deltacli("alter", "tbl", *arguments, cwd=home)


def document(result: Result) -> Json:
    found: Json = result.document
    assert [] == faults(found, "deltacli.alter.delta")
    return found


def versions(home: Path) -> int:
    return len(list((home / "tbl" / "_delta_log").glob("0*.json")))


def test_a_plan_is_refused_without_consent_and_names_the_option(home: Path) -> None:
    before = versions(home)

    shown = alter(home, "mapping", "name", "--dry-run")
    found = document(alter(home, "mapping", "name", "--json"))

    assert (4, before) == (shown.code, versions(home))
    assert "mapping delta.columnMapping.mode none -> name" in shown.words
    assert "read 1 -> 3 +columnMapping write 2 -> 7 " in shown.words
    assert "duckdb yes loses 1.5.5 " in shown.words
    assert "hint: deltacli alter tbl mapping name --dry-run --upgrade-protocol" in shown.err
    assert [("alter.protocol-upgrade-needed", "--upgrade-protocol")] == [
        (refusal["code"], refusal["wayOut"]) for refusal in found["refusals"]
    ]
    assert (None, None, True) == (found["committedVersion"], found["schemaAfter"], found["dryRun"])


def test_a_question_quotes_the_texts_that_it_names(home: Path) -> None:
    alter(home, "comment", "trip", "counted from 1", "--yes")

    asked = alter(home, "comment", "trip", "hi")

    assert "comment trip: from 'counted from 1' to 'hi'" in asked.err


def test_a_rename_offers_the_mapping_first(home: Path) -> None:
    refused = alter(home, "rename", "trip", "id", "--yes")
    enabled = alter(home, "mapping", "name", "--upgrade-protocol", "--yes", "--commit-metadata", "ticket=7")
    made = document(alter(home, "rename", "trip", "id", "--yes", "--json"))

    assert (4, 0) == (refused.code, enabled.code)
    assert "hint: deltacli alter tbl mapping name --upgrade-protocol\n" in refused.err
    assert [("rename", "trip", "trip", "id")] == [
        (one["change"], one["subject"], one["from"], one["to"]) for one in made["changes"]
    ]
    assert (16, "id") == (made["committedVersion"], made["schemaAfter"]["fields"][0]["name"])
    assert "trip" == made["schemaBefore"]["fields"][0]["name"]


def test_changes_of_a_file_are_one_commit(home: Path) -> None:
    changes = [
        {"change": "add", "column": "n", "type": "struct<a: int>", "position": "after:trip"},
        {"change": "comment", "column": "n.a", "comment": "c"},
        {"change": "name", "name": "trips"},
    ]
    (home / "changes.json").write_text(json.dumps(changes))
    odd_changes = [
        {"change": "name", "name": "t"},
        {"change": "add", "column": "x", "type": "int", "position": "after:x"},
    ]
    (home / "odd.json").write_text(json.dumps(odd_changes))
    words = ("--apply", "changes.json")

    due = alter(home, *words, "--check")
    done = alter(home, *words, "--yes", "--format", "ndjson")
    again = alter(home, *words, "--check")
    odd = alter(home, "--apply", "odd.json", "--yes", "--json")
    line, end = [json.loads(text) for text in done.out.splitlines()]

    assert (1, 0, 0) == (due.code, done.code, again.code)
    assert ("alteration", [], True) == (line["type"], line_faults(line), end["complete"])
    assert 15 == line["committedVersion"]
    assert ("usage.column", 2) == (odd.error["code"], odd.code)
    assert odd.error["details"]["change"].startswith('[1] {"change": "add"')
    assert "x" not in odd.error["details"]["fields"].split(", ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("set", "a=b"), "usage.table-format"),
        (("constraint", "add", "c"), "usage"),
        (("cluster", "trip", "--drop"), "usage"),
        (("type", "trip", "bigint", "--keep-nullability"), "usage.table-format"),
        (("add", "n", "int", "--branch", "b"), "usage.table-format"),
        (("add", "n", "int", "--default", "5"), "alter.default-with-add"),
        (("add", "n", "int", "--not-null"), "alter.not-null"),
        (("add", "n"), "usage"),
        (("comment", "x", "y"), "usage.column"),
        (("add", "n", "bigger"), "usage.type"),
        ((), "usage"),
    ],
)
def test_what_cannot_be_asked(words: tuple[str, ...], code: str, home: Path) -> None:
    before = versions(home)

    found = alter(home, *words, "--yes", "--json")

    assert (code, before) == (found.error["code"], versions(home))


def test_the_two_commands_of_a_default_name_the_table(home: Path) -> None:
    found = alter(home, "add", "n", "string", "--default", "'x y'", "--yes")

    assert all(line in found.err for line in ("alter tbl add n string", "alter tbl default n"))


def test_a_change_with_a_key_twice_is_not_guessed(home: Path) -> None:
    (home / "twice.json").write_text('[{"change": "drop", "column": "trip", "column": "day"}]')

    found = alter(home, "--apply", "twice.json", "--yes", "--json")

    assert "usage.change" == found.error["code"]
    assert "column" in found.error["message"]


def test_a_plan_is_drawn_as_a_difference(home: Path) -> None:
    code, lines = on_terminal(100, "alter", home / "tbl", "mapping", "name", "--upgrade-protocol", "--dry-run")
    plain = [ESCAPE.sub("", line) for line in lines]

    assert 0 == code
    assert any("delta.columnMapping.mode" in line and "none → name" in line for line in plain)
    assert any("+columnMapping" in line for line in plain)


FILES = [
    ([{"change": "add", "column": "a", "type": "int", "position": "first"}], True),
    ([{"change": "default", "column": "a", "default": None}, {"change": "name", "name": None}], True),
    ([{"change": "cluster", "columns": ["a", "b"]}], True),
    ([{"change": "add-constraint", "name": "c", "expression": "a > 0"}], True),
    ([{"change": "rename", "column": "a", "name": None}], False),
    ([{"change": "cluster", "columns": "a"}], False),
    ([{"change": "drop", "column": "a", "name": "b"}], False),
    ([{"change": "comment", "column": "a"}], False),
    ([{"change": "dorp", "column": "a"}], False),
    ([], False),
]


@pytest.mark.parametrize(("content", "is_valid"), FILES, ids=json.dumps)
def test_the_schema_of_a_file_of_changes_and_its_reader_agree(content: list[Json], is_valid: bool) -> None:
    try:
        found: object = [change_json(change) for change in read_changes(json.dumps(content).encode())]
    except UsageError as error:
        found = error.code

    assert (content if is_valid else "usage.change") == found
    assert is_valid == (not list(VALIDATORS["alter-file"].iter_errors(content)))
