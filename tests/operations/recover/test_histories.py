"""What `undelete` never does: mix two histories, replace what the newest version uses, show a commit without files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.changing.change import execute_change
from deltacli.changing.consent import Consent, consent_to_plan
from deltacli.core.errors import PartlyDone, Refused
from deltacli.operations.recover.plan import UndeletePlan, UndeleteRequest
from deltacli.operations.recover.undelete import Undelete, plan_undelete
from tests.operations.recover.test_find_and_put import content_of
from tests.support.reading import open_at
from tests.support.small_types import Column
from tests.support.small_writer import SmallTable
from tests.support.versioned import VersionedMemory


def table_of(root: Path, commits: int, *, first: int = 0) -> SmallTable:
    """A table to which each commit after the first appends a file in a partition."""
    table = SmallTable(root, (Column("n", "long", 1, "n"),)).create()
    for number in range(first, first + commits):
        table.append([table.new_file([{1: number}], directory=f"p={number % 2}")])
    return table


def paths_of(table: SmallTable, version: int) -> set[str]:
    return {path for path, _ in table.versions[version].files}


def commit(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def upload(root: Path, storage: VersionedMemory) -> None:
    for path, (data, time_ns) in content_of(root).items():
        storage.write(path, data, modified_ms=time_ns // 1_000_000)


def plan_of(storage: VersionedMemory, **request: object) -> UndeletePlan:
    return plan_undelete(open_at(storage), UndeleteRequest(**request))  # type: ignore[arg-type]


def recreated(tmp_path: Path, *, forgets: bool) -> VersionedMemory:
    """A store in which a table of six versions was dropped, and another one of four was created."""
    storage = VersionedMemory()
    upload(table_of(tmp_path / "old", 5).root, storage)
    paths = list(content_of(tmp_path / "old"))
    list(storage.delete_many(paths))
    upload(table_of(tmp_path / "new", 3, first=100).root, storage)
    if forgets:
        for path in [commit(version) for version in range(4)]:
            storage.forget(path)
    return storage


def test_the_log_of_a_dropped_table_does_not_continue_that_of_its_successor(tmp_path: Path) -> None:
    found = plan_of(recreated(tmp_path, forgets=False))

    assert {"log.commit-overwritten"} == {one.code for one in found.refusals}
    assert found.data is None


def test_nor_where_the_store_forgot_the_old_contents(tmp_path: Path) -> None:
    storage = recreated(tmp_path, forgets=True)
    storage.forget(commit(4))

    found = plan_of(storage)

    assert (3, 3, 0, ()) == (found.version, found.version_before, found.found.files, found.refusals)


def test_a_commit_that_a_writer_made_after_the_loss_is_kept(tmp_path: Path) -> None:
    storage = VersionedMemory()
    upload(table_of(tmp_path / "t", 6).root, storage)
    list(storage.delete_many([commit(version) for version in (4, 5, 6)]))
    storage.write(commit(4), storage.read(commit(3)).replace(b"p=0", b"p=1"))

    assert {"log.commit-overwritten"} == {one.code for one in plan_of(storage).refusals}


def test_two_sources_with_other_contents_of_a_commit_are_refused(tmp_path: Path) -> None:
    table_of(tmp_path / "t", 3)
    for name in ("a", "b"):
        shutil.copytree(tmp_path / "t", tmp_path / name)
    changed = tmp_path / "b" / commit(2)
    changed.write_bytes(changed.read_bytes().replace(b'"append"', b'"insert"'))
    assert changed.read_bytes() != (tmp_path / "a" / commit(2)).read_bytes()
    shutil.rmtree(tmp_path / "t")

    with pytest.raises(Refused, match="diverged"):
        open_table(tmp_path / "t").undelete(sources=[str(tmp_path / "a"), str(tmp_path / "b")])


def test_a_file_of_an_older_version_does_not_replace_what_is_there(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 2)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    [(path, _)] = table.versions[1].files
    (tmp_path / "t" / path).write_bytes(b"the content that version 2 has by now")

    found = open_table(tmp_path / "t").undelete(sources=[str(tmp_path / "copy")], version=1, dry_run=True)

    assert found.plan.found.files == 0


def test_a_table_that_can_be_read_gets_no_commit_whose_files_are_gone(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 5)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    [newest] = paths_of(table, 5) - paths_of(table, 4)
    (tmp_path / "copy" / newest).unlink()
    (tmp_path / "t" / newest).unlink()
    for version in (4, 5):
        (tmp_path / "t" / commit(version)).unlink()

    with pytest.raises(PartlyDone, match="in no source"):
        open_table(tmp_path / "t").undelete(sources=[str(tmp_path / "copy")], accept_commits=[5])

    assert open_table(tmp_path / "t").snapshot().version == 4


def test_the_version_that_becomes_the_newest_is_looked_at_too(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 5)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    lost = paths_of(table, 5) - paths_of(table, 2)
    for path in lost:
        (tmp_path / "t" / path).unlink()
    shutil.rmtree(tmp_path / "t" / "_delta_log")

    found = open_table(tmp_path / "t").undelete(sources=[str(tmp_path / "copy")], version=2, dry_run=True)

    assert lost == {str(one["path"]) for one in found.plan.still_missing()}
    assert all("becomes the newest" in str(one["reason"]) for one in found.plan.still_missing())


def test_data_files_of_a_log_that_is_read_only_once_it_is_back_are_asked_about(tmp_path: Path) -> None:
    storage, asked = VersionedMemory(is_soft=True), list[int]()
    upload(table_of(tmp_path / "t", 3).root, storage)
    list(storage.delete_many(content_of(tmp_path / "t")))
    table = open_at(storage)
    plan = plan_undelete(table, UndeleteRequest())
    assert (True, 4) == (plan.is_log_first, plan.found.files)

    def ask(found: UndeletePlan) -> Consent:
        asked.append(found.found.files)
        if len(asked) == 2:
            raise Refused("no")
        return consent_to_plan(found)

    with pytest.raises(PartlyDone, match="the log is back; 3 files") as denied:
        execute_change(Undelete(plan.request), table, plan=plan, ask=ask)
    execute_change(Undelete(plan.request), table, ask=ask)

    assert ("consent.denied", "4 files put back") == (denied.value.code, denied.value.facts["so far"])
    assert [4, 3, 3] == asked
    assert 3 == sum(batch.num_rows for batch in open_at(storage).snapshot().scan())
