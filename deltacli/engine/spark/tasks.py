"""Group pieces into the tasks of a job: a Python task costs some tenths of a second, so each gets several pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Any

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
    import pyarrow as pa
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
    import pyarrow as pa

    frame = local_frame(session, {"part": (pa.array(parts, pa.int64()), "bigint"), **columns})
    return frame.repartitionByRange(max(parts) + 1, "part")
