"""What the data source does on the driver: columns, offsets, and partitions, each some pieces of our own scan.

It runs in a Python process that Spark starts, without a session.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from deltacli.core.cached import cached_property
from deltacli.core.errors import DeltacliError, Refused, UsageError
from deltacli.core.typing import Json, SparkSchema
from deltacli.delta.log.segment import LogFile
from deltacli.delta.schema.types import StructField
from deltacli.engine.spark.engine import sendable_location
from deltacli.engine.spark.worker import Job, SeenFile
from deltacli.operations.read.changes import Changes
from deltacli.spark.batches import Limits, StreamOffset, files_between, next_offset
from deltacli.spark.executor_rows import SPEC, read_piece, searchable
from deltacli.spark.python_rows import require_no_nested_variant
from deltacli.spark.source_options import (
    BatchOptions,
    StreamOptions,
    WriteOptions,
    batch_options,
    column_options,
    is_stream,
    stream_options,
)
from deltacli.spark.spark_types import columns_for_spark, spark_schema
from deltacli.spark.table_log import TableLog
from deltacli.storage.base import Place
from deltacli.storage.location import StoreLocation
from deltacli.storage.secrets import remember_secrets, without_secrets
from deltacli.table.api_arguments import name_table
from deltacli.table.handle import TableHandle
from deltacli.table.read_requests import ScanRequest
from deltacli.table.time_travel import find_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.outputs.rows import plan_pieces
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.rows.table_files import read_prefixes

Result = TypeVar("Result")


@contextmanager
def searchable_faults(name: str | None = None) -> Iterator[None]:
    """Raise errors of deltacli as ones whose text begins with the code, and whose hint names the table."""
    try:
        yield
    except DeltacliError as fault:
        name_table(fault, None if name is None else without_secrets(name))
        raise searchable(fault) from None


def source_schema(options: Mapping[str, str], spark: str) -> SparkSchema:
    """Return the columns of a source, whether it is read once or as a stream."""
    with searchable_faults(options.get("path")):
        if is_stream(options):
            chosen = stream_options(options, spark)
            return spark_schema(TableLog(open_source(chosen), chosen).columns, described=True)
        return spark_schema(_batch_plan(column_options(options)).columns, described=True)


def open_source(options: BatchOptions | StreamOptions | WriteOptions, place: Place | None = None) -> TableHandle:
    """Return a table, bound to the directory `place` where that is given. Raises UsageError (`cluster.secret`) for an
    option or a URI that may hold a secret, and Refused (`plan.other-place`).

    `deltacli.api` is not among the modules that reach the processes of Spark.
    """
    uri, given = options.path, dict(options.storage_options)
    remember_secrets(given)
    allowed = read_prefixes(options.allow_external)
    location = sendable_location(StoreLocation.of(uri, given, allowed))._replace(place=place)
    storage = location.open()
    return TableHandle(
        storage,
        open_other=location.open_other,
        allowed=allowed,
        name=without_secrets(uri),
        location=location._replace(uri=storage.uri),
    )


class BatchPlan:
    """A version of a table."""

    def __init__(self, options: BatchOptions) -> None:
        self.table = open_source(options)
        self.snapshot: Snapshot = find_snapshot(self.table, version=options.version, timestamp_ms=options.timestamp_ms)
        columns = columns_for_spark(self.snapshot.schema, options.columns)
        self.scan = self.snapshot.scan(columns=columns, where=options.where)

    @property
    def columns(self) -> tuple[StructField, ...]:
        """The columns of the frame."""
        return self.scan.columns

    def partitions(self, schema: SparkSchema) -> list[bytes]:
        """Return the partitions, pickled."""
        require_schema(self.columns, schema)
        return partitions_of(self.table, self.scan.wanted, self.scan.data_files(), newest_commit(self.snapshot))


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
        self.changes = changes(ScanRequest(columns=options.columns, where=options.where))
        kept = columns_for_spark(self.changes.snapshot.schema, options.columns)
        if kept is not options.columns:
            self.changes = changes(ScanRequest(columns=kept, where=options.where))

    @property
    def columns(self) -> tuple[StructField, ...]:
        """The columns of the frame."""
        return self.changes.columns

    def partitions(self, schema: SparkSchema) -> list[bytes]:
        """Return the partitions, pickled."""
        require_schema(self.columns, schema)
        newest = newest_commit(self.changes.snapshot)
        return partitions_of(self.table, self.changes.wanted, self.changes.changed_files(), newest)


def newest_commit(snapshot: Snapshot) -> LogFile | None:
    """Return the newest commit of the log, which executors have to see."""
    commits = snapshot.listing.commits
    return commits[max(commits)] if commits else None


def _batch_plan(options: BatchOptions) -> BatchPlan | ChangesPlan:
    return ChangesPlan(options) if options.read_change_feed else BatchPlan(options)


def batch_partitions(options: Mapping[str, str], schema: SparkSchema) -> list[bytes]:
    """Return the partitions of a version of a table."""
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

    # -- what Spark asks for ------------------------------------------------------------------------------------------

    @property
    def most_files(self) -> int | None:
        """Return how many files a batch takes at most."""
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
    """Return pickled partitions: what a task of Spark needs to read some files.

    `newest` is a commit that executors have to see: else they see another table.
    """
    pieces = list(plan_pieces(files))
    if not pieces:
        return []
    location = sendable_location(table.stores.location)
    seen_file = None if newest is None else SeenFile(newest.name, newest.size_bytes)
    job = pickle.dumps(Job(read_piece, location, seen_file, pickle.dumps({SPEC: spec}, pickle.HIGHEST_PROTOCOL)))
    return [
        pickle.dumps((job, [pickle.dumps(piece, pickle.HIGHEST_PROTOCOL)]), pickle.HIGHEST_PROTOCOL) for piece in pieces
    ]
