"""One job: a table of pieces in, a table of results out. Classic and Connect sessions take the same calls.

What Spark moves are serialized batches of Arrow with the number of their group, so that no value passes through a type
of Spark, and equal values are those that are equal in one process. An error of a reading is moved to where it is told.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any

import pyarrow as pa

from deltacli.core.errors import ClusterFailed, DeltacliError, use_hint_syntax
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import ArrowSchema, ArrowTable, RecordBatch, SparkFrame
from deltacli.core.units import plural
from deltacli.engine.base import never
from deltacli.engine.spark.cluster import Cluster, TaskWatch
from deltacli.engine.spark.worker import BEAT, DONE, FAULT, Job, Row, context_of, pickled_fault
from deltacli.storage.location import StoreLocation
from deltacli.storage.secrets import mask_secrets
from deltacli.work.task import TaskContext

TASKS_PER_SLOT = 3
"""More than one, so that a slow executor leaves tasks to the others."""
_SHORT_SECONDS = 1.0
"""Seconds of work per slot up to which a second task costs more than it can save: starting one takes 0.1 to 0.4 s."""


def group(weights: Sequence[int], slots: int, *, unit_seconds: float | None = None) -> list[int]:
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


def local_frame(session: Any, columns: Mapping[str, tuple[Any, Any]]) -> Any:  # Any: of PySpark
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


def spread_frame(session: Any, parts: Sequence[int], **columns: tuple[Any, str]) -> Any:
    """Return a frame of columns whose rows are in the task that `parts` gives for each, from 0."""
    frame = local_frame(session, {"part": (pa.array(parts, pa.int64()), "bigint"), **columns})
    return frame.repartitionByRange(max(parts) + 1, "part")


# -- one job -----------------------------------------------------------------------------------------------------------

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
    is_cancelled: Callable[[], bool] = never,
    progress: Progress = SILENT,
) -> list[Row]:
    """Return the rows of pickled pieces by number. Raises JobFailedError, CancelledError and ClusterFailed."""
    parts = group(weights, slots, unit_seconds=getattr(job.task, "unit_seconds", None))
    tasks = max(parts) + 1
    with progress.step("on the cluster", unit="tasks", total=tasks) as step:
        watch = None if progress is SILENT else TaskWatch(tasks, step.advance)
        action = _action(cluster, pickle.dumps(job), pieces, parts)
        answers = cluster.run(action, is_cancelled, watch, _description(job, len(pieces)))
    columns = (answers.column(name).to_pylist() for name in ("number", "status", "content"))
    rows = sorted((Row(*row) for row in zip(*columns, strict=True)), key=lambda row: row.number)
    if [row.number for row in rows] != list(range(len(pieces))):
        raise ClusterFailed(
            f"the cluster returned {len(rows)} results for {len(pieces)} pieces", hint="run the same command again"
        )
    return rows


def _description(job: Job, pieces: int) -> str:
    """Return what Spark's pages say about a job: the table, the task in words, and the number of its pieces."""
    name = getattr(job.task, "__name__", type(job.task).__name__).strip("_")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
    place = mask_secrets(job.location.uri) if isinstance(job.location, StoreLocation) else ""
    return f"deltacli {place}: {words}, {plural(pieces, 'piece')}"


def _action(cluster: Cluster, job: bytes, pieces: Sequence[bytes], parts: Sequence[int]) -> Callable[[], ArrowTable]:
    def act() -> ArrowTable:
        if sum(map(len, pieces)) <= _INLINE_BYTES:
            mapped = _with_the_function(cluster.session, job, pieces, parts)
        else:
            numbers = pa.array(range(len(pieces)), pa.int64())
            spread = spread_frame(
                cluster.session, parts, number=(numbers, "bigint"), piece=(pa.array(pieces, pa.binary()), "binary")
            )
            mapped = spread.mapInArrow(_task(job), RESULT)
        return mapped.where(f"status <> '{BEAT}'").toArrow()

    return act


