"""The columns of `history` on screens of several widths."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.operations.read.history import HistoryItem
from tests.cli.pty_session import Session
from tests.cli.screen import as_pasted, screen_of
from tests.cli.support import deltacli, make_sample
from tests.support.actions import birth, commit_info
from tests.support.builder import TableBuilder


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("history") / "trips")


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_parameters_are_shown_first_and_the_columns_are_the_same_whatever_the_limit(
    trips: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    screens = [screen_of(monkeypatch, "history", trips, "--limit", str(limit), width=width) for limit in (0, 3, 7)]
    whole = screens[0].splitlines()

    assert 1 == len({tuple(screen.splitlines()[0].split()) for screen in screens})
    assert next(line for line in whole if "UPDATE" in line).partition("UPDATE")[2].split()[:3] == ["trip", "=", "7"]
    assert ("rows: + added, ~ updated, - deleted" in whole) == (width > 60)
    assert ("changes" in whole[0]) == (width >= 100)


def test_a_long_history_leaves_out_the_same_columns_first(trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.cli.render.history.MAX_DRAWN_ROWS", 0)
    monkeypatch.setattr("deltacli.cli.output.text_tables.MAX_DRAWN_ROWS", 0)
    heading = screen_of(monkeypatch, "history", trips, width=80).splitlines()[0].split()

    assert (True, False) == ("parameters" in heading, "user" in heading)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_code_of_a_problem_is_never_cut(tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = make_sample(tmp_path / "broken")
    (broken / f"_delta_log/{2:020d}.json").write_text('{"commitInfo":{"operation":"CREATE OR REPLACE TABLE"')
    screen = screen_of(monkeypatch, "history", broken, width=width)

    assert "commit.bad-json" in screen.split()


def test_what_has_no_room_is_named_with_the_command_that_shows_it(trips: Path) -> None:
    with Session("history", trips, "--no-pager", size=(60, 40)) as session:
        _, seen = session.finish()

    command = f"deltacli history {trips} --no-pager --columns version,operationMetrics,engineInfo"
    assert f"no room for files, rows, engine; to show more: {command}" in " ".join(as_pasted(seen).split())


@pytest.mark.parametrize(
    ("command", "following"),
    [
        ("features", "explain {}"),
        ("properties", "features {}"),
        ("doctor access", "doctor storage {}"),
    ],
)
def test_the_last_line_is_the_next_command(trips: Path, command: str, following: str) -> None:
    with Session(*command.split(), trips, "--no-pager", "--color", "never", size=(160, 60)) as session:
        _, seen = session.finish()

    assert f"next: deltacli {following.format(trips)}" == as_pasted(seen).splitlines()[-1].strip()


def next_command(table: Path) -> list[str]:
    """Return the words of the command that `history` names on a terminal."""
    with Session("history", table, "--no-pager", "--color", "never", size=(200, 60)) as session:
        _, seen = session.finish()
    line = as_pasted(seen).splitlines()[-1].strip()
    assert line.startswith("next: deltacli ")
    return line.removeprefix("next: deltacli ").split()


@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE"])
def test_after_rows_were_changed_the_next_command_shows_these_rows(operation: str, tmp_path: Path) -> None:
    table = make_sample(tmp_path / "trips")
    added, *_ = [
        action["add"]
        for line in (table / "_delta_log" / f"{13:020d}.json").read_text("utf-8").splitlines()
        if "add" in (action := json.loads(line))
    ]
    removed = {key: added[key] for key in ("path", "partitionValues", "size")}
    remove = {"remove": {**removed, "extendedFileMetadata": True, "deletionTimestamp": 1, "dataChange": True}}
    commit = [{"commitInfo": {"timestamp": 1, "operation": operation}}, remove]
    (table / "_delta_log" / f"{15:020d}.json").write_text("\n".join(map(json.dumps, commit)), "utf-8")

    command = next_command(table)
    changes = deltacli(*command, "--format", "csv")

    assert ["changes", str(table), "--from", "15", "--to", "15"] == command
    assert 0 == changes.code
    assert {"delete"} == {row["_change_type"] for row in csv.DictReader(changes.out.splitlines())}


def test_after_other_commits_the_next_command_shows_the_newest_version(trips: Path) -> None:
    assert ["snapshot", str(trips), "--version", "14"] == next_command(trips)


def test_columns_of_properties_without_room_have_a_command(trips: Path) -> None:
    with Session("properties", trips, "--no-pager", "--color", "never", size=(60, 40)) as session:
        _, seen = session.finish()

    command = f"deltacli properties {trips} --no-pager --color never --format csv"
    assert f"no room for default, meaning; to show them: {command}" in " ".join(as_pasted(seen).split())


def test_columns_know_their_values_without_the_document_of_a_commit(
    trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    as_json = HistoryItem.as_json

    def counted(item: HistoryItem) -> dict[str, Any]:  # Any: JSON
        made.append(item.version)
        return as_json(item)

    monkeypatch.setattr(HistoryItem, "as_json", counted)
    code = run(["history", str(trips), "--format", "csv"])

    assert (0, []) == (code, made)


def test_a_copy_with_the_times_of_its_files_is_explained_once(trips: Path, tmp_path: Path) -> None:
    copy, kept = tmp_path / "copy", tmp_path / "kept"
    shutil.copytree(trips, copy)
    shutil.copytree(trips, kept)
    for number, file in enumerate(sorted((copy / "_delta_log").glob("*.json"))):
        os.utime(file, (1_800_000_000, 1_800_000_000 + number / 1_000))

    def notes(table: Path) -> list[str]:
        with Session("history", table, "--no-pager", "--color", "never", "--limit", "0", size=(200, 60)) as session:
            _, seen = session.finish()
        return [line.strip() for line in as_pasted(seen).splitlines() if "have the same time" in line]

    said = "note: versions 0-14 have the same time, because copying the table changed the times of its files; the times"
    assert [said] == [line[: len(said)] for line in notes(copy)]
    assert [] == notes(kept)


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    metrics = {"num_target_files_added": 1200, "num_target_files_removed": 2, "num_target_rows_updated": 5}
    table = TableBuilder()
    table.commit(*birth(), commit_info(operation="MERGE", operationMetrics=metrics))
    table.commit(commit_info(operation="SET TBLPROPERTIES", rows="by hand"))
    return table.write(tmp_path / "merged")


def test_the_headings_of_a_screen_name_columns(merged: Path) -> None:
    csv = deltacli("history", merged, "--columns", "version,FILES,rows,engine", "--format", "csv")
    items = deltacli("history", merged, "--columns", "files,rows", "--json").document["items"]

    assert ["version,files,rows,engineInfo", "1,,,", "0,+1200 -2,~5,"] == csv.out.splitlines()
    assert {"files": {"added": 1200, "removed": 2}, "rows": {"updated": 5}} == items[1]
    assert {"commitInfo": {"rows": "by hand"}} == items[0]


@pytest.mark.parametrize("heading", ["changes", "committed (UTC)", "files +", "user", "message", "parameters"])
def test_every_heading_is_accepted(heading: str, merged: Path) -> None:
    assert 0 == deltacli("history", merged, "--columns", heading, "--counts").code


def test_a_heading_that_needs_counts_says_so(merged: Path) -> None:
    result = deltacli("history", merged, "--columns", "bytes +", "--json")

    assert (2, "usage.column") == (result.code, result.error["code"])
    assert "--counts" in result.error["hint"]
