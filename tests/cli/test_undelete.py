"""`undelete` on the command line and from Python: plan, consent, documents, refusals."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.errors import PartlyDone, Refused
from tests.cli.support import Result, deltacli
from tests.cli.test_documents import lines_of, validate
from tests.operations.recover.test_find_and_put import content_of, table_at

LOG = "_delta_log"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table_at(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    return tmp_path / "t"


def undelete(table: Path, *arguments: str) -> Result:
    return deltacli("undelete", table, *arguments, "--json")


def checked(result: Result, code: int = 0) -> dict[str, object]:
    assert code == result.code, result.err
    validate(result.document, "deltacli.undelete")
    found: dict[str, object] = result.document
    return found


def lose_a_file(table: Path) -> None:
    (table / "part-00000.parquet").unlink()


def lose_the_log(table: Path) -> None:
    shutil.rmtree(table / LOG)


def lose_everything(table: Path) -> None:
    shutil.rmtree(table)
    table.mkdir()


def lose_a_commit(table: Path) -> None:
    (table / LOG / f"{1:020d}.json").unlink()


def truncate_a_file(table: Path) -> None:
    path = table / "p=2" / "part-00002.parquet"
    path.write_bytes(path.read_bytes()[:-7])


ACCIDENTS: list[Callable[[Path], None]] = [
    lose_a_file,
    lose_the_log,
    lose_everything,
    lose_a_commit,
    truncate_a_file,
]


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_copy_brings_everything_back_after_a_plan_that_changes_nothing(
    table: Path, accident: Callable[[Path], None]
) -> None:
    before = content_of(table)
    accident(table)
    after = content_of(table)

    planned = checked(undelete(table, "--from", str(table.parent / "copy"), "--dry-run"))
    asked = checked(undelete(table, "--from", str(table.parent / "copy")), 4)
    assert after == content_of(table)
    assert planned["found"] == asked["found"]
    assert planned["dryRun"] is True

    done = checked(undelete(table, "--from", str(table.parent / "copy"), "--yes"))
    assert before == content_of(table)
    assert done["restored"] == planned["found"]
    assert len(before) == done["needed"]["files"]  # type: ignore[index]
    again = checked(undelete(table, "--from", str(table.parent / "copy"), "--yes"))
    assert again["found"] == {"files": 0, "sizeBytes": 0}
    assert again["needed"] == done["needed"]


def test_lines_and_rows_name_each_file(table: Path) -> None:
    lose_a_commit(table)
    lose_a_file(table)
    arguments = ("undelete", table, "--from", table.parent / "copy", "--dry-run", "--format")
    lines, end = lines_of(deltacli(*arguments, "ndjson"))
    assert end == {"type": "end", "complete": True, "count": 3}
    assert ["lost-file", "lost-file", "undelete"] == [line["type"] for line in lines]
    for line in lines:
        validate(line, str(line["type"]))
    rows = deltacli(*arguments, "csv").out.splitlines()
    assert rows[0] == "path,kind,sizeBytes,source,state,problem,reason"
    assert len(rows) == 3


def test_what_no_source_has_is_listed_with_the_newest_version_that_can_be_read(table: Path) -> None:
    for root in (table, table.parent / "copy"):
        next(root.glob("ab/*.bin")).unlink()
    (table / "part-00000.parquet").unlink()

    found = checked(undelete(table, "--from", str(table.parent / "copy"), "--yes"), 5)
    assert [one["problem"] for one in found["stillMissing"]] == ["missing"]  # type: ignore[attr-defined]
    assert found["stillMissing"][0]["kind"] == "deletion-vector"  # type: ignore[index]
    assert found["newestReadableVersion"] == 1
    assert (table / "part-00000.parquet").exists()
    assert sum(batch.num_rows for batch in open_table(table).snapshot(version=1).scan()) == 15


def test_a_log_with_a_commit_that_nobody_has_stays_as_it_is(table: Path) -> None:
    lose_the_log(table)
    lose_a_commit(table.parent / "copy")
    found = checked(undelete(table, "--from", str(table.parent / "copy"), "--yes"), 5)
    assert [one["path"] for one in found["stillMissing"]] == [f"{LOG}/{1:020d}.json"]  # type: ignore[attr-defined]
    assert found["newestReadableVersion"] == 0
    assert not (table / LOG).exists()

    first = checked(undelete(table, "--from", str(table.parent / "copy"), "--version", "0", "--yes"))
    assert first["version"] == 0
    assert open_table(table).snapshot().version == 0


def refused(result: Result, code: int, word: str) -> None:
    assert code == result.code, result.err
    assert word in result.err


def test_the_copy_of_another_table_is_refused(table: Path) -> None:
    lose_a_file(table)
    for commit in (table.parent / "copy" / LOG).iterdir():
        commit.write_text(commit.read_text().replace("5fba94ed", "5fba94ee"))
    before = content_of(table)
    refused(undelete(table, "--from", str(table.parent / "copy"), "--yes"), 4, "recover.other-table")
    assert before == content_of(table)


def test_a_copy_whose_history_went_another_way_is_refused(table: Path) -> None:
    lose_a_commit(table)
    commit = table.parent / "copy" / LOG / f"{2:020d}.json"
    commit.write_text(commit.read_text().replace('"operation": "mark"', '"operation": "mask"'))
    refused(undelete(table, "--from", str(table.parent / "copy"), "--yes"), 4, "recover.diverged")
    assert not (table / LOG / f"{1:020d}.json").exists()


def test_bad_sources_are_refused_by_name(table: Path) -> None:
    refused(undelete(table, "--yes"), 4, "storage.no-versions")
    refused(undelete(table, "--from", str(table), "--yes"), 2, "recover.source-is-table")
    refused(undelete(table, "--from", str(table / "nowhere"), "--yes"), 3, "recover.source-missing")
    refused(undelete(table, "--from", str(table.parent / "copy"), "--version", "9", "--yes"), 3, "version-absent")
    refused(undelete(table, "--from", "", "--yes"), 2, "usage")
    refused(undelete(table, "--prefix", "../x", "--yes"), 2, "usage")


def test_a_prefix_limits_the_data_files(table: Path) -> None:
    lose_a_file(table)
    shutil.rmtree(table / "p=2")
    found = checked(undelete(table, "--from", str(table.parent / "copy"), "--prefix", "p=2", "--yes"))
    assert [one["path"] for one in found["items"]] == ["p=2/part-00002.parquet"]  # type: ignore[attr-defined]
    assert not (table / "part-00000.parquet").exists()


def test_a_quarantine_of_this_table_is_a_source_and_one_of_another_is_none(table: Path) -> None:
    quarantine = table.parent / "quarantine"
    ours = quarantine / "5fba94ed-9794-4965-ba6e-6ee3c0d22af9" / "plan-1"
    ours.mkdir(parents=True)
    (ours / "manifest.json").write_text("{}")
    (table / "part-00000.parquet").rename(ours / "part-00000.parquet")
    checked(undelete(table, "--from", str(quarantine), "--yes"))
    assert (table / "part-00000.parquet").exists()
    ours.parent.rename(quarantine / "another")
    lose_a_file(table)
    refused(undelete(table, "--from", str(quarantine), "--yes"), 4, "recover.other-table")


def test_a_backup_of_the_log_has_the_times_of_its_commits(table: Path) -> None:
    before = content_of(table)
    assert deltacli("log", "backup", table, table.parent / "safe").code == 0
    lose_the_log(table)
    checked(undelete(table, "--from", str(table.parent / "safe"), "--yes"))
    assert before == content_of(table)


def test_from_python_the_plan_and_the_execution_are_apart(table: Path) -> None:
    lose_a_file(table)
    opened = open_table(table)
    planned = opened.undelete(sources=[str(table.parent / "copy")], dry_run=True)
    assert planned.restored is None
    assert planned.plan.found.files == 1
    done = opened.undelete(sources=[str(table.parent / "copy")])
    assert done.restored is not None
    assert done.restored.files == 1
    lose_a_file(table)
    lose_a_file(table.parent / "copy")
    with pytest.raises(PartlyDone, match="1 file of version 2 is in no source"):
        opened.undelete(sources=[str(table.parent / "copy")])
    with pytest.raises(Refused, match="keeps no versions"):
        opened.undelete()
