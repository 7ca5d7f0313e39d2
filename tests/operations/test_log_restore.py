"""Restoring a log: only what is missing, never a mixture, and never a version that somebody could build upon."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.core.errors import (
    ConflictLost,
    DeltacliError,
    MemoryExhausted,
    PartlyDone,
    PathExternal,
    Refused,
    StorageFailed,
    Unreadable,
)
from deltacli.delta.log.segment import BACKUP_LIST
from deltacli.operations.log.log_copy import at_once
from deltacli.operations.log.log_restore import Action, LogRestore, LogRestorePlan, plan_log_restore
from deltacli.storage import Creation, LocalStorage
from tests.operations.log_copies import back_up, builder_of, handle, how_it_reads, log_of, restore, without
from tests.storage import stores
from tests.support import faulty
from tests.support.actions import add, birth, commit_info, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind
from tests.support.damage import truncate
from tests.support.faults import Countdown, Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at
from tests.support.storage import FAR, RecordingStorage


def saved(builder: TableBuilder) -> MemoryStorage:
    """A backup of a table."""
    destination = MemoryStorage("backup")
    back_up(builder.in_memory(), destination)
    return destination


def commits(*versions: int) -> list[str]:
    return [f"{version:020d}.json" for version in versions]


LOSSES: dict[str, Callable[[MemoryStorage], MemoryStorage]] = {
    "everything": lambda log: without(log, LOG),
    "the newest commits": lambda log: without(log, *commits(6, 7, 8), "_last_checkpoint", ".checkpoint."),
    "the newest commit": lambda log: without(log, *commits(8)),
    "commits in the middle": lambda log: without(log, *commits(4, 7)),
    "the newest commits and one in the middle": lambda log: without(
        log, *commits(2, 7, 8), "_last_checkpoint", ".checkpoint."
    ),
    "the beginning": lambda log: without(log, *commits(0, 1, 2), f"{3:020d}.checkpoint"),
    "all checkpoints": lambda log: without(log, ".checkpoint.", "_last_checkpoint", "_sidecars"),
    "all commits": lambda log: without(log, *commits(*range(9))),
    "all but the newest commit": lambda log: without(log, *commits(*range(8)), ".checkpoint.", "_sidecars"),
    "sidecars and odd names": lambda log: without(log, "_sidecars", "odd", "deep"),
}
QUICK = ("the newest commit", "commits in the middle", "sidecars and odd names")


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART, CheckpointKind.V2_PARQUET])
@pytest.mark.parametrize("loss", LOSSES)
def test_lost_files_are_restored_byte_for_byte(loss: str, kind: CheckpointKind) -> None:
    builder = builder_of(kind)
    table = LOSSES[loss](builder.in_memory())
    lost = log_of(builder.in_memory()).keys() - log_of(table).keys()

    plan = restore(table, saved(builder))
    again = restore(table, saved(builder))

    assert {f"{LOG}/{item.file.name}" for item in plan.writes} == lost
    assert log_of(builder.in_memory()) == log_of(table)
    assert how_it_reads(builder.in_memory()) == how_it_reads(table)
    assert () == again.writes
    assert {path: builder.files[path].modified_ms for path in lost} == {path: table._files[path][1] for path in lost}


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        *(
            pytest.param(loss, CheckpointKind.V2_JSON, marks=[] if loss in QUICK else pytest.mark.soak)
            for loss in LOSSES
        ),
        pytest.param("everything", CheckpointKind.MULTI_PART, marks=pytest.mark.soak),
        ("the beginning", CheckpointKind.MULTI_PART),
    ],
)
@pytest.mark.long
def test_a_restore_that_was_cut_reads_as_before_as_after_or_not_at_all(
    loss: str, kind: CheckpointKind, fault: Fault
) -> None:
    builder = builder_of(kind)
    backup, after = saved(builder), how_it_reads(builder.in_memory())
    before = how_it_reads(LOSSES[loss](builder.in_memory()))
    count = Countdown()
    restore(FaultyStorage(LOSSES[loss](builder.in_memory()), count), FaultyStorage(backup, count))

    for at in range(count.calls):
        table, countdown = LOSSES[loss](builder.in_memory()), Countdown(at)
        try:
            restore(FaultyStorage(table, countdown, fault), FaultyStorage(backup, countdown, fault))
        except (StorageFailed, PartlyDone):
            assert how_it_reads(table) in (None, before, after)
            assert log_of(table).items() <= log_of(builder.in_memory()).items()
        restore(table, backup)
        assert log_of(builder.in_memory()) == log_of(table)
        assert after == how_it_reads(table)


def test_a_log_with_newer_commits_keeps_them() -> None:
    builder = builder_of()
    backup = saved(builder)
    table = builder.commits(3).checkpoint(11).hint(11).in_memory()
    whole = log_of(table)
    for path in (commit_path(1), commit_path(5), f"{LOG}/odd name"):
        list(table.delete_many([path]))

    plan = restore(table, backup)

    assert whole == log_of(table)
    assert {Action.KEEP: ["_last_checkpoint"]} == {Action.KEEP: [item.file.name for item in plan.kept]}
    assert 4 == plan.only_in_log.files


def test_a_version_of_another_past_is_named_and_nothing_written() -> None:
    builder = builder_of()
    backup = saved(builder)
    table = without(builder.in_memory(), *commits(0, 6, 7, 8))
    for version in (6, 8):
        table.write(commit_path(version), to_bytes([commit_info("OTHER"), add("other")]))
    before = log_of(table)

    for replace in (False, True):
        with pytest.raises(Refused) as raised:
            plan_log_restore(handle(table), backup, replace=replace)
        assert ("restore.diverged", "6, 8") == (raised.value.code, raised.value.facts["commits that differ"])
        assert "commit 6 of the log" in raised.value.message
    assert before == log_of(table)


def test_what_is_above_a_commit_that_the_backup_lacks_is_not_proven() -> None:
    """The log went back to version 2 and on from there, where the commits of the backup had expired."""
    backup = MemoryStorage("backup")
    back_up(without(TableBuilder().commits(9).checkpoint(7).in_memory(), *commits(3, 4, 5, 6)), backup)
    rolled_back = TableBuilder().commits(3)
    table = TableBuilder().commits(3).commit(commit_info("OTHER"), add("other")).in_memory()
    before = log_of(table)

    with pytest.raises(Refused) as raised:
        plan_log_restore(handle(table), backup)

    assert "recover.unproven" == raised.value.code
    assert "versions 7-8 of the backup are not proven" in raised.value.message
    assert "commit 3 of the log is not in the backup" in raised.value.message
    assert before == log_of(table)
    assert 3 == len(restore(rolled_back.in_memory(), backup).writes)


TEARS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: data[:0],
    "cut in a line": lambda data: data[:-20],
    "cut after a line": lambda data: data[: data.index(b"\n") + 1],
    "zeros": lambda data: b"\0" * len(data),
}


@pytest.mark.parametrize("tear", TEARS)
def test_a_damaged_commit_is_replaced_on_request(tear: str) -> None:
    builder = builder_of()
    backup, table = saved(builder), without(builder.in_memory(), *commits(8))
    table.write(commit_path(7), TEARS[tear](table.read(commit_path(7))))
    table.write(f"{LOG}/{4:020d}.crc", b"[1]")

    with pytest.raises(Refused) as raised:
        plan_log_restore(handle(table), backup)
    plan = restore(table, backup, replace=True)

    assert ("restore.damaged", "7") == (raised.value.code, raised.value.facts["damaged commits"])
    assert [f"{8:020d}.json", f"{7:020d}.json", f"{4:020d}.crc"] == [item.file.name for item in plan.writes]
    assert [Action.ADD, Action.REPLACE, Action.REPLACE] == [item.action for item in plan.writes]
    assert log_of(builder.in_memory()) == log_of(table)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_replacement_that_was_cut_reads_as_before_as_after_or_not_at_all(fault: Fault) -> None:
    builder = builder_of()
    backup, after = saved(builder), how_it_reads(builder.in_memory())

    def torn() -> MemoryStorage:
        table = without(builder.in_memory(), *commits(8), ".checkpoint.")
        table.write(commit_path(7), table.read(commit_path(7))[:-9])
        table.write(commit_path(3), b"")
        return table

    for at in itertools.count():
        table, countdown = torn(), Countdown(at)
        try:
            restore(FaultyStorage(table, countdown, fault), FaultyStorage(backup, countdown, fault), replace=True)
        except (StorageFailed, PartlyDone):
            assert how_it_reads(table) in (None, after)
        restore(table, backup, replace=True)
        assert log_of(builder.in_memory()) == log_of(table)
        if countdown.calls <= at:
            break
    assert at > 30


def test_a_sound_commit_is_kept_if_the_backup_has_a_torn_one() -> None:
    builder = builder_of()
    torn = builder.in_memory()
    torn.write(commit_path(7), torn.read(commit_path(7))[:-9])
    backup = MemoryStorage("backup")
    back_up(torn, backup)
    table = without(builder.in_memory(), *commits(2))

    plan = restore(table, backup, replace=True)

    assert [f"{7:020d}.json"] == [item.file.name for item in plan.kept]
    assert log_of(builder.in_memory()) == log_of(table)


def test_the_hint_is_replaced_only_if_invalid() -> None:
    builder = builder_of()
    backup = saved(builder)
    newer, torn = builder.in_memory(), builder.in_memory()
    newer.write(f"{LOG}/_last_checkpoint", b'{"version":3,"size":1}')
    torn.write(f"{LOG}/_last_checkpoint", b'{"version"')

    assert () == restore(newer, backup, replace=True).writes
    assert () == restore(torn, backup).writes
    assert ["_last_checkpoint"] == [item.file.name for item in restore(torn, backup, replace=True).writes]


def test_the_backup_of_another_table_is_refused_unless_there_is_no_log() -> None:
    backup = saved(TableBuilder().commit(*birth(table_id="one")).commits(2))
    other = TableBuilder().commit(*birth(table_id="other")).in_memory()
    elsewhere = without(TableBuilder().commits(6).checkpoint(4).in_memory(), *commits(0, 1, 2))

    with pytest.raises(Refused) as one:
        plan_log_restore(handle(other), backup)
    with pytest.raises(Refused) as two:
        plan_log_restore(handle(elsewhere), backup)

    assert ["backup.other-table"] * 2 == [one.value.code, two.value.code]
    assert "one" == two.value.facts["table id of the backup"]
    assert 3 == len(restore(MemoryStorage("table"), backup).writes)


def spoil_digest(lines: list[dict[str, object]]) -> None:
    lines[2]["sha256"] = "0" * 64


def climb(lines: list[dict[str, object]]) -> None:
    lines[2]["name"] = "../../outside"


def shorten(lines: list[dict[str, object]]) -> None:
    del lines[3]


def unfinish(lines: list[dict[str, object]]) -> None:
    lines[0]["complete"] = False


def twice(lines: list[dict[str, object]]) -> None:
    lines[2] = lines[3]


def negative(lines: list[dict[str, object]]) -> None:
    lines[2]["sizeBytes"] = -1


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (spoil_digest, "backup.damaged"),
        (climb, "backup.list-corrupt"),
        (shorten, "backup.list-corrupt"),
        (twice, "backup.list-corrupt"),
        (negative, "backup.list-corrupt"),
        (unfinish, "backup.unfinished"),
    ],
)
def test_a_backup_that_contradicts_its_list_is_refused(
    spoil: Callable[[list[dict[str, object]]], None], code: str
) -> None:
    backup, table = saved(builder_of()), MemoryStorage("table")
    lines = [json.loads(line) for line in backup.read(BACKUP_LIST).splitlines()]
    spoil(lines)
    backup.put(BACKUP_LIST, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    with pytest.raises(Unreadable) as raised:
        plan_log_restore(handle(table), backup)

    assert code == raised.value.code
    assert {} == log_of(table)


@pytest.mark.parametrize("spoil", ["gone", "spoiled"])
def test_every_file_is_checked_before_the_first_is_written(spoil: str) -> None:
    backup, table = saved(builder_of()), MemoryStorage("table")
    if spoil == "gone":
        list(backup.delete_many([commit_path(2)]))
    else:
        backup.put(commit_path(2), b"{}")

    with pytest.raises(Unreadable) as raised:
        plan_log_restore(handle(table), backup)
    with pytest.raises(Unreadable) as nothing:
        plan_log_restore(handle(table), MemoryStorage("elsewhere"))

    assert ("backup.damaged", f"{2:020d}.json") == (raised.value.code, raised.value.facts["files"])
    assert "backup.list-missing" == nothing.value.code
    assert {} == log_of(table)


def test_a_log_that_can_be_read_is_not_made_one_that_cannot() -> None:
    builder = TableBuilder().commits(9)
    with_gap = MemoryStorage("backup")
    back_up(without(builder.in_memory(), *commits(6)), with_gap)

    with pytest.raises(Refused) as raised:
        plan_log_restore(handle(without(builder.in_memory(), *commits(6, 7, 8))), with_gap)

    assert "restore.gap" == raised.value.code
    assert restore(without(builder.in_memory(), *commits(3, 6, 7)), with_gap).writes


class Rival(FaultyStorage):
    """A writer at work: it makes its commit when the restore puts its `at`-th file."""

    def __init__(self, inner: MemoryStorage, *, at: int, version: int) -> None:
        super().__init__(inner, Countdown())
        self.inner, self.at, self.version, self.puts = inner, at, version, 0

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        if self.puts == self.at:
            self.inner.put_if_absent(commit_path(self.version), RIVAL)
        self.puts += 1
        return super().put_if_absent(path, data, modified_ms=modified_ms)


RIVAL = to_bytes([commit_info("RIVAL"), add("rival")])


@pytest.mark.parametrize("at", [0, 1])
def test_a_faster_writer_wins_and_its_commit_is_not_mixed_with_others(at: int) -> None:
    builder = TableBuilder().commits(9)
    backup, table = saved(builder), without(builder.in_memory(), *commits(5, 6, 7, 8))
    expected = without(table)
    expected.write(commit_path(5), RIVAL)

    with pytest.raises(ConflictLost) as raised:
        restore(Rival(table, at=at, version=5), backup)
    with pytest.raises(Refused) as afterwards:
        plan_log_restore(handle(table), backup)

    assert (6, "restore.conflict") == (raised.value.exit_code, raised.value.code)
    assert log_of(expected) == log_of(table)
    assert (5, how_it_reads(expected)) == (open_at(table).snapshot().version, how_it_reads(table))
    assert "restore.diverged" == afterwards.value.code


def test_a_commit_from_after_the_plan_is_met_before_anything_is_written() -> None:
    builder = TableBuilder().commits(9)
    backup, table = saved(builder), without(builder.in_memory(), *commits(5, 6, 7, 8))
    counted = Rival(table, at=-1, version=5)
    plan = plan_log_restore(handle(counted), backup)
    table.write(commit_path(5), RIVAL)

    with pytest.raises(ConflictLost) as raised:
        execute_change(LogRestore(backup), handle(counted), plan=plan)

    assert ("restore.conflict", 0) == (raised.value.code, counted.puts)


def test_a_slower_writer_is_refused_by_the_store() -> None:
    builder = TableBuilder().commits(9)
    table = without(builder.in_memory(), *commits(5, 6, 7, 8))

    restore(Rival(table, at=2, version=5), saved(builder))

    assert log_of(builder.in_memory()) == log_of(table)


def test_a_writer_between_the_commits_is_reported() -> None:
    builder = TableBuilder().commits(9).checkpoint(6)
    backup = MemoryStorage("backup")
    back_up(without(builder.in_memory(), *commits(4, 5, 6)), backup)
    table = without(builder.in_memory(), *commits(4, 5, 6, 7, 8), ".checkpoint.")

    with pytest.raises(PartlyDone) as raised:
        restore(Rival(table, at=1, version=4), backup)

    facts = raised.value.facts
    assert ("restore.conflict", 6) == (raised.value.code, raised.value.cause_exit_code)
    assert ("4", True) == (facts["commits of the other writer"], facts["so far"].endswith("restored"))


@pytest.mark.parametrize(
    ("lost", "event", "code"),
    [
        (commits(6, 7, 8), lambda table: table._files.pop(commit_path(5)), "plan.newer"),
        (commits(6, 7, 8), lambda table: table.write(commit_path(5), RIVAL), "plan.other-past"),
        ([LOG], lambda table: table.write(commit_path(0), RIVAL), "plan.other-past"),
    ],
)
def test_a_log_that_is_not_that_of_the_plan_is_left_alone(
    lost: list[str], event: Callable[[MemoryStorage], object], code: str
) -> None:
    builder = TableBuilder().commits(9)
    backup, table = saved(builder), without(builder.in_memory(), *lost)
    plan = plan_log_restore(handle(table), backup)
    event(table)
    expected = log_of(table)

    with pytest.raises(Refused) as refused:
        execute_change(LogRestore(backup), handle(table), plan=plan)

    assert code == refused.value.code
    assert expected == log_of(table)


class RolledBack(FaultyStorage):
    """A log whose newest commit is rolled back when the restore puts its second file."""

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        if path != commit_path(8):
            assert [*self._inner.delete_many([commit_path(5)])]
        return super().put_if_absent(path, data, modified_ms=modified_ms)


def test_a_log_that_is_rolled_back_meanwhile_is_reported() -> None:
    builder = TableBuilder().commits(9)
    table = RolledBack(without(builder.in_memory(), *commits(6, 7, 8)), Countdown())

    with pytest.raises(PartlyDone) as raised:
        restore(table, saved(builder))

    assert ("restore.conflict", 6, "0-4, 6-8") == (
        raised.value.code,
        raised.value.cause_exit_code,
        raised.value.facts["commits"],
    )


def test_a_file_that_changed_since_the_plan_is_not_replaced() -> None:
    builder = builder_of()
    backup, table = saved(builder), builder.in_memory()
    table.write(commit_path(7), b"")
    table.write(f"{LOG}/{4:020d}.crc", b"[1]")
    plan: LogRestorePlan = plan_log_restore(handle(table), backup, replace=True)
    table.write(f"{LOG}/{4:020d}.crc", b"[2]")
    execute_change(LogRestore(backup), handle(table), plan=plan)
    assert b"[2]" == table.read(f"{LOG}/{4:020d}.crc")

    table.write(commit_path(7), b"")
    plan = plan_log_restore(handle(table), backup, replace=True)
    table.write(commit_path(7), RIVAL)
    with pytest.raises(ConflictLost):
        execute_change(LogRestore(backup), handle(table), plan=plan)
    assert RIVAL == table.read(commit_path(7))


def test_versions_keep_their_times_on_a_local_disk(tmp_path: Path) -> None:
    table = builder_of().write(tmp_path / "t")
    storage, backup = LocalStorage(str(table)), LocalStorage(str(tmp_path / "b"))
    before = [(item.version, item.time) for item in open_at(storage).history().items]
    back_up(storage, backup)
    for path in [path for path in (table / LOG).rglob("*") if path.is_file()]:
        path.unlink()

    restore(storage, backup)

    assert before == [(item.version, item.time) for item in open_at(storage).history().items]
    assert before == [(item.version, item.time) for item in open_at(backup).history().items]


def test_a_store_that_cannot_create_atomically_is_not_restored_into() -> None:
    class ReadOnly(FaultyStorage):
        @property
        def capabilities(self):  # type: ignore[no-untyped-def]
            return super().capabilities._replace(atomic_create=False)

    with pytest.raises(DeltacliError) as raised:
        plan_log_restore(handle(ReadOnly(MemoryStorage("table"), Countdown())), saved(builder_of()))

    assert "storage.no-atomic-create" == raised.value.code


def test_a_backup_on_an_object_store_gives_a_local_log_its_times_back(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    builder = builder_of(CheckpointKind.V2_PARQUET)
    table, there = builder.write(tmp_path / "t"), stores.s3(request).storage
    storage = LocalStorage(str(table))
    before = [(item.version, item.time) for item in open_at(storage).history().items]
    back_up(storage, there)
    again = back_up(storage, there)
    shutil.rmtree(table / LOG)

    restore(storage, there)

    assert () == again.copied
    assert log_of(builder.in_memory()) == {
        str(path.relative_to(table)): path.read_bytes() for path in (table / LOG).rglob("*") if path.is_file()
    }
    assert before == [(item.version, item.time) for item in open_at(storage).history().items]


def test_few_large_files_are_read_at_a_time() -> None:
    far = RecordingStorage(MemoryStorage(), capabilities=FAR)

    assert [16, 16, 4, 1, 1] == [at_once(far, sizes) for sizes in ((), (1, 2), (1, 64 << 20), (200 << 20,), (1 << 40,))]


@pytest.mark.parametrize("directory", ["_sidecars", "deep/er"])
@pytest.mark.parametrize("target", ["outside", "t/data"])
def test_nothing_is_restored_through_a_linked_directory(target: str, directory: str, tmp_path: Path) -> None:
    """
    The list of a backup may come from anybody: it decides in which directories of the log files are written.
    """
    table = LocalStorage(str(TableBuilder().commits(2).write(tmp_path / "t")))
    backup = LocalStorage(str(tmp_path / "backup"))
    table.put(f"{LOG}/{directory}/evil.parquet", b"evil")
    back_up(table, backup)
    first = directory.partition("/")[0]
    shutil.rmtree(tmp_path / "t" / LOG / first)
    (tmp_path / target).mkdir()
    (tmp_path / "t" / LOG / first).symlink_to(tmp_path / target)

    with pytest.raises(Refused) as refused:
        restore(table, backup)

    assert "restore.link" == refused.value.code
    assert [] == list((tmp_path / target).iterdir())


def lossy(builder: TableBuilder, version: int) -> TableBuilder:
    """A checkpoint that lacks a file of its version."""
    lines = builder.states[version].actions()
    return builder.checkpoint(
        version, actions=[line for line in lines if line.get("add", {}).get("path") != "part-00001.parquet"]
    )


def test_a_checkpoint_of_the_backup_that_contradicts_its_commits_replaces_none() -> None:
    builder = TableBuilder().commits(5)
    backup = saved(lossy(builder, 4))
    table = builder.checkpoint().in_memory()
    before = how_it_reads(table)

    plan = restore(table, backup, replace=True)

    assert [Action.KEEP] == [item.action for item in plan.kept if ".checkpoint." in item.file.name]
    assert before == how_it_reads(table)


class Unverified(faulty.FaultyStorage):
    """A store that reads the files of a log, but can't open the checkpoint of version 4."""

    def __init__(self, inner: MemoryStorage, fault: DeltacliError) -> None:
        super().__init__(inner)
        self._raised = fault

    def open(self, path: str) -> Any:  # Any: as in the port
        if path.endswith(f"{4:020d}.checkpoint.parquet"):
            raise self._raised
        return super().open(path)


@pytest.mark.parametrize("fault", [StorageFailed("down"), MemoryExhausted("no memory"), PathExternal("outside")])
def test_a_checkpoint_that_cannot_be_compared_replaces_none(fault: DeltacliError) -> None:
    builder = TableBuilder().commits(5)
    backup = saved(lossy(builder, 4))
    table = builder.checkpoint().in_memory()
    before = log_of(table)

    with pytest.raises(type(fault)):
        plan_log_restore(handle(table), Unverified(backup, fault), replace=True)

    assert before == log_of(table)


def test_an_unreadable_checkpoint_of_the_backup_does_not_hide_a_wrong_one() -> None:
    builder = TableBuilder().commits(7)
    backup = saved(lossy(lossy(builder, 2), 4).damaged(truncate(2)))
    table = builder.checkpoint(2).checkpoint(4).in_memory()

    plan = plan_log_restore(handle(table), backup, replace=True)

    assert [] == list(plan.writes)
    assert 2 == len(plan.kept)
