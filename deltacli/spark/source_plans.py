"""What the data source does on the driver: columns, offsets, and partitions, each some pieces of our own scan.

It runs in a Python process that Spark starts, without a session.

Both run in Python processes that Spark starts, without a session. The files of a task that is tried again have other
names, and only those of the attempt that Spark accepts are committed: what others leave, vacuum deletes.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from deltacli.changing.change import execute_change, plan_change
from deltacli.changing.new_files import NewFiles
from deltacli.core.errors import DeltacliError, Refused, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json, RecordBatch, SparkSchema
from deltacli.delta.log.segment import LogFile
from deltacli.delta.paths.spelling import decode
from deltacli.delta.schema.types import StructField
from deltacli.engine.spark.engine import require_sendable_location, require_sendable_table
from deltacli.engine.spark.worker import Job, SeenFile, open_context
from deltacli.operations.change.append import Append, AppendBaseVersion, AppendPlan, Transaction, require_demands
from deltacli.operations.read.changes import Changes
from deltacli.spark.executor_rows import SPEC, arrow_schema_of, read_piece, require_no_nested_variant, searchable
from deltacli.spark.parquet_schema import columns_for_spark, spark_schema
from deltacli.spark.source_options import (
    BatchOptions,
    StreamOptions,
    WriteOptions,
    batch_options,
    column_options,
    is_stream,
    stream_options,
    write_options,
)
from deltacli.spark.table_log import Limits, StreamOffset, TableLog, files_between, next_offset
from deltacli.storage.directory_identity import DirectoryIdentity
from deltacli.storage.location import StoreLocation
from deltacli.storage.secrets import mask_secrets, remember_secrets
from deltacli.table.api_errors import name_table
from deltacli.table.handle import TableHandle
from deltacli.table.scan_requests import ScanRequest
from deltacli.table.time_travel import find_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.outputs.row_outputs import plan_row_pieces
from deltacli.work.rewrite.appending import AppendedFile, AppendRows, AppendSpec
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.table_files import parse_allowed_prefixes
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow

# -- what the data source does on the driver ---------------------------------------------------------------------------

Result = TypeVar("Result")


@contextmanager
def searchable_faults(name: str | None = None) -> Iterator[None]:
    """Raise errors of deltacli as ones whose text begins with the code, and whose hint names the table."""
    try:
        yield
    except DeltacliError as fault:
        name_table(fault, None if name is None else mask_secrets(name))
        raise searchable(fault) from None


def source_schema(options: Mapping[str, str], spark: str) -> SparkSchema:
    """Return the columns of a source, whether it is read once or as a stream."""
    with searchable_faults(options.get("path")):
        if is_stream(options):
            chosen = stream_options(options, spark)
            return spark_schema(TableLog(open_source(chosen), chosen).columns, described=True)
        return spark_schema(_batch_plan(column_options(options)).columns, described=True)


def open_source(
    options: BatchOptions | StreamOptions | WriteOptions, place: DirectoryIdentity | None = None
) -> TableHandle:
    """Return a table, bound to the directory `place` where that is given. Raises UsageError (`cluster.secret`) for an
    option or a URI that may hold a secret, and Refused (`plan.other-place`).

    `deltacli.api` is not among the modules that reach the processes of Spark.
    """
    uri, given = options.path, dict(options.storage_options)
    remember_secrets(given)
    allowed = parse_allowed_prefixes(options.allow_external)
    location = require_sendable_location(StoreLocation.of(uri, given, allowed))._replace(directory_identity=place)
    storage = location.open()
    return TableHandle(
        storage,
        open_other=location.open_other,
        allowed=allowed,
        name=mask_secrets(uri),
        location=location._replace(uri=storage.uri),
    )


class BatchPlan:
    """A version of a table."""

    def __init__(self, options: BatchOptions) -> None:
        self.table = open_source(options)
        self.snapshot: Snapshot = find_snapshot(self.table, version=options.version, timestamp_ms=options.timestamp_ms)
        columns = columns_for_spark(self.snapshot.schema, options.columns)
        self.scan = self.snapshot.scan(columns=columns, where=options.where, row_ids=options.row_ids)

    @property
    def columns(self) -> tuple[StructField, ...]:
        return self.scan.columns

    def partitions(self, schema: SparkSchema) -> list[bytes]:
        require_schema(self.columns, schema)
        return partitions_of(self.table, self.scan.read_spec, self.scan.data_files(), newest_commit(self.snapshot))


class ChangesPlan:
    """The changes of a range of versions."""

    def __init__(self, options: BatchOptions) -> None:
        if options.starting_version is None:
            raise UsageError(
                "the option startingVersion is missing: the first version of the changes",
                code="usage.stream-option",
                hint='.option("startingVersion", …)',
            )
        self.table = open_source(options)
        changes = partial(Changes, self.table, from_version=options.starting_version, to_version=options.ending_version)
        self.changes = changes(ScanRequest(columns=options.columns, where=options.where, row_ids=options.row_ids))
        kept = columns_for_spark(self.changes.snapshot.schema, options.columns)
        if kept is not options.columns:
            self.changes = changes(ScanRequest(columns=kept, where=options.where, row_ids=options.row_ids))

    @property
    def columns(self) -> tuple[StructField, ...]:
        return self.changes.columns

    def partitions(self, schema: SparkSchema) -> list[bytes]:
        require_schema(self.columns, schema)
        newest = newest_commit(self.changes.snapshot)
        return partitions_of(self.table, self.changes.read_spec, self.changes.changed_files(), newest)


def newest_commit(snapshot: Snapshot) -> LogFile | None:
    """Return the newest commit of the log, which executors have to see."""
    commits = snapshot.listing.commits
    return commits[max(commits)] if commits else None


def _batch_plan(options: BatchOptions) -> BatchPlan | ChangesPlan:
    return ChangesPlan(options) if options.read_change_feed else BatchPlan(options)


def batch_partitions(options: Mapping[str, str], schema: SparkSchema) -> list[bytes]:
    with searchable_faults(options.get("path")):
        return _batch_plan(batch_options(options)).partitions(schema)


class StreamPlan:
    """A table that a query follows. The log is read at first use."""

    def __init__(self, options: Mapping[str, str], schema: SparkSchema, spark: str) -> None:
        with searchable_faults(options.get("path")):
            self._options = self._read_options(options, spark)
        self._schema = schema
        self._last: int | None = None
        """The last version that a query with the trigger `availableNow` delivers."""

    @cached_property
    def _table(self) -> TableHandle:
        return open_source(self._options)

    @cached_property
    def _log(self) -> TableLog:
        log = self._open_log()
        require_schema(log.columns, self._schema)
        return log

    # -- what differs between a table and a share ---------------------------------------------------------------------

    def _read_options(self, options: Mapping[str, str], spark: str) -> StreamOptions:
        return stream_options(options, spark)

    def _open_log(self) -> TableLog:
        return TableLog(self._table, self._options)

    def _partitions_of(self, files: Iterable[DataFile]) -> list[bytes]:
        return partitions_of(self._table, self._log.wanted, files, self._log.newest_commit)

    @property
    def most_files(self) -> int | None:
        return self._options.most_files

    def initial_offset(self) -> dict[str, Any]:
        """Return the beginning: which version that is, the first batch decides and records."""
        return self._named(lambda: StreamOffset(self._log.table, self._log.schema).as_json())

    def stop_at_newest(self) -> None:
        """Deliver no version that is committed from now on."""
        with searchable_faults(self._options.path):
            self._last = self._log.newest()

    def latest_offset(self, start: Mapping[str, Any], *, unlimited: bool) -> dict[str, Any]:
        """Return the end of the batch that starts at an offset."""
        return self._named(lambda: self._latest(StreamOffset.of_json(start), unlimited=unlimited).as_json())

    def _latest(self, start: StreamOffset, *, unlimited: bool) -> StreamOffset:
        newest = self._log.newest() if self._last is None else self._last
        limits = Limits() if unlimited else Limits(self._options.most_files, self._options.most_bytes)
        begin = self._log.first_offset(newest) if start.is_beginning else start
        return next_offset(self._log, begin, newest, limits)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[bytes]:
        """Return the partitions of a batch, pickled: always the same ones for two offsets."""

        def plan() -> list[bytes]:
            files = files_between(self._log, StreamOffset.of_json(start), StreamOffset.of_json(end))
            return self._partitions_of(files)

        return self._named(plan)

    def _named(self, action: Callable[[], Result]) -> Result:
        with searchable_faults(self._options.path):
            return action()


def require_schema(columns: Sequence[Any], schema: Any) -> None:  # Any: StructField, StructType
    """Raise Refused where a frame was made with other columns than the table has now."""
    require_no_nested_variant(columns)
    found = spark_schema(columns)
    if found.jsonValue() != _undescribed(schema.jsonValue()):
        raise Refused(
            "the frame has other columns than the table: its schema has changed since, or a schema was given",
            code="stream.schema-changed",
            facts={"frame": schema.simpleString()[:400], "table": found.simpleString()[:400]},
            hint="create the frame again, without .schema(…)",
        )


def _undescribed(value: Json) -> Json:
    """Return a schema without the metadata of its fields: rows do not depend on it."""
    if isinstance(value, list):
        return [_undescribed(each) for each in value]
    if isinstance(value, dict):
        return {name: {} if name == "metadata" else _undescribed(each) for name, each in value.items()}
    return value


def partitions_of(table: TableHandle, spec: ReadSpec, files: Iterable[DataFile], newest: LogFile | None) -> list[bytes]:
    """Return pickled partitions for tasks of Spark; `newest` is a commit that executors have to see."""
    pieces = list(plan_row_pieces(files))
    if not pieces:
        return []
    location = require_sendable_table(table.stores)
    seen_file = None if newest is None else SeenFile(newest.name, newest.size_bytes)
    job = pickle.dumps(Job(read_piece, location, seen_file, pickle.dumps({SPEC: spec}, pickle.HIGHEST_PROTOCOL)))
    return [
        pickle.dumps((job, [pickle.dumps(piece, pickle.HIGHEST_PROTOCOL)]), pickle.HIGHEST_PROTOCOL) for piece in pieces
    ]


# -- appending to a table through the data source ----------------------------------------------------------------------

_SPEC = "spec"


class _Plan(NamedTuple):
    """What all tasks of a write share, pickled in `job`, and what the commit needs. It can be pickled."""

    options: WriteOptions
    spec: AppendSpec
    job: bytes
    is_stream: bool
    base_version: AppendBaseVersion

    def open(self) -> TableHandle:
        """Return the table in the directory where it was planned. Raises Refused where another one is at its path."""
        return open_source(self.options, self.base_version.place)


def plan_sink(
    options: Mapping[str, str], schema: Any, *, overwrites: bool, is_stream: bool
) -> bytes:  # Any: pyspark.sql.types.StructType
    """Return a pickled plan of appending rows; nothing is written. Raises RuntimeError beginning with the code."""
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
        if (refusal := made.build_refusal()) is not None:
            raise refusal
        for caution in made.base_version.warnings:
            warnings.warn(f"{table.name}: {caution}", stacklevel=2)
        location = made.base_version.table.stores.location
        assert location is not None
        job = Job(write_rows, location, None, pickle.dumps({_SPEC: made.spec}, pickle.HIGHEST_PROTOCOL))
        plan = _Plan(chosen, made.spec, pickle.dumps(job), is_stream, AppendBaseVersion.of(made.base_version))
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
        return pickle.dumps(job.task(batches, open_context(job)), pickle.HIGHEST_PROTOCOL)


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
        execute_change(change, table, plan=AppendPlan.sent(table, plan.base_version, plan.spec))


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
        NewFiles(plan.open()).delete(decode(one.file.path) for one in _files(messages))


def _files(messages: Sequence[bytes | None]) -> list[AppendedFile]:
    return [file for message in messages if message is not None for file in pickle.loads(message)]
