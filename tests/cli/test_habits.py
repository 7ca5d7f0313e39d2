"""TABLE left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.cli.command_tree import TABLE_OR_HERE
from tests.cli.support import deltacli
from tools.command_tree import read_tree

# -- TABLE left out ----------------------------------------------------------------------------------------------------

_HERE = [" ".join(path) for path in sorted(TABLE_OR_HERE)]


@pytest.mark.parametrize("command", _HERE)
def test_without_a_table_a_command_reads_the_current_directory(command: str, sample: Path) -> None:
    here = deltacli(*command.split(), "--json", "--now", "2026-01-05", cwd=sample)

    assert deltacli(*command.split(), ".", "--json", "--now", "2026-01-05", cwd=sample) == here


@pytest.mark.parametrize("command", _HERE)
def test_a_current_directory_that_is_no_table_is_named(command: str, tmp_path: Path) -> None:
    result = deltacli(*command.split(), cwd=tmp_path)

    first, _, left_out, hint = result.err.splitlines()
    assert 3 == result.code
    assert f"error: {tmp_path}: this is not a Delta table: the directory has no _delta_log" == first
    assert "  TABLE  left out, so it is the current directory" == left_out
    assert f"hint: deltacli {command} TABLE" == hint


def test_without_a_table_the_hint_names_one_below_the_current_directory(sample: Path) -> None:
    result = deltacli("history", "--limit", "3", cwd=sample.parent)

    assert "hint: deltacli history --limit 3 trips" == result.err.splitlines()[-1]


def test_without_a_table_validate_checks_those_below_the_current_directory(sample: Path) -> None:
    result = deltacli("validate", "--json", cwd=sample.parent)

    assert [sample.as_uri()] == [table["table"] for table in result.document["tables"]]


def test_the_table_may_be_left_out_of_commands_that_only_read() -> None:
    optional = {
        command.path
        for command in read_tree().walk()
        if any(one.value.name == "TABLE" and not one.required for one in command.arguments)
    }

    assert TABLE_OR_HERE == optional


@pytest.mark.parametrize("command", ["vacuum", "checkpoint", "alter", "read", "log expire"])
def test_other_commands_ask_for_the_table(command: str, sample: Path) -> None:
    result = deltacli(*command.split(), cwd=sample)

    assert 2 == result.code
    assert ["error: missing argument TABLE", f"hint: deltacli {command} ."] == result.err.splitlines()
