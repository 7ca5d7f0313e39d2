"""Run one job: a table of pieces in, a table of results out. Classic and Connect sessions take the same calls."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Any

import pyarrow as pa

from deltacli.core.errors import ClusterFailed
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import ArrowTable, RecordBatch
from deltacli.core.units import plural
from deltacli.engine.base import is_never_cancelled
from deltacli.engine.spark.cluster import Cluster
from deltacli.engine.spark.task_progress import TaskWatch
from deltacli.engine.spark.worker import BEAT, Job, Row
from deltacli.storage.location import StoreLocation
from deltacli.storage.secrets import mask_secrets

TASKS_PER_SLOT = 3
"""More than one, so that a slow executor leaves tasks to the others."""
_SHORT_SECONDS = 1.0
"""Seconds of work per slot up to which a second task costs more than it can save: starting one takes 0.1 to 0.4 s."""


def assign_tasks(weights: Sequence[int], slots: int, *, unit_seconds: float | None = None) -> list[int]:
    """Return the task of each piece, numbered from 0, so that the tasks are about equally heavy and none is empty.

    The heaviest pieces are placed first, each in the task that is lightest so far. Each of the `slots` gets
    `TASKS_PER_SLOT` tasks at most, or one where the work is short, since a unit of weight takes about `unit_seconds`.
    """
    slots = max(1, slots)
    is_short = unit_seconds is not None and sum(weights) * unit_seconds <= _SHORT_SECONDS * slots
    tasks = min(len(weights), slots if is_short else slots * TASKS_PER_SLOT)
    loads = [(0, task) for task in range(tasks)]
    heapify(loads)
    chosen = [0] * len(weights)
    for piece in sorted(range(len(weights)), key=lambda piece: -weights[piece]):
        load, task = loads[0]
        chosen[piece] = task
        heapreplace(loads, (load + max(1, weights[piece]), task))
    return chosen


def make_local_frame(session: Any, columns: Mapping[str, tuple[Any, Any]]) -> Any:  # Any: of PySpark
    """Return a frame of columns that the driver has: name -> (Arrow array, type of Spark or its name).

    Without a schema, Spark would take timestamps without a zone for times in the zone of the session, where some do
    not exist and some exist twice.
    """
    from pyspark.sql import types

    named = {"bigint": types.LongType, "int": types.IntegerType, "string": types.StringType, "binary": types.BinaryType}
    fields = [
        types.StructField(name, named[kind]() if isinstance(kind, str) else kind, True)
        for name, (_, kind) in columns.items()
    ]
    table = pa.table({name: array for name, (array, _) in columns.items()})
    return session.createDataFrame(table, types.StructType(fields))


def make_partitioned_frame(session: Any, parts: Sequence[int], **columns: tuple[Any, str]) -> Any:
    """Return a frame of columns whose rows are in the task that `parts` gives for each, from 0."""
    frame = make_local_frame(session, {"part": (pa.array(parts, pa.int64()), "bigint"), **columns})
    return frame.repartitionByRange(max(parts) + 1, "part")


RESULT = "number long, status string, content binary"
PROBLEM = "problem"
"""Status of a row that tells why an executor could not even begin."""
_INLINE_BYTES = 256 << 10
"""Bytes of pieces up to which every task gets all of them."""


def run_job(
    cluster: Cluster,
    job: Job,
    pieces: Sequence[bytes],
    weights: Sequence[int],
    slots: int,
    is_cancelled: Callable[[], bool] = is_never_cancelled,
    progress: Progress = SILENT,
) -> list[Row]:
    """Return the rows of pickled pieces by number. Raises JobFailedError, CancelledError and ClusterFailed."""
    parts = assign_tasks(weights, slots, unit_seconds=getattr(job.task, "unit_seconds", None))
    tasks = max(parts) + 1
    with progress.step("on the cluster", unit="tasks", total=tasks) as step:
        watch = None if progress is SILENT else TaskWatch(tasks, step.advance)
        action = _make_action(cluster, pickle.dumps(job), pieces, parts)
        answers = cluster.run(action, is_cancelled, watch, _describe_job(job, len(pieces)))
    columns = (answers.column(name).to_pylist() for name in ("number", "status", "content"))
    rows = sorted((Row(*row) for row in zip(*columns, strict=True)), key=lambda row: row.number)
    if [row.number for row in rows] != list(range(len(pieces))):
        raise ClusterFailed(
            f"the cluster returned {len(rows)} results for {len(pieces)} pieces", hint="run the same command again"
        )
    return rows


def _describe_job(job: Job, pieces: int) -> str:
    """Return what Spark's pages say about a job: the table, the task in words, and the number of its pieces."""
    name = getattr(job.task, "__name__", type(job.task).__name__).strip("_")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
    table_uri = mask_secrets(job.location.uri) if isinstance(job.location, StoreLocation) else ""
    return f"deltacli {table_uri}: {words}, {plural(pieces, 'piece')}"


