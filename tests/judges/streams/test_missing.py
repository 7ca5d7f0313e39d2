"""A query without a commit or a file that it needs is dead, and one without any other goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge
from tests.judges.streams.conftest import Walk, append
from tests.judges.streams.known import KNOWN
from tests.judges.streams.queries import Queries, rows_after
from tests.judges.streams.verdicts import commit_of, delete_with_checksum, exchange, set_back, streams, verdict_of


@pytest.mark.parametrize(
    ("position", "version"),
    [
        ("in-flight-0", 1),
        ("finished-1", 3),
        ("finished-2", 1),
        ("in-flight-3", 2),
        ("finished-3", 2),
        ("finished-3", 3),
        ("finished-6", 3),
        ("finished-4", 2),
        ("finished-4", 3),
        ("finished-4", 6),
        ("in-flight-8", 4),
        ("finished-8", 4),
        ("finished-8", 6),
    ],
)
def test_a_missing_commit(position: str, version: int, walk: Walk, queries: Queries, tables: Path) -> None:
    table, checkpoint = walk.copy_table(tables), walk.state(position, tables)
    delete_with_checksum(commit_of(table, version))

    query = streams(table, checkpoint)[position]
    outcome = queries.restart(table, checkpoint)
    skipping = queries.run(table, checkpoint, failOnDataLoss="false") if outcome.verdict == "dead" else None

    with Comparison(f"missing/commit {version}/{position}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, query["verdict"])
        if skipping is not None:
            says_that_it_skips = "failOnDataLoss=false" in (query["because"] or "")
            comparison.equal("goes on with failOnDataLoss=false", not skipping.error, says_that_it_skips)


@pytest.mark.parametrize(
    ("position", "version", "number"),
    [
        ("finished-3", 2, 0),
        ("finished-3", 2, 1),
        ("in-flight-3", 2, 0),
        ("finished-6", 3, 1),
        ("in-flight-6", 3, 1),
        ("finished-7", 5, 0),
        ("finished-7", 5, 1),
        ("finished-8", 5, 1),
        ("finished-8", 4, 0),
    ],
)
def test_a_missing_file(position: str, version: int, number: int, walk: Walk, queries: Queries, tables: Path) -> None:
    """Each was removed by an OPTIMIZE, and is the file of that number among those that a commit added."""
    table, checkpoint = walk.copy_table(tables), walk.state(position, tables)
    lines = map(json.loads, commit_of(table, version).read_text().splitlines())
    adds = [line["add"]["path"] for line in lines if "add" in line]
    delete_with_checksum(table / adds[number])

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint)

    with Comparison(f"missing/file {number} of {version}/{position}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


@pytest.mark.parametrize(
    ("position", "version"),
    [
        ("finished-8", 2),
        ("finished-8", 4),
        ("in-flight-8", 2),
        ("in-flight-8", 4),
        ("finished-7", 4),
        ("finished-5", 2),
        ("finished-4", 2),
        ("finished-1", 0),
        ("in-flight-1", 0),
    ],
)
def test_a_log_that_was_set_back(position: str, version: int, walk: Walk, queries: Queries, tables: Path) -> None:
    table, checkpoint = walk.copy_table(tables), walk.state(position, tables)
    set_back(table, version)

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint)

    with Comparison(f"set back to {version}/{position}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


def test_a_query_that_lost_everything_starts_over_with_what_comes_next(
    walk: Walk, spark: SparkJudge, queries: Queries, tables: Path
) -> None:
    """The number is refused until its version exists. `latest` skips what was committed before the query starts."""
    table = walk.copy_table(tables)

    too_early = queries.run(table, tables / "too-early", startingVersion=8)
    append(spark, table, 9_000, 1)
    by_number = queries.run(table, tables / "by-number", startingVersion=8)
    by_name = queries.run(table, tables / "by-name", startingVersion="latest")

    with Comparison("restart point/behind the newest version", KNOWN) as comparison:
        comparison.equal("refused before the version exists", True, bool(too_early.error))
        comparison.equal("error by number", "", by_number.error)
        comparison.equal("rows by number", 2, len(by_number.rows))
        comparison.equal("rows of latest", [], by_name.rows)


def test_a_table_that_was_dropped_and_created_again(
    walk: Walk, spark: SparkJudge, queries: Queries, tables: Path
) -> None:
    table, checkpoint = walk.copy_table(tables), walk.state("finished-4", tables)
    exchange(table, spark.create(tables / "other", "id BIGINT", "INSERT INTO {table} VALUES (1)"))

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint)

    with Comparison("created again", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


@pytest.mark.parametrize(("position", "gone"), [("finished-5", 5), ("finished-7", 6)])
def test_the_point_at_which_a_dead_query_starts_over(
    position: str, gone: int, walk: Walk, queries: Queries, tables: Path
) -> None:
    """Commits below a version are gone. A new query from the restart point delivers all that is not called lost."""
    table, checkpoint = walk.copy_table(tables), walk.state(position, tables)
    for version in range(gone):
        delete_with_checksum(commit_of(table, version))

    document = deltacli("streams", table, "--restart-point", checkpoint, "--json", codes=(1,)).document()
    (source,) = document["queries"][0]["sources"]
    restart = source["restart"]
    run = queries.run(table, tables / "new", startingVersion=restart["startingVersion"])

    left = walk.rows_after(position)
    lost = len(rows_after(left, [row for row in run.rows if row in left]))
    with Comparison(f"restart point/{position}", KNOWN) as comparison:
        comparison.equal("error", "", run.error)
        comparison.equal("lost rows", lost, lost if restart["lost"]["rows"] is None else restart["lost"]["rows"])


def test_a_first_batch_that_began_with_a_version(spark: SparkJudge, queries: Queries, tables: Path) -> None:
    """The option startingVersion is written nowhere, so the first batch may have begun with any commit."""
    table, checkpoint = spark.create(tables / "table", "id BIGINT"), tables / "checkpoint"
    append(spark, table, 0, 1)
    append(spark, table, 10, 1)
    append(spark, table, 20, 1)
    spark.run(table, "OPTIMIZE {table}")

    def stop(_: int) -> None:
        raise RuntimeError("stopped in its first batch")

    stopped = queries.run(table, checkpoint, stop, startingVersion=2)
    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint, startingVersion=2)

    with Comparison("first batch/startingVersion", KNOWN) as comparison:
        comparison.equal("stopped", True, "stopped in its first batch" in stopped.error)
        comparison.equal("verdict", outcome.verdict, verdict)
        comparison.equal("rows", [(10,), (11,), (20,), (21,)], outcome.rows)
