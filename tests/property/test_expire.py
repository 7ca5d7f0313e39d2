"""Cleaning random logs: every kept version stays what it was, wherever the deletion stops."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import Refused, Unreadable
from deltacli.core.machine import fixed_clock
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, plan_checkpoint, write_checkpoint
from deltacli.operations.log.expire import ExpiryPlan, ExpiryRequest, LogExpiry, plan_expiry
from tests.support import strategies as some
from tests.support.actions import add, commit_info, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder, commit_path
from tests.support.effort import examples
from tests.support.in_memory import MemoryStorage
from tests.support.reading import state_document

DAY_MS = 86_400_000
RETENTION_DAYS = 30


def with_daily_commits(builder: TableBuilder) -> TableBuilder:
    for version in builder.commits_present():
        path = commit_path(version)
        builder.files[path] = replace(builder.files[path], modified_ms=EPOCH_MS + version * DAY_MS)
    return builder


def copy_of(storage: MemoryStorage, *, without: Collection[str] = ()) -> MemoryStorage:
    copied = MemoryStorage()
    for path, (data, modified_ms) in storage._files.items():
        if path not in without:
            copied.write(path, data, modified_ms=modified_ms)
    return copied


def table_of(storage: MemoryStorage, day: int) -> Table:
    """The table when commit `day` has just reached the age of the retention."""
    return Table(storage, clock=fixed_clock(EPOCH_MS + (day + RETENTION_DAYS + 1) * DAY_MS))


def states(table: Table, builder: TableBuilder) -> dict[int, object]:
    found: dict[int, object] = {}
    for version in range(builder.newest + 1):
        try:
            found[version] = state_document(table, version)
        except Unreadable:
            continue
    return found


def check(plan: ExpiryPlan, before: dict[int, object], storage: MemoryStorage, day: int, builder: TableBuilder) -> None:
    """What a log is from which a part of the plan is gone."""
    after = states(table_of(storage, day), builder)
    assert all(before[version] == document for version, document in after.items())
    assert plan.boundary is None or all(version in after for version in before if version >= plan.boundary)


@given(st.data())
@examples(15)
def test_every_kept_version_is_as_before_wherever_the_deletion_stops(data: st.DataObject) -> None:
    builder = data.draw(some.hinted(data.draw(some.checkpointed(data.draw(some.described_logs())))))
    storage = with_daily_commits(data.draw(some.littered(builder))).in_memory()
    day = data.draw(st.integers(0, builder.newest + 1))
    table = table_of(storage, day)
    before = states(table, builder)
    keep = data.draw(st.lists(st.sampled_from(sorted(before)), max_size=1)) if before else []
    try:
        plan = plan_expiry(table, ExpiryRequest(keep_versions=tuple(keep)))
    except Unreadable:
        return

    for count in data.draw(st.sets(st.integers(0, len(plan.files)), max_size=3)):
        part = copy_of(storage, without={file.path for file in plan.files[:count]})
        check(plan, before, part, day, builder)
    there = set(storage._files)
    try:
        outcome = execute_change(LogExpiry(plan.request), table, plan=plan)
    except Refused:
        assert there == set(storage._files)
        return

    assert len(plan.files) == outcome.deleted
    check(plan, before, storage, day, builder)
    after = states(table_of(storage, day), builder)
    assert set(plan.lost_versions) & after.keys() == set()
    assert set(keep) <= after.keys()
    assert plan.boundary is None or (plan.boundary <= day and commit_path(plan.boundary) in storage._files)
    assert () == plan_expiry(table_of(storage, day), ExpiryRequest(keep_versions=tuple(keep))).files


def long_log(count: int) -> MemoryStorage:
    """A table with in-commit timestamps and V2 checkpoints with sidecars; each commit a minute after the last."""
    builder = TableBuilder()
    properties = {
        "delta.checkpointPolicy": "v2",
        "delta.enableInCommitTimestamps": "true",
        "delta.logRetentionDuration": "interval 1 days",
        "delta.enableExpiredLogCleanup": "true",
    }
    features = ["v2Checkpoint"]
    for version in range(count):
        at = EPOCH_MS + version * 60_000
        lines = [commit_info("WRITE", inCommitTimestamp=at)]
        if version == 0:
            named = protocol(3, 7, reader_features=features, writer_features=[*features, "inCommitTimestamp"])
            lines += [named, metadata(configuration=properties)]
        lines.append(add(f"part-{version:05d}.parquet", size=100, records=10))
        if version % 3 == 2:
            lines.append(remove(f"part-{version - 2:05d}.parquet", deleted_ms=at))
        builder.commit(*lines, modified_ms=EPOCH_MS)
    return builder.in_memory()


@pytest.mark.soak
def test_ten_thousand_commits_with_sidecars_and_their_own_timestamps() -> None:
    count, every = 10_000, 1_000
    storage = long_log(count)
    table = Table(storage, clock=fixed_clock(EPOCH_MS + count * 60_000))
    for version in range(every, count, every):
        write_checkpoint(plan_checkpoint(table, CheckpointRequest(version=version, rows_per_file=2_000)))
    later = Table(storage, clock=fixed_clock(EPOCH_MS + count * 60_000 + DAY_MS // 2))
    cut = (EPOCH_MS + count * 60_000 + DAY_MS // 2 - DAY_MS) // DAY_MS * DAY_MS
    newest_below = (cut - EPOCH_MS) // 60_000
    boundary = newest_below // every * every
    kept = [boundary, boundary + 1, boundary + every - 1, boundary + every, count - 1]
    before = {version: state_document(later, version) for version in kept}

    plan = plan_expiry(later, ExpiryRequest())
    outcome = execute_change(LogExpiry(plan.request), later, plan=plan)

    assert boundary == plan.boundary
    assert tuple(range(boundary)) == plan.lost_versions
    assert boundary + (boundary // every - 1) <= outcome.deleted
    assert before == {version: state_document(later, version) for version in kept}
    named = {name.rsplit("/", 1)[-1] for name in storage._files if "_sidecars/" in name}
    assert all(int(name.split(".")[0]) >= boundary for name in named)
    with pytest.raises(Unreadable):
        state_document(later, boundary - 1)
