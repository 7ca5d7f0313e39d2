"""Streaming queries of Spark that a test stops at a position, and what becomes of them when they start again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from tests.judges.figures import FIGURES
from tests.judges.spark import SparkJudge, error_condition

Row = tuple[Any, ...]  # Any: values of a row
Options = Mapping[str, str | int]

CHECKPOINT = "{checkpoint}"
"""Stands for the checkpoint directory in the value of an option."""

_FEED_TIME = "_commit_timestamp"
_IS_STOPPED_BY_CHANGES = ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE")


@dataclass(frozen=True)
class Run:
    """What a query did until it had delivered everything, or failed.

    Attributes:
        batches: The rows of each batch that reached the sink, by its number.
        error: The message of the error; '' if the query ended by itself.
    """

    batches: Mapping[int, list[Row]]
    error: str = ""

    @property
    def rows(self) -> list[Row]:
        """Return the rows of all batches, in an order of their own."""
        return sorted((row for rows in self.batches.values() for row in rows), key=repr)


@dataclass(frozen=True)
class Outcome:
    """What became of a query that was started again.

    Attributes:
        verdict: What `deltacli streams` should say: `ok` if it goes on, `at-risk` if it stops, but goes on at the next
            start or with an option, and `dead` if it fails at each start.
        rows: The rows that it delivered at its first start.
        error: The condition of the error of its first start; '' without one.
    """

    verdict: str
    rows: list[Row] = field(repr=False)
    error: str = ""


class Queries:
    """Runs queries in a Spark session. Their sink hands the rows of each batch to this process."""

    def __init__(self, spark: SparkJudge) -> None:
        self._spark = spark

    def run(
        self,
        tables: Path | Sequence[Path],
        checkpoint: Path,
        in_batch: Callable[[int], None] = lambda _: None,
        /,
        **options: str | int,
    ) -> Run:
        """Start a query and wait for its end.

        Args:
            tables: What it reads; of several tables the union.
            checkpoint: Its checkpoint directory. If it has one already, this is a restart.
            in_batch: Called within each batch, after its rows were read and before it is finished. What it raises
                ends the query there.
            options: Options of each source, such as maxFilesPerTrigger=1.
        """
        if (checkpoint / "offsets").is_dir():
            FIGURES["restarts"] += 1
        batches: dict[int, list[Row]] = {}

        def deliver(frame: Any, number: int) -> None:  # Any: a DataFrame
            batches[number] = sorted((tuple(row) for row in frame.drop(_FEED_TIME).collect()), key=repr)
            in_batch(number)

        sources = [tables] if isinstance(tables, Path) else tables
        try:
            frames = [self._read(source, checkpoint, options) for source in sources]
            writer = reduce(lambda left, right: left.union(right), frames).writeStream.foreachBatch(deliver)
            query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001  (whatever ends a query is the answer)
            return Run(batches, str(error) or repr(error))
        return Run(batches)

    def _read(self, table: Path, checkpoint: Path, options: Options) -> Any:  # Any: a DataFrame
        reader = self._spark.session.readStream.format("delta")
        for name, value in options.items():
            reader = reader.option(name, str(value).replace(CHECKPOINT, str(checkpoint)))
        return reader.load(str(table))

    def restart(self, tables: Path | Sequence[Path], checkpoint: Path, **options: str | int) -> Outcome:
        """Start a query again, as often as it takes to know whether it goes on.

        A query that fails is started a second time: after a change of the schema that it can follow, it fails once.
        A query that fails because rows of its table were changed is started with the option that passes over them.
        """
        first = self.run(tables, checkpoint, **options)
        if not first.error:
            return Outcome("ok", first.rows)
        condition = condition_of(first.error)
        second = self.run(tables, checkpoint, **options)
        if not second.error:
            return Outcome("at-risk", first.rows, condition)
        if any(name in second.error for name in _IS_STOPPED_BY_CHANGES):
            third = self.run(tables, checkpoint, **options, skipChangeCommits="true")
            if not third.error:
                return Outcome("at-risk", first.rows, condition)
        return Outcome("dead", first.rows, condition)


def condition_of(message: str) -> str:
    """Return what kind of error ended a query: that of its source, which Spark puts behind its own."""
    behind = message.partition("terminated with exception: ")[2] or message
    return error_condition(Exception(behind))


def copy_checkpoint(source: Path, target: Path) -> Path:
    """Copy a checkpoint directory, as it would be if Spark had been killed at this moment, and return the copy."""
    shutil.copytree(source, target)
    return target


def remove_batch_file(checkpoint: Path, path: str) -> None:
    """Delete a file of a batch, such as "commits/3", together with its checksum, without which Spark goes on."""
    place = checkpoint / path
    place.unlink()
    place.with_name(f".{place.name}.crc").unlink(missing_ok=True)


def rows_after(everything: Sequence[Row], delivered: Sequence[Row]) -> list[Row]:
    """Return the rows that are left to deliver, in an order of their own."""
    left = Counter(everything)
    left.subtract(delivered)
    return sorted(left.elements(), key=repr)
