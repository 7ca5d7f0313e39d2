"""`read_share`: a version of a shared table, or its changes, as a DataFrame.

It runs in a Python process that Spark starts, without a session. No token is in a partition.

By URLs, an executor finds the files of a partition by URLs that expire, and nothing that gives access to others. By the
directory, it gets temporary credentials for all of it.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import pyarrow as pa

from deltacli.core.errors import FileMissing, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import Clock
from deltacli.core.times import format_timestamp
from deltacli.core.typing import RecordBatch, SparkSchema
from deltacli.delta.data_files import vector_file
from deltacli.delta.log.segment import LogFile
from deltacli.delta.schema.to_arrow import drop_unsupported_columns
from deltacli.delta.schema.types import StructField
from deltacli.engine.spark.jobs import make_partitioned_frame
from deltacli.engine.spark.worker import Job
from deltacli.operations.read.changes import CHANGE_COLUMNS, read_changes
from deltacli.sharing.client.addresses import (
    CODE,
    FORM,
    AccessChoice,
    OpenOptions,
    ShareAddress,
    parse_address,
    parse_table_name,
)
from deltacli.sharing.client.faults import AccessRefused, require_endpoint
from deltacli.sharing.client.share_storage import ShareStorage, open_address
from deltacli.sharing.client.shared_directory import DirectoryStorage, open_directory
from deltacli.sharing.client.shared_files import FileUrl, StoredUrls
from deltacli.sharing.client.shared_version import LogFileBytes
from deltacli.sharing.client.table_requests import Query, TableRequests
from deltacli.sharing.client.transport import Transport
from deltacli.spark.carried_modules import carried_package
from deltacli.spark.executor_rows import SPEC, read_piece, require_no_nested_variant
from deltacli.spark.parquet_scan import find_live_files, require_session
from deltacli.spark.parquet_schema import columns_for_spark, spark_schema, unread_in_spark
from deltacli.spark.shares.share_log import (
    DirectoryLog,
    FreshUrls,
    ShareBatchOptions,
    ShareLog,
    ShareStreamOptions,
    access_of,
    address_of,
    share_batch_options,
    share_column_options,
    share_stream_options,
)
from deltacli.spark.source_options import StreamOptions
from deltacli.spark.source_plans import StreamPlan as TableStreamPlan
from deltacli.spark.source_plans import newest_commit, partitions_of, require_schema, searchable_faults
from deltacli.spark.table_log import TableLog
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, Storage, path_external_error
from deltacli.table.api_arguments import require_path_text, require_timestamp_ms
from deltacli.table.api_errors import api_function
from deltacli.table.handle import TableHandle
from deltacli.table.scan_requests import ChangesRequest
from deltacli.table.selection import Selection
from deltacli.table.time_travel import find_snapshot
from deltacli.work.outputs.row_outputs import plan_row_pieces
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.rows.deletion_vectors import Descriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltacli.table.version import Snapshot

# -- what the data source of shares does on the driver -----------------------------------------------------------------


Share = ShareStorage | DirectoryStorage
"""The store of a shared table, by URLs or by its directory."""


class SharedRows(NamedTuple):
    """What is read of a share: columns, and files, with the table that they are in."""

    table: TableHandle
    columns: tuple[StructField, ...]
    wanted: ReadSpec
    files: Iterable[DataFile]
    newest: LogFile | None = None
    """The newest commit of the log in a directory."""
    urls: FreshUrls | None = None
    """Those of the files, without a directory."""

    def partitions(self) -> list[bytes]:
        require_no_nested_variant(self.columns)
        if self.urls is None:
            return partitions_of(self.table, self.wanted, self.files, self.newest)
        return shared_partitions(_share_of(self.table), self.wanted, self.files, self.urls.find)


def open_shared(address: ShareAddress, options: ShareBatchOptions | ShareStreamOptions) -> Share:
    """Return the store of a shared table: by URLs where these are offered and `dir` was not chosen. Raises UsageError,
    and what the server raises, which is asked for the metadata unless `url` was chosen.
    """
    opened = open_address(address)
    if options.access is not AccessChoice.URL:
        of_store = OpenOptions(dict(options.storage_options))
        found = open_directory(address, opened.requests, options.access, of_store, preferred=AccessChoice.URL)
        if found.directory is not None:
            return found.directory
    return ShareStorage(address, opened.requests, Query(formats=options.formats))


def read_shared(share: Share, options: ShareBatchOptions) -> SharedRows:
    """Find the files of a version, or of a change data feed. Raises what `Table` raises."""
    table = TableHandle(share, name=options.path)
    if options.read_change_feed:
        return _changes(table, options)
    if options.where is not None and isinstance(share, ShareStorage):
        store: Any = share.expecting(where=options.where, version=options.version, at_ms=options.timestamp_ms)
        snapshot = find_snapshot(table.replace_storage(store))
    else:
        snapshot = find_snapshot(table, version=options.version, timestamp_ms=options.timestamp_ms)
    snapshot.scan()  # refuses what no reader may read
    columns = columns_for_spark(snapshot.schema, None if options.columns is None else list(options.columns))
    selection = Selection.resolve(snapshot.schema, columns, options.where)
    live = find_live_files(snapshot, selection)
    return _rows(snapshot, selection.columns, selection.make_read_spec(snapshot.config), live.files)


def _rows(
    snapshot: Snapshot, columns: tuple[StructField, ...], wanted: ReadSpec, files: Iterable[DataFile]
) -> SharedRows:
    table = snapshot.table
    if isinstance(table.storage, ShareStorage):
        return SharedRows(table, columns, wanted, files, urls=FreshUrls(table.storage))
    return SharedRows(table, columns, wanted, files, newest_commit(snapshot))


def _changes(table: TableHandle, options: ShareBatchOptions) -> SharedRows:
    request = ChangesRequest(
        columns=options.columns,
        where=options.where,
        from_version=options.first,
        from_timestamp_ms=options.first_ms,
        to_version=options.last,
        to_timestamp_ms=options.last_ms,
    )
    found = read_changes(table, request)
    kept = columns_for_spark(found.snapshot.schema, options.columns)
    if kept is not options.columns:
        found = read_changes(table, replace(request, columns=kept))
    return _rows(found.snapshot, found.columns, found.read_spec, found.changed_files())


def _share_of(table: TableHandle) -> ShareStorage:
    assert isinstance(table.storage, ShareStorage)
    return table.storage


def source_schema(options: Mapping[str, str], spark: str) -> SparkSchema:
    """Return the columns of a share, whether it is read once or as a stream."""
    with searchable_faults(options.get("path")):
        found = share_column_options(options, spark)
        version, at_ms = found.version, found.timestamp_ms
        if found.read_change_feed:
            version, at_ms = found.last, found.last_ms
        share = open_shared(address_of(found.path), found)
        if isinstance(share, ShareStorage):
            share, version, at_ms = share.without_files(version=version, at_ms=at_ms), None, None
        snapshot = find_snapshot(TableHandle(share, name=found.path), version=version, timestamp_ms=at_ms)
        of_changes = CHANGE_COLUMNS if found.read_change_feed else ()
        return spark_schema(
            (*drop_unsupported_columns(snapshot.schema.fields, unread_in_spark), *of_changes), described=True
        )


def batch_partitions(options: Mapping[str, str], schema: SparkSchema) -> list[bytes]:
    """Return the partitions of a version of a share, or of its changes."""
    with searchable_faults(options.get("path")):
        chosen = share_batch_options(options)
        rows = read_shared(open_shared(address_of(chosen.path), chosen), chosen)
        require_schema(rows.columns, schema)
        return rows.partitions()


class StreamPlan(TableStreamPlan):
    """A share that a query follows. `now` gives seconds, for the time between two questions for the newest version."""

    _chosen: ShareStreamOptions

    def __init__(
        self, options: Mapping[str, str], schema: SparkSchema, spark: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(options, schema, spark)
        self._now = now

    @cached_property
    def _share(self) -> Share:
        return open_shared(address_of(self._chosen.stream.path), self._chosen)

    @cached_property
    def _table(self) -> TableHandle:
        return TableHandle(self._share, name=self._options.path)

    def _read_options(self, options: Mapping[str, str], spark: str) -> StreamOptions:
        self._chosen = share_stream_options(options, spark)
        return self._chosen.stream

    def _open_log(self) -> TableLog:
        if isinstance(self._share, ShareStorage):
            return ShareLog(self._table, self._share, self._chosen, self._now)
        return DirectoryLog(self._table, self._chosen.stream)

    def _partitions_of(self, files: Iterable[DataFile]) -> list[bytes]:
        log = self._log
        if not isinstance(log, ShareLog):
            return super()._partitions_of(files)
        return shared_partitions(_share_of(self._table), log.wanted, files, log.url_of)


_FindUrl = Callable[[str], FileUrl | None]


def shared_partitions(share: ShareStorage, spec: ReadSpec, files: Iterable[DataFile], find: _FindUrl) -> list[bytes]:
    """Return pickled partitions: what a task of Spark needs to read some files.

    `find` is asked for the URLs of a file as soon as the file is known, while its list is at hand. Raises FileMissing
    for a file that the server does not share.
    """
    urls: dict[str, FileUrl] = {}

    def with_urls() -> Iterator[DataFile]:
        for file in files:
            for name in _names_of(file):
                urls[name] = urls.get(name) or _known(find(name), name)
            yield file

    pieces = list(plan_row_pieces(with_urls()))
    shared = pickle.dumps({SPEC: spec}, pickle.HIGHEST_PROTOCOL)
    table, endpoint = str(share.address.name), share.requests.transport.endpoint
    partitions = []
    for piece in pieces:
        names = sorted({name for file in piece.files for name in _names_of(file)})
        location = SharedFiles(table, endpoint, tuple((name, urls[name]) for name in names))
        job = pickle.dumps(Job(read_piece, location, None, shared), pickle.HIGHEST_PROTOCOL)
        one = [pickle.dumps(piece, pickle.HIGHEST_PROTOCOL)]
        partitions.append(pickle.dumps((job, one), pickle.HIGHEST_PROTOCOL))
    return partitions


def _names_of(file: DataFile) -> Iterator[str]:
    """Yield the names of a data file and of the files of its deletion vectors."""
    yield file.path
    for vector in (file.vector, file.only):
        if (name := _vector_name(vector)) is not None:
            yield name


def _vector_name(vector: Descriptor | None) -> str | None:
    if vector is None or vector.get("storageType") != "u":
        return None
    return vector_file(str(vector.get("pathOrInlineDv")))


def _known(url: FileUrl | None, name: str) -> FileUrl:
    if url is None:
        raise FileMissing(f"{name} is not a file of this version")
    return url


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """Some files of a shared table, by the names that the client gives them. It can be pickled, and holds no token.

    `endpoint` decides from which networks URLs are accepted. Whoever has this can read the files until the URLs expire,
    so it has no representation as a text.
    """

    table: str
    endpoint: str = field(repr=False)
    urls: tuple[tuple[str, FileUrl], ...] = field(repr=False)
    allowed: AllowedPrefixes = NO_PREFIXES

    @property
    def uri(self) -> str:
        """The name of the table, for errors."""
        return f"share:/{self.table}"

    def open(self) -> Storage:
        return ListedStorage(self)

    def open_other(self, uri: str) -> NoReturn:
        """Raise PathExternal: a share has no files elsewhere."""
        raise path_external_error(uri, self.uri, uri)


class ListedStorage(ShareStorage):
    """The store of files whose URLs are known. It asks for no others."""

    def __init__(self, files: SharedFiles) -> None:
        transport, name = _transport(files.endpoint), parse_table_name(files.table)
        super().__init__(ShareAddress("share", name), TableRequests(transport, name))
        self._files = files

    @property
    def uri(self) -> str:
        return self._files.uri

    def _load(self) -> KnownUrls:
        return KnownUrls(self._files, self.requests.transport.clock)


class KnownUrls:
    """The URLs of some files, and no log."""

    version = 0
    untimed = frozenset[int]()
    knows_protocol = False

    def __init__(self, files: SharedFiles, clock: Clock) -> None:
        self._clock = clock
        self.urls = StoredUrls()
        for name, (url, size_bytes, expires_ms) in files.urls:
            self.urls.add(name, url, size_bytes, expires_ms)
        self.urls.finish()

    @property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        return {}

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. Raises AccessRefused where it was not accepted and has
        expired, as the clock of the executor has it: only the driver can get another one.
        """
        found = self.urls.find(name)
        if found is None or found.url != not_this or found.expires_ms is None or self._clock() < found.expires_ms:
            return found  # asked for again, so that the status decides about the error
        raise AccessRefused(
            "the URL of a file expired before a task read it",
            code="share.url-expired",
            facts={"file": name, "expires": format_timestamp(found.expires_ms)},
            hint="create the frame again, or restart the query: the driver gets new URLs. Long jobs need more "
            "executors",
        )


