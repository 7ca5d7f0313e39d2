"""`--template`: a line for each item, with its fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.documentation import read_schemas
from deltacli.cli.documents_of_commands import find_fields, find_item_lines, read_documents
from deltacli.cli.output.template import check_template
from deltacli.core.errors import UsageError
from tests.cli.support import deltacli
from tests.support.actions import add, birth, commit_info
from tests.support.builder import TableBuilder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    parameters = {"mode": "Append", "partitionBy": "[]"}
    written = commit_info(operation="WRITE", operationParameters=parameters, userMetadata="a\nb\tc", jobId=7)
    builder = TableBuilder().commit(*birth(), written, add("a.parquet"), add("lost.parquet"))
    return builder.commit(commit_info(operation="OPTIMIZE")).write(tmp_path)


def test_a_line_has_the_fields_of_an_item(table: Path) -> None:
    template = r"{version}\t{{{operation}}} {operationParameters.mode}|{userMetadata}|{jobId}|{hasCommitInfo}"

    ran = deltacli("history", table, "--template", template, DELTACLI_FORMAT="json")

    assert ("1\t{OPTIMIZE} |||true\n0\t{WRITE} Append|a\\nb\\tc|7|true\n", 0) == (ran.out, ran.code)


def test_an_object_is_json(table: Path) -> None:
    history = deltacli("history", table, "--template", "{operationParameters}", "--limit", "0")

    assert '{"mode":"Append","partitionBy":"[]"}' == history.out.splitlines()[1]


def test_what_ends_a_list_is_not_an_item(table: Path) -> None:
    words = (
        "validate",
        table,
        "--level",
        "storage",
        "--select",
        "data.file-missing",
        "--template",
        "{rule}: {location.line}",
    )

    ran = deltacli(*words)

    assert (["data.file-missing: 4", "data.file-missing: 5"], 1) == (
        sorted(ran.out.splitlines()),
        ran.code,
    )


@pytest.mark.parametrize("template", ["", "{", "}", "{}", "{a", "{a{b}", "{a.}", "a}b", "{.a}", "a", "{{.version}}"])
def test_a_template_with_errors_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="template"):
        check_template(template)


@pytest.mark.parametrize(
    ("command", "template", "near"),
    [
        ("history", "{verison}", "{version}"),
        ("history", "{verison} {operation}", "{version} {operation}"),
        ("snapshot --files", "{pth}", "{path}"),
        ("validate --level storage", "{path}", "{location.path}"),
        ("history", "{jobs}", None),
        ("snapshot --files", "{nothing.like.it}", None),
    ],
)
def test_a_field_that_no_item_has_is_refused(command: str, template: str, near: str | None, table: Path) -> None:
    name, *options = command.split()

    ran = deltacli(name, table, *options, "--template", template)

    assert (2, near is not None) == (ran.code, f"--template '{near}'" in ran.err)
    assert near is None or ran.out == ""


@pytest.mark.parametrize("other", [("--json",), ("--format", "csv"), ("--output", "out.csv")])
def test_a_template_excludes_other_formats(other: tuple[str, ...], table: Path, tmp_path: Path) -> None:
    ran = deltacli("history", table, "--template", "{version}", *other, cwd=tmp_path.parent)

    assert (2, "") == (ran.code, ran.out)


def test_a_field_is_missing_in_items_of_another_type(table: Path) -> None:
    ran = deltacli("snapshot", table, "--files", "--template", "{path} {deletionTimestamp}|")

    assert (["a.parquet |", "lost.parquet |"], 0) == (sorted(ran.out.splitlines()), ran.code)


@pytest.mark.parametrize("template", ["{commitedVersion}", "{version} {dryrun}", "{{.version}}"])
def test_a_change_is_not_made_where_its_line_cannot_be(template: str, table: Path) -> None:
    ran = deltacli("restore", table, "--version", "0", "--yes", "--template", template)

    assert (2, "", 2) == (ran.code, ran.out, len([*(table / "_delta_log").glob("*.json")]))
    assert "--template '{" in ran.err


def test_a_field_of_another_result_of_a_change_is_empty_and_noted(table: Path) -> None:
    words = ("features", table, "add", "deletionVectors", "--yes", "--template", "{committedVersion}|{active}")

    ran = deltacli(*words)

    assert ("2|\n", 0) == (ran.out, ran.code)
    assert "note: unknown field 'active'" in ran.err


def test_fields_in_the_way_of_other_programs_are_explained(table: Path) -> None:
    ran = deltacli("history", table, "--template", "{{.version}}")

    assert (2, "") == (ran.code, ran.out)
    assert "such as {version}" in ran.err
    assert "--template '{version}'" in ran.err


def test_every_line_that_is_an_item_belongs_to_a_command() -> None:
    lines = {name for name, schema in read_schemas().items() if schema.get("title", "").startswith("an NDJSON line")}

    assert read_documents().keys() <= COMMANDS.keys()
    assert {line for line in lines if find_fields(line)} == {
        line for name in COMMANDS for line in find_item_lines(name)
    }
