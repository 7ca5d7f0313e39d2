"""A file that the log adds and does not remove stays, whatever a wrong checkpoint makes of it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import DeltacliError, MemoryExhausted, PathExternal, StorageFailed
from deltacli.operations.vacuum.explain import explain_file
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.storage import LocalStorage, Storage
from tests.cli.support import deltacli
from tests.support.actions import Line, add, commit_info, remove
from tests.support.builder import EPOCH_MS, LOG, Damage, TableBuilder
from tests.support.checkpoints import CheckpointKind
from tests.support.damage import corrupt_page, gap, head_cleaned, truncate, zero_byte_checkpoint
from tests.support.faulty import FaultyStorage
from tests.support.small_vectors import vector_path
from tests.support.vacuum_hazards import (
    ID,
    OLD_MS,
    OTHER_ID,
    goes,
    inventory_of,
    open_at,
    paths_of,
    plan_of,
    refusals,
    saved,
    table_of,
    vacuum,
    vector_of,
    with_files,
)

LOST = "p=1/lost.parquet"


def path_of(line: Line) -> Any:  # Any: a JSON value
    return next(iter(line.values())).get("path")


def checkpointed_without(table: TableBuilder, *paths: str) -> TableBuilder:
    """Write a checkpoint of the newest version that lacks the adds of these paths."""
    lines = [line for line in table.states[-1].actions() if not ("add" in line and path_of(line) in paths)]
    return table.checkpoint(actions=lines)


def lossy() -> TableBuilder:
    """A table whose checkpoint lacks one of two files of version 0; an orphan and an old tombstone are garbage."""
    table = with_files(table_of("live.parquet", LOST, "gone.parquet"), "orphan.parquet", "p=1/orphan.parquet")
    table.commit(remove("gone.parquet", deleted_ms=OLD_MS)).commit(commit_info())
    return checkpointed_without(table, LOST)


def test_a_file_lost_by_a_checkpoint_is_kept_and_reported() -> None:
    plan = plan_of(lossy())

    assert {"gone.parquet", "orphan.parquet", "p=1/orphan.parquet"} == goes(lossy())
    assert 1 == plan.kept.unproven
    assert LOST in plan.notes[0]
    assert "[checkpoint.missing-add]" in plan.notes[0]


@pytest.mark.parametrize("options", [{"mode": "full"}, {"prefix": "p=1"}, {"where": "p = 1"}])
def test_a_file_that_a_checkpoint_lost_survives_every_kind_of_run(options: dict[str, Any]) -> None:
    columns: list[dict[str, Any]] = [  # Any: JSON values
        {"name": name, "type": "integer", "nullable": True, "metadata": {}} for name in ("id", "p")
    ]
    schema = json.dumps({"type": "struct", "fields": columns})
    table = table_of(add("p=2/live.parquet", partitionValues={"p": "2"}), partition_columns=["p"], schema_string=schema)
    table.commit(add(LOST, partitionValues={"p": "1"}, size=10)).commit(commit_info())
    storage = checkpointed_without(with_files(table, LOST, "p=1/orphan.parquet", "p=2/live.parquet"), LOST).in_memory()

    vacuum(storage, **options)

    assert storage.stat(LOST)
    assert storage.kind_of("p=1/orphan.parquet").value == "missing"


def test_a_file_that_a_checkpoint_lost_survives_a_run_by_inventory(tmp_path: Path) -> None:
    storage = LocalStorage(str(lossy().write(tmp_path / "t")))
    inventory = inventory_of(tmp_path / "t", "live.parquet", LOST, "orphan.parquet")

    plan = plan_of(storage, inventory=inventory)

    assert {"orphan.parquet"} == goes(storage, inventory=inventory)
    assert 1 == plan.kept.unproven


def test_lite_keeps_a_file_that_was_added_again_and_lost() -> None:
    table = table_of("a.parquet").commit(remove("a.parquet", deleted_ms=OLD_MS)).commit(add("a.parquet", size=10))
    storage = checkpointed_without(table.commit(commit_info()), "a.parquet").in_memory()

    plan = plan_of(storage, mode="lite")

    assert 0 == plan.files
    assert 1 == plan.kept.unproven
    assert "[checkpoint.missing-add]" in plan.notes[0]


def test_a_file_that_only_got_another_vector_is_not_a_removed_one() -> None:
    vectors = vector_of(), vector_of(offset=40)
    table = table_of("a.parquet", "b.parquet", has_vectors=True)
    for path, fields in zip(("a.parquet", "b.parquet"), vectors, strict=True):
        table.commit(remove(path, deleted_ms=OLD_MS), add(path, size=10, vector=fields))
    table.commit(remove("a.parquet", vector=vector_of(), deleted_ms=OLD_MS))
    with_files(table, vector_path(ID), vector_path(OTHER_ID))

    plan = plan_of(checkpointed_without(table, "b.parquet"))

    assert {"a.parquet", vector_path(OTHER_ID)} == goes(checkpointed_without(table, "b.parquet"))
    assert 2 == plan.kept.unproven


def proven_by_an_older_checkpoint() -> TableBuilder:
    """A table whose newest checkpoint lacks a file that only the checkpoint of version 1 names."""
    table = with_files(table_of("live.parquet", "lost.parquet"), "orphan.parquet")
    table.commit(commit_info()).checkpoint().commit(commit_info()).damaged(head_cleaned(1))
    return checkpointed_without(table, "lost.parquet")


def test_a_file_that_only_an_older_checkpoint_has_is_kept() -> None:
    plan = plan_of(proven_by_an_older_checkpoint())

    assert {"orphan.parquet"} == paths_of(plan)
    assert 1 == plan.kept.unproven
    assert "lost.parquet" in plan.notes[0]


class Failing(FaultyStorage):
    """A store that does not give out the older checkpoint."""

    def __init__(self, inner: Storage, fault: DeltacliError) -> None:
        super().__init__(inner)
        self._raised = fault

    def step(self, verb: str, path: str, call: Callable[[], Any]) -> Any:  # Any: the answer of a call
        if path.endswith(f"{1:020d}.checkpoint.parquet"):
            raise self._raised
        return super().step(verb, path, call)


@pytest.mark.parametrize("fault", [StorageFailed("down"), MemoryExhausted("no memory"), PathExternal("outside")])
def test_a_store_that_fails_at_the_older_checkpoint_ends_the_plan(fault: DeltacliError) -> None:
    storage = Failing(proven_by_an_older_checkpoint().in_memory(), fault)

    with pytest.raises(type(fault)):
        plan_of(storage)


@pytest.mark.parametrize("damage", [truncate, corrupt_page, zero_byte_checkpoint])
def test_files_that_only_a_damaged_older_checkpoint_may_name_are_kept(damage: Callable[[int], Damage]) -> None:
    table = with_files(proven_by_an_older_checkpoint(), "gone.parquet")
    table.commit(remove("gone.parquet", deleted_ms=OLD_MS)).damaged(damage(1))

    plan = plan_of(table)
    found = explain_file(open_at(table), VacuumRequest(), "lost.parquet")

    assert {"gone.parquet"} == paths_of(plan)
    assert 2 == plan.kept.unproven
    assert "because a damaged older checkpoint may name them" in plan.notes[0]
    assert "kept" == found.verdict
    assert "damaged" in found.why


def test_a_damaged_checkpoint_keeps_nothing_where_the_log_has_every_commit() -> None:
    table = with_files(table_of("live.parquet"), "orphan.parquet").commit(commit_info()).checkpoint()
    table.commit(commit_info()).checkpoint().damaged(truncate(1))

    assert {"orphan.parquet"} == goes(table)


def test_files_removed_within_a_gap_are_known_by_their_tombstones() -> None:
    table = table_of("live.parquet", "gone.parquet").commit(remove("gone.parquet", deleted_ms=OLD_MS))
    table.commit(commit_info()).checkpoint()
    del table.files[f"{LOG}/{1:020d}.json"]

    assert {"gone.parquet"} == goes(table)


def test_files_possibly_removed_by_missing_commits_are_not_reported_as_lost() -> None:
    table = table_of("live.parquet", "gone.parquet").commit(remove("gone.parquet", deleted_ms=OLD_MS))
    table.commit(commit_info())
    lines = [line for line in table.states[-1].actions() if "remove" not in line]
    table.checkpoint(actions=lines).commit(commit_info()).damaged(gap(1))

    plan = plan_of(table)
    found = explain_file(open_at(table), VacuumRequest(), "gone.parquet")

    assert set() == paths_of(plan)
    assert "whether commit 1 removed it [log.gap]" in plan.notes[0]
    assert "a checkpoint lost" not in plan.notes[0]
    assert "whether commit 1 removed it [log.gap]" in found.why


def command_of(note: str) -> str | None:
    found = re.search(r"deltacli repair .*", note)
    return None if found is None else found[0]


def test_the_advice_repairs_every_wrong_checkpoint(tmp_path: Path) -> None:
    """
    The lost file is missing from the checkpoints of versions 3 and 5, commits 6 and 7 follow, and 2 is right.
    """
    table = with_files(table_of("live.parquet", LOST), LOST).commit(commit_info())
    table.commit(commit_info()).checkpoint().commit(commit_info())
    checkpointed_without(table, LOST).commit(commit_info()).commit(commit_info())
    checkpointed_without(table, LOST).commit(commit_info()).commit(commit_info())
    place = str(table.write(tmp_path / "a table"))

    repair = command_of(plan_of(LocalStorage(place)).notes[0])

    assert f"deltacli repair file://{place.replace(' ', '%20')}" == repair
    assert 0 == deltacli(*shlex.split(repair)[1:], "--yes").code
    assert () == plan_of(LocalStorage(place)).notes
    assert 0 == deltacli("checkpoint", place, "--verify").code


@pytest.mark.parametrize("kind", [CheckpointKind.MULTI_PART, CheckpointKind.V2_PARQUET])
def test_the_advice_repairs_checkpoints_of_other_forms_and_leaves_no_second_one(
    kind: CheckpointKind, tmp_path: Path
) -> None:
    table = with_files(table_of("live.parquet", LOST), "live.parquet", LOST).commit(commit_info())
    lines = [line for line in table.states[-1].actions() if not ("add" in line and path_of(line) == LOST)]
    place = str(table.checkpoint(kind=kind, actions=lines).commit(commit_info()).write(tmp_path / "t"))

    repair = command_of(plan_of(LocalStorage(place)).notes[0])

    assert f"deltacli repair file://{place}" == repair
    assert 0 == deltacli(*shlex.split(repair)[1:], "--yes").code
    assert () == plan_of(LocalStorage(place)).notes
    assert 1 == len({one.name.partition(".checkpoint")[0] for one in Path(place, LOG).glob("*.checkpoint*")})


def test_a_checkpoint_that_nothing_older_can_repair_is_not_written_again() -> None:
    table = with_files(table_of("live.parquet", LOST), LOST).commit(commit_info()).checkpoint()
    table.commit(commit_info()).commit(add("late.parquet")).damaged(head_cleaned(2))
    checkpointed_without(with_files(table, "late.parquet"), "late.parquet").damaged(zero_byte_checkpoint(1))

    note = plan_of(table).notes[0]

    assert "late.parquet" in note
    assert command_of(note) is None


def test_explain_agrees_with_a_plan_that_keeps_a_lost_file() -> None:
    found = explain_file(open_at(lossy()), VacuumRequest(), LOST)

    assert "kept" == found.verdict
    assert "checkpoint.missing-add" in found.why


def test_a_saved_plan_spares_a_lost_file(tmp_path: Path) -> None:
    plan = plan_of(lossy())

    read = saved(plan, tmp_path / "plan.parquet")

    assert plan.kept == read.kept
    assert plan.notes == read.notes


def checksum(table: TableBuilder, version: int, files: int, size_bytes: int) -> TableBuilder:
    text = b'{"numFiles":%d,"tableSizeBytes":%d,"numMetadata":1,"numProtocol":1}' % (files, size_bytes)
    return table.file(f"{LOG}/{version:020d}.crc", text, modified_ms=EPOCH_MS)


def test_a_checksum_that_counts_the_lost_file_is_explained_by_it() -> None:
    assert [] == refusals(checksum(lossy(), 2, 2, 20))


@pytest.mark.parametrize(("files", "size_bytes", "code"), [(3, 30, "crc.num-files"), (2, 21, "crc.table-size")])
def test_a_checksum_that_contradicts_the_state_is_refused(files: int, size_bytes: int, code: str) -> None:
    """
    Also that of an older version, as long as the same checkpoint holds it.
    """
    table = with_files(table_of("a.parquet", "b.parquet"), "orphan.parquet").commit(commit_info())

    assert [code] == refusals(checksum(table, 1, files, size_bytes))
    assert [code] == refusals(checksum(table, 0, files, size_bytes).commit(commit_info()))
    assert [] == refusals(checksum(table, 1, 2, 20).commit(commit_info()))


def test_lost_commits_that_only_a_compaction_covers_are_refused() -> None:
    """What they named is unknown, also where the run would commit nothing."""
    table = with_files(table_of("a.parquet"), "orphan.parquet").commit(commit_info())

    assert [] == refusals(table.file(f"{LOG}/{0:020}.{1:020}.compacted.json", b"", modified_ms=EPOCH_MS))
    lost = table.file(f"{LOG}/{0:020}.{2:020}.compacted.json", b"", modified_ms=EPOCH_MS)
    assert ["compaction.beyond-log"] == refusals(lost)


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_lost_commits_that_the_hint_or_a_checksum_proves_are_refused(mode: str) -> None:
    """The log ends at version 1: what later ones added would count as uncommitted, what they restored as removed."""

    def table() -> TableBuilder:
        gone = remove("old.parquet", size=10)
        return with_files(table_of("a.parquet", "old.parquet").commit(gone), "orphan.parquet")

    assert [] == refusals(table().checkpoint().hint(1), mode=mode)
    assert ["hint.ahead-of-log"] == refusals(table().hint(2), mode=mode)
    assert ["hint.ahead-of-log"] == refusals(checksum(table().hint(2), 2, 1, 10), mode=mode)
    assert ["crc.without-commit"] == refusals(checksum(table(), 2, 1, 10), mode=mode)
    assert [] == refusals(table_of("a.parquet").hint(9), mode=mode), "nothing would be deleted"


def test_a_checkpoint_that_shortens_the_retention_is_refused() -> None:
    own = {"delta.deletedFileRetentionDuration": "interval 60 days"}
    table = with_files(table_of("a.parquet", configuration=own), "orphan.parquet").commit(commit_info())
    lines = [
        {"metaData": {**line["metaData"], "configuration": {}}} if "metaData" in line else line
        for line in table.states[-1].actions()
    ]

    assert ["checkpoint.metadata-differs"] == refusals(table.checkpoint(actions=lines))