@lru_cache(maxsize=8)
def _transport(endpoint: str) -> Transport:
    """Return the connections of this process for the files of a server."""
    transport = Transport(*require_endpoint(endpoint))
    transport.learn_reach()
    return transport


# -- `read_share` ------------------------------------------------------------------------------------------------------

_ROWS = "deltacli.spark.executor_rows"
_MOST_TASKS = 10_000


@api_function
def read_share(
    spark: SparkSession,
    address: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | date | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    changes_from: int | None = None,
    changes_to: int | None = None,
    access: Literal["auto", "url", "dir"] = "auto",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows of a shared table, `PROFILE#SHARE.SCHEMA.TABLE`, as a DataFrame: of the newest version, of
    `version`, or of the newest one committed until `timestamp`. With `changes_from`, the changes of the versions from
    there to `changes_to` (None: the newest), with the columns of `read_changes`.

    The profile is read here, and the server is asked for the files here: executors get their URLs, and no token. So
    run an action before the URLs expire. `where` is sent to the server as a hint, excludes files, and selects rows on
    executors; `columns` are read only.

    With `access="dir"`, and where the server offers nothing else, the table is planned here as one in a directory, and
    executors get temporary credentials for it. Run an action before these end, or put the profile at its path on all
    hosts: executors then ask for new ones. `storage_options` are those of the directory, such as `region`.

    Raises what `open_table` and `Table.snapshot` raise, and UsageError for a session that cannot be used. An action
    raises an error of Spark whose text begins with the code of ours, such as `[share.url-expired]`.
    """
    require_session(spark)
    parsed = parse_address(require_path_text(address, "the address"))
    if parsed is None:
        raise UsageError("the address is not that of a shared table", code=CODE, facts={"expected": FORM})
    _require_one(version=version, timestamp=timestamp, changes_from=changes_from)
    if changes_to is not None and changes_from is None:
        raise UsageError("changes_to needs changes_from")
    options = ShareBatchOptions(
        parsed.uri,
        access=access_of("access", access),
        version=version,
        timestamp_ms=None if timestamp is None else require_timestamp_ms(timestamp, "timestamp"),
        read_change_feed=changes_from is not None,
        first=changes_from,
        last=changes_to,
        columns=None if columns is None else tuple(columns),
        where=where,
        storage_options=tuple(sorted((storage_options or {}).items())),
    )
    rows = read_shared(open_shared(parsed, options), options)
    return _frame(spark, rows.partitions(), spark_schema(rows.columns, described=True))


def _require_one(**given: object) -> None:
    if len(names := [name for name, value in given.items() if value is not None]) > 1:
        raise UsageError(f"{names[0]} and {names[1]} exclude each other")


def _frame(session: Any, partitions: Sequence[bytes], schema: Any) -> Any:  # Any: SparkSession, StructType, DataFrame
    if not partitions:
        return session.createDataFrame([], schema)
    parts = [number % _MOST_TASKS for number in range(len(partitions))]
    spread = make_partitioned_frame(session, parts, partition=(pa.array(partitions, pa.binary()), "binary"))
    return spread.mapInArrow(_task(carried_package(), schema), schema)


def _task(
    package: Any,  # Any: of `carried_package`
    schema: SparkSchema,
) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task. It is sent by value, with the modules of deltacli."""
    name = _ROWS

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        rows = package.load(name)
        for batch in batches:
            for partition in batch.column("partition").to_pylist():
                yield from rows.rows_of_partition(partition, schema)

    return run
