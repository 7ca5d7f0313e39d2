"""Appending to a table through the data source: what the driver's process plans and commits, and what a task writes.

Both run in Python processes that Spark starts, without a session. The files of a task that is tried again have other
names, and only those of the attempt that Spark accepts are committed: what others leave, vacuum deletes.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from deltacli.changing.change import carry_out, plan_change
from deltacli.changing.new_files import NewFiles
from deltacli.core.errors import UsageError
from deltacli.core.typing import RecordBatch
from deltacli.engine.spark.worker import Job, context_of
from deltacli.operations.change.append import Append, AppendBasis, AppendPlan, Transaction, require_demands
from deltacli.spark.executor_rows import arrow_schema_of
from deltacli.spark.source_options import WriteOptions, write_options
from deltacli.spark.source_plans import open_source, searchable_faults
from deltacli.table.handle import TableHandle
from deltacli.work.rewrite.append import AppendedFile, AppendRows, AppendSpec
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow

_SPEC = "spec"


class _Plan(NamedTuple):
    """What all tasks of a write share, pickled in `job`, and what the commit needs. It can be pickled."""

    options: WriteOptions
    spec: AppendSpec
    job: bytes
    is_stream: bool
    basis: AppendBasis

    def open(self) -> TableHandle:
        """Return the table in the directory where it was planned. Raises Refused where another one is at its path."""
        return open_source(self.options, self.basis.place)


def plan_sink(
    options: Mapping[str, str], schema: Any, *, overwrites: bool, is_stream: bool
) -> bytes:  # Any: pyspark.sql.types.StructType
    """Return how rows with a schema are appended to the table of the options: a pickled plan. Nothing is written.

    Raises RuntimeError, whose text begins with the code of the error.
    """
    with searchable_faults(options.get("path")):
        if overwrites:
            raise UsageError(
                'format deltacli only appends: mode("append")',
                code="spark.append-only",
                hint='frame.write.format("delta").mode("overwrite") with the jar of delta-spark, or write_deltalake',
            )
        chosen = write_options(options, is_stream=is_stream)
        table = open_source(chosen)
        made = plan_change(Append(arrow_schema_of(schema)), table)
        if (refusal := made.objection()) is not None:
            raise refusal
        for caution in made.basis.cautions:
            warnings.warn(f"{table.name}: {caution}", stacklevel=2)
        location = made.basis.table.stores.location
        assert location is not None
        job = Job(write_rows, location, None, pickle.dumps({_SPEC: made.spec}, pickle.HIGHEST_PROTOCOL))
        plan = _Plan(chosen, made.spec, pickle.dumps(job), is_stream, AppendBasis.of(made.basis))
        return pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)


def write_rows(batches: Iterable[pyarrow.RecordBatch], context: TaskContext) -> Sequence[AppendedFile]:
    """Write the rows of a task, check them, and return their files. After an error none of these is left."""
    spec: AppendSpec = context.shared(_SPEC)
    rows = AppendRows(spec, context)
    zones = SessionZone(batches)
    files = rows.run(iter(zones))
    try:
        table = TableHandle(context.storage, open_other=context.stores.open_other, allowed=context.stores.allowed)
        require_demands(table, spec, files, zones.found)
    except BaseException:
        rows.undo()
        raise
    return files


class SessionZone:
    """Passes batches on. `found` is the time zone of the session, as their columns of timestamps have it; None without
    such a column, where no condition of the table depends on it.
    """

    def __init__(self, batches: Iterable[pyarrow.RecordBatch]) -> None:
        self._batches = batches
        self.found: str | None = None

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._batches:
            self.found = self.found or next(filter(None, map(_zone_of, batch.schema.types)), None)
            yield batch


def _zone_of(kind: Any) -> str | None:  # Any: a type of Arrow
    """Return the time zone of the first timestamps in a type."""
    zone = getattr(kind, "tz", None)
    nested = (kind.field(place).type for place in range(kind.num_fields))
    return str(zone) if zone else next(filter(None, map(_zone_of, nested)), None)


def write_partition(pickled: bytes, batches: Iterator[RecordBatch]) -> bytes:
    """Write the rows of a task, and return the files for the commit. Raises RuntimeError as `plan_sink` does."""
    plan: _Plan = pickle.loads(pickled)
    with searchable_faults(plan.options.path):
        job = pickle.loads(plan.job)
        return pickle.dumps(job.task(batches, context_of(job)), pickle.HIGHEST_PROTOCOL)


def commit_sink(pickled: bytes, messages: Sequence[bytes | None], batch: int | None = None) -> None:
    """Commit the files of all tasks as one version; `batch` is the number of a batch of a stream.

    Files of a transaction that is in the table already are deleted. Raises RuntimeError as `plan_sink` does; where it
    is not known whether the commit happened, the files stay.
    """
    plan: _Plan = pickle.loads(pickled)
    files = _files(messages)
    with searchable_faults(plan.options.path):
        table = plan.open()
        app_id = plan.options.app_id
        number = batch if plan.is_stream else plan.options.txn_version
        transaction = None if app_id is None or number is None else Transaction(app_id, number)
        if not files and transaction is None:
            return
        operation, parameters = _described(plan, batch)
        change = Append(None, files, operation, parameters, transaction, _metadata(plan.options))
        carry_out(change, table, plan=AppendPlan.sent(table, plan.basis, plan.spec))


def _described(plan: _Plan, batch: int | None) -> tuple[str, dict[str, object]]:
    if plan.is_stream:
        return "STREAMING UPDATE", {"outputMode": "Append", "queryId": plan.options.app_id, "epochId": str(batch)}
    partitions = [column.name for _, column in plan.spec.partitions]
    return "WRITE", {"mode": "Append", "partitionBy": partitions}


def _metadata(options: WriteOptions) -> Mapping[str, str]:
    return {} if options.user_metadata is None else {"userMetadata": options.user_metadata}


def abort_sink(pickled: bytes, messages: Sequence[bytes | None]) -> None:
    """Delete the files of a write of which a task failed. Those of lost tasks are found by vacuum.

    Spark also calls this after a commit that raised an error, with the messages of all tasks: then the files may be in
    the table, and stay.
    """
    if all(message is not None for message in messages):
        return
    plan: _Plan = pickle.loads(pickled)
    with searchable_faults(plan.options.path):
        NewFiles(plan.open()).delete(unquote(one.file.path) for one in _files(messages))


def _files(messages: Sequence[bytes | None]) -> list[AppendedFile]:
    return [file for message in messages if message is not None for file in pickle.loads(message)]
