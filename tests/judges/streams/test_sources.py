"""Queries with several sources, each of which stands at a position of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.spark import SparkJudge, copy_table
from tests.judges.streams.conftest import append
from tests.judges.streams.known import KNOWN
from tests.judges.streams.queries import Queries, Row, copy_checkpoint, remove_batch_file, rows_after
from tests.judges.streams.verdicts import delete_unneeded_files, streams


class TwoTables:
    """A query that reads the union of two tables file by file, and its checkpoint within and after each batch."""

    def __init__(self, spark: SparkJudge, queries: Queries, place: Path) -> None:
        self.left = spark.create(place / "left", "id BIGINT")
        self.right = spark.create(place / "right", "id BIGINT")
        self.states = place / "states"
        self.states.mkdir()
        append(spark, self.left, 0, 3)
        append(spark, self.right, 100, 1)

        def copy_state(number: int) -> None:
            copy_checkpoint(place / "checkpoint", self.states / f"in-flight-{number}")

        run = queries.run([self.left, self.right], place / "checkpoint", copy_state, maxFilesPerTrigger=1)
        assert not run.error
        self.batches = run.batches
        append(spark, self.right, 200, 2)
        for table in (self.left, self.right):
            spark.run(table, "OPTIMIZE {table}")
        self.everything: list[Row] = spark.rows(self.left) + spark.rows(self.right)

    def rows_from(self, batch: int) -> list[Row]:
        """Return the rows that a batch and all later ones deliver."""
        delivered = [row for number, rows in self.batches.items() if number < batch for row in rows]
        return rows_after(self.everything, delivered)


@pytest.fixture(scope="module")
def two_tables(spark: SparkJudge, queries: Queries, tmp_path_factory: pytest.TempPathFactory) -> TwoTables:
    """Two tables that were compacted after a query had read a part of them."""
    return TwoTables(spark, queries, tmp_path_factory.mktemp("two"))


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("is_finished", [False, True])
def test_files_of_both_tables_are_kept(
    batch: int, is_finished: bool, two_tables: TwoTables, queries: Queries, tables: Path
) -> None:
    both = [copy_table(two_tables.left, tables / "left"), copy_table(two_tables.right, tables / "right")]
    number = batch + is_finished
    if number in two_tables.batches:
        checkpoint = copy_checkpoint(two_tables.states / f"in-flight-{number}", tables / "query")
        if is_finished:
            remove_batch_file(checkpoint, f"offsets/{number}")
    else:
        checkpoint = copy_checkpoint(two_tables.states.parent / "checkpoint", tables / "query")

    query = streams(both[0], checkpoint, "--tables", both[1])["query"]
    for table in both:
        delete_unneeded_files(table, checkpoint)
    outcome = queries.restart(both, checkpoint)

    with Comparison(f"two tables/{'finished' if is_finished else 'in-flight'}-{batch}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, query["verdict"])
        comparison.equal("sources", 2, len(query["sources"]))
        comparison.equal("rows", two_tables.rows_from(number), outcome.rows)


def test_a_query_of_two_tables_is_asked_about_one(two_tables: TwoTables, queries: Queries, tables: Path) -> None:
    checkpoint = copy_checkpoint(two_tables.states / "in-flight-1", tables / "query")

    query = streams(two_tables.left, checkpoint)["query"]
    outcome = queries.restart([two_tables.left, two_tables.right], checkpoint)

    with Comparison("two tables/asked about one", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, query["verdict"])


def test_one_table_read_twice(spark: SparkJudge, queries: Queries, tables: Path) -> None:
    table, checkpoint = spark.create(tables / "table", "id BIGINT"), tables / "checkpoint"
    append(spark, table, 0, 2)

    def stop(number: int) -> None:
        if number == 1:
            raise RuntimeError("stopped")

    queries.run([table, table], checkpoint, stop, maxFilesPerTrigger=1)
    spark.run(table, "OPTIMIZE {table}")
    delete_unneeded_files(table, checkpoint)
    query = streams(table, checkpoint)["checkpoint"]
    outcome = queries.restart([table, table], checkpoint)

    with Comparison("one table twice", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, query["verdict"])
        comparison.equal("rows", 4, len(outcome.rows))


def test_a_query_with_one_source_less(spark: SparkJudge, two_tables: TwoTables, queries: Queries, tables: Path) -> None:
    """Spark refuses to start it: the checkpoint does not say which source is gone. Neither can `streams` see that."""
    checkpoint = copy_checkpoint(two_tables.states / "in-flight-1", tables / "query")
    path = checkpoint / "offsets" / "1"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))

    query = streams(two_tables.left, checkpoint, "--tables", two_tables.right)["query"]
    outcome = queries.restart([two_tables.left, two_tables.right], checkpoint)

    with Comparison("two tables/one source less", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, query["verdict"])
