"""Appending rows without Spark: what the tasks and the driver of a sink do, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from deltacli.changing.commit import Committed, NothingToDo
from deltacli.operations.change.append import AppendBasis, Transaction, commit_append, plan_append, require_demands
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.spark.sink import SessionZone
from deltacli.work.rewrite.append import AppendedFile, AppendRows, AppendSpec
from deltacli.work.task import TaskContext


def append(table: TableHandle, *tasks: pa.Table, transaction: Transaction | None = None) -> Committed | NothingToDo:
    """Append the rows of some tasks in one commit."""
    snapshot = read_snapshot(table)
    spec = plan_append(snapshot, tasks[0].schema)
    files = [file for rows in tasks for file in written(table, spec, rows.to_batches(max_chunksize=97))]
    return commit_append(
        *(table, spec, files),
        basis=AppendBasis.of(snapshot),
        parameters={"mode": "Append"},
        transaction=transaction,
        commit_metadata={},
    )


def written(table: TableHandle, spec: AppendSpec, rows: Iterable[pa.RecordBatch]) -> Sequence[AppendedFile]:
    """Write the files of one task."""
    task = AppendRows(spec, TaskContext(table.stores))
    batches = SessionZone(rows)
    files = task.run(iter(batches))
    require_demands(table, spec, files, batches.found)
    return files
