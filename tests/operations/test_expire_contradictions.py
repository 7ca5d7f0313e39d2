"""`log expire` deletes no commit with better information about files than the remaining checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import NoAtomicCreate, PathExternal, Refused
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry, plan_expiry
from tests.support.actions import add, commit_info
from tests.support.builder import LOG, TableBuilder
from tests.support.damage import gap
from tests.support.storage import NEAR, RecordingStorage
from tests.support.vacuum_hazards import DAY_MS, open_at, table_of

YEAR_MS = 365 * DAY_MS
REQUEST = ExpiryRequest(retention_ms=DAY_MS, allow_retention_below_ms=YEAR_MS)


def table() -> TableBuilder:
    """Commit 0, which a checkpoint of version 3 replaces."""
    found = table_of("a.parquet").commit(commit_info()).commit(add("b.parquet", size=10)).commit(commit_info())
    return found.checkpoint().commit(commit_info())


def refusal(builder: TableBuilder) -> str:
    opened = open_at(builder.in_memory())
    plan = plan_expiry(opened, REQUEST)
    assert plan.files
    with pytest.raises(Refused) as refused:
        execute_change(LogExpiry(plan.request), opened, plan=plan)
    assert "expire.not-proven" == refused.value.code
    return refused.value.message


def test_a_checkpoint_that_agrees_lets_older_commits_go() -> None:
    opened = open_at(table().in_memory())

    assert execute_change(LogExpiry(REQUEST, proves=False), opened).deleted


@pytest.mark.parametrize("version", [3, 4])
def test_a_checksum_that_counts_otherwise_keeps_commits(version: int) -> None:
    crc = json.dumps({"numFiles": 3, "tableSizeBytes": 30}).encode()

    assert "[crc.num-files]" in refusal(table().file(f"{LOG}/{version:020d}.crc", crc))


def test_commits_that_rebuild_no_version_still_contradict_a_checkpoint() -> None:
    """
    Behind the gap nothing older helps to compare the checkpoint, but commit 2 adds a file that it lacks.
    """
    lossy = table()
    lines = [line for line in lossy.states[3].actions() if line.get("add", {}).get("path") != "b.parquet"]

    assert "[checkpoint.missing-add]" in refusal(lossy.checkpoint(3, actions=lines).damaged(gap(1)))


def contradicted() -> TableBuilder:
    """A checksum file counts another number of files than the checkpoint that would be left."""
    return table().file(f"{LOG}/{3:020d}.crc", json.dumps({"numFiles": 3, "tableSizeBytes": 30}).encode())


def test_a_dry_run_of_the_api_has_the_refusal_of_the_proof() -> None:
    found = open_at(contradicted()).expire_log(retention_ms=DAY_MS, allow_retention_below_ms=YEAR_MS, dry_run=True)

    assert ["expire.not-proven"] == [refusal.code for refusal in found.plan.refusals]
    assert found.outcome is None


def test_a_refused_plan_keeps_the_hint_of_the_proof() -> None:
    opened = open_at(contradicted())

    with pytest.raises(Refused) as refused:
        execute_change(LogExpiry(REQUEST), opened)

    assert "deltacli validate {table}" == refused.value.hint


def test_an_impossible_proof_does_not_refuse_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_at(table())

    def prove(*_: object) -> None:
        raise PathExternal("a sidecar lies outside the table")

    monkeypatch.setattr("deltacli.operations.log.expire.unproven", prove)

    with pytest.raises(PathExternal):
        LogExpiry(REQUEST).plan(opened)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.expire_log(),
        lambda table: table.compact_log(1, 2),
        lambda table: table.write_checksum(),
        lambda table: table.restore_log("nowhere"),
    ],
    ids=["expire_log", "compact_log", "write_checksum", "restore_log"],
)
def test_maintenance_of_a_read_only_log_is_refused_before_any_request(change: Callable[[Table], object]) -> None:
    storage = RecordingStorage(table().in_memory(), capabilities=NEAR._replace(atomic_create=False))

    with pytest.raises(NoAtomicCreate):
        change(open_at(storage))

    assert 0 == storage.calls.total()
