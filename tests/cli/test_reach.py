"""`reach` on the command line, and its times against what vacuum and log expire then do."""

from __future__ import annotations

import json
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.errors import DeltacliError
from deltacli.core.times import DAY_MS
from deltacli.operations.reach import Part
from tests.cli.support import Result, deltacli
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import TableBuilder

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def reach(home: Path, *arguments: str) -> Result:
    return deltacli("reach", "./tbl", *arguments, cwd=home)


def document(home: Path, *arguments: str) -> Json:
    found = reach(home, *arguments, "--json")
    assert found.code == 0, found.err
    parsed: Json = json.loads(found.out)
    assert not faults(parsed, "deltacli.reach")
    return parsed


@pytest.mark.halved
def test_every_form_tells_the_same_ranges(home: Path) -> None:
    whole = document(home, "--retention", "7d")
    lines = reach(home, "--format", "ndjson").out.splitlines()
    rows = reach(home, "--format", "csv").out.splitlines()
    text = reach(home).out

    assert whole["retention"]["fileRetentionMs"] == 7 * DAY_MS
    assert [line_faults(json.loads(line)) for line in lines] == [[], []]
    assert json.loads(lines[1])["complete"] is whole["complete"] is True
    assert json.loads(lines[0])["ranges"] == whole["ranges"]
    assert len(rows) == 1 + len(whole["ranges"])
    assert [one["first"] for one in whole["ranges"][1:]] == [one["last"] + 1 for one in whole["ranges"][:-1]]
    assert all(count_cells(line) <= 80 for line in text.splitlines() if "file://" not in line)
    said = [line.split("  ", 1)[1].strip() for line in text.splitlines() if line.startswith("version")]
    assert len(said) > 1
    assert all(one != other for one, other in pairwise(said))
    assert "with 7d" in reach(home, "--retention", "7d", "--format", "markdown").out


def test_a_lost_commit_and_a_far_version_are_ranges_of_an_incomplete_answer(home: Path) -> None:
    log = home / "tbl/_delta_log"
    newest = open_table(home / "tbl").snapshot().version
    (log / f"{10**15:020}.json").write_bytes((log / f"{newest:020}.json").read_bytes())

    found = document(home)

    assert found["complete"] is False
    assert found["snapshotVersion"] == 10**15
    assert [found["ranges"][-2][name] for name in ("first", "last", "log")] == [newest + 1, 10**15 - 1, "missing"]
    assert found["next"] is None
    assert json.loads(reach(home, "--format", "ndjson").out.splitlines()[-1])["complete"] is False


def test_versions_that_need_another_reader_are_one_range_without_a_word_of_damage(tmp_path: Path) -> None:
    lists = {"reader_features": ["future"], "writer_features": ["future"]}
    builder = TableBuilder().commit(protocol(3, 7, **lists), metadata())
    builder.commit(add("a")).commit(add("b")).write(tmp_path / "tbl")

    found, text = document(tmp_path), reach(tmp_path).out

    assert {"needs the reader feature future, which deltacli cannot read"} == {one["why"] for one in found["ranges"]}
    assert "versions 0-2  not readable: needs the reader feature future" in text
    assert "damage" not in text


def test_lost_files_are_told_apart(home: Path) -> None:
    table = open_table(home / "tbl")
    before = table.reach()
    paths = [path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()]
    (home / "tbl" / paths[0]).unlink()

    after = open_table(home / "tbl").reach()

    newest = after.newest_version
    assert before.versions[newest].is_readable
    assert after.versions[newest].data_files is Part.MISSING
    assert after.versions[newest].log is Part.THERE
    assert not after.versions[newest].is_readable
    assert "not readable: data files missing" in reach(home).out


def paths_of(path: Path, version: int) -> set[str]:
    files = open_table(path).snapshot(version=version).files()
    return {name for batch in files for name in batch.column("path").to_pylist()}


def test_a_hole_takes_no_version_before_it_with_it(home: Path) -> None:
    path = home / "tbl"
    before = open_table(path).reach()
    readable = [version for version, one in before.versions.items() if one.is_readable]
    ends = paths_of(path, readable[0]) | paths_of(path, readable[-1])
    hole = next(name for version in readable for name in sorted(paths_of(path, version) - ends))
    (path / hole).unlink()

    after = open_table(path).reach()

    assert before.next is not None
    assert after.next is not None
    assert after.versions[readable[0]].is_readable
    assert set(after.next.lost) <= set(before.next.lost)


def is_read(path: Path, version: int) -> bool:
    try:
        list(open_table(path).snapshot(version=version).scan())
    except DeltacliError:
        return False
    return True


@pytest.mark.halved
def test_versions_go_when_it_says(home: Path) -> None:
    path = home / "tbl"
    found = open_table(path).reach()
    ends = {version: one for version, one in found.versions.items() if one.is_readable and one.until_by == "vacuum"}
    moments = sorted({one.until_ms for one in ends.values() if one.until_ms is not None})
    assert moments
    for number, moment in enumerate(moments[:3]):
        copy = home / f"copy{number}"
        shutil.copytree(path, copy)
        open_table(copy, clock=partial(int, moment + 1)).vacuum(max_delete="100%")
        gone = {version for version, one in ends.items() if one.until_ms is not None and one.until_ms <= moment}
        assert {version for version in found.readable if not is_read(copy, version)} == gone


