"""Habits of other programs: TABLE left out, `-C DIR`, and profiles of the configuration."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.command_tree import TABLE_OR_HERE
from deltacli.cli.described_commands import describe_tree
from deltacli.cli.options.configuration import read_configuration
from deltacli.cli.terminal.suggested_commands import add_context_options
from tests.cli.support import ROOT, deltacli

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
        for command in describe_tree().walk()
        if any(one.value.name == "TABLE" and not one.required for one in command.arguments)
    }

    assert TABLE_OR_HERE | {("streams",)} == optional  # without a table `streams` shows the sources of all


@pytest.mark.parametrize("command", ["vacuum", "checkpoint", "alter", "read", "log expire"])
def test_other_commands_ask_for_the_table(command: str, sample: Path) -> None:
    result = deltacli(*command.split(), cwd=sample)

    assert 2 == result.code
    assert ["error: missing argument TABLE", f"hint: deltacli {command} ."] == result.err.splitlines()


# -- `-C DIR` ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def far(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory above one, `a b/lake`, that has the sample."""
    root = tmp_path_factory.mktemp("far")
    (root / "a b").mkdir()
    (root / "a b/lake").symlink_to(sample.parent)
    return root


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("where", [["-C", "a b/lake"], ["-C", "a b", "-C", "lake"]])
def test_relative_paths_begin_in_another_directory(place: int, where: list[str], far: Path, sample: Path) -> None:
    words = ["history", "trips", "--json"]

    moved = deltacli(*words[:place], *where, *words[place:], cwd=far)

    assert deltacli(*words, cwd=sample.parent) == moved


