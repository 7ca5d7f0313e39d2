"""`fleet init`: a policy file for the tables of a directory, which `fleet check` accepts and nothing overwrites."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from deltacli.cli.app import run
from deltacli.fleet.policy_file.reading import read_fleet_file
from tests.cli.support import make_sample
from tests.cli.test_documents import validate
from tests.support.builder import TableBuilder


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory with two tables, one with an odd name, below the current one."""
    monkeypatch.chdir(tmp_path)
    TableBuilder().commits(2).write(tmp_path / "my lake" / "a")
    TableBuilder().commits(2).write(tmp_path / "my lake" / 'deep "\\' / "b\n[x]")
    return tmp_path / "my lake"


def test_the_file_is_accepted_and_selects_the_tables_that_were_found(
    lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = run(["fleet", "init", "my lake", "--json"])
    captured = capfd.readouterr()
    document = json.loads(captured.out)
    codes = [run(["fleet", "check"]), run(["fleet", "plan", "--json"])]
    planned = json.loads(capfd.readouterr().out.splitlines()[-1])
    file = read_fleet_file(Path("fleet.toml"))

    validate(document, "deltacli.fleet-init")
    assert (0, [0, 0], ()) == (made, codes, file.problems)
    assert {table["table"] for table in document["tables"]} == {table["table"] for table in planned["tables"]}
    assert 2 == len(planned["tables"])
    assert 'prefixes = ["my lake"]' in Path("fleet.toml").read_text()
    assert "next: deltacli fleet plan" in captured.err
    assert [("checkpoint", "validate")] == [tuple(policy.steps) for policy in file.policies]


def test_the_steps_in_comments_are_valid_and_delete_only_with_yes(lake: Path) -> None:
    run(["fleet", "init", str(lake), "-q"])
    text = Path("fleet.toml").read_text()
    Path("fleet.toml").write_text(text.replace("# vacuum", "vacuum").replace("# log-expire", "log-expire"))

    file = read_fleet_file(Path("fleet.toml"))

    assert ((), {"checkpoint", "validate", "vacuum", "log-expire"}) == (file.problems, {*file.policies[0].steps})


@pytest.mark.parametrize("force", [False, True])
def test_an_existing_file_is_replaced_only_with_force(
    lake: Path, capfd: pytest.CaptureFixture[str], force: bool
) -> None:
    Path("own.toml").write_text("mine")

    code = run(["fleet", "init", "my lake", "own.toml", *(["--force"] if force else [])])

    assert (0 if force else 4, not force) == (code, Path("own.toml").read_text() == "mine")
    said = capfd.readouterr().err
    assert ("deltacli fleet plan own.toml" if force else "hint: deltacli fleet check own.toml") in said
    assert force or "to replace it  deltacli fleet init 'my lake' own.toml --force" in said


def test_nothing_is_written_where_no_table_is_found(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkdir("empty")

    codes = [run(["fleet", "init", name]) for name in ("empty", "absent")]
    said = capfd.readouterr().err

    assert ([3, 3], False) == (codes, os.path.exists("fleet.toml"))
    assert "empty: no Delta table found at or below it" in said
    assert "absent: no such directory" in said


def test_a_backup_of_a_log_is_no_table_of_any_walk(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["log", "backup", "my lake/a", "my lake/backup"])
    searches = (
        ("fleet init", "my lake"),
        ("fleet plan",),
        ("fleet run",),
    )
    capfd.readouterr()

    for first, *rest in (*searches, ("vacuum --dry-run", "my lake/*"), ("validate", "my lake/*")):
        run([*first.split(), *rest, "--json"])
        found = capfd.readouterr()

        assert "backup is a backup of a log and skipped (_delta_log_backup.ndjson)" in found.err, first
        assert ["my lake/a"] == [one for one in ("my lake/a", "my lake/backup") if one in unquote(found.out)], first
    assert 0 == run(["snapshot", "my lake/backup"])


def test_a_directory_that_cannot_be_searched_is_reported(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (lake / "closed").mkdir()
    search = os.scandir

    def denied(place: str) -> Any:  # Any: an iterator of the system
        if str(place).endswith("closed"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)
        return search(place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", denied)  # root may search every directory
        code = run(["fleet", "init", "my lake", "--json"])
    document = json.loads(capfd.readouterr().out)

    assert (5, False, 2) == (code, document["complete"], len(document["tables"]))
    assert f"{lake}/closed" == document["problems"][0]["path"]


def test_a_write_that_fails_leaves_no_file_and_a_later_run_needs_no_force(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        failed = run(["fleet", "init", "my lake"])
    left = [name for name in os.listdir() if "fleet.toml" in name]

    assert (7, []) == (failed, left)
    assert "fleet.toml" in capfd.readouterr().err
    assert 0 == run(["fleet", "init", "my lake"])


def test_directories_with_names_of_other_meanings(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`~` is a home directory in a policy file, and a name that is not UTF-8 cannot be in it."""
    for name in ("~", "[x]*", os.fsdecode(b"latin\xff")):
        TableBuilder().commits(1).write(lake / name / "t")
    codes = [run(["fleet", "init", f"my lake/{name}", file]) for name, file in (("[x]*", "a.toml"), ("", "b.toml"))]
    refused = run(["fleet", "init", os.fsdecode(b"my lake/latin\xff"), "c.toml"])
    os.chdir(lake)
    codes.append(run(["fleet", "init", "./~", "d.toml"]))
    found = [list(read_fleet_file(Path(file)).groups[0].prefixes) for file in ("../a.toml", "../b.toml", "d.toml")]

    assert ([0, 0, 0], 2) == (codes, refused)
    assert [[str(lake / "[x]*")], [str(lake)], [str(lake / "~")]] == [[entry.text for entry in each] for each in found]
    assert "is not UTF-8, so a policy file cannot name it" in capfd.readouterr().err


def test_a_table_whose_name_is_not_utf_8_is_maintained_once(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    TableBuilder().commits(1).write(lake / os.fsdecode(b"latin\xff"))
    run(["fleet", "init", "my lake", "-q"])
    run(["fleet", "run", "-q"])
    capfd.readouterr()

    run(["fleet", "run", "--json", "-q"])
    again = json.loads(capfd.readouterr().out)
    run(["fleet", "status", "--json", "-q"])
    status = json.loads(capfd.readouterr().out)

    assert [3, 0, 0] == [again["summary"][name] for name in ("tables", "done", "leased")]
    assert 3 == len(status["tables"])


def test_healthy_tables_that_are_rarely_written_have_no_alerts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What only informs is no alert, and neither is an old checkpoint of a table that is not due for a new one."""
    monkeypatch.chdir(tmp_path)
    make_sample(tmp_path / "lake" / "idle")

    codes = [run(["fleet", "init", "lake"]), run(["fleet", "run"])]
    capfd.readouterr()
    codes.append(run(["fleet", "status", "--json", "--now", "2031-01-01T00:00:00Z"]))
    document = json.loads(capfd.readouterr().out)

    assert ([0, 0, 0], []) == (codes, document["tables"][0]["alerts"])
    assert 0 < document["tables"][0]["trends"]["findings"][0][1]