NOON = 1_767_268_800_000
"""2026-01-01 12:00 UTC."""


def table_of_days(tmp_path: Path, checkpoints: tuple[int, ...], **properties: str) -> Path:
    """A table with a commit every other day, the last one today, that keeps its log for ten days."""
    retentions = {
        "delta.logRetentionDuration": "interval 10 days",
        "delta.deletedFileRetentionDuration": "interval 60 days",
    }
    settings = retentions | properties
    builder = TableBuilder()
    for version in range(14):
        actions = [protocol(1, 2), metadata(configuration=settings)] if version == 0 else []
        builder.commit(*actions, add(f"f{version}"), modified_ms=NOON - (13 - version) * 2 * DAY_MS)
        builder.file(f"f{version}", b"x")
    for version in checkpoints:
        builder.checkpoint(version)
    return builder.write(tmp_path / "tbl")


def ends_of(path: Path) -> list[tuple[int, int, float | None, str | None]]:
    """The ranges, with the days from now until which they can be read, and what then ends them."""
    ranges = [(one.first, one.last, one.reached) for one in open_table(path, clock=lambda: NOON).reach().ranges]
    return [
        (first, last, None if one.until_ms is None else (one.until_ms - NOON) / DAY_MS, one.until_by)
        for first, last, one in ranges
    ]


def test_spark_deletes_commits_below_a_young_checkpoint(tmp_path: Path) -> None:
    """
    A checkpoint of Spark at version 13 deletes what is older than ten days and below the checkpoint at 11, which
    `log expire` keeps until that checkpoint is ten days old. Versions need the checkpoint that they begin with.
    """
    path = table_of_days(tmp_path, (4, 9, 11))

    found = ends_of(path)

    assert [
        (0, 3, -15.5, "checkpoint of Spark"),
        (4, 8, -7.5, "checkpoint of Spark"),
        (9, 10, 2.5, "checkpoint of Spark"),
        (11, 13, None, None),
    ] == found
    plan = deltacli("log", "expire", "./tbl", "--dry-run", "--now", "2026-01-01T12:00:00Z", "--json", cwd=tmp_path)
    assert [[0, 3]] == json.loads(plan.out)["lostVersions"]


@pytest.mark.parametrize(
    ("checkpoints", "properties", "expected"),
    [
        ((), {}, [(0, 13, None, None)]),
        ((9,), {"delta.enableExpiredLogCleanup": "false"}, [(0, 13, None, None)]),
        ((0, 1), {}, [(0, 0, -15.5, "checkpoint of Spark"), (1, 13, None, None)]),
        ((13,), {}, [(0, 12, -15.5, "checkpoint of Spark"), (13, 13, None, None)]),
    ],
)
def test_spark_deletes_no_commit_without_a_newer_checkpoint(
    tmp_path: Path, checkpoints: tuple[int, ...], properties: dict[str, str], expected: list[Any]
) -> None:
    assert expected == ends_of(table_of_days(tmp_path, checkpoints, **properties))


def test_versions_that_end_at_different_times_of_a_day_are_different_ranges(tmp_path: Path) -> None:
    """
    In the text they are one line with both times.
    """
    builder = TableBuilder()
    for version in range(4):
        begins = [protocol(1, 2), metadata()] if version == 0 else []
        removed = [remove(f"f{version - 1}", deleted_ms=NOON + version * 1_000)] if version else []
        builder.commit(*begins, *removed, add(f"f{version}"), modified_ms=NOON + version * 1_000)
        builder.file(f"f{version}", b"x")
    path = builder.write(tmp_path / "tbl")

    found = ends_of(path)
    text = deltacli("reach", "./tbl", "--now", "2026-01-02", cwd=tmp_path).out

    week = 7 + 1 / 86_400
    assert [(0, 0, "vacuum"), (1, 1, "vacuum"), (2, 2, "vacuum")] == [(*one[:2], one[3]) for one in found[:3]]
    assert pytest.approx([week + version / 86_400 for version in range(3)]) == [one[2] for one in found[:3]]
    assert (3, 3, None, None) == found[3]
    (line,) = [line for line in text.splitlines() if line.startswith("versions 0-2")]
    assert "2026-01-08 12:00:01 to 12:00:03 UTC" in line


@pytest.mark.parametrize("arguments", [("--retention", "soon"), ("--retention", "-1d")])
def test_a_retention_that_is_none_is_an_error(home: Path, arguments: tuple[str, ...]) -> None:
    assert reach(home, *arguments).code == 2


def test_a_paimon_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tbl/schema").mkdir(parents=True)
    (tmp_path / "tbl/schema/schema-0").write_text('{"version": 3, "id": 0, "fields": []}')
    assert reach(tmp_path).code == 2


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_vacuum_reports_the_lost_versions_that_reach_reports(home: Path, mode: str) -> None:
    """Version 0 has no files, so it remains readable; version 5 is kept."""
    result = deltacli("vacuum", "./tbl", "--dry-run", "--mode", mode, "--keep-version", "5", "--json", cwd=home)
    lost = json.loads(result.out)["reach"]["lostVersions"]
    deltacli("vacuum", "./tbl", "--mode", mode, "--keep-version", "5", "--yes", cwd=home)
    ranges = document(home)["ranges"]

    assert lost == [[one["first"], one["last"]] for one in ranges if not one["readable"]] == [[1, 3], [6, 11]]