def _with_the_function(session: Any, job: bytes, pieces: Sequence[bytes], parts: Sequence[int]) -> Any:  # Any: pyspark
    """Return the frame of results where every task gets all pieces with its function, and runs its own ones.

    Without a shuffle, and without the job that samples a table for it: half of the time of a short job.
    """
    tasks: list[list[tuple[int, bytes]]] = [[] for _ in range(max(parts) + 1)]
    for number, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        tasks[part].append((number, piece))
    run = _task(job)

    def choose(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            for part in batch.column("id").to_pylist():
                numbers, chosen = zip(*tasks[part], strict=True)
                columns = [pa.array(numbers, pa.int64()), pa.array(chosen, pa.binary())]
                yield from run(iter([pa.RecordBatch.from_arrays(columns, names=["number", "piece"])]))

    return session.range(0, len(tasks), 1, len(tasks)).mapInArrow(choose, RESULT)


def _task(job: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task. It is sent by value, so it also runs where deltacli is missing."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:  # Any: as above
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


# -- rows brought together by groups -----------------------------------------------------------------------------------

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
            yield _row(DONE, pickle.dumps(self.merge(sides), pickle.HIGHEST_PROTOCOL))
        except DeltacliError as fault:
            yield from self.refuse(fault)

    def refuse(self, fault: DeltacliError) -> Iterator[RecordBatch]:
        """Yield an error as a row."""
        yield _row(FAULT, pickled_fault(fault))


def _row(status: str, content: bytes) -> RecordBatch:
    columns = [pa.array([status], pa.string()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["status", "content"])


def merge_tasks(groups: int) -> int:
    """Return the number of Spark tasks that merge so many groups."""
    return min(groups, _MOST_TASKS)


def regrouped(
    session: Any, slots: int, jobs: Sequence[tuple[Job, Sequence[Any]]], groups: int, finish: Any, schema: Any
) -> SparkFrame:  # Any: of PySpark; `finish` has the methods of `PickledResults`
    """Return the frame, of a schema of Spark, of what `finish` makes of each group of the pieces of some jobs."""
    pieces = [(side, piece) for side, (_, of_job) in enumerate(jobs) for piece in of_job]
    if not pieces:
        return session.createDataFrame([], schema)
    pickled = pa.array([pickle.dumps(one, pickle.HIGHEST_PROTOCOL) for one in pieces], pa.binary())
    spread = spread_frame(session, group([piece.weight for _, piece in pieces], slots), piece=(pickled, "binary"))
    kept = spread.mapInArrow(_reader(pickle.dumps([job for job, _ in jobs])), _KEPT)
    # All rows of a group are in one task, because Spark does not divide what is partitioned by a column, and in a row.
    gathered = kept.repartition(merge_tasks(groups), "group").sortWithinPartitions("group")
    return gathered.mapInArrow(_merger(pickle.dumps((finish, len(jobs)))), schema)


def _reader(jobs: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task that reads. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from kept_rows(jobs, batch.column("piece").to_pylist())

    return run


def _merger(finish: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task that merges. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from merged_rows(finish, batches)

    return run


def kept_rows(jobs: bytes, pieces: Sequence[bytes]) -> Iterator[RecordBatch]:
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
                    contexts[side] = context_of(described[side])
                for number, batch in described[side].task(piece, contexts[side]):
                    yield row(number, side, batch.serialize().to_pybytes())
        except DeltacliError as fault:
            yield row(0, _FAULT_SIDE, pickled_fault(fault))


def merged_rows(finish: bytes, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield what `finish` makes of the groups of a partition, whose rows are in their order."""
    described, sides = pickle.loads(finish)
    current: int | None = None
    held: list[list[RecordBatch]] = []
    for batch in batches:
        contents = batch.column("content")
        for place, (number, side) in enumerate(
            zip(batch.column("group").to_pylist(), batch.column("side").to_pylist(), strict=True)
        ):
            if side == _FAULT_SIDE:
                yield from described.refuse(pickle.loads(contents[place].as_py()))
                return
            if number != current:
                if current is not None:
                    yield from described.rows(held)
                current, held = number, [[] for _ in range(sides)]
            held[side].append(pa.ipc.read_record_batch(contents[place].as_buffer(), described.schema))
    if current is not None:
        yield from described.rows(held)
