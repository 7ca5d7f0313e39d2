"""A query that was stopped anywhere goes on, also without the files and commits that `streams` does not name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.streams.conftest import POSITIONS, Walk
from tests.judges.streams.known import KNOWN
from tests.judges.streams.queries import Queries
from tests.judges.streams.verdicts import delete_unneeded_commits, delete_unneeded_files, expire_log, streams


@pytest.mark.parametrize("position", POSITIONS)
def test_a_restart_reads_nothing_that_streams_calls_unneeded(
    position: str, walk: Walk, queries: Queries, tables: Path
) -> None:
    table, checkpoint = walk.copy_table(tables), walk.state(position, tables)
    before = streams(table, checkpoint)[position]
    (source,) = before["sources"]

    delete_unneeded_files(table, checkpoint)
    delete_unneeded_commits(table, source["needs"])
    after = streams(table, checkpoint)[position]
    outcome = queries.restart(table, checkpoint)

    with Comparison(f"positions/{position}", KNOWN) as comparison:
        comparison.equal("verdict before the deletions", "ok", before["verdict"])
        comparison.equal("verdict", outcome.verdict, after["verdict"])
        comparison.equal("rows", walk.rows_after(position), outcome.rows)


@pytest.mark.parametrize("position", ["in-flight-1", "finished-2", "in-flight-5", "finished-8"])
def test_a_query_survives_the_expiry_of_the_log(position: str, walk: Walk, queries: Queries, tables: Path) -> None:
    table, checkpoint = walk.copy_table(tables), walk.state(position, tables)

    expire_log(table, checkpoint)
    outcome = queries.restart(table, checkpoint)

    with Comparison(f"expiry/{position}", KNOWN) as comparison:
        comparison.equal("verdict", "ok", outcome.verdict)
        comparison.equal("rows", walk.rows_after(position), outcome.rows)
