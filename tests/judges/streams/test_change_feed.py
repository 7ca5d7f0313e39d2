"""Queries that read the change feed, at every position."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.spark import SparkJudge, copy_table
from tests.judges.streams.known import KNOWN
from tests.judges.streams.queries import Queries, Row, copy_checkpoint, remove_batch_file, rows_after
from tests.judges.streams.verdicts import delete_unneeded_files, streams

FEED = "delta.enableChangeDataFeed = true"
VECTORS = "delta.enableDeletionVectors = true"
CHECKPOINTS = "delta.checkpointInterval = 2"


class Feed:
    """A table with a change feed, and a query that reads it from its first snapshot on, file by file."""

    def __init__(self, spark: SparkJudge, queries: Queries, place: Path, properties: str) -> None:
        self.table = spark.create(place / "table", "id BIGINT, v STRING", properties=properties)
        self.checkpoint, self.states = place / "checkpoint", place / "states"
        self.states.mkdir()
        self.batches: dict[int, list[Row]] = {}
        spark.run(
            self.table,
            "INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, 'a' FROM range(8)",
        )
        self._read(queries)
        spark.run(
            self.table,
            "UPDATE {table} SET v = 'b' WHERE id < 2",
            "INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, 'c' FROM range(100, 108)",
            "DELETE FROM {table} WHERE id IN (3, 101)",
        )
        self._read(queries)
        spark.run(self.table, "OPTIMIZE {table}")
        self.everything = [row for rows in self.batches.values() for row in rows]

    def _read(self, queries: Queries) -> None:
        def copy_state(number: int) -> None:
            copy_checkpoint(self.checkpoint, self.states / f"in-flight-{number}")

        run = queries.run(self.table, self.checkpoint, copy_state, readChangeFeed="true", maxFilesPerTrigger=1)
        assert not run.error
        self.batches.update(run.batches)

    def state(self, batch: int, target: Path, *, is_finished: bool) -> Path:
        """Return a copy of the checkpoint directory within a batch, or after it."""
        if not is_finished:
            return copy_checkpoint(self.states / f"in-flight-{batch}", target)
        if batch == max(self.batches):
            return copy_checkpoint(self.checkpoint, target)
        checkpoint = copy_checkpoint(self.states / f"in-flight-{batch + 1}", target)
        remove_batch_file(checkpoint, f"offsets/{batch + 1}")
        return checkpoint

    def rows_from(self, batch: int) -> list[Row]:
        """Return the changes that a batch and all later ones deliver."""
        delivered = [row for number, rows in self.batches.items() if number < batch for row in rows]
        return rows_after(self.everything, delivered)


@pytest.fixture(scope="module", params=[FEED, f"{FEED}, {VECTORS}"], ids=["files", "vectors"])
def feed(
    request: pytest.FixtureRequest, spark: SparkJudge, queries: Queries, tmp_path_factory: pytest.TempPathFactory
) -> Feed:
    """A feed of change files, and one of deletion vectors."""
    return Feed(spark, queries, tmp_path_factory.mktemp("feed"), f"{request.param}, {CHECKPOINTS}")


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize("batch", range(5))
def test_a_restart_reads_nothing_that_streams_calls_unneeded(
    batch: int, is_finished: bool, feed: Feed, queries: Queries, tables: Path
) -> None:
    if batch not in feed.batches:
        batch = max(feed.batches)
    table = copy_table(feed.table, tables / "table")
    checkpoint = feed.state(batch, tables / "query", is_finished=is_finished)

    delete_unneeded_files(table, checkpoint)
    (source,) = streams(table, checkpoint)["query"]["sources"]
    outcome = queries.restart(table, checkpoint, readChangeFeed="true")

    with Comparison(f"feed/{'finished' if is_finished else 'in-flight'}-{batch}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, source["verdictOfFeed"] or source["verdict"])
        comparison.equal("rows", feed.rows_from(batch + is_finished), outcome.rows)