def test_every_path_of_the_command_line_begins_there(far: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('format = "csv"\n')
    (tmp_path / "option").write_text("1")
    (tmp_path / "trips").symlink_to(far / "a b/lake/trips")
    words = ["--config", "settings.toml", "--storage-option", "key=@option", "--output", "rows"]

    result = deltacli("-C", tmp_path, "history", "trips", *words, "-q", cwd=far)

    assert (0, "", "") == (result.code, result.out, result.err)
    assert (tmp_path / "rows").read_text().startswith("version,")


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_commands_to_paste_work_from_where_the_user_stands(json: list[str], far: Path) -> None:
    result = deltacli("-C", "a b/lake", "snapshot", "trips", "--version", "99", *json, cwd=far)

    hint = result.error["hint"] if json else result.err.splitlines()[-1].removeprefix("hint: ")
    assert " ".join(["deltacli -C 'a b/lake' snapshot trips --version 14", *json]) == hint
    assert 0 == deltacli(*shlex.split(hint)[1:], cwd=far).code


def test_commands_in_a_result_name_the_table_by_its_whole_path(far: Path) -> None:
    result = deltacli("-C", "a b/lake", "doctor", "table", "trips", "--json", cwd=far)

    commands = [shlex.split(advice["command"]) for advice in result.document["advice"]]
    assert {str((far / "a b/lake").resolve() / "trips")} == {words[2 + (words[1] == "log")] for words in commands}


@pytest.mark.parametrize(
    ("directory", "why"),
    [("none", "no such file or directory"), ("file", "not a directory"), ("", "no such file or directory")],
)
def test_a_missing_directory_is_a_wrong_command_line(directory: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    result = deltacli("-C", directory, "history", "t", cwd=tmp_path)

    assert (2, f"error: -C {directory}: {why}") == (result.code, result.err.splitlines()[0])


def test_words_behind_two_dashes_are_no_directories(tmp_path: Path) -> None:
    (tmp_path / "-C").mkdir()

    result = deltacli("history", "--", "-C", cwd=tmp_path)

    assert (3, "this is not a Delta table") == (result.code, result.err.split(": ")[2])


# -- profiles of the configuration -------------------------------------------------------------------------------------

_SETTINGS = """
format = "json"
quiet = true
retry_budget = "1x"
[storage_options]
a = "top"
b = "top"
[profile.test]
format = "csv"
retry_budget = "5s"
storage_options = { b = "test", c = true }
[profile.cluster]
master = "local[1]"
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "deltacli.toml").write_text(_SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "deltacli.toml"


def test_the_keys_of_a_profile_override_those_of_the_file(settings: Path) -> None:
    found = read_configuration(str(settings), "test")

    expected = {"format": "csv", "quiet": True, "retry_budget": "5s", "spark_conf": {}}
    assert expected | {"storage_options": {"a": "top", "b": "test", "c": "true"}} == found


def test_without_a_profile_the_file_is_as_without_profiles(settings: Path) -> None:
    found = read_configuration(str(settings))

    expected = {"format": "json", "quiet": True, "retry_budget": "1x", "spark_conf": {}}
    assert expected | {"storage_options": {"a": "top", "b": "top"}} == found


def test_a_profile_with_a_spark_master_replaces_the_server_of_the_file(settings: Path) -> None:
    settings.write_text('remote = "sc://host"\n' + _SETTINGS)

    found = read_configuration(str(settings), "cluster")

    assert ("local[1]", None) == (found["master"], found.get("remote"))


@pytest.mark.parametrize(
    ("options", "environment", "first"),
    [
        ("", {"DELTACLI_PROFILE": "test"}, "version\n"),
        ("--profile-name test", {}, "version\n"),
        ("--profile-name test", {"DELTACLI_PROFILE": "none"}, "version\n"),
        ("--profile-name test", {"DELTACLI_FORMAT": "table"}, "version  \n"),
        ("--profile-name test --format table", {"DELTACLI_FORMAT": "json"}, "version  \n"),
    ],
)
def test_a_profile_comes_after_options_and_the_environment(
    options: str, environment: dict[str, Any], first: str, settings: Path, sample: Path
) -> None:
    words = ["history", str(sample), "--columns", "version", "--limit", "1", *options.split()]

    result = deltacli(*words, DELTACLI_CONFIG=str(settings), **environment)

    assert (0, first.strip()) == (result.code, result.out.splitlines()[0].strip())


@pytest.mark.parametrize(
    ("words", "environment", "message", "hint"),
    [
        (
            "--config deltacli.toml --profile-name tset",
            {},
            "the configuration deltacli.toml has no profile 'tset'; did you mean 'test'?",
            "deltacli history t --config deltacli.toml --profile-name test",
        ),
        (
            "--config deltacli.toml",
            {"DELTACLI_PROFILE": "tset"},
            "the configuration deltacli.toml has no profile 'tset'; did you mean 'test'?",
            "env DELTACLI_PROFILE=test deltacli history t --config deltacli.toml",
        ),
        (
            "--config deltacli.toml --profile-name q",
            {},
            "the configuration deltacli.toml has no profile 'q'",
            "deltacli help configuration",
        ),
        (
            "--profile-name test",
            {},
            "profile test: no configuration file to read it from",
            "deltacli history t --profile-name test --config FILE",
        ),
        (
            "--config bad.toml",
            {},
            "[profile.p] of the configuration bad.toml has an unknown key: formt; did you mean format?",
            "deltacli help configuration",
        ),
        (
            "--config value.toml --profile-name p",
            {},
            "format in the configuration value.toml with the profile p is 'xml'",
            "deltacli history --help",
        ),
    ],
)
def test_a_wrong_profile_is_named(
    words: str, environment: dict[str, Any], message: str, hint: str, settings: Path
) -> None:
    Path("bad.toml").write_text('[profile.p]\nformt = "csv"\n')
    Path("value.toml").write_text('[profile.p]\nformat = "xml"\n')

    result = deltacli("history", "t", *words.split(), cwd=settings.parent, **environment)

    lines = result.err.splitlines()
    assert (2, f"error: {message}", f"hint: {hint}") == (result.code, lines[0], lines[-1])


def test_hints_keep_the_profile() -> None:
    words = ["snapshot", "t", "--config", "c.toml", "--profile-name=test"]

    assert "deltacli history t --config c.toml --profile-name test" == add_context_options("deltacli history t", words)


@pytest.mark.parametrize("option", ["--config", "--profile-name"])
def test_an_empty_name_is_refused_instead_of_the_environment_s(option: str, settings: Path) -> None:
    result = deltacli("history", "t", option, "", cwd=settings.parent, DELTACLI_PROFILE="p")

    assert (2, f"error: {option} is empty: a variable of the script may be unset") == (
        result.code,
        result.err.splitlines()[0],
    )


@pytest.mark.parametrize("number", ["１２", "1_0", " 5", "٣", "5.0", ""])
def test_a_number_has_ascii_digits_only(number: str, sample: Path) -> None:
    result = deltacli("history", sample, f"--limit={number}")

    assert 2 == result.code
    assert "is not a whole number" in result.err


def test_a_current_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    shell = f'cd "{gone}" && rmdir "{gone}" && "{sys.executable}" -m deltacli history'

    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )

    assert (3, "error: the current directory does not exist any more") == (done.returncode, done.stderr.splitlines()[0])


# -- relative times ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("2d", "2026-01-01T13:00:00.000Z"),
        ("48h", "2026-01-01T13:00:00.000Z"),
        ("yesterday", "2026-01-02T01:00:00.000Z"),
        (" Yesterday ", "2026-01-02T01:00:00.000Z"),
        ("today", "2026-01-03T01:00:00.000Z"),
        ("1000w", "2026-01-01T09:00:00.000Z"),
    ],
)
def test_a_range_begins_so_long_before_now(text: str, first: str, sample: Path) -> None:
    shown = deltacli(
        *("history", sample, "--from", text, "--now", "2026-01-03T10:00:00Z", "--format", "csv"),
        *("--columns", "timestamp"),
    )
    changes = deltacli("changes", sample, "--from", text, "--now", "2026-01-03T10:00:00Z", "--json").document

    assert first == shown.out.splitlines()[-1]
    assert changes["fromVersion"] == 16 - len(shown.out.splitlines())


@pytest.mark.parametrize("text", ["tomorrow", "-1d", "1 day ago", "9999999999999999d", "d", "", "1y"])
def test_other_words_are_no_times(text: str, sample: Path) -> None:
    result = deltacli("history", sample, f"--from={text}", "--json")

    assert (2, True) == (result.code, result.error["code"].startswith("usage."))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("x.csv.gz", "x.csv"),
        ("x.json.zst", "x.json"),
        ("x.csv.gz.zip", "x.csv"),
        ("x.xlsx", "x.csv"),
        ("x.orc", "x.csv"),
    ],
)
def test_the_name_of_a_file_that_cannot_be_written_has_one_that_can(name: str, meant: str, sample: Path) -> None:
    result = deltacli("history", sample, "--output", name)

    words = shlex.split(result.err.splitlines()[-1])
    assert meant == words[words.index("--output") + 1]
