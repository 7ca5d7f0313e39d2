"""The table becomes another one between the plan of a vacuum and its deletions, or its log another log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, PartlyDone, Refused
from deltacli.core.machine import Machine, fixed_clock, system_clock
from deltacli.operations.vacuum import execute as deleting
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.vacuum.rechecking import adopted, with_past
from deltacli.operations.vacuum.saved import read_plan, save_plan
from deltacli.storage import NO_PREFIXES, FileStat, LocalStorage, Storage, open_storage
from deltacli.work.files.deleting import DeleteBatch, DeletePiece
from deltacli.work.files.permits import make_permit
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext
from tests.support.actions import add, metadata, remove
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.reading import NOW_MS
from tests.support.storage import FAR, RecordingStorage
from tests.support.vacuum_hazards import OLD_MS, Meanwhile, commit_to, open_at, plan_of, saved, table_of, with_files

NAMES = tuple(f"f-{number}.parquet" for number in range(6))
RETENTION = "delta.deletedFileRetentionDuration"


class World:
    """A table `t`, reached through a link, that removed its files; and a copy `b` of before, where they are live."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.first = table_of(*NAMES, "kept.parquet").write(root / "a")
        self.second = Path(shutil.copytree(self.first, root / "b"))
        self.place = root / "t"
        self.place.symlink_to(self.first)
        removes = (remove(name, deleted_ms=OLD_MS) for name in NAMES)
        commit_to(LocalStorage(str(self.first)), 1, *removes, modified_ms=OLD_MS + 1)
        commit_to(LocalStorage(str(self.second)), 1, add("new.parquet", size=10))

    def table(self, storage: Storage | None = None) -> Table:
        return open_at(storage or LocalStorage(str(self.place)))

    def counts(self) -> tuple[int, int]:
        """How many files there are in the table of the plan, and in the other one."""
        away = self.root / "away"
        first = away if away.exists() else self.first
        return (len(list(first.glob("*.parquet"))), len(list((self.root / "b").glob("*.parquet"))))


def switch_link(world: World) -> None:
    link = world.root / "link"
    link.symlink_to(world.second)
    link.replace(world.place)  # at once: other threads find a directory at any time


def rename_directories(world: World) -> None:
    world.first.rename(world.root / "away")
    shutil.copytree(world.second, world.first)


def take_away(world: World) -> None:
    world.first.rename(world.root / "away")


def roll_back(world: World) -> None:
    """The removes never happened: the log is rolled back, and another writer goes on."""
    (world.first / commit_path(1)).unlink()


def roll_back_and_rewrite(world: World) -> None:
    roll_back(world)
    commit_to(LocalStorage(str(world.first)), 1, add("other.parquet", size=10))


def recreate(world: World) -> None:
    """The same bytes and ids at the same path, in another directory: a restored backup."""
    shutil.copytree(world.first, world.root / "restored")
    world.first.rename(world.root / "away")
    (world.root / "restored").rename(world.first)


