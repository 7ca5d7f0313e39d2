"""Commands to paste do what they say, whatever the table is called."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deltacli.cli.output.formats import TABLE
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.note_options import NoteOptions
from deltacli.cli.running.result_options import ResultOptions
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.suggested_commands import (
    repeat_command,
    repeat_command_without_flag,
    repeat_command_without_limit,
)
from deltacli.core.errors import command, fill_table, quote_word
from deltacli.core.machine import fixed_clock
from tests.cli.support import deltacli

ODD = [
    "plain",
    "two words",
    "it's",
    "$HOME",
    "a; touch b #",
    "new\nline",
    "esc\x1b[31m",
    "right\u202eleft",
    "byte\udcff",
    "é😀",
]


@pytest.mark.parametrize("word", ODD)
def test_a_shell_reads_a_quoted_word_back(word: str) -> None:
    read = subprocess.run(["bash", "-c", f"printf %s {quote_word(word)}"], capture_output=True, check=True).stdout

    assert word.encode("utf-8", "surrogateescape") == read
    assert quote_word(word).isprintable()


@pytest.mark.parametrize(
    ("hint", "table", "filled"),
    [
        ("deltacli history {table}", "t", "deltacli history t"),
        ("deltacli history {table}", None, "deltacli history TABLE"),
        ("deltacli history {table}", "-t", "deltacli history ./-t"),
        ("deltacli snapshot {parent}", "s3://lake/trips/_delta_log/", "deltacli snapshot s3://lake/trips"),
        ("deltacli snapshot {parent}", "_delta_log", "deltacli snapshot ."),
        ("deltacli snapshot {table} --version 3", "a b", "deltacli snapshot 'a b' --version 3"),
    ],
)
def test_a_hint_is_filled_with_one_word(hint: str, table: str | None, filled: str) -> None:
    assert filled == fill_table(hint, table)


@pytest.mark.parametrize(
    ("path", "options", "table", "filled"),
    [
        ("{table}/a; touch b #", {}, "in", "deltacli snapshot 'in/a; touch b #'"),
        ("{table}/trips", {}, "s3://lake/", "deltacli snapshot s3://lake/trips"),
        ("{table}/a b", {"version": 3}, "in", "deltacli snapshot 'in/a b' --version 3"),
        ("{parent}", {}, "in a/trips", "deltacli snapshot 'in a'"),
        ("{table}", {"where": "{table}"}, "a b", "deltacli snapshot 'a b' --where '{table}'"),
    ],
)
def test_the_placeholder_of_a_command_is_filled_with_one_word(
    path: str, options: dict[str, object], table: str, filled: str
) -> None:
    assert filled == fill_table(command("snapshot", table=path, **options), table)


def test_the_same_command_again_keeps_every_option_but_the_limit() -> None:
    arguments = ["snapshot", "--files", "--version", "3", "--limit", "2", "--columns=path", "--limit=4", "--", "-t b"]

    assert "deltacli snapshot --files --version 3 --columns=path --limit 0 -- '-t b'" == repeat_command_without_limit(
        arguments
    )


def test_the_hint_for_a_table_below_quotes_its_path(tmp_path: Path) -> None:
    (tmp_path / "a; touch b #" / "_delta_log").mkdir(parents=True)
    (tmp_path / "a; touch b #" / "_delta_log" / f"{0:020d}.json").write_text("{}\n")

    done = deltacli("history", ".", cwd=tmp_path)

    assert "hint: deltacli history './a; touch b #'" == done.err.splitlines()[-1]


def test_a_command_line_is_not_treated_as_a_hint_template() -> None:
    hint = repeat_command(["vacuum", "{table}/x y", "--apply={parent}"])

    assert "deltacli vacuum '{table}/x y' '--apply={parent}'" == fill_table(hint, "/data/t")


def test_the_command_that_a_dry_run_suggests_is_the_same_without_it() -> None:
    arguments = ["vacuum", "-v", "--dry-run", "--retention", "7 d", "--", "--dry-run"]

    assert "deltacli vacuum -v --retention '7 d' -- --dry-run" == repeat_command_without_flag(arguments, "--dry-run")


def test_a_command_that_would_lose_a_secret_is_not_suggested(sample: Path) -> None:
    run = CommandContext(
        results=ResultOptions(format=TABLE, terminal=Terminal(is_terminal=True, width=80, colour=False)),
        clock=fixed_clock(0),
    )
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "deltacli.cli.running.context.write_message", lambda text, painted=str: said.append(painted(text))
        )
        run.note("next: deltacli history s3://user:hunter2@host/t")
        run.note(f"next: deltacli history {sample}")

        replace(run, notes=NoteOptions(coloured=True)).note("next: deltacli history t")
        replace(run, notes=NoteOptions(coloured=True)).note("note: plain")

    assert [f"next: deltacli history {sample}", "\x1b[1;36mnext: deltacli history t\x1b[0m", "note: plain"] == said
