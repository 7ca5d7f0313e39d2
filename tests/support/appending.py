"""Appending rows without Spark: what the tasks and the driver of a sink do, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from deltacli.changing.change import execute_change, plan_change
from deltacli.operations.change.append import Append, AppendBaseVersion, AppendPlan, Transaction, require_demands
from deltacli.spark.source_plans import SessionZone
from deltacli.table.handle import TableHandle
from deltacli.work.rewrite.appending import AppendedFile, AppendRows, AppendSpec
from deltacli.work.task import TaskContext


def append(table: TableHandle, *tasks: pa.Table, transaction: Transaction | None = None) -> int | None:
    """Append the rows of some tasks in one commit; return its version, None for a transaction that is there already."""
    plan = plan_change(Append(tasks[0].schema), table)
    if (refusal := plan.build_refusal()) is not None:
        raise refusal
    files = [file for rows in tasks for file in written(table, plan.spec, rows.to_batches(max_chunksize=97))]
    return committed(plan, files, transaction)


def committed(plan: AppendPlan, files: Sequence[AppendedFile], transaction: Transaction | None = None) -> int | None:
    """Commit the files of tasks, as the driver does in a process of its own."""
    table = plan.base_version.table
    sent = AppendPlan.sent(table, AppendBaseVersion.of(plan.base_version), plan.spec)
    change = Append(files=files, parameters={"mode": "Append"}, transaction=transaction)
    return execute_change(change, table, plan=sent).committed_version


def written(table: TableHandle, spec: AppendSpec, rows: Iterable[pa.RecordBatch]) -> Sequence[AppendedFile]:
    """Write the files of one task."""
    task = AppendRows(spec, TaskContext(table.stores))
    batches = SessionZone(rows)
    files = task.run(iter(batches))
    require_demands(table, spec, files, batches.found)
    return files
