"""Bad input: the exit code, the words, and the next command."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deltacli.cli.app import run
from deltacli.cli.command_table import COMMANDS
from deltacli.cli.error_hints import find_hint
from deltacli.cli.errors import report_error
from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import add_context_options
from deltacli.core.errors import (
    CheckpointUnreadable,
    DataUnreadable,
    PermissionRefused,
    Refused,
    StorageFailed,
    Unreadable,
    suggest_parameters,
)
from deltacli.storage import LocalStorage
from tests.cli.support import ROOT, Result, deltacli, make_sample


@pytest.fixture
def table(sample: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(sample, tmp_path / "trips"))


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def assert_error(result: Result, code: int, *words: str) -> None:
    """One line that begins with `error:`, every word somewhere on stderr, nothing on stdout, no traceback."""
    assert code == result.code, result.err
    assert "" == result.out
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    for command in ("history", "snapshot"):
        assert_error(deltacli(command, tmp_path / "none"), 3, f"error: {tmp_path / 'none'}: no such file or directory")


def test_a_file_instead_of_a_directory_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")

    assert_error(deltacli("snapshot", file), 3, "this is a file")


def test_a_directory_without_a_log_names_the_tables_below(table: Path) -> None:
    assert_error(
        deltacli("snapshot", table.parent),
        3,
        "has no _delta_log",
        "tables below  trips",
        f"deltacli snapshot {table.parent}/trips",
    )


def test_a_table_below_with_a_comma_in_its_name_is_named_whole(table: Path) -> None:
    table.rename(table.parent / "a, b")

    assert_error(deltacli("snapshot", table.parent), 3, f"deltacli snapshot '{table.parent}/a, b'")


def test_an_empty_directory_and_an_empty_log_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "log" / "_delta_log").mkdir(parents=True)

    assert_error(deltacli("snapshot", tmp_path / "empty"), 3, "not a Delta table")
    assert_error(deltacli("snapshot", tmp_path / "log"), 3, "no commit and no complete checkpoint")


@pytest.mark.parametrize("options", [(), ("--limit", "1"), ("--counts",)])
def test_a_log_without_a_version_is_no_empty_history(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)

    result = deltacli("history", tmp_path / "t", *options, "--json")
    snapshot = deltacli("snapshot", tmp_path / "t", "--json")

    assert (3, "") == (result.code, result.out)
    assert snapshot.error == result.error


@pytest.mark.parametrize("name", ["nope", "nope/deeper", "empty", "file"])
def test_doctor_access_says_of_a_path_without_a_table_what_history_says(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")

    access = deltacli("doctor", "access", tmp_path / name, "--log-format", "json")
    history = deltacli("history", tmp_path / name, "--log-format", "json")

    assert 3 == access.code, access.err
    assert history.error == access.error


def test_the_log_directory_itself(table: Path) -> None:
    assert_error(deltacli("snapshot", table / "_delta_log"), 3, "this is the log of a table")


def test_a_version_that_never_existed_is_an_error_that_names_the_existing_ones(table: Path) -> None:
    assert_error(deltacli("snapshot", table, "--version", "15"), 3, "the newest is 14", "0-14", "--version 14")


def test_a_version_removed_by_log_cleanup_is_an_error_that_names_the_remaining_ones(table: Path) -> None:
    for version in range(10):
        commit(table, version).unlink()

    assert_error(deltacli("snapshot", table, "--version", "4"), 3, "log files are missing", "10-14")
    assert 0 == deltacli("snapshot", table).code


def test_a_gap_is_reported_with_the_missing_commits_and_the_last_good_version(table: Path) -> None:
    commit(table, 12).unlink()

    result = deltacli("snapshot", table)

    assert_error(result, 3, "commit 12 is missing", "needed             00000000000000000012.json")
    back = f"   # or bring the files back: deltacli undelete {table} --from COPY"
    assert f"hint: deltacli snapshot {table} --version 11{back}" == result.err.splitlines()[-1]
    assert f"deltacli snapshot {table} --version 11 --json" == deltacli("snapshot", table, "--json").error["command"]
    assert [[12, 12]] == deltacli("history", table, "--json").document["gaps"]


def test_a_hint_that_the_user_completes_is_no_command_of_the_document(table: Path) -> None:
    whole = deltacli("alter", table, "set", "KEY=b", "--json").error
    left_open = deltacli("alter", table, "set", "--json").error

    assert f"deltacli properties {table} set KEY=b" == whole["hint"] == whole["command"]
    assert (f"deltacli properties {table} set KEY=VALUE", None) == (left_open["hint"], left_open["command"])


def test_facts_of_an_error_have_names_of_fields(table: Path) -> None:
    error = deltacli("snapshot", table, "--version", "99", "--json").error

    assert {"readable versions", "readableVersions"} <= {*error["details"], *error["facts"]}
    assert [*error["details"].values()] == [*error["facts"].values()]
    assert all(name.isalnum() for name in error["facts"])


def test_a_truncated_commit_names_file_line_and_byte(table: Path) -> None:
    path = commit(table, 14)
    data = path.read_bytes()
    path.write_bytes(data[:-40])

    result = deltacli("snapshot", table, "--json")

    assert (3, "commit.bad-json") == (result.code, result.error["code"])
    assert "00000000000000000014.json ends in the middle of line 4" in result.error["message"]
    assert "4" == result.error["details"]["line"]
    assert len(data) - 200 < int(result.error["details"]["byte"]) <= len(data)


def test_a_commit_of_zero_bytes_is_refused_and_history_shows_it(table: Path) -> None:
    commit(table, 13).write_bytes(b"")

    result = deltacli("snapshot", table)
    history = deltacli("history", table, "--json")

    assert_error(result, 3, "00000000000000000013.json is empty", f"deltacli snapshot {table} --version 12")
    assert "commit.empty" == history.document["items"][1]["problem"]
    assert "operation" not in history.document["items"][1]


def test_the_hint_of_a_damaged_log_names_the_newest_version_that_can_be_read(table: Path) -> None:
    """
    Commits 12 and 13 are torn, so neither is a way out.
    """
    commit(table, 12).write_bytes(b"")
    commit(table, 13).write_bytes(commit(table, 13).read_bytes()[:100])

    torn = deltacli("snapshot", table, "--version", "13")
    commit(table, 13).unlink()
    gap = deltacli("snapshot", table)

    assert f"hint: deltacli snapshot {table} --version 11" == torn.err.splitlines()[-1]
    assert gap.err.splitlines()[-1].startswith(f"hint: deltacli snapshot {table} --version 11   # or ")
    assert 0 == deltacli("snapshot", table, "--version", "11").code


def test_a_corrupt_checkpoint_is_an_error_only_without_an_older_one(table: Path) -> None:
    checkpoint = table / "_delta_log" / "00000000000000000010.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-7] + b"garbage")

    around = deltacli("snapshot", table, "--json")
    commit(table, 0).unlink()
    stuck = deltacli("snapshot", table)

    assert ["checkpoint.unreadable"] == around.document["logSegment"]["problems"]
    assert 21 == around.document["files"]["count"]
    assert_error(stuck, 3, "00000000000000000010.checkpoint.parquet cannot be read")


@pytest.mark.parametrize(
    ("command", "option"),
    [("snapshot", "--timestamp"), ("history", "--now"), ("changes", "--from"), ("changes", "--to")],
)
@pytest.mark.parametrize(
    ("given", "corrected"),
    [
        ("2026-01-09T08:12:44", "2026-01-09T08:12:44Z"),
        ("2026-01-09+08", "2026-01-09T00:00:00+08"),
        ("2026-1-9", "2026-01-09"),
        ("2026/1/9 8:00 z", "2026-01-09T08:00Z"),
        ("2026-1-9 8:00", "2026-01-09T08:00Z"),
    ],
)
def test_a_text_that_is_almost_a_time_is_refused_with_the_command_that_has_it(
    command: str, option: str, given: str, corrected: str
) -> None:
    others = () if command != "changes" or option == "--from" else ("--from", "0")

    done = deltacli(command, "t", *others, option, given)

    hint = " ".join(["hint: deltacli", command, "t", *others, option, corrected])
    assert_error(done, 2, f"{option}: '{given}'")
    assert hint == done.err.splitlines()[-1]


def test_timestamps_outside_the_history_are_refused(table: Path) -> None:
    before = deltacli("snapshot", table, "--timestamp", "2025-12-31")
    after = deltacli("snapshot", table, "--timestamp", "2030-01-01", "--counts", "--json")

    assert_error(before, 3, "2025-12-31T00:00:00.000Z", "version 0, 2026-01-01T09:00:00.000Z", "version 14")
    assert 14 == after.document["version"]
    assert "is the newest" in after.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("snapshot", "t", "--timestamp", "yesterday"), ("'yesterday' is not a timestamp", "RFC 3339")),
        (("snapshot", "t", "--timestamp", "2026-01-01", "--version", "1"), ("exclude each other",)),
        (("snapshot", "t", "--version", "-1"), ("negative",)),
        (("snapshot", "t", "--version", "one"), ("--version", "one")),
        (("history", "t", "--limit", "-5"), ("negative",)),
        (("history", "t", "--columns", "verison"), ("'verison'", "did you mean 'version'?")),
        (("snapshot", "t", "--files", "--columns", "pth"), ("'pth'", "did you mean 'path'?")),
        (("snapshot", "t", "--columns", "path"), ("--files",)),
        (("history", "gopher://host/t"), ("gopher://", "not supported")),
        (("history", ""), ("empty",)),
        (("history", "t", "--storage-option", "aws_secret_access_key=abc"), ("process list",)),
        (("histroy", "t"), ("histroy", "history")),
        (("snapshot", "t", "--flies"), ("--flies",)),
        (("read",), ("TABLE",)),
        (("history", "t", "--format", "xml"), ("xml",)),
        (("history", "t", "--config", "none.toml"), ("none.toml",)),
    ],
)
def test_a_wrong_command_line_is_exit_2_and_shows_the_usage(
    arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    result = deltacli(*arguments, cwd=tmp_path)

    assert_error(result, 2, *words)
    assert "abc" not in result.err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("history trips --format=jsn", "history trips --format=json"),
        ("validate trips --level storag", "validate trips --level storage"),
        ("validate trips --level foo", "validate --help"),
        ("snapshot trips --version latest -q", "snapshot trips -q"),
        ("vacuum trips --older-than 3d", "vacuum trips --retention 3d"),
        ("vacuum trips --retain-hours 5", "vacuum trips --retention 5h"),
        ("vacuum trips --retention 7 --yes", "vacuum trips --retention 7d --dry-run"),
        ("vacuum trips --dry", "vacuum trips --dry-run"),
        ("vacuum trips --retain 168", "vacuum trips --retention 168h"),
        ("history trips --all", "history trips --limit 0"),
        ("snapshot trips --no-color", "snapshot trips --color never"),
        ("snapshot trips --version v3", "snapshot trips --version 3"),
        ("diff trips --from 3 --to 5", "diff trips 3 5"),
        ("plan trips", "fleet plan --help"),
        ("vacuum trips --force --yes", "vacuum --help"),
        ("--limit 3 history trips", "history trips --limit 3"),
        ("--limit 3 vacuum trips", "vacuum --help"),
        ("log compact trips --from 1 --to 99 --yes", "log compact trips --from 1 --to 99"),
        ("read trips --select trip", "read trips --columns trip"),
        ("read trips --as-of 3", "read trips --version 3"),
        ("read trips --as-of=2026-01-01", "read trips --timestamp=2026-01-01"),
        ("read trips --head 3", "read trips --limit 3"),
        ("changes trips --since 3 --until 4", "changes trips --from 3 --to 4"),
        ("restore trips --since 3", "restore --help"),
        ("alter trips add tip decmal(8,2)", "alter trips add tip 'decimal(8,2)'"),
        ("schema diff trips 3 5", "diff trips 3 5"),
        ("compact trips", "optimize trips --dry-run"),
        ("fsck trips", "validate trips"),
        ("log ls trips", "history trips"),
        ("alter trips add trip int", "schema show trips"),
        ("changes trips", "changes trips --from 0"),
        ("diff trips", "history trips"),
        ("share ls", "share ls acme.share"),
        ("history . --limit 3", "history ./trips --limit 3"),
        ("history trips/day=2026-01-01 --limit 3", "history trips --limit 3"),
        ("log cat trips --timestamp=2020-01-01 --actions add", "log cat trips 0 --actions add"),
        ("changes trips --from 0 --to 2020-01-01", "changes trips --from 0 --to 0"),
        ("diff trips 2020-01-01 3", "diff trips 0 3"),
        ("vacuum trips -n", "vacuum trips --dry-run"),
        ("read trips -n 3", "read trips --limit 3"),
        ("log cat trips 3 --actions ad", "log cat trips 3 --actions add"),
        ("widen-type trips trip", "widen-type trips trip TYPE"),
        ("widen-type trips trip decmal(10,2)", "widen-type trips trip 'decimal(10,2)'"),
        ("alter trips add x STIRNG", "alter trips add x string"),
        ("alter trips move day aftr:trip", "alter trips move day after:trip"),
        ("vacuum trips --retention 3dya", "vacuum trips --retention 3d"),
        ("vacuum trips --retention=12hours", "vacuum trips --retention=12h"),
        ("vacuum trips --retention 1month", "help durations"),
        ("explain trips --if ad=deletionVectors", "explain trips --if add=deletionVectors"),
        ("explain trips --if wide=trip:long", "explain trips --if widen=trip:long"),
        ("diff trips 3 7 --rows --key tripp", "diff trips 3 7 --rows --key trip"),
        ("fleet plan fleet.toml --only lakee", "fleet plan fleet.toml --only lake"),
        ("vacuum trips 7d", "vacuum trips --retention 7d"),
        ("history trips --verison 3", "snapshot trips --version 3"),
        ("compaction trips", "optimize trips --dry-run"),
        ("table trips", "snapshot trips"),
        ("trips log cat 3", "log cat trips 3"),
        ("properties trips delta.appendOnly=true", "properties trips set delta.appendOnly=true"),
        ("properties trips delta.appendOnly", "properties trips get delta.appendOnly"),
        ("features trips deletionvectors --yes", "features trips add deletionvectors --dry-run"),
        ("snapshot trips --timestamp 2026-01-01 --version 1", "snapshot --help"),
        ("read trips --where trip!", "help conditions"),
        ("features trips drop nonsense", "features trips"),
        ("properties trips set DELTA.appendonly=true", "properties trips set delta.appendOnly=true"),
        ("alter trips add x int --not-null", "alter trips add x int"),
        ("changes trips --from 9 --to=3 --limit 4 -q", "changes trips --from 3 --to=9 --limit 4 -q"),
        ("diff trips 2026-1-2 7", "diff trips 2026-01-02 7"),
        ("diff trips 2026-02-30 7", "diff trips 2026-02-28 7"),
        ("diff trips 3..7", "diff trips 3 7"),
        ("diff trips 3..", "diff trips 3"),
        ("vacuum trips --retention 7 days", "vacuum trips --retention 7d"),
        ("log expire trips --retention=168 Hours --dry-run", "log expire trips --retention=168h --dry-run"),
        ("optimize trips --target-size 128 MB", "optimize trips --target-size 128MB"),
        ("vacuum trips day=2026-01-01 --dry-run", "vacuum --help"),
        ("vacuum trips trips/day=2026-01-01 --dry-run", "vacuum trips --dry-run"),
        ("vacuum --dry-run", "vacuum . --dry-run"),
        ("log backup trips", "log backup trips DEST"),
        ("validate trips --sample 5 --level data", "validate trips --sample 5% --level data"),
        ("repair trips --max-missing=10", "repair trips --max-missing=10%"),
        ("log expire trips --retention 1y", "log expire trips --retention 365d"),
        ("features trips add typeWidening,v2Checkpoint", "features trips add typeWidening v2Checkpoint"),
        ("validate trips --output r.sarif --format csv", "validate trips --output r.sarif"),
        ("read trips --output=a.csv --json --log-format text", "read trips --output=a.csv --log-format text"),
        ("widen-type trips", "widen-type trips COLUMN TYPE"),
        ("restore trips --version three", "history trips"),
        ("log cat trips latest", "history trips"),
        ("log compact trips --from 3 --to 1", "log compact trips --from 1 --to 3"),
        ("repair trips --accept-l", "repair trips --accept-loss"),
        ("repair trips --undo nope", "help repair.backup-missing"),
        ("alter trips constraint positive trip>0", "alter trips constraint add positive 'trip>0'"),
        ("alter trips constraint drop nope", "properties trips"),
        ("properties trips set", "properties trips set KEY=VALUE"),
        (
            "properties trips set delta.enableDeletionVectors=yes",
            "properties trips set delta.enableDeletionVectors=true",
        ),
        ("history s3//bucket/tbl", "history s3://bucket/tbl"),
        ("log restore trips .", "undelete trips --from COPY --dry-run"),
        ("validate trips --fix --level storage", "repair trips --dry-run"),
        ("history trips --operation WRITE", "history trips --format csv --columns version,timestamp,operation"),
        ("history trips --last 5", "history trips --limit 5"),
        ("restore trips --to 3", "restore trips --version 3"),
        ("restore trips --to=2026-01-02", "restore trips --timestamp=2026-01-02"),
        ("properties trips --set delta.appendOnly=true", "properties trips set delta.appendOnly=true"),
        (
            "properties trips set delta.logRetentionDuration 30 days",
            "properties trips set 'delta.logRetentionDuration=30 days' --dry-run",
        ),
        (
            "properties trips set delta.logRetentionDuration=30 days",
            "properties trips set 'delta.logRetentionDuration=30 days' --dry-run",
        ),
        ("properties trips set delta.logRetentionDuration=30", "properties trips set delta.logRetentionDuration=30d"),
        ("validate trips --select vacuum.retention", "help vacuum.retention"),
        ("alter trips add column price int", "alter trips add price int"),
        ("alter trips rename trip to id", "alter trips rename trip id"),
        ("read trips --output out.xlsx", "read trips --output out.csv"),
        ("validate trips --output j.xml", "validate trips --output j.xml --format junit"),
        ("read trips --retry-budget 5", "read trips --retry-budget 5s"),
        ("history --version", "--version"),
        ("history trips --version", "snapshot trips --version N"),
        ("fleet plan fleet.toml --group demo", "fleet plan --help"),
        ("validate trips --baseline flet.toml", "validate trips --baseline fleet.toml"),
        ("alter trips constraint add c tripp>0 --dry-run", "alter trips constraint add c 'trip>0' --dry-run"),
        (
            "alter trips constraint add c tripp>0 --upgrade-protocol",
            "alter trips constraint add c 'trip>0' --upgrade-protocol",
        ),
        ("alter trips drop trip --dry-run", "alter trips mapping name --upgrade-protocol --dry-run"),
        ("trips", "snapshot trips"),
        ("s3://bucket/tbl", "snapshot s3://bucket/tbl"),
        ("help --dry", "help --dry-run"),
        ("snapshot trips --timestamp 2026-02-30", "snapshot trips --timestamp 2026-02-28"),
        ("diff trips other --from=2026-1-2", "diff trips other --from=2026-01-02"),
        ("checkpoint trips --parts 3", "checkpoint trips --parts 3 --layout multi-part"),
        ("undelete trips --from trips", "undelete trips --from COPY --dry-run"),
        ("undelete trips --yes --from trips", "undelete trips --dry-run --from COPY"),
        ("validate trips --select foo.bar", "validate --list-rules"),
        ("repair trips --apply nope", "repair trips --save-plan nope"),
        ("alter trips add tip itn", "alter trips add tip int"),
        (
            "history trips --from 3 --json --to=1 --log-format text",
            "history trips --json --log-format text --from 1 --to 3",
        ),
        ("history trips --columns addedFiles", "history trips --columns addedFiles --counts"),
        ("optimize trips --zorder trip,,fare --dry-run", "optimize trips --zorder trip,fare --dry-run"),
        ("history trips --columns version,,operation", "history trips --columns version,operation"),
        ("validate trips --select log.*,,hint.*", "validate trips --select 'log.*,hint.*'"),
        ("log cat trips 1 --actions add,", "log cat trips 1 --actions add"),
        ("alter trips cluster trip,,fare --dry-run", "alter trips cluster trip,fare --dry-run"),
        ("diff trips 0 1 --rows --key trip,,fare", "diff trips 0 1 --rows --key trip,fare"),
        ("alter trips add tip map<int,array<strng>>", "alter trips add tip 'map<int,array<string>>'"),
        ("--formt json history trips", "--format json history trips"),
        ("share --colr=never ls acme.share", "share --color=never ls acme.share"),
        ("share head a.b.c --limit 3", "share head 'acme.share#a.b.c' --limit 3"),
        ("share head trips", "share head --help"),
        ("changes wide --columns id", "snapshot wide"),
        ("changes trips --columns id", "changes trips --columns id --from 0"),
        ("copy trips dst --versions 9-99", "copy trips dst --versions 9-14"),
        ("copy acme.share#a.b.c dst", "share pull 'acme.share#a.b.c' --to DIRECTORY --as delta"),
        ("clone acme.share#a.b.c dst --yes", "share pull 'acme.share#a.b.c' --to DIRECTORY --as delta"),
        ("stats trips --columns tripp", "stats trips --columns trip"),
    ],
)
def test_a_hint_is_the_command_that_was_typed_corrected(line: str, hint: str, table: Path) -> None:
    (table.parent / "acme.share").touch()
    (table / "day=2026-01-01").mkdir(exist_ok=True)
    (table.parent / "wide/schema").mkdir(parents=True, exist_ok=True)  # of Paimon
    (table.parent / "wide/schema/schema-0").touch()
    policy = '[policies.p]\ncheckpoint = { commits = 1 }\n[groups.lake]\npolicy = "p"\ntables = ["trips"]\n'
    (table.parent / "fleet.toml").write_text(policy)

    done = deltacli(*line.split(), cwd=table.parent)

    assert f"hint: deltacli {hint}" == done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("log compact trips --from 1 --to 9 --yes", "no such option: --yes; log compact needs no confirmation"),
        ("vacuum trips --retention 7", "--retention: '7' is not a duration: add a unit, such as 7d"),
        ("alter trips add tip decmal(8,2)", "decmal(8,2) is not a type of new columns; did you mean decimal(8,2)?"),
        (
            "vacuum trips trips/day=2026-01-01",
            "unexpected argument: trips/day=2026-01-01; it is inside the",
        ),
        ("optimize trips --min-files 0", "error: invalid value for '--min-files': 0 is less than 2"),
        ("--level data validate trips", "error: --level is an option of validate: it must follow the command"),
        (
            "diff trips 2026-02-30 7",
            "error: V1: '2026-02-30' is not a timestamp: no such day, February 2026 has 28 days",
        ),
        ("expire trips", "no such command 'expire'; did you mean 'log expire'?"),
        ("storage trips", "no such command 'storage'; did you mean 'doctor storage'?"),
        ("plan trips", "no such command 'plan'; did you mean 'fleet plan'?"),
        ("init trips", "no such command 'init'; did you mean 'fleet init' or 'share init'?"),
        ("rename trips", "no such command 'rename'; did you mean 'alter rename'?"),
        ("token list", "no such command 'token'; did you mean 'share token'?"),
        ("validate trips --fix", "no such option: --fix; repair does it"),
        ("history trips --since 2026-01-02", "no such option: --since; did you mean --from?"),
        ("history trips --operation WRITE", "no such option: --operation; history has no filter by operation"),
        ("compact trips", "no such command 'compact'; did you mean 'optimize' or 'log compact'?"),
        ("prune trips", "no such command 'prune'; did you mean 'vacuum'?"),
        ("merge trips", "no such command 'merge'; deltacli does not write rows"),
    ],
)
def test_an_error_says_what_is_wrong_with_the_word(line: str, said: str, table: Path) -> None:
    assert said in deltacli(*line.split(), cwd=table.parent).err.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "option"), [(("help",), ()), (("help", "log", "cat"), ("log", "cat"))], ids=" ".join
)
def test_help_prints_help_on_stdout(arguments: tuple[str, ...], option: tuple[str, ...], tmp_path: Path) -> None:
    result, asked = deltacli(*arguments, cwd=tmp_path), deltacli(*option, "--help", cwd=tmp_path)

    assert (0, "") == (result.code, result.err)
    assert asked.out == result.out
    assert "Usage: deltacli" in result.out


@pytest.mark.parametrize("arguments", [(), ("-q",)])
def test_the_bare_program_shows_its_commands_on_one_screen(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = deltacli(*arguments, cwd=tmp_path)

    lines = result.out.splitlines()
    assert (0, "") == (result.code, result.err)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert {name.split()[0] for name in COMMANDS} == {
        *(line.split()[0] for line in lines if re.match("  [a-z]+", line)),
        *re.findall("manifest|spark|completion", lines[-1]),
    }
    assert "--help" in lines[-1]


def test_help_on_an_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    result = deltacli("help", "vacum", cwd=tmp_path)

    assert (2, "") == (result.code, result.out)
    assert "vacuum" in result.err


def test_missing_permission_is_a_storage_error(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """In this process, because root may read whatever the modes say."""

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "scandir", refuse)

    code = run(["snapshot", str(table)])

    assert 7 == code
    out, err = capsysbinary.readouterr()
    assert b"" == out
    assert f"{table}/_delta_log cannot be read: permission denied" in err.decode()
    assert f"hint: deltacli doctor access {table}" in err.decode()


def test_validate_writes_the_other_findings_where_a_commit_cannot_be_read(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    real = LocalStorage.read
    commit = f"{1:020d}.json"

    def refuse(self: LocalStorage, path: str) -> bytes:
        if path.endswith(commit):
            raise PermissionRefused(f"{path} cannot be read: permission denied")
        return real(self, path)

    monkeypatch.setattr(LocalStorage, "read", refuse)
    monkeypatch.setattr(invocation, "log_is_json", None)  # restored afterwards

    code = run(["validate", str(table), "--json"])

    out, err = capsysbinary.readouterr()
    found, error = json.loads(out), json.loads(err.splitlines()[0])
    unread = "validate.file-unreadable"
    assert (7, False, [unread]) == (code, found["complete"], [one["code"] for one in found["failures"]])
    assert (unread, 7) == (error["code"], error["exit"])
    assert error["message"].endswith(f": _delta_log/{commit} cannot be read: permission denied")
    assert {unread} < {finding["rule"] for finding in found["tables"][0]["findings"]}


def test_a_hint_names_an_existing_directory(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "mkdir", refuse)

    assert 7 == run(["log", "backup", str(sample), str(tmp_path / "not" / "there")])

    assert capsysbinary.readouterr().err.decode().endswith(f"hint: ls -ld {tmp_path}\n")


def test_retained_log_files_are_not_reported_as_deleted(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    table = tmp_path / "t"
    shutil.copytree(sample, table)
    monkeypatch.setattr(os, "unlink", refuse)

    assert 7 == run(["log", "expire", str(table), "--yes", "-q"])

    out, err = (stream.decode() for stream in capsysbinary.readouterr())
    assert [
        f"error: {table}: nothing was deleted: no permission to delete 10 files",
        "  first  _delta_log/00000000000000000000.json",
        "  why    permission denied",
        f"hint: deltacli doctor access {table}",
    ] == err.splitlines()
    assert "planned commit 10 " in " ".join(out.split())
    assert "deleted     0 files, 0 B, 10 files could not be deleted" in out


@pytest.mark.parametrize(
    ("words", "allowed", "code", "hint"),
    [
        ("log expire", 1, 5, "deltacli log expire {table} --yes"),
        ("vacuum", 0, 7, "deltacli doctor access {table}"),
        ("vacuum", 1, 5, "deltacli vacuum {table} --yes"),
    ],
)
def test_a_run_without_permission_suggests_a_retry_only_if_it_deleted_something(
    words: str,
    allowed: int,
    code: int,
    hint: str,
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
) -> None:
    unlink, table = os.unlink, shutil.copytree(sample, tmp_path / "t")
    tried: list[str] = []

    def refuse(path: str, **within: int) -> None:
        if not path.endswith(".tmp"):
            tried.append(path)
            if len(tried) > allowed:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        unlink(path, **within)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        done = run([*words.split(), str(table), "--yes"])

    error = capsysbinary.readouterr().err.decode()
    assert (code, True) == (done, "why    permission denied" in error)
    assert error.splitlines()[-1].startswith("hint: " + hint.format(table=table))


def test_a_result_that_cannot_be_written_is_exit_7(sample: Path, tmp_path: Path) -> None:
    absent = deltacli("history", sample, "--json", "--output", tmp_path / "none" / "x")
    full = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m deltacli history "{sample}" > /dev/full'],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert (7, "output.unwritable") == (absent.code, absent.error["code"])
    assert 7 == full.returncode
    assert "error: " in full.stderr
    assert "no space left on device" in full.stderr


def test_an_unknown_reader_feature_is_refused_by_name_and_history_still_works(table: Path) -> None:
    commit(table, 15).write_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["timeTravelBackwards"],"writerFeatures":["timeTravelBackwards"]}}\n'
    )

    assert_error(deltacli("snapshot", table), 3, "timeTravelBackwards")
    assert 16 == len(deltacli("history", table, "--json").document["items"])
    assert 0 == deltacli("snapshot", table, "--version", "14").code


def test_a_time_later_than_the_clock_deletes_nothing(sample: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(sample, table)
    (table / "left.parquet").write_bytes(b"x")
    before = set(table.rglob("*"))

    shown = deltacli("vacuum", table, "--dry-run", "--now", "2999-01-01")
    done = deltacli("vacuum", table, "--yes", "--max-delete", "100%", "--now", "2999-01-01")
    expired = deltacli("log", "expire", table, "--yes", "--now", "2999-01-01")

    assert (0, 4, 4) == (shown.code, done.code, expired.code)
    assert "is later than the clock" in done.err
    assert "is later than the clock" in expired.err
    assert before == set(table.rglob("*"))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("history t --retry-budget 5", "--retry-budget: '5' is not a duration"),
        (
            "history t --config deltacli.toml",
            "retry_budget in the configuration deltacli.toml: 'abc' is not a duration",
        ),
        ("history t --config key.toml", "the configuration key.toml has an unknown key: formt; did you mean format?"),
        ("history t --config value.toml", "format in the configuration value.toml is 'jsn'; did you mean json?"),
        ("vacuum t --retention 7x", "--retention: '7x' is not a duration"),
        ("vacuum t --allow-retention-below 9999999999w", "--allow-retention-below: '9999999999w' is longer than"),
        ("log expire t --retention 7x", "--retention: '7x' is not a duration"),
        ("log expire t --allow-retention-below x", "--allow-retention-below: 'x' is not a duration"),
    ],
)
def test_the_error_of_a_value_names_the_option_or_the_file_and_the_key(words: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "deltacli.toml").write_text('retry_budget = "abc"\n')
    (tmp_path / "key.toml").write_text('formt = "json"\n')
    (tmp_path / "value.toml").write_text('format = "jsn"\n')

    done = deltacli(*words.split(), cwd=tmp_path)

    assert (2, f"error: {named}") == (done.code, done.err.splitlines()[0][: len(named) + 7])


@pytest.mark.parametrize(
    ("line", "advice", "expected"),
    [
        ("share recipient add a -c x.yaml", "deltacli share check", "deltacli share check --config x.yaml"),
        ("share token list --config=x.yaml", "deltacli share ls p.share", "deltacli share ls p.share"),
        (
            "share recipient list -c x.yaml",
            "deltacli share recipient add NAME --config shares.yaml",
            "deltacli share recipient add NAME --config x.yaml",
        ),
        (
            "share check -c x.yaml",
            "deltacli share recipient list   # after it is corrected",
            "deltacli share recipient list --config x.yaml   # after it is corrected",
        ),
        ("fleet status a.toml --state s", "deltacli fleet run", "deltacli fleet run a.toml --state s"),
        ("fleet status a.toml", "deltacli fleet run a.toml", "deltacli fleet run a.toml"),
        ("fleet status --state s", "deltacli fleet check", "deltacli fleet check"),
        ("fleet plan -v a.toml", "deltacli fleet run", "deltacli fleet run a.toml"),
        ("fleet check", "deltacli fleet init DIR 'a b.toml'", "deltacli fleet init DIR 'a b.toml'"),
        ("snapshot t", "deltacli share check", "deltacli share check"),
        (
            "history s3://b/t --storage-option region=x --storage-option=anon=true -q",
            "deltacli validate s3://b/t   # remark",
            "deltacli validate s3://b/t --storage-option region=x --storage-option anon=true   # remark",
        ),
        ("history t --allow-external /d --config c.toml", "deltacli help log.gap", "deltacli help log.gap"),
        (
            "history t --allow-external /d --config c.toml",
            "deltacli history t --config c.toml",
            "deltacli history t --config c.toml --allow-external /d",
        ),
        ("fleet plan a.toml", "edit the policy", "edit the policy"),
    ],
)
def test_a_next_command_names_the_files_of_the_command_line(line: str, advice: str, expected: str) -> None:
    assert expected == add_context_options(advice, line.split())


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("checkpoint trips --version 99", "deltacli checkpoint trips --version 14"),
        ("log expire trips --retention 1d", "deltacli log expire trips"),
        ("history s3:/b/x", "deltacli history s3://b/x"),
        ("history dbfs:/mnt/t", "deltacli history /dbfs/mnt/t"),
        ("schema diff trips --from 3", "deltacli schema diff trips --from version:3"),
        ("read trips --columns day,trp", "deltacli read trips --columns day,trip"),
        ("history trips --columns=verison", "deltacli history trips --columns=version"),
        ("explain trips --if add=deletionVector", "deltacli explain trips --if add=deletionVectors"),
        ("validate trips --select log.gapp", "deltacli validate trips --select log.gap"),
        ("alter trips drop trp --yes", "deltacli alter trips drop trip --dry-run"),
        ("diff trips 3 ./trips", "deltacli diff trips ./trips --from 3"),
        ("diff trips ./trips 3", "deltacli diff trips ./trips --to 3"),
        ("diff trips 3 x", "deltacli history trips"),
        ("diff trips 3 8 --rows", "deltacli diff trips 3 8 --rows --key trip"),
        ("diff trips 3 8 --key trip", "deltacli diff trips 3 8 --key trip --rows"),
        ("history trips --config nowhere.toml -q", "deltacli history trips -q"),
        ("properties trips set foo --yes", "deltacli properties trips set foo=true --dry-run"),
        ("properties trips set foo bar a=b", "deltacli properties trips set foo=bar a=b --dry-run"),
        ("properties trips set delta.appendonly", "deltacli properties trips set delta.appendOnly=false --dry-run"),
        ("optimize trips --target-size 5", "deltacli optimize trips --target-size 5MiB --dry-run"),
        ("restore trips --timestamp 2020-01-01 --yes", "deltacli restore trips --version 0 --dry-run"),
        ("checkpoint trips --version 99 --force", "deltacli checkpoint trips --version 14"),
        ("vacuum trips --max-delete 10% --yes", "deltacli vacuum trips --dry-run --max-delete 36%"),
        (
            "vacuum trips --retention 0d --yes",
            "deltacli vacuum trips --dry-run",
        ),
        ("alter trips add tip", "deltacli alter trips add tip TYPE"),
        ("alter trips rename trip", "deltacli alter trips rename trip NAME"),
        ("alter trips add tip varchar", "deltacli alter trips add tip 'varchar(255)'"),
        ("alter trips add tip array<char>", "deltacli alter trips add tip 'array<char(255)>'"),
        ("alter trips add tip varchar2", "deltacli alter trips add tip 'varchar(255)'"),
        ("alter trips add tip text", "deltacli alter trips add tip string"),
        ("alter trips add tip datetime", "deltacli alter trips add tip timestamp"),
        ("alter trips constraint add pos tripp>0 --yes", "deltacli alter trips constraint add pos 'trip>0'"),
        (
            "validate trips --select data.file-mising",
            "deltacli validate trips --select data.file-missing --level storage",
        ),
        ("changes trips --from 0 --to 99", "deltacli changes trips --from 0 --to 14"),
        ("changes trips --from 9 --to 3", "deltacli changes trips --from 3 --to 9"),
        ("alter trips set a=b c=d", "deltacli properties trips set a=b c=d"),
    ],
)
def test_a_hint_is_the_same_command_corrected(line: str, hint: str, sample: Path) -> None:
    assert f"hint: {hint}" == deltacli(*line.split(), cwd=sample.parent).err.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("changes trips --from abc", "--from: 'abc' is neither a version number nor a time"),
        ("changes trips --from 9 --to 3", "--to 3 is before --from 9"),
        ("alter trips add tip", "add: the type is missing"),
        ("features trips remove x", "'remove' is not an action of this command: 'add', 'drop'; did you mean 'drop'?"),
        ("schema convert trips", "missing option --to: delta, paimon, arrow, ddl"),
        ("checkpoint", "missing argument TABLE"),
        (
            "alter trips add tip varchar",
            "the type 'varchar' cannot be used: varchar needs a length, such as varchar(255), or use string",
        ),
        ("repair trips a b", "unexpected argument: a b"),
        ("optimize trips --target-size 5", "--target-size: 5 bytes cannot be the size of a data file"),
        ("read trips --limit x", "invalid value for '--limit': 'x' is not a whole number"),
        ("schema diff trips --from schema:0", "schema:N is a point of a Paimon table"),
        ("history trips --columns version,addedFiles", "addedFiles needs --counts"),
        ("history trips --columns typo", "no commit shown has the key typo in its commitInfo"),
        ("history gs://b/x", "invalid name of a bucket: 'b'"),
    ],
)
def test_a_message_says_what_is_wrong_in_plain_words(line: str, message: str, sample: Path) -> None:
    result = deltacli(*line.split(), cwd=sample.parent)

    assert (2, f"error: {message}") == (result.code, result.err.splitlines()[0])


def test_a_v2_checkpoint_names_the_command_that_adds_its_feature(sample: Path) -> None:
    result = deltacli("checkpoint", "trips", "--layout", "v2", cwd=sample.parent)

    assert "  to add it  deltacli features trips add v2Checkpoint" in result.err.splitlines()


def test_a_key_misspelled_in_a_policy_file_is_not_replaced_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("[fleet]\njobs = 7\n")

    done = deltacli("fleet", "status", cwd=tmp_path)

    assert "unknown key; did you mean 'lease'?" in done.err
    assert "hint: deltacli fleet status --help" == done.err.splitlines()[-1]


def test_a_misspelled_policy_file_is_answered_with_the_one_that_exists(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").touch()

    near = deltacli("fleet", "plan", "flet.toml", cwd=tmp_path)
    other = deltacli("fleet", "plan", "lake.toml", cwd=tmp_path)

    assert "hint: deltacli fleet plan fleet.toml" == near.err.splitlines()[-1]
    assert "hint: deltacli fleet init . lake.toml" == other.err.splitlines()[-1]


def test_a_configuration_of_the_environment_is_left_out_by_the_hint(sample: Path) -> None:
    result = deltacli("history", "trips", cwd=sample.parent, DELTACLI_CONFIG="nowhere.toml")

    assert "hint: env -u DELTACLI_CONFIG deltacli history trips" == result.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("vacuum trips --retention 1h --now 2026-01-04T12:00:00Z", "vacuum.retention"),
        ("widen-type trips ride.fare decimal(12,2) --dry-run", "widen.protocol-upgrade-needed"),
        ("alter trips drop trip --dry-run", "alter.mapping-needed"),
    ],
)
def test_a_refusal_is_said_once_where_both_streams_are_one(line: str, code: str, sample: Path) -> None:
    apart = deltacli(*line.split(), cwd=sample.parent)
    command = [sys.executable, "-m", "deltacli", *line.split()]
    together = subprocess.run(
        command, cwd=sample.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )

    sentence = apart.err.splitlines()[0].removeprefix("error: trips: ").removeprefix("nothing was changed: ")
    assert (4, 4, 1) == (apart.code, together.returncode, together.stdout.count(sentence))
    assert re.search(rf"^refused +{re.escape(f'{sentence} [{code}]')}", apart.out, re.MULTILINE)
    assert re.search(rf"^refused +{re.escape(code)}$", together.stdout, re.MULTILINE)


def test_a_hint_with_several_ways_is_no_command(sample: Path) -> None:
    told = deltacli("validate", sample, "--master", "local[2]").err

    assert "hint: add --engine spark, or omit --master\n" in told


def test_a_table_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(StorageFailed("ftp://h/t cannot be read"), ["snapshot", "ftp://h/t"], "ftp://h/t")

    assert "error: ftp://h/t cannot be read\nhint: deltacli help storage.failed\n" == capsys.readouterr().err


def test_what_is_no_table_is_answered_with_what_is_there_and_an_empty_word_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.parquet").touch()
    said = [deltacli(*words, cwd=tmp_path).err.splitlines() for words in (["read", "empty"], ["read", "x.parquet"])]
    empty = deltacli("history", "t", "", cwd=tmp_path).err

    assert ["hint: ls empty", "hint: ls ."] == [lines[-1] for lines in said]
    assert "error: an argument is empty: a variable of the script may be unset\nhint: deltacli history t\n" == empty


@pytest.mark.parametrize("line", ["read trips --output no/dir/x.csv", "validate trips --trend no/dir/x"])
def test_a_missing_directory_is_answered_with_the_command_that_creates_it(line: str, sample: Path) -> None:
    assert "hint: mkdir -p no/dir" == deltacli(*line.split(), cwd=sample.parent).err.splitlines()[-1]


def test_damage_without_a_hint_of_its_own_is_answered_with_validate(monkeypatch: pytest.MonkeyPatch) -> None:
    of_data = DataUnreadable("", code="data.type-mismatch")
    of_log = CheckpointUnreadable("", code="checkpoint.unreadable")

    assert "deltacli validate t --level data" == find_hint(of_data, ["read", "t"], "t")
    assert "deltacli validate t" == find_hint(of_log, ["optimize", "t"], "t")
    assert "deltacli reach t" == find_hint(of_log, ["read", "t"], "t")
    of_paimon = Unreadable("", code="paimon.schema-missing")
    assert "deltacli validate t" == find_hint(of_paimon, ["snapshot", "t"], "t")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert "deltacli validate t --no-refs" == find_hint(of_paimon, ["snapshot", "t"], "t")
    assert find_hint(of_log, ["validate", "t"], "t") is None
    assert find_hint(Refused("", code="consent.denied"), ["vacuum", "t"], "t") is None


def test_a_readable_version_is_no_hint_for_a_command_that_changes_the_table(table: Path) -> None:
    newest = commit(table, 14)
    newest.write_text(newest.read_text()[:-9])

    read, vacuum = deltacli("read", table, "--json").error, deltacli("vacuum", table, "--dry-run", "--json").error

    assert f"deltacli read {table} --json --version 13" == read["command"]
    assert f"deltacli repair {table} --dry-run" == read["facts"]["toRepairIt"]
    assert f"deltacli validate {table}" == vacuum["command"]


def test_a_refused_profile_and_a_missing_source_are_answered_with_what_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("backup").mkdir()
    refused = StorageFailed("", code="share.access")
    missing = Unreadable("there is no directory bakup", code="recover.source-missing")
    missing.wrong_word = "bakup"

    assert "deltacli share profile check acme.share" == find_hint(refused, ["share", "ls", "acme.share#sales"], None)
    assert "deltacli undelete t --from backup" == find_hint(missing, ["undelete", "t", "--from", "bakup"], "t")


def test_a_hint_keeps_the_other_values_of_a_repeatable_option() -> None:
    given = ["snapshot", "s3://b/t", "--storage-option", "endpoint_url=http://127.0.0.1:1"]
    fault = StorageFailed("", hint=suggest_parameters("--storage-option region=eu-west-1"))

    assert f"deltacli {' '.join(given)} --storage-option region=eu-west-1" == find_hint(fault, given, "s3://b/t")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("undo t", "restore t --version VERSION --dry-run"),
        ("rollback t --version 1", "restore --help"),
        ("undrop t", "undelete t --dry-run"),
        ("compact t", "optimize t --dry-run"),
        ("fsck t", "validate t"),
        ("properties get t delta.appendOnly", "properties t get delta.appendOnly"),
        ("features t remove appendOnly", "features t drop appendOnly"),
        ("features t add appendOnly --upgrade-protocol", "features t add appendOnly"),
        ("alter t drop-column ride", "alter t drop ride"),
        ("alter drop t ride", "alter t drop ride"),
        ("describe t", "snapshot t"),
        ("describe history t --limit 1", "history t --limit 1"),
        ("commits t", "history t"),
        ("version", "--version"),
        ("snapshto t --json", "snapshot t --json"),
        ("schema t", "schema show t"),
        ("doctor t", "doctor table t"),
        ("log t", "history t"),
        ("share t", "share serve t"),
        ("share a.share#x", "share ls 'a.share#x'"),
        ("fleet t", "fleet init t"),
        ("log nope", "log --help"),
        ("history t --version 1", "snapshot t --version 1"),
        ("read t --rows=3", "read t --limit=3"),
        ("snapshot t --flies", "snapshot t --files"),
        ("history t --verzionen", "history --help"),
        ("fleet status --format html", "fleet status --html status.html"),
        ("history t/_delta_log", "history t"),
        ("vacuum tt --yes", "vacuum t --dry-run"),
        ("files t", "snapshot t --files"),
        ("flet t", "fleet --help"),
        ("read t -n 3", "read t --limit 3"),
        ("read t --where day=2026-01-01", "read t --where \"day='2026-01-01'\""),
        ("read t --where=ride.cty='Bern' --json", "read t \"--where=ride.city='Bern'\" --json"),
        ("read t --where ride.city=Bern", "read t --where \"ride.city='Bern'\""),
        ("read t --where trip>abc", "snapshot t --schema"),
        ("read t --where trip>1&&trip<5", "read t --where 'trip>1 AND trip<5'"),
        ("read t --where `trip`+`a&&b`=2", "help conditions"),
        ("read t --where trip>", "help conditions"),
        ("properties t set delta.apendOnly=true", "properties t set delta.appendOnly=true"),
        ("properties t set delta.apendOnly=true --dry-run", "properties t set delta.appendOnly=true --dry-run"),
        ("alter t move trip after ride", "alter t move trip after:ride"),
        ("repair t --select hnt.*", "validate --list-rules"),
        ("doctor access t --for nosuch", "doctor access --help"),
        ("doctor access t --forma json", "doctor access t --format json"),
        ("vacuum t --retention 168", "vacuum t --retention 168h"),
        ("vacuum t --retention 30", "vacuum t --retention 30d"),
        ("optimize t --time-budget 5", "optimize t --time-budget 5m"),
        ("log backup t notes.txt", "log backup --help"),
        ("share check --config notes.txt", "help share.config"),
        ("history t/_delta_log/00000000000000000003.json", "history t"),
        ("schema show a.share#s.d.t", "share schema 'a.share#s.d.t'"),
        ("explain a.share#s.d.t", "snapshot 'a.share#s.d.t'"),
        ("schema convert a.share#s.d.t --to ddl", "share schema 'a.share#s.d.t'"),
        ("checkpoint a.share#s.d.t --verify", "snapshot 'a.share#s.d.t'"),
        ("undelete t --from a.share#s.d.t", "undelete --help"),
        ("log backup a.share#s.d.t b", "snapshot 'a.share#s.d.t'"),
        ("alter t set foo", "properties t set KEY=VALUE"),
        ("schema diff paimon --from 3", "schema diff paimon --from schema:3"),
        ("log compact t --from 3 --to 99", "log compact t --from 3 --to 14"),
        ("log compact t --from 14 --to 99", "history t"),
        ("alter lake table-comment x --dry-run", "alter lake/a table-comment x --dry-run"),
    ],
)
def test_the_hint_is_what_was_meant(typed: str, meant: str, tmp_path: Path) -> None:
    """Another table than the one that was named is not changed without a question."""
    make_sample(tmp_path / "t")
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "lake/a/_delta_log").mkdir(parents=True)
    (tmp_path / "paimon/schema").mkdir(parents=True)
    (tmp_path / "paimon/schema/schema-0").write_text("{}")

    result = deltacli(*typed.split(), cwd=tmp_path)

    hint = json.loads(result.err)["hint"] if "--json" in typed else result.err.splitlines()[-1].removeprefix("hint: ")
    assert f"deltacli {meant}" == hint
    assert "Did you mean" not in result.err
    assert "Possible options" not in result.err


def test_a_path_that_is_missing_hints_at_what_is_there(tmp_path: Path) -> None:
    make_sample(tmp_path / "t")

    result, other = (
        deltacli("snapshot", "nowhere/tbl", cwd=tmp_path),
        deltacli("schema", "diff", "t", "x", cwd=tmp_path),
    )

    assert (3, "hint: ls .") == (result.code, result.err.splitlines()[-1])
    assert (3, "error: x: no such file or directory", "hint: ls .") == (
        other.code,
        *(other.err.splitlines()[index] for index in (0, -1)),
    )


def test_help_finds_a_rule_by_its_last_part_and_no_code_by_it() -> None:
    found, code = deltacli("help", "file-missing"), deltacli("help", "restore.file-missing")

    assert 0 == found.code
    assert {"data.file-missing", "dv.file-missing", "cdc.file-missing"} <= set(found.out.split())
    assert "restore.file-missing is a code" in code.out
    assert "restore.file-missing" not in found.out


def test_a_path_that_is_no_text_is_reported_with_its_line_and_type(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, table := tmp_path / "table")
    first = '{"commitInfo":{"operation":"WRITE"}}\n'
    (table / "_delta_log" / f"{15:020d}.json").write_text(first + '{"add":{"path":5}}\n')

    done = deltacli("snapshot", table)

    assert 3 == done.code
    assert "json: path is a number, expected a string\n  found  5\n  line   2\n  byte   37\n" in done.err


@pytest.mark.parametrize("flag", ["-v", "-vv"])
def test_the_hint_is_the_last_line_also_below_causes_and_tracebacks(tmp_path: Path, flag: str) -> None:
    lines = deltacli("history", tmp_path / "nope", flag).err.splitlines()

    assert 2 < len(lines)
    assert f"hint: ls {tmp_path}" == lines[-1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--version --format ndjson", '"hint":"deltacli --version"'),
        ("-V --columns x", "hint: deltacli --version\n"),
        ("schema diff trips 3", "hint: deltacli schema diff trips --from version:3\n"),
        (
            "log foo trips",
            "the commands of log are backup, cat, compact, crc, expire, restore\nhint: deltacli log --help\n",
        ),
        ("share token foo", "the commands of share token are"),
        ("repair lost --dry-run", "hint: deltacli undelete lost --from COPY --dry-run\n"),
        ("fleet plan bad.toml", "hint: deltacli fleet plan --help\n"),
        ("fleet init . policy.toml", "hint: deltacli fleet check policy.toml\n"),
        ("fleet init . policy.toml", "  to replace it  deltacli fleet init . policy.toml --force\n"),
        ("share init . shares.yaml", "hint: deltacli share check --config shares.yaml\n"),
    ],
)
def test_a_hint_does_not_lead_to_the_same_error(line: str, said: str, table: Path) -> None:
    home = table.parent
    (home / "bad.toml").write_text("x =\n")
    (home / "policy.toml").touch()
    (home / "shares.yaml").touch()
    (home / "lost").mkdir()
    (home / "lost" / "a.parquet").touch()

    done = deltacli(*line.split(), cwd=home)

    assert done.code in (2, 3, 4)
    assert said in done.err


def test_options_of_a_store_are_noted_where_all_tables_are_on_a_disk(table: Path) -> None:
    done = deltacli("history", "trips", "--storage-option", "foo=bar", cwd=table.parent)

    assert (0, 1) == (done.code, done.err.count("note: --storage-option has no effect on a table on a disk"))
