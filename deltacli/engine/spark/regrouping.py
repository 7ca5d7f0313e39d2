"""Read rows on executors, and bring those of one group together on one of them.

What Spark moves are serialized batches of Arrow with the number of their group, so that no value passes through a type
of Spark, and equal values are those that are equal in one process. An error of a reading is moved like a row, and
raised where the groups are merged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltacli.core.errors import DeltacliError, use_hint_syntax
from deltacli.core.typing import ArrowSchema, RecordBatch, SparkFrame
from deltacli.engine.spark.jobs import assign_tasks, make_partitioned_frame
from deltacli.engine.spark.worker import DONE, FAULT, Job, open_context, pickle_error
from deltacli.work.task import TaskContext

_KEPT = "group long, side int, content binary"
RESULTS = "status string, content binary"
_FAULT_SIDE = -1
_MOST_TASKS = 4_096
"""Spark tasks that merge groups; each merges one group after the other."""

Merge = Callable[[Sequence[Sequence[RecordBatch]]], Any]


@dataclass(frozen=True)
class PickledResults:
    """Merges groups to rows of `RESULTS`: the pickled result of each, or an error."""

    merge: Merge
    schema: ArrowSchema
    """That of the batches."""

    def rows(self, sides: Sequence[Sequence[RecordBatch]]) -> Iterator[RecordBatch]:
        """Yield the result of a group."""
        try:
            yield _make_row(DONE, pickle.dumps(self.merge(sides), pickle.HIGHEST_PROTOCOL))
        except DeltacliError as fault:
            yield from self.refuse(fault)

    def refuse(self, fault: DeltacliError) -> Iterator[RecordBatch]:
        """Yield an error as a row."""
        yield _make_row(FAULT, pickle_error(fault))


def _make_row(status: str, content: bytes) -> RecordBatch:
    columns = [pa.array([status], pa.string()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["status", "content"])


def count_merge_tasks(groups: int) -> int:
    """Return the number of Spark tasks that merge so many groups."""
    return min(groups, _MOST_TASKS)


def make_grouped_frame(
    session: Any, slots: int, jobs: Sequence[tuple[Job, Sequence[Any]]], groups: int, finish: Any, schema: Any
) -> SparkFrame:  # Any: of PySpark; `finish` has the methods of `PickledResults`
    """Return the frame, of a schema of Spark, of what `finish` makes of each group of the pieces of some jobs."""
    pieces = [(side, piece) for side, (_, of_job) in enumerate(jobs) for piece in of_job]
    if not pieces:
        return session.createDataFrame([], schema)
    pickled = pa.array([pickle.dumps(piece, pickle.HIGHEST_PROTOCOL) for piece in pieces], pa.binary())
    spread = make_partitioned_frame(
        session, assign_tasks([piece.weight for _, piece in pieces], slots), piece=(pickled, "binary")
    )
    distributed = spread.mapInArrow(_make_reader(pickle.dumps([job for job, _ in jobs])), _KEPT)
    # All rows of a group are in one task, because Spark does not divide what is partitioned by a column, and in a row.
    gathered = distributed.repartition(count_merge_tasks(groups), "group").sortWithinPartitions("group")
    return gathered.mapInArrow(_make_merger(pickle.dumps((finish, len(jobs)))), schema)


def _make_reader(jobs: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task that reads. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from read_grouped_batches(jobs, batch.column("piece").to_pylist())

    return run


def _make_merger(finish: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task that merges. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from merge_grouped_batches(finish, batches)

    return run


def read_grouped_batches(jobs: bytes, pieces: Sequence[bytes]) -> Iterator[RecordBatch]:
    """Yield what pieces keep, as rows of `_KEPT`; after an error, that."""

    def row(number: int, side: int, content: Any) -> RecordBatch:
        columns = [pa.array([number], pa.int64()), pa.array([side], pa.int32()), pa.array([content], pa.binary())]
        return pa.RecordBatch.from_arrays(columns, names=["group", "side", "content"])

    described: list[Job] = pickle.loads(jobs)
    with use_hint_syntax(described[0].spelling):
        try:
            contexts: dict[int, TaskContext] = {}
            for side, piece in map(pickle.loads, pieces):
                if side not in contexts:
                    contexts[side] = open_context(described[side])
                for number, batch in described[side].task(piece, contexts[side]):
                    yield row(number, side, batch.serialize().to_pybytes())
        except DeltacliError as fault:
            yield row(0, _FAULT_SIDE, pickle_error(fault))


def merge_grouped_batches(finish: bytes, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield what `finish` makes of the groups of a partition, whose rows are in their order."""
    described, sides = pickle.loads(finish)
    current: int | None = None
    held: list[list[RecordBatch]] = []
    for batch in batches:
        contents = batch.column("content")
        for position, (number, side) in enumerate(
            zip(batch.column("group").to_pylist(), batch.column("side").to_pylist(), strict=True)
        ):
            if side == _FAULT_SIDE:
                yield from described.refuse(pickle.loads(contents[position].as_py()))
                return
            if number != current:
                if current is not None:
                    yield from described.rows(held)
                current = number
                held = [[] for _ in range(sides)]
            held[side].append(pa.ipc.read_record_batch(contents[position].as_buffer(), described.schema))
    if current is not None:
        yield from described.rows(held)