CHANGES: dict[str, tuple[Callable[[World], None], set[str]]] = {
    "link": (switch_link, {"plan.other-place"}),
    "renamed": (rename_directories, {"plan.other-place"}),
    "away": (take_away, {"plan.other-place"}),
    "recreated": (recreate, {"plan.other-place"}),
    "rolled back": (roll_back, {"vacuum.plan-newer", "vacuum.plan-other-past"}),
    "rewritten": (roll_back_and_rewrite, {"vacuum.plan-other-past"}),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("log_entries", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_world_that_changes_after_the_plan_loses_nothing(change: str, log_entries: bool, world: World) -> None:
    act, codes = CHANGES[change]
    table = world.table()
    plan = table.plan_vacuum(max_delete="100%")
    act(world)

    with pytest.raises(Refused) as refused:
        table.execute_vacuum(plan, log_entries=log_entries)

    assert refused.value.code in codes
    assert (7, 7) == world.counts()
    assert 2 == len(list((world.root / "b" / LOG).glob("*.json")))


@pytest.mark.parametrize("change", CHANGES)
def test_a_world_that_changes_between_two_batches_loses_no_more(
    change: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Without START nothing else looks at the table in mid-run.
    """
    monkeypatch.setattr(deleting, "FILES_A_BATCH", 2)
    act, codes = CHANGES[change]
    acts: list[Callable[[], object] | None] = [None, lambda: act(world)]
    storage: Any = Meanwhile(LocalStorage(str(world.place)), "delete_many", *acts)

    with pytest.raises(PartlyDone) as partly:
        world.table(storage).vacuum(max_delete="100%", log_entries=False, threads=1)

    left = world.counts()
    assert partly.value.code in codes
    assert (5, 4) == (partly.value.exit_code, partly.value.cause_exit_code)
    assert f"{7 - left[0]} of 6 files deleted" == partly.value.facts["so far"]
    assert left in ((3, 7), (5, 7))


@pytest.mark.parametrize("change", CHANGES)
def test_a_saved_plan_is_bound_to_the_table_that_it_is_compared_with(change: str, world: World) -> None:
    act, codes = CHANGES[change]
    table = world.table()
    plan = adopted(table, saved(with_past(table, table.plan_vacuum(max_delete="100%")), world.root / "plan"))
    act(world)

    with pytest.raises(Refused) as refused:
        table.execute_vacuum(plan)

    assert refused.value.code in codes
    assert (7, 7) == world.counts()


def test_a_longer_retention_after_the_plan_is_refused(world: World) -> None:
    table = world.table()
    plan = table.plan_vacuum(max_delete="100%")
    longer = metadata(configuration={RETENTION: "interval 60 days"})
    commit_to(LocalStorage(str(world.first)), 2, longer)

    with pytest.raises(Refused) as refused:
        table.execute_vacuum(plan, log_entries=False)

    assert ("vacuum.plan-retention", (7, 7)) == (refused.value.code, world.counts())


@pytest.mark.parametrize("when", ["before the first batch", "before the second batch"])
@pytest.mark.parametrize("than", ["the plan", "the newest commit"])
def test_a_clock_that_is_behind_ends_the_deletions(
    than: str, when: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [NOW_MS]
    machine = Machine(lambda: now[0])
    monkeypatch.setattr(deleting, "FILES_A_BATCH", 2)

    def act() -> None:
        if than == "the plan":
            now[0] -= 1
        else:
            commit_to(LocalStorage(str(world.first)), 2, remove("x", deleted_ms=NOW_MS), modified_ms=NOW_MS + 300_001)

    plan = Table(LocalStorage(str(world.place)), machine=machine).plan_vacuum(max_delete="100%")
    at_once = when == "before the first batch"
    storage: Any = Meanwhile(LocalStorage(str(world.place)), "list_from" if at_once else "delete_many", act)

    with pytest.raises(DeltacliError) as refused:
        Table(storage, machine=machine).execute_vacuum(plan, log_entries=False, threads=1)

    assert ("vacuum.clock-skew", 4 if at_once else 5) == (refused.value.code, refused.value.exit_code)
    assert (7, 7) == world.counts() if at_once else world.counts()[0] in (3, 5)


def test_a_switch_while_a_quarantine_is_filled_deletes_nothing(world: World) -> None:
    storage: Any = Meanwhile(LocalStorage(str(world.place)), "stat", lambda: switch_link(world))
    table = Table(storage, clock=fixed_clock(NOW_MS), open_other=lambda uri: LocalStorage(uri.removeprefix("file://")))
    plan = table.plan_vacuum(max_delete="100%", quarantine=str(world.root / "q"))

    with pytest.raises(Refused) as refused:
        execute_vacuum(table, plan)

    assert ("plan.other-place", (7, 7)) == (refused.value.code, world.counts())


def test_a_plan_is_executed_through_the_handle_of_its_own_table_only(world: World) -> None:
    plan = world.table().plan_vacuum(max_delete="100%")
    other = world.table(LocalStorage(str(world.second)))

    with pytest.raises(Refused) as refused:
        other.execute_vacuum(plan)

    assert ("plan.other-place", (7, 7)) == (refused.value.code, world.counts())
    assert 6 == plan.files
    outcome = world.table(LocalStorage(str(world.first))).execute_vacuum(plan).outcome
    assert (6, (1, 7)) == (outcome and outcome.deleted.files, world.counts())


def test_a_copy_with_the_same_past_executes_a_plan_only_where_that_is_accepted(world: World) -> None:
    place = Path(shutil.copytree(world.first, world.root / "copy", copy_function=shutil.copyfile))
    for path in place.glob("*.parquet"):
        os.utime(path, ns=(OLD_MS * 1_000_000,) * 2)
    table, copy = world.table(), world.table(LocalStorage(str(place)))
    plan = table.plan_vacuum(max_delete="100%")

    for one in (plan, saved(with_past(table, plan), world.root / "plan")):
        with pytest.raises(Refused) as refused:
            copy.execute_vacuum(one)
        assert "plan.other-place" == refused.value.code
    with pytest.raises(Refused) as refused:
        world.table(LocalStorage(str(world.second))).execute_vacuum(plan, accept_copy=True)
    assert "vacuum.plan-other-past" == refused.value.code
    assert 7 == len(list(place.glob("*.parquet")))

    copy.execute_vacuum(plan, accept_copy=True)

    assert (["kept.parquet"], (7, 7)) == (sorted(path.name for path in place.glob("*.parquet")), world.counts())


def forged(world: World, *names: str) -> Path:
    """A saved plan with the digest that it should have, which names other files."""
    import pyarrow as pa

    plan = with_past(world.table(), world.table().plan_vacuum(max_delete="100%"))
    rows = plan.candidates
    paths = [*(name.encode() for name in names), *rows.column("path").to_pylist()[len(names) :]]
    other = rows.set_column(rows.schema.get_field_index("path"), "path", pa.array(paths, pa.binary()))
    path = world.root / "forged"
    save_plan(replace(plan, candidates=other), str(path))
    return path


def test_a_plan_is_not_saved_as_one_of_a_log_that_was_written_anew_since() -> None:
    """
    A disk tells the digest of the commit when planning begins, an object store when the plan is saved.
    """
    inner = table_of(*NAMES).in_memory()
    storage: Any = RecordingStorage(inner, capabilities=FAR)
    table = open_at(storage)
    plan = table.plan_vacuum(max_delete="100%")
    inner.write(commit_path(0), inner.read(commit_path(0)) + b"\n", modified_ms=OLD_MS)

    with pytest.raises(Refused) as refused:
        with_past(table, plan)

    assert "vacuum.plan-other-past" == refused.value.code


def test_a_saved_plan_that_names_live_files_is_refused(world: World) -> None:
    plan = read_plan(str(forged(world, "kept.parquet")))

    with pytest.raises(Refused) as refused:
        world.table().execute_vacuum(plan)

    assert ("vacuum.plan-names-live", "kept.parquet") == (refused.value.code, refused.value.facts["first"])
    assert (7, 7) == world.counts()


def test_a_saved_plan_spares_what_a_newer_commit_brings_back(world: World) -> None:
    plan = saved(with_past(world.table(), world.table().plan_vacuum(max_delete="100%")), world.root / "plan")
    commit_to(LocalStorage(str(world.first)), 2, add(NAMES[0], size=10))

    outcome = world.table().execute_vacuum(plan).outcome

    assert outcome is not None
    assert (5, 1, (2, 7)) == (outcome.deleted.files, outcome.spared, world.counts())


class Vanishing(RecordingStorage):
    """From one of its listings on, a commit is not there any more."""

    def __init__(self, inner: Storage, version: int, listing: int) -> None:
        super().__init__(inner, capabilities=FAR)
        self._version, self._listing = version, listing

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        entries = list(super().list_from(directory, start))
        is_gone = self.calls["list_from"] >= self._listing
        return (one for one in entries if not (is_gone and one.name == f"{self._version:020d}.json"))


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("listing", range(2, 6))
def test_a_commit_that_vanishes_while_a_vacuum_is_planned_is_no_bug(listing: int, mode: str) -> None:
    table = TableBuilder().commits(12).checkpoint(10).hint(10)
    codes = []
    for version in (11, 10, 9):
        try:
            plan_of(Vanishing(table.in_memory(), version, listing), mode=mode)
        except DeltacliError as fault:
            codes.append(fault.code)

    assert set(codes) <= {"vacuum.plan-newer", "vacuum.plan-other-past", "vacuum.lite-impossible"}
    assert listing != 2 or "vacuum.plan-newer" in codes


NOTES_OF_CLONES = 1


@pytest.mark.parametrize(("log_entries", "listings"), [(True, 4), (False, 3)])
def test_the_looks_at_the_log_cost_no_request(log_entries: bool, listings: int) -> None:
    """
    The past of the plan is the first line of listings that are made anyway. Notes of clones are listed once.
    """
    storage = RecordingStorage(with_files(table_of("a.parquet"), *NAMES).in_memory(), capabilities=FAR)
    plan = plan_of(storage)
    storage.calls.clear()

    execute_vacuum(open_at(storage), plan, VacuumRequest(log_entries=log_entries))

    assert 6 == plan.files
    assert (listings + NOTES_OF_CLONES, 0) == (storage.calls["list_from"], storage.calls["stat"])


def test_a_task_of_another_process_deletes_in_the_directory_of_its_permit_only(world: World) -> None:
    held = world.table().bind_to_directory()
    piece = DeletePiece(make_permit(held.stores, system_clock()), NAMES)
    context = TaskContext(TableStores(LocalStorage(str(world.place)), open_storage, NO_PREFIXES, None))
    switch_link(world)

    done = DeleteBatch()(piece, context)

    assert isinstance(done.fault, Refused)
    assert ("plan.other-place", (7, 7)) == (done.fault.code, world.counts())
    world.place.unlink()
    world.place.symlink_to(world.first)
    assert DeleteBatch()(piece, context).fault is None
    assert (1, 7) == world.counts()
