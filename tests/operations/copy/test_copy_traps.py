"""What a copy must not take for done, for equal, or for its own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import CONTINUE, PartlyDone, VersionAbsent
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, LayoutChoice, plan_checkpoint, write_checkpoint
from deltacli.operations.copy import execute
from deltacli.operations.copy.execute import CopyResult
from deltacli.operations.copy.note import NOTE_PATH, CopyNote, read_note
from deltacli.operations.copy.plan import plan_copy
from deltacli.operations.copy.request import CopyLevel, CopyRequest
from deltacli.storage import LocalStorage
from tests.operations.copy.tables import copy, files_of, rows_of, whole
from tests.operations.copy.test_copy import append, refused, remove
from tests.support.vacuuming import Killed


@pytest.fixture
def source(tmp_path: Path) -> Path:
    whole(tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


@contextmanager
def killed_before(step: str) -> Iterator[None]:
    """A run that dies when it comes to a step."""

    def die(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(execute._Run, step, die)
        yield
        raise AssertionError("it came to its end")


def checkpoint(root: Path, version: int, layout: LayoutChoice = LayoutChoice.CLASSIC, **options: Any) -> None:
    write_checkpoint(plan_checkpoint(open_table(root), CheckpointRequest(version=version, layout=layout, **options)))


def commit_of(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def expire(root: Path, first: int) -> None:
    """Let the log begin with a checkpoint."""
    checkpoint(root, first)
    for version in range(first):
        commit_of(root, version).unlink(missing_ok=True)


def with_other_id(root: Path) -> None:
    """Make a table another one, whose commits and files have the same names and sizes."""
    path = commit_of(root, 0)
    found = open_table(root).snapshot(version=0).metadata.id or ""
    path.write_text(path.read_text().replace(found, found[::-1]))
    os.utime(path, ns=(10**18, 10**18))


def files_named_by(root: Path, version: int) -> list[str]:
    lines = map(json.loads, commit_of(root, version).read_text().splitlines())
    return [line["add"]["path"] for line in lines if "add" in line]


def check(source: Path, target: Path, **options: Any) -> CopyResult:  # Any: fields of the request
    return open_table(source).copy(str(target), check=True, **options)


def note_of(target: Path) -> CopyNote:
    note = read_note(LocalStorage(str(target)))
    assert note is not None
    return note


def newest_rows(root: Path) -> object:
    version = open_table(root).snapshot().version
    return rows_of(open_table(root), range(version, version + 1))


def problems(result: CopyResult) -> list[tuple[str, str]]:
    return [(one.path, one.problem) for one in result.differences]


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])


# -- what the newest version needs -------------------------------------------------------------------------------------


def test_a_version_that_only_a_checkpoint_has_begins_the_copy(source: Path, target: Path) -> None:
    append(source)
    append(source)
    lost = files_named_by(source, 3)[0]
    checkpoint(source, 3)
    commit_of(source, 3).unlink()

    done = copy(source, target, replica=True)

    assert (3, 4) == (done.plan.first, done.plan.last)
    assert any("versions before 3" in note for note in done.plan.notes)
    assert newest_rows(source) == newest_rows(target)
    assert () == check(source, target, level=CopyLevel.DATA).differences
    (target / lost).unlink()
    assert [(lost, "missing")] == problems(check(source, target))


def test_a_log_that_begins_with_a_checkpoint_of_version_0_is_copied_whole(source: Path, target: Path) -> None:
    append(source)
    checkpoint(source, 2)
    log = source / "_delta_log"
    shutil.move(log / f"{2:020d}.checkpoint.parquet", log / f"{0:020d}.checkpoint.parquet")
    shutil.move(commit_of(source, 3), commit_of(source, 1))
    for version in (0, 2):
        commit_of(source, version).unlink()
    (log / "_last_checkpoint").unlink()

    with killed_before("_commit_own_id"):
        copy(source, target)

    assert rows_of(open_table(source), range(2)) == rows_of(open_table(target), range(2))


def test_a_check_looks_at_files_whose_commits_have_expired(source: Path, target: Path) -> None:
    append(source)
    copy(source, target, replica=True)
    expire(source, 3)
    copy(source, target, replica=True)
    old = files_named_by(target, 1)[0]
    sound = check(source, target)
    (target / old).unlink()

    assert () == sound.differences
    assert any("versions 0 to 2 are not compared" in note for note in sound.plan.notes)
    assert [(old, "missing")] == problems(check(source, target))


def test_a_log_that_expires_after_a_killed_run_is_noted_from_where_it_begins(source: Path, target: Path) -> None:
    append(source)
    with killed_before("_copy_log"):
        copy(source, target, replica=True)
    expire(source, 3)

    copy(source, target, replica=True)

    assert 3 == note_of(target).first_version
    assert () == check(source, target).differences


def test_no_commit_is_published_while_a_live_file_is_missing(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    (target / files_named_by(source, 1)[0]).unlink()
    append(source)

    assert ["copy.differs"] * 2 == [refused(source, target, replica=True).code for _ in range(2)]
    assert 2 == open_table(target).snapshot().version


# -- what was found is not forgotten -----------------------------------------------------------------------------------


def test_a_file_of_other_bytes_is_found_by_each_run_and_never_published(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    append(source)
    name = files_named_by(source, 3)[0]
    shutil.copy(source / name, target / name)
    flip(target / name)

    codes = [refused(source, target, replica=True, level="data").code for _ in range(2)]
    lower = refused(source, target, replica=True)

    assert ["copy.differs"] * 2 == codes
    assert ("copy.diverged", 2) == (lower.code, open_table(target).snapshot().version)
    (target / name).unlink()
    assert "data" == copy(source, target, replica=True, level="data").verified
    assert note_of(target).failed_level is None


def test_a_copy_says_once_how_to_continue(source: Path, target: Path) -> None:
    """
    An interruption is followed by the sentence of every command.
    """
    plan = open_table(source).plan_copy(str(target))

    assert "0 files copied" == CopyResult(plan).describe_progress()
    assert f"0 files copied; {CONTINUE}" == CopyResult(plan, can_continue=True).describe_progress()
    assert f"0 files copied; {CONTINUE}" == CopyResult(plan, is_out_of_time=True).describe_progress()


def test_what_repeating_cannot_mend_does_not_ask_for_it(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    (target / files_named_by(source, 1)[0]).unlink()
    append(source)

    fault = refused(source, target, replica=True)

    assert CONTINUE not in fault.facts["so far"]
    assert "delete" in fault.facts["way out"]


# -- another table, another past ---------------------------------------------------------------------------------------


def test_another_table_at_the_path_of_the_source_is_no_source(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    with_other_id(source)
    for _ in range(3):
        append(source)
    expire(source, 3)
    before = files_of(target)

    assert "copy.source-rewritten" == refused(source, target, replica=True).code
    assert before == files_of(target)


def test_a_log_without_the_last_copied_commit_is_followed_by_its_state(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    append(source)
    expire(source, 2)
    commit_of(source, 2).unlink()

    assert 3 == copy(source, target, replica=True).plan.last
    assert newest_rows(source) == newest_rows(target)

    append(source)
    expire(source, 4)

    fault = refused(source, target, replica=True)
    assert ("copy.source-rewritten", 3) == (fault.code, open_table(target).snapshot().version)


def test_a_past_of_equal_size_and_time_is_compared(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    path, before = commit_of(source, 2), commit_of(source, 2).stat()
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    append(source)

    assert "copy.source-rewritten" == refused(source, target, replica=True).code


def test_an_unfinished_copy_is_not_continued_from_another_table(source: Path, target: Path) -> None:
    with killed_before("_copy_log"):
        copy(source, target, replica=True)
    with_other_id(source)
    before = files_of(target)

    assert "copy.source-rewritten" == refused(source, target, replica=True).code
    assert before == files_of(target)


def test_commits_of_an_unfinished_copy_are_compared_before_the_first_write(source: Path, target: Path) -> None:
    with killed_before("_end"):
        copy(source, target, replica=True)
    append(source)
    path = commit_of(source, 1)
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    before = files_of(target)

    assert "copy.source-rewritten" == refused(source, target, replica=True).code
    assert before == files_of(target)


# -- copies that are made once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["_commit_own_id", "_end"])
def test_a_killed_copy_ends_with_the_versions_that_it_began_with(step: str, source: Path, target: Path) -> None:
    expected = rows_of(open_table(source), range(3))
    with killed_before(step):
        copy(source, target)
    append(source)
    append(source)

    done = copy(source, target)

    assert (2, 3) == (done.plan.last, done.committed_version)
    assert 3 == open_table(target).snapshot().version
    assert {**expected, 3: expected[2]} == rows_of(open_table(target), range(4))
    assert (True, 2) == (note_of(target).is_complete, note_of(target).last_version)


@pytest.mark.parametrize("step", ["_commit_own_id", "_end"])
def test_a_foreign_commit_on_an_unfinished_copy_is_refused(step: str, source: Path, target: Path) -> None:
    with killed_before(step):
        copy(source, target)
    remove(target, files_named_by(source, 1)[0])

    assert "copy.diverged" == refused(source, target).code
    assert not note_of(target).is_complete


# -- checks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", [False, True])
def test_a_table_that_appears_at_the_target_meanwhile_gets_no_file_of_the_log(
    source: Path, target: Path, tmp_path: Path, newest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(tmp_path / "other")
    with_other_id(tmp_path / "other")
    table = open_table(source)
    plan = table.plan_copy(str(target), newest=newest)
    copy_data = execute._Run._copy_data

    def another_writer(run: execute._Run) -> None:
        copy_data(run)
        for path in (tmp_path / "other" / "_delta_log").iterdir():
            shutil.copy(path, target / "_delta_log")

    monkeypatch.setattr(execute._Run, "_copy_data", another_writer)

    with pytest.raises(PartlyDone) as partly:
        table.execute_copy(plan)

    assert "copy.diverged" == partly.value.code
    own = {path.name for path in (tmp_path / "other" / "_delta_log").iterdir()}
    assert own | {Path(NOTE_PATH).name} == {path.name for path in (target / "_delta_log").iterdir()}


@pytest.mark.parametrize("at", [0, 2])
def test_a_source_that_is_rewritten_before_its_log_is_copied_ends_the_copy(
    source: Path, target: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The files of the commits in place of the old ones were not copied.
    """
    copy_log_file = execute._Run._copy_log_file
    newest = source / "_delta_log" / f"{2:020d}.json"
    looks: list[None] = []

    def rewritten(run: execute._Run, *others: Any) -> str:
        looks.append(None)
        if len(looks) == at:
            newest.write_bytes(newest.read_bytes())
        return copy_log_file(run, *others)

    monkeypatch.setattr(execute._Run, "_copy_log_file", rewritten)
    if at == 0:
        monkeypatch.setattr(execute._Run, "_require_equal", lambda *_: newest.write_bytes(newest.read_bytes()))

    with pytest.raises(PartlyDone) as partly:
        copy(source, target)

    assert "plan.other-past" == partly.value.code
    assert at == len([*(target / "_delta_log").glob("*.json")]) - 1  # and the note


