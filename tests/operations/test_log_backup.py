"""Backups of a log: whole, incremental, never worse than before, and a log of their own wherever they were cut."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltacli.changing.change import execute_change
from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import NotATable, PartlyDone, Refused, StorageFailed, Unreadable, UsageError
from deltacli.delta.log.segment import BACKUP_LIST
from deltacli.operations.log.log_backup import LogBackup, plan_backup
from deltacli.operations.log.log_copy import read_list
from tests.operations.log_copies import (
    back_up,
    builder_of,
    handle,
    how_it_reads,
    is_sound_backup,
    log_of,
    without,
)
from tests.support.actions import add, birth, commit_info
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind
from tests.support.faults import Countdown, Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.storage import RecordingStorage


@pytest.fixture
def destination() -> MemoryStorage:
    return MemoryStorage("backup")


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART, CheckpointKind.V2_JSON])
def test_a_backup_contains_the_whole_log(kind: CheckpointKind, destination: MemoryStorage) -> None:
    table = builder_of(kind).in_memory()

    result = back_up(table, destination)

    listed = read_list(destination)
    assert listed is not None
    assert log_of(table) == log_of(destination)
    assert is_sound_backup(destination)
    assert (8, "5fba94ed-9794-4965-ba6e-6ee3c0d22af9") == (listed.version, listed.table_id)
    assert result.files == FileTotals(len(log_of(table)), sum(map(len, log_of(table).values())))
    assert {f"{LOG}/{name}": file.modified_ms for name, file in listed.files.items()} == {
        path: table._files[path][1] for path in log_of(table)
    }
    assert how_it_reads(table) == how_it_reads(destination)


def test_a_second_run_copies_what_is_new_or_changed_and_reads_nothing_else(destination: MemoryStorage) -> None:
    builder = builder_of()
    back_up(builder.in_memory(), destination)
    builder.commits(2).checkpoint(10).hint(10)
    table, to = RecordingStorage(builder.in_memory()), RecordingStorage(destination)

    result = back_up(table, to)

    new = [f"{9:020d}.json", f"{10:020d}.json", f"{10:020d}.checkpoint.parquet", "_last_checkpoint"]
    assert new == [file.name for file in result.copied]
    assert [f"{LOG}/{name}" for name in new] == to.touched("put")[:-1]
    assert BACKUP_LIST == to.touched("put")[-1]
    assert is_sound_backup(destination)
    assert not {commit_path(version) for version in range(9)} & set(table.touched("read"))
    assert [] == back_up(builder.in_memory(), destination).items()


def test_the_backup_keeps_what_the_log_loses(destination: MemoryStorage) -> None:
    table = builder_of().in_memory()
    back_up(table, destination)
    cleaned = without(table, f"{0:020d}.json", f"{1:020d}.json", "odd name")

    result = back_up(cleaned, destination)
    again = back_up(cleaned, destination)

    gone = [f"{0:020d}.json", f"{1:020d}.json", "odd name"]
    assert gone == [item["name"] for item in result.items()] == [item["name"] for item in again.items()]
    assert {"missing"} == {item["action"] for item in result.items()}
    assert log_of(table) == log_of(destination)
    assert is_sound_backup(destination)


def test_digests_are_read_again_where_the_time_differs_or_with_full(destination: MemoryStorage) -> None:
    builder = builder_of()
    back_up(builder.in_memory(), destination)
    copied = builder.in_memory()
    for path, data in log_of(copied).items():
        copied.write(path, data, modified_ms=copied._files[path][1] + 5_000)
    crc = f"{LOG}/{4:020d}.crc"
    copied.write(crc, b"[]", modified_ms=builder.files[crc].modified_ms)

    by_time = back_up(copied, destination)
    by_digest = back_up(copied, destination, full=True)

    listed = read_list(destination)
    assert listed is not None
    assert [] == [file.name for file in by_time.copied]
    assert [f"{4:020d}.crc"] == [file.name for file in by_digest.copied]
    assert builder.files[commit_path(3)].modified_ms == listed.files[f"{3:020d}.json"].modified_ms


def test_full_finds_what_was_lost_or_spoiled_in_the_backup(destination: MemoryStorage) -> None:
    table = builder_of().in_memory()
    back_up(table, destination)
    list(destination.delete_many([f"{LOG}/odd name"]))
    destination.put(commit_path(2), destination.read(commit_path(2))[:-1] + b"x")

    plain = back_up(table, destination)
    full = back_up(table, destination, full=True)

    assert ["odd name"] == [file.name for file in plain.copied]
    assert [f"{2:020d}.json"] == [file.name for file in full.copied]
    assert log_of(table) == log_of(destination)


def test_a_commit_that_changed_is_never_copied_over_the_one_that_was(destination: MemoryStorage) -> None:
    builder = builder_of()
    back_up(builder.in_memory(), destination)
    before = dict(destination._files)
    torn = builder.in_memory()
    torn.write(commit_path(5), torn.read(commit_path(5))[:-30])

    with pytest.raises(Refused) as raised:
        plan_backup(handle(torn), destination)

    assert ("backup.diverged", "5") == (raised.value.code, raised.value.facts["commits that differ"])
    assert before == destination._files


def test_a_commit_that_was_caught_half_written_is_copied_again(destination: MemoryStorage) -> None:
    builder = TableBuilder().commits(4)
    half = builder.in_memory()
    half.write(commit_path(3), half.read(commit_path(3))[:40])
    back_up(half, destination)

    result = back_up(builder.in_memory(), destination)

    assert [f"{3:020d}.json"] == [file.name for file in result.copied]
    assert is_sound_backup(destination)


def test_another_table_is_refused_but_not_a_table_with_another_id(destination: MemoryStorage) -> None:
    back_up(TableBuilder().commits(3).in_memory(), destination)
    other = TableBuilder().commit(*birth(table_id="other")).in_memory()
    cleaned = TableBuilder().commit(*birth(table_id="other")).commits(6).checkpoint(5).in_memory()
    renamed = TableBuilder().commits(3).commit(commit_info("REPLACE"), *birth(table_id="other")).in_memory()

    with pytest.raises(Refused) as another:
        plan_backup(handle(other), destination)
    with pytest.raises(Refused) as unlike:
        plan_backup(handle(without(cleaned, *(f"{version:020d}.json" for version in range(4)))), destination)
    result = back_up(renamed, destination)

    assert ["backup.other-table"] * 2 == [another.value.code, unlike.value.code]
    assert (1, "other") == (len(result.copied), result.listed.table_id)


def test_a_log_that_cannot_be_opened_is_not_mixed_with_a_backup_that_it_has_nothing_in_common_with(
    destination: MemoryStorage,
) -> None:
    """The backup would read as one log. A checksum may have the id."""
    back_up(TableBuilder().commits(3).in_memory(), destination)
    before, listed = dict(destination._files), read_list(destination)
    assert listed is not None
    gone = [f"{version:020d}.json" for version in range(3)]

    def rest(table_id: str | None) -> MemoryStorage:
        builder = TableBuilder().commits(6)
        if table_id is not None:
            builder.file(f"_delta_log/{5:020d}.crc", json.dumps({"metadata": {"id": table_id}}).encode())
        return without(builder.in_memory(), *gone)

    for table_id in (None, "other"):
        with pytest.raises(Refused) as raised:
            back_up(rest(table_id), destination)
        assert "backup.other-table" == raised.value.code
        assert before == destination._files
    assert 4 == len(back_up(rest(listed.table_id), destination).copied)


def test_a_log_that_went_back_and_on_is_not_mixed_with_what_it_was(destination: MemoryStorage) -> None:
    """The commits of before between the two had expired when the backup was made, so that none of them differs."""
    whole = TableBuilder().commits(9).checkpoint(7).in_memory()
    back_up(TableBuilder().commits(3).in_memory(), destination)
    back_up(without(whole, *(f"{version:020d}.json" for version in range(7))), destination)
    before = dict(destination._files)
    rolled_back = TableBuilder().commits(3).in_memory()
    rolled_back_and_on = TableBuilder().commits(3).commit(commit_info("OTHER"), add("other")).in_memory()

    with pytest.raises(Refused) as raised:
        plan_backup(handle(rolled_back_and_on), destination)

    assert ("backup.diverged", "3") == (raised.value.code, raised.value.facts["commits that it lacks"])
    assert raised.value.message.startswith("versions 7-8 of the backup are above version 3")
    assert before == destination._files
    assert back_up(rolled_back, destination).copied == ()


def test_a_directory_that_is_not_a_backup_is_left_unchanged(destination: MemoryStorage) -> None:
    table = TableBuilder().commits(3).in_memory()
    destination.write(commit_path(0), b"another table's")

    with pytest.raises(Refused) as a_table:
        plan_backup(handle(table), destination)
    destination.write(BACKUP_LIST, b"{}\n")
    with pytest.raises(Unreadable) as corrupt:
        plan_backup(handle(table), destination)

    assert ("backup.not-a-backup", "backup.list-corrupt") == (a_table.value.code, corrupt.value.code)
    assert b"another table's" == destination.read(commit_path(0))


def test_table_and_backup_must_not_contain_each_other() -> None:
    table = TableBuilder().commits(3).in_memory()

    for name in ("table", "table/backup"):
        with pytest.raises(UsageError):
            plan_backup(handle(table), MemoryStorage(name))
    assert plan_backup(handle(table), MemoryStorage("table2")).copies


def test_a_table_that_cannot_be_opened_is_backed_up_too(destination: MemoryStorage) -> None:
    table = TableBuilder().commit(*birth(table_id="t"), add("a")).file(commit_path(4), b"{torn").in_memory()

    result = back_up(table, destination)

    assert ("t", 4) == (result.listed.table_id, result.listed.version)
    assert log_of(table) == log_of(destination)
    with pytest.raises(NotATable):
        plan_backup(handle(MemoryStorage("nothing")), destination)


def states_of(builder: TableBuilder) -> list[object]:
    """How each version reads."""
    return [how_it_reads(up_to(builder, version)) for version in range(builder.newest + 1)]


def up_to(builder: TableBuilder, version: int) -> MemoryStorage:
    """The log as it was at a version."""
    later = (f"{number:020d}" for number in range(version + 1, builder.newest + 1))
    return without(builder.in_memory(), *later, "_last_checkpoint")


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize(
    "kind", [CheckpointKind.MULTI_PART, pytest.param(CheckpointKind.V2_PARQUET, marks=pytest.mark.soak)]
)
@pytest.mark.long
def test_an_interrupted_backup_is_a_valid_log_and_is_completed_by_the_next_run(
    kind: CheckpointKind, fault: Fault
) -> None:
    builder = builder_of(kind, commits=7)
    table, whole = builder.in_memory(), how_it_reads(builder.in_memory())
    known = [None, *states_of(builder)]
    count = Countdown()
    back_up(FaultyStorage(table, count), FaultyStorage(MemoryStorage("backup"), count))

    cut = 0
    for at in range(count.calls):
        destination, countdown = MemoryStorage("backup"), Countdown(at)
        try:
            back_up(FaultyStorage(table, countdown, fault), FaultyStorage(destination, countdown, fault))
        except (StorageFailed, PartlyDone):
            cut += 1
            assert how_it_reads(destination) in known
        if BACKUP_LIST in destination._files:
            listed = read_list(destination)
            assert listed is not None
            assert not listed.is_complete or is_sound_backup(destination)
        back_up(table, destination)
        assert is_sound_backup(destination)
        assert log_of(table) == log_of(destination)
        assert whole == how_it_reads(destination)

    assert cut > count.calls / 2 > 20


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.long
def test_a_cut_never_takes_the_backup_that_was_there(fault: Fault) -> None:
    older, newer = builder_of(commits=6), builder_of(commits=6).commits(3).checkpoint(8).hint(8)
    known = [*states_of(newer)]
    count = Countdown()
    first = MemoryStorage("backup")
    back_up(older.in_memory(), first)
    back_up(FaultyStorage(newer.in_memory(), count), FaultyStorage(without(first), count))

    for at in range(count.calls):
        destination, countdown = without(first), Countdown(at)
        try:
            back_up(FaultyStorage(newer.in_memory(), countdown, fault), FaultyStorage(destination, countdown, fault))
        except (StorageFailed, PartlyDone):
            assert how_it_reads(destination) in known
            listed = read_list(destination)
            assert listed is not None
            assert listed.is_complete
            assert set(builder_names(older)) <= set(listed.files)
        back_up(newer.in_memory(), destination)
        assert is_sound_backup(destination)
        assert how_it_reads(newer.in_memory()) == how_it_reads(destination)


def builder_names(builder: TableBuilder) -> list[str]:
    return [path.removeprefix(f"{LOG}/") for path in log_of(builder.in_memory())]


def test_a_concurrent_commit_is_left_for_the_next_run(destination: MemoryStorage) -> None:
    builder = builder_of()
    plan = plan_backup(handle(builder.in_memory()), destination)
    later = builder.commits(1).checkpoint(9).hint(9).in_memory()

    now = handle(without(later, f"{0:020d}.json"))
    execute_change(LogBackup(destination), now, plan=replace(plan, base_version=replace(plan.base_version, table=now)))

    assert commit_path(9) not in destination._files
    assert commit_path(0) not in destination._files
    assert b'{"version":6' == destination.read(f"{LOG}/_last_checkpoint").replace(b" ", b"")[:12]
    assert is_sound_backup(destination)
