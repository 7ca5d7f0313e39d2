"""Run a task for many pieces as one Spark job.

The pieces and the results are frames with one row each:

    number  piece            ->     number  status   content
         0  (pickled)                    0  done     (pickled result)
         1  (pickled)                    1  fault    (pickled error)

`assign_tasks` divides the pieces among the tasks of the job. Only calls that classic and Spark Connect sessions have in
common are used.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Any

import pyarrow as pa

from deltacli.core.errors import ClusterFailed
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import ArrowTable, RecordBatch, SparkFrame, SparkSession
from deltacli.core.units import plural
from deltacli.engine.base import is_never_cancelled
from deltacli.engine.spark.cluster import Cluster
from deltacli.engine.spark.task_progress import TaskWatch
from deltacli.engine.spark.worker import BEAT, Job, Row
from deltacli.storage.location import StoreLocation
from deltacli.storage.secrets import mask_secrets

RESULT_SCHEMA = "number long, status string, content binary"
"""The schema of the results, as Spark parses it."""

PROBLEM = "problem"
"""The status of a piece that an executor cannot run, because a module is missing there. The content names it."""

TASKS_PER_SLOT = 3
"""The maximum number of tasks per slot. With several tasks, fast executors take over tasks from slow ones."""

_SHORT_WORK_SECONDS = 1.0
"""If each slot has less work, it gets one task. Starting a second task takes 0.1 to 0.4 seconds, more than it saves."""

_MAX_INLINE_BYTES = 256 << 10
"""Up to this total size, each task receives all pieces together with its function."""


def assign_tasks(weights: Sequence[int], slots: int, *, unit_seconds: float | None = None) -> list[int]:
    """Divide pieces among tasks, so that the tasks take about the same time.

    The heaviest piece is assigned first, and each piece goes to the task with the lowest load so far:

        assign_tasks([5, 1, 4, 2], slots=2, unit_seconds=0.1)  ->  [0, 0, 1, 1]

    Args:
        weights: The relative cost of each piece.
        slots: The number of tasks that the cluster runs at the same time.
        unit_seconds: The approximate time for a weight of 1; None if it is unknown.

    Returns:
        The number of the task of each piece, from 0. No task is empty.
    """
    slots = max(1, slots)
    is_short_work = unit_seconds is not None and sum(weights) * unit_seconds <= _SHORT_WORK_SECONDS * slots
    max_task_count = slots if is_short_work else slots * TASKS_PER_SLOT
    task_count = min(len(weights), max_task_count)

    loads = [(0, task) for task in range(task_count)]
    heapify(loads)
    task_by_piece = [0] * len(weights)
    pieces_by_weight = sorted(range(len(weights)), key=lambda piece: -weights[piece])
    for piece in pieces_by_weight:
        load, task = loads[0]
        task_by_piece[piece] = task
        heapreplace(loads, (load + max(1, weights[piece]), task))
    return task_by_piece


def make_local_frame(session: SparkSession, columns: Mapping[str, tuple[Any, Any]]) -> SparkFrame:
    """Return a frame of columns that are in the memory of the driver.

    The types have to be stated: without a schema, Spark converts timestamps without a time zone to the time zone of the
    session, in which some of them do not exist and others exist twice.

    Args:
        session: The session of the frame.
        columns: The Arrow array of each column, and its type: an object of PySpark, or one of the names `bigint`,
            `int`, `string` and `binary`.
    """
    from pyspark.sql import types

    types_by_name = {
        "bigint": types.LongType,
        "int": types.IntegerType,
        "string": types.StringType,
        "binary": types.BinaryType,
    }
    fields = []
    for name, (_, stated_type) in columns.items():
        spark_type = types_by_name[stated_type]() if isinstance(stated_type, str) else stated_type
        fields.append(types.StructField(name, spark_type, True))
    table = pa.table({name: array for name, (array, _) in columns.items()})
    return session.createDataFrame(table, types.StructType(fields))


def make_partitioned_frame(session: SparkSession, task_by_row: Sequence[int], **columns: tuple[Any, str]) -> SparkFrame:
    """Return a frame whose rows are divided among tasks, for example by `assign_tasks`.

    Args:
        session: The session of the frame.
        task_by_row: The number of the task of each row, from 0.
        columns: The columns, as for `make_local_frame`.
    """
    part_column = (pa.array(task_by_row, pa.int64()), "bigint")
    frame = make_local_frame(session, {"part": part_column, **columns})
    return frame.repartitionByRange(max(task_by_row) + 1, "part")


def run_job(
    cluster: Cluster,
    job: Job,
    pieces: Sequence[bytes],
    weights: Sequence[int],
    slots: int,
    is_cancelled: Callable[[], bool] = is_never_cancelled,
    progress: Progress = SILENT,
) -> list[Row]:
    """Run a job, and return the row of each piece, in the order of the pieces.

    Args:
        cluster: The session in which the job runs.
        job: The task, and what all pieces have in common.
        pieces: The pickled pieces.
        weights: The relative cost of each piece.
        slots: The number of tasks that the cluster runs at the same time.
        is_cancelled: Called repeatedly. When it returns True, the job is cancelled.
        progress: Receives the number of finished tasks.

    Raises:
        JobFailedError: If Spark fails. An error of a piece is not raised. It is the content of its row.
        CancelledError: If `is_cancelled` returns True.
        ClusterFailed: If Spark does not return exactly one result per piece.
    """
    task_by_piece = assign_tasks(weights, slots, unit_seconds=getattr(job.task, "unit_seconds", None))
    task_count = max(task_by_piece) + 1
    with progress.step("on the cluster", unit="tasks", total=task_count) as step:
        watch = None if progress is SILENT else TaskWatch(task_count, step.advance)
        action = _make_action(cluster, pickle.dumps(job), pieces, task_by_piece)
        results = cluster.run(action, is_cancelled, watch, _describe_job(job, len(pieces)))

    columns = [results.column(name).to_pylist() for name in ("number", "status", "content")]
    rows = sorted((Row(*values) for values in zip(*columns, strict=True)), key=lambda row: row.number)
    if [row.number for row in rows] != list(range(len(pieces))):
        raise ClusterFailed(
            f"the cluster returned {len(rows)} results for {len(pieces)} pieces", hint="run the same command again"
        )
    return rows


def _describe_job(job: Job, piece_count: int) -> str:
    """Return a description for the Spark UI: `deltacli s3://lake/t: rewrite files, 12 pieces`."""
    task_name = getattr(job.task, "__name__", type(job.task).__name__).strip("_")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", task_name).replace("_", " ").lower()
    table_uri = mask_secrets(job.location.uri) if isinstance(job.location, StoreLocation) else ""
    return f"deltacli {table_uri}: {words}, {plural(piece_count, 'piece')}"


def _make_action(
    cluster: Cluster, pickled_job: bytes, pieces: Sequence[bytes], task_by_piece: Sequence[int]
) -> Callable[[], ArrowTable]:
    """Return a function that runs the Spark job and returns its results."""

    def run_spark_job() -> ArrowTable:
        if sum(map(len, pieces)) <= _MAX_INLINE_BYTES:
            results = _map_inline_pieces(cluster.session, pickled_job, pieces, task_by_piece)
        else:
            number_column = (pa.array(range(len(pieces)), pa.int64()), "bigint")
            piece_column = (pa.array(pieces, pa.binary()), "binary")
            piece_frame = make_partitioned_frame(
                cluster.session, task_by_piece, number=number_column, piece=piece_column
            )
            results = piece_frame.mapInArrow(_make_task_function(pickled_job), RESULT_SCHEMA)
        # A worker sends beats while a piece takes long (`worker_lifetime.py`). They are no results.
        return results.where(f"status <> '{BEAT}'").toArrow()

    return run_spark_job


def _map_inline_pieces(
    session: SparkSession, pickled_job: bytes, pieces: Sequence[bytes], task_by_piece: Sequence[int]
) -> SparkFrame:
    """Return the frame of results of a job with few, small pieces.

    The pieces are part of the function that Spark sends to the tasks. So no shuffle is needed, which saves half of the
    time of a short job: before a shuffle by range, Spark runs another job that samples the rows.
    """
    pieces_by_task: list[list[tuple[int, bytes]]] = [[] for _ in range(max(task_by_piece) + 1)]
    for number, (task, piece) in enumerate(zip(task_by_piece, pieces, strict=True)):
        pieces_by_task[task].append((number, piece))
    run_pieces_of_batches = _make_task_function(pickled_job)

    def run_own_pieces(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            for task in batch.column("id").to_pylist():
                numbers, own_pieces = zip(*pieces_by_task[task], strict=True)
                columns = [pa.array(numbers, pa.int64()), pa.array(own_pieces, pa.binary())]
                yield from run_pieces_of_batches(iter([pa.RecordBatch.from_arrays(columns, names=["number", "piece"])]))

    # One row per task: its number, in the column `id`.
    task_count = len(pieces_by_task)
    task_frame = session.range(0, task_count, 1, task_count)
    return task_frame.mapInArrow(run_own_pieces, RESULT_SCHEMA)


def _make_task_function(pickled_job: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task, which runs the pieces of its rows.

    PySpark pickles the function by value, so it also runs on an executor without deltacli, and reports that. For this
    reason it refers to no function or constant of deltacli before the import inside it.
    """

    def run_pieces_of_batches(batches: Iterator[Any]) -> Iterator[Any]:  # Any: batches of Arrow
        def make_batch(rows: Sequence[tuple[int, str, bytes]]) -> Any:  # Any: a batch of Arrow
            numbers, statuses, contents = zip(*rows, strict=True)
            columns = [pa.array(numbers, pa.int64()), pa.array(statuses, pa.string()), pa.array(contents, pa.binary())]
            return pa.RecordBatch.from_arrays(columns, names=["number", "status", "content"])

        for batch in batches:
            pieces = list(zip(batch.column("number").to_pylist(), batch.column("piece").to_pylist(), strict=True))
            unanswered = {number for number, _ in pieces}
            try:
                from deltacli.engine.spark.worker import run_pieces

                for row in run_pieces(pickle.loads(pickled_job), pieces):
                    unanswered.discard(row.number)
                    yield make_batch([row])
            except ImportError as error:
                text = f"{error.name or ''}\n{error}".encode()
                yield make_batch([(number, "problem", text) for number in sorted(unanswered)])

    return run_pieces_of_batches
