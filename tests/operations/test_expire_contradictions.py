"""`log expire` deletes no commit that tells of files better than the checkpoint that would be left."""

from __future__ import annotations

import json

import pytest

from deltacli.errors import Refused
from deltacli.operations.log.expire import ExpiryRequest, execute_expiry, plan_expiry
from tests.support.actions import add, commit_info
from tests.support.builder import LOG, TableBuilder
from tests.support.damage import gap
from tests.support.vacuum_hazards import open_at, table_of

YEAR_MS = 365 * 86_400_000
REQUEST = ExpiryRequest(retention_ms=86_400_000, allowed_below_ms=YEAR_MS)


def table() -> TableBuilder:
    """Commit 0, which a checkpoint of version 3 replaces."""
    found = table_of("a.parquet").commit(commit_info()).commit(add("b.parquet", size=10)).commit(commit_info())
    return found.checkpoint().commit(commit_info())


def refusal(builder: TableBuilder) -> str:
    opened = open_at(builder.in_memory())
    plan = plan_expiry(opened, REQUEST)
    assert plan.files
    with pytest.raises(Refused) as refused:
        execute_expiry(opened, plan)
    assert "expire.not-proven" == refused.value.code
    return refused.value.message


def test_a_checkpoint_that_agrees_lets_older_commits_go() -> None:
    opened = open_at(table().in_memory())

    assert execute_expiry(opened, plan_expiry(opened, REQUEST)).deleted


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