def _make_action(
    cluster: Cluster, job: bytes, pieces: Sequence[bytes], parts: Sequence[int]
) -> Callable[[], ArrowTable]:
    """Return the action of Spark that runs the pieces. Small ones travel with the function, others by a shuffle."""

    def act() -> ArrowTable:
        if sum(map(len, pieces)) <= _INLINE_BYTES:
            mapped = _map_inlined_pieces(cluster.session, job, pieces, parts)
        else:
            numbers = pa.array(range(len(pieces)), pa.int64())
            spread = make_partitioned_frame(
                cluster.session, parts, number=(numbers, "bigint"), piece=(pa.array(pieces, pa.binary()), "binary")
            )
            mapped = spread.mapInArrow(_make_task_function(job), RESULT)
        return mapped.where(f"status <> '{BEAT}'").toArrow()

    return act


def _map_inlined_pieces(session: Any, job: bytes, pieces: Sequence[bytes], parts: Sequence[int]) -> Any:  # Any: pyspark
    """Return the frame of results where every task gets all pieces with its function, and runs its own ones.

    Without a shuffle, and without the job that samples a table for it: half of the time of a short job.
    """
    tasks: list[list[tuple[int, bytes]]] = [[] for _ in range(max(parts) + 1)]
    for number, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        tasks[part].append((number, piece))
    run = _make_task_function(job)

    def choose(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            for part in batch.column("id").to_pylist():
                numbers, chosen = zip(*tasks[part], strict=True)
                columns = [pa.array(numbers, pa.int64()), pa.array(chosen, pa.binary())]
                yield from run(iter([pa.RecordBatch.from_arrays(columns, names=["number", "piece"])]))

    return session.range(0, len(tasks), 1, len(tasks)).mapInArrow(choose, RESULT)


def _make_task_function(job: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task. It is sent by value, so it also runs where deltacli is missing."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:  # Any: as above
        """Run the pieces of the batches of one Spark task, and yield a batch for each result."""

        def answer(rows: Sequence[tuple[int, str, bytes]]) -> Any:  # Any: as above
            numbers, statuses, contents = zip(*rows, strict=True)
            columns = [pa.array(numbers, pa.int64()), pa.array(statuses, pa.string()), pa.array(contents, pa.binary())]
            return pa.RecordBatch.from_arrays(columns, names=["number", "status", "content"])

        for batch in batches:
            pieces = list(zip(batch.column("number").to_pylist(), batch.column("piece").to_pylist(), strict=True))
            left = {number for number, _ in pieces}
            try:
                from deltacli.engine.spark.worker import run_pieces

                for row in run_pieces(pickle.loads(job), pieces):
                    left.discard(row.number)
                    yield answer([row])
            except ImportError as missing:
                text = f"{missing.name or ''}\n{missing}".encode()
                yield answer([(number, "problem", text) for number in sorted(left)])

    return run
