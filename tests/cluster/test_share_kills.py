"""A query of a share that is killed again and again, while versions arrive, delivers each row exactly once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.gates import wait_until
from tests.cluster.grown_tables import Grown
from tests.cluster.killed_queries import (
    SECONDS,
    Rows,
    delivered_rows,
    finished_batches,
    grow,
    kill_query,
    start_query,
)
from tests.cluster.share_server import serving

OPTIONS = {"startingVersion": 0, "queryTableVersionIntervalSeconds": 10, "maxVersionsPerRpc": 7}
only_local = pytest.mark.skipif(
    os.environ.get("DELTACLI_CLUSTER", "local") != "local", reason="the driver is one that is killed"
)


@only_local
@pytest.mark.parametrize(
    "kills, versions, changes",
    [
        pytest.param(1, 4, False),
        pytest.param(10, 20, False, marks=pytest.mark.soak),
        pytest.param(10, 20, True, marks=pytest.mark.soak),
    ],
)
def test_kills_while_versions_arrive(kills: int, versions: int, changes: bool, tmp_path: Path) -> None:
    table, place, told = Grown(tmp_path / "table"), tmp_path / "query", Rows()
    place.mkdir()
    options = OPTIONS | ({"readChangeFeed": True} if changes else {"skipChangeCommits": True})
    with serving(tmp_path / "server", {"t": table.root}) as begin:
        for number in range(kills):
            least = finished_batches(place) + 1 + number % 3
            for step in range(versions // 2):
                told += grow(table, step, changes=changes)
            query = start_query(f"{begin}t", place, options | {"maxFilesPerTrigger": 2}, "deltacli_share")
            try:
                for step in range(versions // 2, versions):
                    told += grow(table, step, changes=changes)
                wait_until(lambda least=least: finished_batches(place) >= least, SECONDS)  # type: ignore[misc]
            finally:
                kill_query(query)
        query = start_query(f"{begin}t", place, options | {"maxFilesPerTrigger": 50}, "deltacli_share")
        try:
            wait_until(lambda: told == delivered_rows(place) or (place / "error").exists(), SECONDS)
        finally:
            kill_query(query)

    assert told == delivered_rows(place)