def test_a_check_names_what_only_the_target_has(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    sound = check(source, target)
    append(target)
    checkpoint(target, 3)

    assert () == sound.differences
    assert {"extra"} == {one.problem for one in check(source, target).differences}
    assert 2 == len(check(source, target).differences)


def test_a_check_of_a_finished_copy_allows_its_own_commit_only(source: Path, target: Path) -> None:
    copy(source, target)
    append(source)
    sound = check(source, target)
    remove(target, files_named_by(source, 1)[0])

    assert () == sound.differences
    assert [(f"_delta_log/{4:020d}.json", "extra")] == problems(check(source, target))


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_cut_checkpoint_in_the_target_is_replaced(source: Path, target: Path) -> None:
    checkpoint(source, 1)
    copy(source, target, replica=True)
    path = target / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:-10])

    copy(source, target, replica=True)

    assert () == check(source, target).differences


def test_two_runs_at_once_do_not_lower_the_note(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    append(source)
    slow = open_table(source).plan_copy(str(target), replica=True)
    append(source)
    copy(source, target, replica=True)

    open_table(source).execute_copy(slow)

    assert 4 == note_of(target).last_version
    assert {0, 1, 2, 3, 4} == set(note_of(target).commits)


def test_a_run_that_was_killed_before_its_note_is_ended_although_the_log_expires(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    append(source)
    append(source)
    with killed_before("_end"):
        copy(source, target, replica=True)
    expire(source, 4)

    again = plan_copy(open_table(source), LocalStorage(str(target)), CopyRequest(replica=True))

    assert not again.is_noop
    assert 4 == copy(source, target, replica=True).plan.last
    assert 4 == note_of(target).last_version
    assert newest_rows(source) == newest_rows(target)


def test_an_emptied_replica_is_copied_again(source: Path, target: Path) -> None:
    copy(source, target, replica=True)
    for path in target.rglob("*"):
        if path.is_file() and path != target / NOTE_PATH:
            path.unlink()

    copy(source, target, replica=True)

    assert files_of(source) == files_of(target)


def test_a_start_that_cannot_be_written_is_refused_before_the_first_file(source: Path, target: Path) -> None:
    checkpoint(source, 2, LayoutChoice.MULTI_PART, parts=2)
    commit_of(source, 2).unlink()

    fault = refused(source, target, newest=True)

    assert ("log.checkpoint-commit-missing", 4) == (fault.code, fault.exit_code)
    assert not target.exists()


def test_the_way_out_of_versions_that_are_gone_can_be_pasted(source: Path, target: Path) -> None:
    expire(source, 1)

    with pytest.raises(VersionAbsent) as ended:
        copy(source, target, versions="0-2")

    assert "add --versions 1-2" == ended.value.hint  # to the command as it was typed


@pytest.mark.parametrize("is_replica", [True, False])
def test_a_target_inside_a_table_whose_vacuum_would_delete_it_is_refused(
    source: Path, tmp_path: Path, is_replica: bool
) -> None:
    whole(tmp_path / "outer")

    assert "copy.inside-table" == refused(source, tmp_path / "outer" / "a" / "b", replica=is_replica).code
    assert not (tmp_path / "outer" / "a").exists()
