"""Read rows on executors, group them, and merge each group on one executor.

`diff` uses this to compare two tables. It has one reading per table, which are called the sides of the comparison:

1. Read: each task reads some pieces of one side, and divides their rows by the hash of the key, the group.
2. Shuffle: Spark moves all batches of a group, from both sides, to the same task.
3. Merge: that task compares the rows of the group.

The batches are moved as bytes in the format of Arrow IPC. So Spark never converts a value to a type of its own, and two
values are equal if they are equal in Arrow. If a piece cannot be read, its error is moved like a batch, and reported
where the groups are merged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from deltacli.core.errors import DeltacliError, use_hint_syntax
from deltacli.core.typing import ArrowSchema, RecordBatch, SparkFrame, SparkSession
from deltacli.engine.spark.jobs import assign_tasks, make_partitioned_frame
from deltacli.engine.spark.worker import DONE, FAULT, Job, open_context, pickle_error
from deltacli.work.task import TaskContext

RESULT_SCHEMA = "status string, content binary"
"""The schema of the frame of `PickledResults`, as Spark parses it: a status of `worker.py`, and a pickled value."""

_GROUPED_BATCH_SCHEMA = "group long, side int, content binary"
"""The schema of the frame that Spark shuffles. A row is one batch: its group, its side, and the batch as Arrow IPC."""

_ERROR_SIDE = -1
"""The value of `side` in a row that contains a pickled error instead of a batch."""

_MAX_MERGE_TASKS = 4_096

BatchesBySide = Sequence[Sequence[RecordBatch]]
"""The batches of one group: one sequence per side."""


class GroupMerger(Protocol):
    """Merges groups. It is pickled and sent to executors.

    Attributes:
        schema: The schema of the batches of a group.
    """

    @property
    def schema(self) -> ArrowSchema: ...

    def merge_group(self, batches_by_side: BatchesBySide) -> Iterator[RecordBatch]:
        """Yield the rows of the resulting frame for one group."""

    def report_error(self, error: DeltacliError) -> Iterator[RecordBatch]:
        """Report the error of a piece that could not be read: yield it as a row, or raise it."""


@dataclass(frozen=True)
class PickledResults:
    """A `GroupMerger` that yields one row of `RESULT_SCHEMA` per group: the pickled result or error.

    Attributes:
        merge: Returns the result of a group. Errors of deltacli that it raises are pickled.
        schema: The schema of the batches of a group.
    """

    merge: Callable[[BatchesBySide], Any]  # Any: the result is of any type that can be pickled
    schema: ArrowSchema

    def merge_group(self, batches_by_side: BatchesBySide) -> Iterator[RecordBatch]:
        try:
            result = self.merge(batches_by_side)
        except DeltacliError as error:
            yield from self.report_error(error)
        else:
            yield _make_result_row(DONE, pickle.dumps(result, pickle.HIGHEST_PROTOCOL))

    def report_error(self, error: DeltacliError) -> Iterator[RecordBatch]:
        yield _make_result_row(FAULT, pickle_error(error))


def _make_result_row(status: str, content: bytes) -> RecordBatch:
    columns = [pa.array([status], pa.string()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["status", "content"])


def count_merge_tasks(group_count: int) -> int:
    """Return the number of Spark tasks that merge the groups. A task may merge several groups, one after the other."""
    return min(group_count, _MAX_MERGE_TASKS)


def make_grouped_frame(
    session: SparkSession,
    slots: int,
    jobs: Sequence[tuple[Job, Sequence[Any]]],
    group_count: int,
    merger: GroupMerger,
    schema: Any,
) -> SparkFrame:
    """Return a frame with the merged groups. Nothing is read before an action of the frame runs.

    Args:
        session: The session of the frame.
        slots: The number of tasks that the cluster runs at the same time.
        jobs: One job per side, with its pieces. The task of a job yields pairs of a group number and a batch.
        group_count: The number of groups.
        merger: Merges the batches of each group.
        schema: The schema of the frame, as a type or a text of PySpark.
    """
    numbered_pieces = [(side, piece) for side, (_, pieces) in enumerate(jobs) for piece in pieces]
    if not numbered_pieces:
        return session.createDataFrame([], schema)

    # Read.
    weights = [piece.weight for _, piece in numbered_pieces]
    pickled_pieces = [pickle.dumps(numbered, pickle.HIGHEST_PROTOCOL) for numbered in numbered_pieces]
    piece_frame = make_partitioned_frame(
        session, assign_tasks(weights, slots), piece=(pa.array(pickled_pieces, pa.binary()), "binary")
    )
    read_pieces = _make_read_function(pickle.dumps([job for job, _ in jobs]))
    batch_frame = piece_frame.mapInArrow(read_pieces, _GROUPED_BATCH_SCHEMA)

    # Shuffle. Spark puts all rows with the same group into one partition. Within it, sorting makes them adjacent.
    shuffled_frame = batch_frame.repartition(count_merge_tasks(group_count), "group").sortWithinPartitions("group")

    # Merge.
    merge_groups = _make_merge_function(pickle.dumps((merger, len(jobs))))
    return shuffled_frame.mapInArrow(merge_groups, schema)


def _make_read_function(pickled_jobs: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task that reads pieces. PySpark pickles it by value."""

    def read_pieces(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            yield from read_grouped_batches(pickled_jobs, batch.column("piece").to_pylist())

    return read_pieces


def _make_merge_function(pickled_merger: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task that merges groups. PySpark pickles it by value."""

    def merge_groups(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        yield from merge_grouped_batches(pickled_merger, batches)

    return merge_groups


def read_grouped_batches(pickled_jobs: bytes, pickled_pieces: Sequence[bytes]) -> Iterator[RecordBatch]:
    """Read pieces on an executor, and yield one row of `_GROUPED_BATCH_SCHEMA` per batch.

    After an error, the rest is not read, and the last row contains the pickled error.

    Args:
        pickled_jobs: The list of the jobs, one per side.
        pickled_pieces: Pairs of the number of a side and a piece of its job.
    """
    jobs: list[Job] = pickle.loads(pickled_jobs)
    contexts: dict[int, TaskContext] = {}
    with use_hint_syntax(jobs[0].spelling):
        try:
            for side, piece in map(pickle.loads, pickled_pieces):
                if side not in contexts:
                    contexts[side] = open_context(jobs[side])
                for group, batch in jobs[side].task(piece, contexts[side]):
                    yield _make_grouped_row(group, side, batch.serialize().to_pybytes())
        except DeltacliError as error:
            yield _make_grouped_row(0, _ERROR_SIDE, pickle_error(error))


def _make_grouped_row(group: int, side: int, content: bytes) -> RecordBatch:
    columns = [pa.array([group], pa.int64()), pa.array([side], pa.int32()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["group", "side", "content"])


def merge_grouped_batches(pickled_merger: bytes, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Merge the groups of one partition on an executor, and yield the rows of the resulting frame.

    Args:
        pickled_merger: A pair of a `GroupMerger` and the number of sides.
        batches: Rows of `_GROUPED_BATCH_SCHEMA`, sorted by group.
    """
    merger, side_count = pickle.loads(pickled_merger)
    current_group: int | None = None
    batches_by_side: list[list[RecordBatch]] = []
    for batch in batches:
        groups = batch.column("group").to_pylist()
        sides = batch.column("side").to_pylist()
        contents = batch.column("content")
        for group, side, content in zip(groups, sides, contents, strict=True):
            if side == _ERROR_SIDE:
                yield from merger.report_error(pickle.loads(content.as_py()))
                return

            # The rows are sorted, so a new number means that the previous group is complete.
            if group != current_group:
                if current_group is not None:
                    yield from merger.merge_group(batches_by_side)
                current_group = group
                batches_by_side = [[] for _ in range(side_count)]
            batches_by_side[side].append(pa.ipc.read_record_batch(content.as_buffer(), merger.schema))

    if current_group is not None:
        yield from merger.merge_group(batches_by_side)
