"""The data sources of PySpark: `deltacli` for tables and `deltacli_share` for shared tables, in `spark.read.format(…)`
and `spark.readStream.format(…)`.

Its classes are made in functions, because their bases exist only where PySpark does. They are sent to the processes of
Spark by value, with the modules of deltacli, and do nothing themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.spark.carried_modules import carried_package
from deltacli.spark.parquet_scan import require_session
from deltacli.spark.source_options import has_limits, has_stream_writers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ROWS = "deltacli.spark.executor_rows"
_SINK = "deltacli.spark.source_plans"


class Kind(NamedTuple):
    """A data source: its name, and the module with its `source_schema`, `batch_partitions` and `StreamPlan`."""

    name: str
    plans: str


TABLES = Kind("deltacli", "deltacli.spark.source_plans")
SHARES = Kind("deltacli_share", "deltacli.spark.shares.read_share")


def register(spark: SparkSession) -> None:
    """Make `format("deltacli")` and `format("deltacli_share")` known to a session, and deltacli importable in its
    Python processes.

    Raises UsageError for a session that cannot be used.
    """
    require_session(spark)
    for kind in (TABLES, SHARES):
        spark.dataSource.register(source_class(spark.version, kind))


def source_class(server: str, kind: Kind = TABLES) -> Any:  # Any: a subclass of pyspark.sql.datasource.DataSource
    """Return the class of a data source for a version of Spark. It carries deltacli."""
    from pyspark import __version__
    from pyspark.sql.datasource import DataSource

    package = carried_package()
    name, plans = kind
    batch_reader = _batch_reader_class(package, plans)
    stream_reader = _stream_reader_class(package) if has_limits(__version__) and has_limits(server) else None
    sink = _sink_class(package, streams=False) if kind is TABLES else None
    has_stream_sinks = has_stream_writers(__version__) and has_stream_writers(server)
    stream_sink = _sink_class(package, streams=True) if kind is TABLES and has_stream_sinks else None

    def planned(options: dict[str, str], schema: Any, **how: bool) -> Any:
        return package.load(_SINK).plan_sink(options, schema, **how)

    class DeltacliSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> Any:
            from pyspark import __version__

            return package.load(plans).source_schema(dict(self.options), __version__)

        def reader(self, schema: Any) -> Any:
            return batch_reader(dict(self.options), schema)

        def streamReader(self, schema: Any) -> Any:
            from pyspark import __version__

            plan = package.load(plans).StreamPlan(dict(self.options), schema, __version__)
            assert stream_reader is not None  # the plan refuses versions without it
            return stream_reader(plan, schema)

        def writer(self, schema: Any, overwrite: bool) -> Any:
            if sink is None:
                raise package.load(_ROWS).no_writer(name)
            try:
                return sink(planned(dict(self.options), schema, overwrites=overwrite, is_stream=False))
            except RuntimeError as fault:
                raise fault.with_traceback(None) from None  # Spark shows every line of it

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            if sink is None:
                raise package.load(_ROWS).no_writer(name)
            if stream_sink is None:
                raise package.load(_ROWS).no_stream_writer(server)
            try:
                return stream_sink(planned(dict(self.options), schema, overwrites=overwrite, is_stream=True))
            except RuntimeError as fault:
                raise fault.with_traceback(None) from None

    return DeltacliSource


def _batch_reader_class(package: Any, plans: str) -> Any:  # Any: of `carried_package`; a subclass of DataSourceReader
    """Return the class that reads a version.

    It has no `pushFilters`. Spark 4.3 keeps the partitions of the last filter it pushed for a frame, and reads these
    for the next query of the frame of which it can push nothing, such as a count of all rows: rows are lost. With
    `spark.sql.python.filterPushdown.enabled` off, every read of a reader that has it fails.
    """
    from pyspark.sql.datasource import DataSourceReader, InputPartition

    class BatchReader(DataSourceReader):  # type: ignore[misc]
        def __init__(self, options: dict[str, str], schema: Any) -> None:
            self.options, self.schema = options, schema

        def partitions(self) -> list[Any]:
            found = package.load(plans).batch_partitions(self.options, self.schema)
            return [InputPartition(partition) for partition in found]

        def read(self, partition: Any) -> Any:
            return package.load(_ROWS).rows_of_partition(partition.value, self.schema)

    return BatchReader


def _sink_class(package: Any, *, streams: bool) -> Any:  # Any: of `carried_package`; a subclass of a writer of PySpark
    """Return the class that appends the rows of a frame, or the batches of a query, each once.

    Plans and messages are bytes, because Spark unpickles them before deltacli can be imported.
    """
    from pyspark.sql import datasource

    class Written(datasource.WriterCommitMessage):  # type: ignore[misc]
        def __init__(self, files: bytes) -> None:
            self.files = files

    def contents(messages: Any) -> list[bytes | None]:
        return [None if one is None else one.files for one in messages]

    base: Any = datasource.DataSourceStreamArrowWriter if streams else datasource.DataSourceArrowWriter

    class Sink(base):  # type: ignore[misc]
        def __init__(self, plan: bytes) -> None:
            self.plan = plan

        def write(self, iterator: Any) -> Any:
            return Written(package.load(_SINK).write_partition(self.plan, iterator))

        def commit(self, messages: Any, *batch: int) -> None:
            package.load(_SINK).commit_sink(self.plan, contents(messages), *batch)

        def abort(self, messages: Any, *_: int) -> None:
            package.load(_SINK).abort_sink(self.plan, contents(messages))

    return Sink


def _stream_reader_class(package: Any) -> Any:  # Any: of `carried_package`; a subclass of DataSourceStreamReader
    """Return the class that reads a stream, as Spark calls it from 4.2 on."""
    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow

    class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
        def __init__(self, plan: Any, schema: Any) -> None:
            self.plan, self.schema = plan, schema

        def __getstate__(self) -> dict[str, Any]:
            return {"schema": self.schema}  # executors read partitions only

        def initialOffset(self) -> Any:
            return self.plan.initial_offset()

        def prepareForTriggerAvailableNow(self) -> None:
            self.plan.stop_at_newest()

        def getDefaultReadLimit(self) -> Any:
            return ReadMaxFiles(self.plan.most_files)  # bytes are limited by the plan itself

        def latestOffset(self, start: Any, limit: Any) -> Any:
            return self.plan.latest_offset(start, unlimited=isinstance(limit, ReadAllAvailable))

        def partitions(self, start: Any, end: Any) -> list[Any]:
            return [InputPartition(found) for found in self.plan.partitions(start, end)]

        def read(self, partition: Any) -> Any:
            return package.load(_ROWS).rows_of_partition(partition.value, self.schema)

    return StreamReader
