"""`undelete` on the command line and from Python: plan, consent, documents, refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.changing.change import execute_change
from deltacli.changing.execution import ChangeExecution
from deltacli.cli.render.undelete import UndeleteScreen
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.errors import PartlyDone, Refused, StorageFailed
from deltacli.operations.recover import undelete as execute
from deltacli.operations.recover.plan import UndeletePlan, UndeleteRequest
from deltacli.operations.recover.undelete import UndeleteResult
from tests.cli.support import Result, deltacli, make_sample
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
    assert rows[0] == "path,kind,sizeBytes,source,state,problem,reason,presentSizeBytes"
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


@pytest.mark.parametrize("left", [0, 60])
def test_a_commit_that_is_cut_off_is_replaced_after_a_yes(table: Path, left: int) -> None:
    before, commit, copy = content_of(table), table / LOG / f"{1:020d}.json", str(table.parent / "copy")
    whole = commit.read_bytes()
    commit.write_bytes(whole[:left])
    asked = checked(undelete(table, "--from", copy), 4)
    items = asked["items"]
    assert isinstance(items, list)
    assert [(f"{LOG}/{commit.name}", left)] == [(item["path"], item["presentSizeBytes"]) for item in items]
    assert asked["notes"] == [f"commit 1 is cut off: the table has {left} of its {len(whole):,} bytes, {copy} has all"]
    assert commit.read_bytes() == whole[:left]
    checked(undelete(table, "--from", copy, "--yes"))
    assert before == content_of(table)


def test_a_commit_that_may_have_been_written_so_is_not_replaced(table: Path) -> None:
    commit = table / LOG / f"{1:020d}.json"
    commit.write_bytes(commit.read_bytes().splitlines(keepends=True)[0])
    before = content_of(table)
    refused(undelete(table, "--from", str(table.parent / "copy"), "--yes"), 4, "recover.diverged")
    assert before == content_of(table)


def test_bad_sources_are_refused_by_name_and_change_nothing(table: Path) -> None:
    before = content_of(table)
    assert 0 == undelete(table, "--yes").code  # nothing is missing, so no source is needed
    refused(undelete(table, "--from", str(table), "--yes"), 2, "recover.source-is-table")
    refused(undelete(table, "--from", str(table.parent / "copy" / LOG), "--yes"), 2, "recover.source-is-log")
    refused(undelete(table, "--from", str(table / "nowhere"), "--yes"), 3, "recover.source-missing")
    refused(undelete(table, "--from", str(table.parent / "copy"), "--version", "9", "--yes"), 3, "version-absent")
    refused(undelete(table, "--from", "", "--yes"), 2, "usage")
    refused(undelete(table, "--prefix", "../x", "--yes"), 2, "usage")
    assert before == content_of(table)


def test_a_log_that_is_older_than_the_data_files_is_not_put_back_silently(tmp_path: Path) -> None:
    table, old = make_sample(tmp_path / "t"), tmp_path / "old"
    shutil.copytree(table, old)
    for version in (11, 12, 13, 14):
        (old / LOG / f"{version:020d}.json").unlink()
    shutil.copytree(table, tmp_path / "copy")
    shutil.rmtree(table / LOG)
    assert "newer than version 10, the newest of the log" in "".join(notes_of(undelete(table, "--from", str(old)), 4))
    assert [] == notes_of(undelete(table, "--from", str(tmp_path / "copy"), "--dry-run"))


def test_files_of_an_older_version_come_back_with_the_restore_that_keeps_them(tmp_path: Path) -> None:
    table = make_sample(tmp_path / "t")
    shutil.copytree(table, tmp_path / "copy")
    shutil.rmtree(table / "day=2026-01-01")
    arguments = ("undelete", table, "--from", tmp_path / "copy", "--version", "8", "--yes")
    assert ["version 8 is not the newest: a vacuum deletes these files again, unless the version is restored"] == (
        deltacli(*arguments, "--dry-run", "--json").document["notes"]
    )


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


def test_a_disk_shows_what_is_missing_before_it_names_another_source(table: Path) -> None:
    lose_a_file(table)
    before = content_of(table)
    for consent in ("--dry-run", "--yes"):
        result = undelete(table, consent)
        found = checked(result, 4)
        assert [one["path"] for one in found["stillMissing"]] == ["part-00000.parquet"]  # type: ignore[attr-defined]
        assert [one["code"] for one in found["refusals"]] == ["storage.no-versions"]  # type: ignore[attr-defined]
        assert "--from COPY" in json.loads(result.err.splitlines()[-1])["hint"]
    assert before == content_of(table)
    lose_the_log(table)
    refused(undelete(table, "--dry-run"), 4, "storage.no-versions")


def test_the_plan_and_the_question_name_what_is_replaced(table: Path) -> None:
    lose_a_file(table)
    truncate_a_file(table)
    asked = deltacli("undelete", table, "--from", table.parent / "copy")
    line = "p=2/part-00002.parquet: 501 bytes instead of 508"
    assert asked.code == 4
    assert f"would replace 1 file: {line}" in asked.words
    assert "files part-00000.parquet" in asked.words
    assert f"replace 1 file of another size ({line})" in asked.err
    items = checked(undelete(table, "--from", str(table.parent / "copy"), "--dry-run"))["items"]
    assert {one["path"]: one["presentSizeBytes"] for one in items} == {  # type: ignore[attr-defined]
        "part-00000.parquet": None,
        "p=2/part-00002.parquet": 501,
    }


def test_a_path_that_does_not_exist_is_an_error_or_is_said_to_be_created(table: Path) -> None:
    nowhere = table.parent / "nowhere"
    for consent in ("--dry-run", "--yes"):
        result = undelete(nowhere, consent)
        refused(result, 3, "table.path-missing")
        assert "no such file or directory" in result.err
    copy = str(table.parent / "copy")
    asked = deltacli("undelete", nowhere, "--from", copy)
    for text in (asked.out, asked.err):
        assert f"{nowhere}, which does not exist and would be created" in text
    assert not nowhere.exists()
    assert checked(undelete(nowhere, "--from", copy, "--yes"))["tableExists"] is False
    assert content_of(nowhere) == content_of(table)


def notes_of(result: Result, code: int = 0) -> list[str]:
    found: Any = checked(result, code)["notes"]  # Any: a list of strings by the schema
    return [str(note) for note in found]


def test_notes_say_which_prefix_or_source_is_of_no_use(table: Path) -> None:
    lose_a_file(table)
    copy, other = str(table.parent / "copy"), table.parent / "other"
    other.mkdir()
    assert notes_of(undelete(table, "--from", copy, "--prefix", "p=9", "--dry-run")) == [
        "version 2 needs no data file below p=9/"
    ]
    assert notes_of(undelete(table, "--from", copy, "--prefix", "p=2", "--dry-run")) == []
    [note] = notes_of(undelete(table, "--from", str(other), "--dry-run"))
    assert note == f"{other} has no _delta_log and none of the missing files: it may not be a copy of this table"
    assert notes_of(undelete(table, "--from", str(other), "--from", copy, "--dry-run")) == []
    shutil.copy(table.parent / "copy" / "part-00000.parquet", other)
    truncate_a_file(table)
    assert notes_of(undelete(table, "--from", str(other), "--dry-run")) == []  # has one of two
    [note] = notes_of(undelete(table, "--from", "versions", "--from", copy, "--yes"))
    assert note.endswith("keeps no versions of its files: stores of this kind keep none")
    assert content_of(table) == content_of(table.parent / "copy")


def test_files_that_nobody_has_are_named_once(table: Path) -> None:
    lose_a_file(table)
    lose_a_file(table.parent / "copy")
    result = deltacli("undelete", table, "--from", table.parent / "copy", "--yes")
    assert result.code == 5
    assert (result.out + result.err).count("part-00000.parquet") == 1
    assert (result.out + result.err).count("in no source") == 2  # above the paths, and in the error


def rewrite_commit(root: Path, change: Callable[[dict[str, Any]], None], version: int = 0) -> None:
    """Change each action of a commit. Any: JSON values."""
    path = root / LOG / f"{version:020d}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        change(action)
    path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def make_clone(root: Path, source: str) -> None:
    """Make a copy of a table what CLONE writes: a log with another id, whose first commit names the source."""

    def change(action: dict[str, Any]) -> None:
        if "commitInfo" in action:
            action["commitInfo"] |= {"operation": "CLONE", "operationParameters": {"source": source}}
        if "metaData" in action:
            action["metaData"]["id"] = "5fba94ee-0000-4000-8000-000000000001"

    rewrite_commit(root, change)


@pytest.mark.parametrize("spelled", ["{}", "delta.`{}`", "file://{}", "delta.`file:{}`"])
def test_a_clone_of_the_table_has_its_files_but_not_its_log(table: Path, spelled: str) -> None:
    before, clone = content_of(table), table.parent / "copy"
    make_clone(clone, spelled.format(table))
    lose_a_file(table)
    checked(undelete(table, "--from", str(clone), "--yes"))
    assert before == content_of(table)
    lose_a_commit(table)
    checked(undelete(table, "--from", str(clone), "--yes"), 5)
    assert not (table / LOG / f"{1:020d}.json").exists()


def test_a_clone_of_another_table_is_refused(table: Path) -> None:
    make_clone(table.parent / "copy", f"{table}-2")
    lose_a_file(table)
    before = content_of(table)
    refused(undelete(table, "--from", str(table.parent / "copy"), "--yes"), 4, "recover.other-table")
    assert before == content_of(table)


def test_a_table_of_a_catalog_is_refused(table: Path) -> None:
    def change(action: dict[str, Any]) -> None:
        for names in ("readerFeatures", "writerFeatures"):
            action.get("protocol", {}).get(names, []).append("catalogManaged")

    for root in (table, table.parent / "copy"):
        rewrite_commit(root, change)
    lose_a_file(table)
    before = content_of(table)
    result = undelete(table, "--from", str(table.parent / "copy"), "--yes")
    assert [one["code"] for one in checked(result, 4)["refusals"]] == ["catalog.managed"]  # type: ignore[attr-defined]
    assert before == content_of(table)


def test_errors_and_findings_name_the_command_with_the_table(table: Path) -> None:
    lose_a_file(table)
    found = deltacli("validate", table, "--level", "storage")
    assert f"look first: deltacli repair {table} --dry-run" in " ".join(found.out.split())
    assert "repair TABLE" not in found.out
    document = deltacli("validate", table, "--level", "storage", "--json").document
    repairs = {one["rule"]: one["fix"]["repair"] for one in document["tables"][0]["findings"]}
    assert f"deltacli repair file://{table} --dry-run" in repairs["data.file-missing"]
    lose_a_commit(table)
    hint = next(line for line in deltacli("snapshot", table).err.splitlines() if line.startswith("hint: "))
    back = f"   # or bring the files back: deltacli undelete {table} --from COPY"
    assert f"hint: deltacli snapshot {table} --version 0{back}" == hint


@pytest.mark.parametrize("command", ["undelete", "restore"])
def test_a_vacuum_with_a_quarantine_is_taken_back(command: str, tmp_path: Path) -> None:
    table, quarantine = tmp_path / "tbl", tmp_path / "quarantine"
    make_sample(table)

    def rows(*version: str) -> Result:
        return deltacli("read", table, *version, "--format", "csv", "-q")

    old, new = rows("--version", "8"), rows()
    assert sorted(old.out.splitlines()) != sorted(new.out.splitlines())
    done = deltacli("vacuum", table, "--quarantine", quarantine, "--yes")
    assert f"deltacli undelete {table} --version N --from {quarantine}" in done.err
    assert rows("--version", "8").code != 0
    fixes = deltacli("validate", table, "--level", "storage", "--select", "history.time-travel-broken").out
    assert f"deltacli undelete {table} --version N --from COPY" in fixes

    back = deltacli(command, table, "--version", "8", "--from", quarantine, "--yes", "--json")

    assert back.code == 0, back.err
    assert rows("--version", "8").out == old.out
    assert sorted(rows().out.splitlines()) == sorted((new if command == "undelete" else old).out.splitlines())


def test_an_error_after_the_first_file_shows_what_was_put_back_and_what_was_not(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StorageFailed("the disk is full")

    lose_a_file(table)
    lose_a_commit(table)
    monkeypatch.setattr(execute, "_put_log_file", fails)
    executions: list[ChangeExecution[UndeletePlan, UndeleteResult]] = []
    change = execute.Undelete(UndeleteRequest(sources=[str(table.parent / "copy")]))

    with pytest.raises(PartlyDone, match="the disk is full") as error:
        execute_change(change, open_table(table), on_start=executions.append)

    assert (7, "1 file put back") == (error.value.cause_exit_code, error.value.facts["so far"])
    shown = UndeleteScreen(*executions[0].outcome, dry_run=False)
    lines = {
        section.label: section.lines
        for section in shown.sections(Terminal(is_terminal=False, width=None, colour=False))
    }
    commit = (table.parent / "copy" / LOG / f"{1:020d}.json").stat().st_size
    assert ["part-00000.parquet"] == lines["files"]
    assert [f"1 file, {commit} B"] == lines["not put back"]
    states = {row["path"]: row["state"] for batch in shown._batches() for row in batch.to_pylist()}
    assert {"part-00000.parquet": "restored", f"{LOG}/{1:020d}.json": "planned"} == states
