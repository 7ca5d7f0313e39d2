"""A query that is killed again and again, while commits arrive, delivers each row exactly once."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
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

KILLS, COMMITS = 10, 20


@pytest.mark.soak
@pytest.mark.skipif(os.environ.get("DELTACLI_CLUSTER", "local") != "local", reason="the driver is one that is killed")
@pytest.mark.parametrize("changes", [False, True])
def test_ten_kills_while_200_commits_arrive(changes: bool, tmp_path: Path) -> None:
    table, place, told = Grown(tmp_path / "table"), tmp_path / "query", Rows()
    place.mkdir()
    only = {"readChangeFeed": True} if changes else {"skipChangeCommits": True}
    options = {"startingVersion": 0, "maxFilesPerTrigger": 2, **only}
    for kills in range(KILLS):
        least = finished_batches(place) + 1 + kills % 3
        query = start_query(table.root, place, options)
        try:
            for step in range(COMMITS):
                told += grow(table, step, changes=changes)
            wait_until(lambda least=least: finished_batches(place) >= least, SECONDS)  # type: ignore[misc]
        finally:
            kill_query(query)
    query = start_query(table.root, place, options | {"maxFilesPerTrigger": 50})
    try:
        wait_until(lambda: told == delivered_rows(place), SECONDS)
        table.set_columns(b=pa.string())
        table.append()
        wait_until((place / "error").exists, SECONDS)
    finally:
        kill_query(query)

    assert "[stream.schema-changed]" in (place / "error").read_text()
    assert told == delivered_rows(place)
