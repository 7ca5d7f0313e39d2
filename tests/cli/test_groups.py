"""Groups of commands: shared options anywhere, errors that name the command, and nothing imported that isn't needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.command_tree import find_command_path, find_first_argument, get_command_path, move_shared_options
from tests.cli.support import ROOT, deltacli


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--format json -q log cat t 3", "log cat --format json -q t 3"),
        ("log --format=json cat t 3", "log cat --format=json t 3"),
        ("-q log --now 2026-01-01 cat t 3 -v", "log cat -q --now 2026-01-01 t 3 -v"),
        ("log cat t 3 --output x", "log cat t 3 --output x"),
        ("-q history log", "history -q log"),
        ("-q log", "log"),
        ("-v", "--help"),
        ("--no-pager --config x.toml --version", "--version"),
        ("log --unknown cat t", "log --unknown cat t"),
        ("-q histroy t", "histroy t -q"),
        ("--format log history t", "history --format log t"),
    ],
)
def test_shared_options_move_after_the_command(before: str, after: str) -> None:
    assert after.split() == move_shared_options(before.split())


def test_unknown_words_suggest_the_intended_command() -> None:
    assert ("log", "cat") == get_command_path(["log", "cat", "snapshot", "3"])
    assert ("log",) == get_command_path(["log", "caat", "history"])
    assert () == get_command_path(["-q", "log", "cat"])
    assert ("log", "cat") == find_command_path(["-q", "log", "--bad", "cat", "log"])
    assert ("history",) == find_command_path(["--bad", "history", "log", "cat"])
    assert "t" == find_first_argument(["log", "cat", "--actions", "add", "-q", "t", "3"], {"--actions"})
    assert "-t" == find_first_argument(["log", "cat", "--actions", "add", "--", "-t", "3"], {"--actions"})
    assert find_first_argument(["log", "cat", "--actions", "add"], {"--actions"}) is None


def test_an_error_names_the_table_whatever_options_stand_before_it(tmp_path: Path) -> None:
    table = str(tmp_path / "none")
    told = deltacli("log", "--log-format", "text", "cat", "--actions", "add", table, "3")
    as_json = deltacli("log", "cat", "--log-format", "json", "--actions", "add", table, "3")

    assert told.err.startswith(f"error: {table}: no such file or directory")
    assert table == as_json.error["table"]
    assert [3, 3] == [told.code, as_json.code]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("log caat t 3", "deltacli log cat t 3"),
        ("log cat t 3 --flies", "deltacli log cat --help"),
        ("-q log cat t three", "deltacli history t"),
        ("log cat t", "deltacli log cat --help"),
        ("--bad log cat t 3", "deltacli log cat --help"),
    ],
)
def test_a_usage_error_suggests_the_help_of_its_command(arguments: str, hint: str) -> None:
    result = deltacli(*arguments.split())

    assert (2, "", f"hint: {hint}") == (result.code, result.out, result.err.splitlines()[-1])


@pytest.mark.parametrize("options", ["-q", "--no-pager -v", "--color never"])
def test_options_before_an_unknown_command_are_not_what_is_wrong(options: str) -> None:
    result = deltacli(*options.split(), "histroy", "t")

    hint = f"hint: deltacli history t {options}"
    assert ["error: no such command 'histroy'; did you mean 'history'?", hint] == result.err.splitlines()


def test_a_bare_group_explains_itself(tmp_path: Path) -> None:
    bare = deltacli("log", cwd=tmp_path)
    asked = deltacli("log", "--help", cwd=tmp_path)

    assert (2, "", 0, "") == (bare.code, bare.out, asked.code, asked.err)
    assert asked.out.strip() == bare.err.strip()
    assert asked.out.index("Examples:") < asked.out.index("Commands:") < asked.out.index("Options:")
    assert max(map(len, asked.out.splitlines())) <= 80


def modules_of(*arguments: str) -> set[str]:
    """What a run imports."""
    script = (
        "import sys\nfrom deltacli.cli.app import run\n"
        f"run({list(arguments)!r})\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.split())


@pytest.mark.halved
def test_only_the_modules_of_the_command_are_imported(sample: Path) -> None:
    modules = {entry.module for entry in COMMANDS.values()}

    helped = modules_of("--help") | modules_of("log", "--help")
    called = modules_of("log", "cat", str(sample), "3", "-q")

    assert set() == modules & helped
    assert set() == helped & {"pyarrow", "fsspec", "rich", "numpy", "deltacli.api.table"}
    assert {COMMANDS["log cat"].module} == modules & called
    assert set() == called & {"fsspec", "rich", "numpy"}
