"""A table with a history, and a query whose checkpoint was copied at every position that it went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.judges.spark import SparkJudge, copy_table, name_of
from tests.judges.streams.queries import Queries, Row, Run, copy_checkpoint, remove_batch_file, rows_after

EVERY_SECOND_VERSION = "delta.checkpointInterval = 2"


@pytest.fixture(scope="session")
def queries(spark: SparkJudge) -> Queries:
    """Runs queries in the session of all judges."""
    return Queries(spark)


def append(spark: SparkJudge, table: Path, first: int, files: int, *, rows_per_file: int = 2) -> None:
    """Append a commit with so many files of rows that begin with a number."""
    frame = spark.session.range(first, first + files * rows_per_file, 1, files)
    frame.write.format("delta").mode("append").save(str(table))


@dataclass
class Walk:
    """A table, and the positions of a query that read it file by file.

    Attributes:
        table: The newest version of the table.
        states: The checkpoint directory of the query at each position, "in-flight-N" within batch N and "finished-N"
            after it. Copy one before a query uses it.
        everything: All rows of the table.
        batches: The rows that each batch delivered.
    """

    table: Path
    states: Path
    everything: list[Row]
    batches: dict[int, list[Row]]

    def state(self, name: str, target: Path) -> Path:
        """Return a copy of the checkpoint directory at a position."""
        return copy_checkpoint(self.states / name, target / name)

    def copy_table(self, target: Path) -> Path:
        """Return a copy of the table."""
        return copy_table(self.table, target / "table")

    def rows_after(self, name: str) -> list[Row]:
        """Return the rows that a query at a position has not delivered."""
        kind, _, number = name.rpartition("-")
        finished = int(number) - (kind == "in-flight")
        delivered = [row for batch, rows in self.batches.items() if batch <= finished for row in rows]
        return rows_after(self.everything, delivered)


SNAPSHOT_BATCHES = range(3)
"""Batches of one file each that deliver the first snapshot."""
COMMIT_BATCHES = range(3, 9)
"""Batches of one file each that deliver commits 2, 3 and 5."""
POSITIONS = [f"{kind}-{batch}" for batch in (*SNAPSHOT_BATCHES, *COMMIT_BATCHES) for kind in ("in-flight", "finished")]


@pytest.fixture(scope="session")
def walk(spark: SparkJudge, queries: Queries, tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """A table of versions 0 to 7, with checkpoints of 2, 4 and 6.

    1 adds three files, the first snapshot. 2 and 3 add two each, 4 compacts them, 5 adds two, 6 one, 7 compacts them.
    """
    place = tmp_path_factory.mktemp("walk")
    table, checkpoint, states = place / "table", place / "checkpoint", place / "states"
    states.mkdir()
    batches: dict[int, list[Row]] = {}

    def copy_state(number: int) -> None:
        copy_checkpoint(checkpoint, states / f"in-flight-{number}")
        if number and not (states / f"finished-{number - 1}").exists():
            before = copy_checkpoint(checkpoint, states / f"finished-{number - 1}")
            remove_batch_file(before, f"offsets/{number}")

    def read_on() -> None:
        run: Run = queries.run(table, checkpoint, copy_state, maxFilesPerTrigger=1)
        assert not run.error
        batches.update(run.batches)
        copy_checkpoint(checkpoint, states / f"finished-{max(batches)}")

    spark.create(table, "id BIGINT", properties=EVERY_SECOND_VERSION)
    append(spark, table, 0, 3)
    read_on()
    append(spark, table, 100, 2)
    append(spark, table, 200, 2)
    read_on()
    spark.run(table, "OPTIMIZE {table}")
    append(spark, table, 300, 2)
    read_on()
    append(spark, table, 400, 1)
    spark.run(table, "OPTIMIZE {table}")

    everything = spark.rows(table)
    assert sorted(path.name for path in states.iterdir()) == sorted(POSITIONS)
    assert spark.sql(f"DESCRIBE HISTORY {name_of(table)}")[0]["version"] == 7
    return Walk(table, states, everything, batches)


def rows_of(numbers: Sequence[int]) -> list[Row]:
    """Return rows of one number each."""
    return [(number,) for number in numbers]
