"""The data source `deltacli` of PySpark: `spark.read.format("deltacli")`, `spark.readStream.format("deltacli")`.

Its classes are made in functions, because their bases exist only where PySpark does. They are sent to the processes of
Spark by value, with the modules of deltacli, and do nothing themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltacli.spark.carried import carried_package
from deltacli.spark.session_settings import require_session
from deltacli.spark.streams.options import has_limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("deltacli")` known to a session, and deltacli importable in its Python processes.

    Raises UsageError for a session that cannot be used.
    """
    require_session(spark)
    spark.dataSource.register(source_class(spark.version))


def source_class(server: str) -> Any:  # Any: a subclass of pyspark.sql.datasource.DataSource
    """Return the class of the data source for a version of Spark. It carries deltacli."""
    from pyspark import __version__
    from pyspark.sql.datasource import DataSource

    package = carried_package()
    batch_reader = _batch_reader_class(package)
    stream_reader = _stream_reader_class(package) if has_limits(__version__) and has_limits(server) else None

    class DeltacliSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "deltacli"

        def schema(self) -> Any:
            from pyspark import __version__

            package.make_importable()
            from deltacli.spark.source_plans import source_schema

            return source_schema(dict(self.options), __version__)

        def reader(self, schema: Any) -> Any:
            return batch_reader(dict(self.options), schema)

        def streamReader(self, schema: Any) -> Any:
            from pyspark import __version__

            package.make_importable()
            from deltacli.spark.source_plans import StreamPlan

            plan = StreamPlan(dict(self.options), schema, __version__)  # refuses versions without `stream_reader`
            assert stream_reader is not None
            return stream_reader(plan, schema)

    return DeltacliSource


def _batch_reader_class(package: Any) -> Any:  # Any: of `carried_package`; a subclass of DataSourceReader
    """Return the class that reads a version. It has no `pushFilters`: a reader that has it fails every read while
    `spark.sql.python.filterPushdown.enabled` is false.
    """
    from pyspark.sql.datasource import DataSourceReader, InputPartition

    class BatchReader(DataSourceReader):  # type: ignore[misc]
        def __init__(self, options: dict[str, str], schema: Any) -> None:
            self.options, self.schema = options, schema

        def partitions(self) -> list[Any]:
            package.make_importable()
            from deltacli.spark.source_plans import batch_partitions

            return [InputPartition(found) for found in batch_partitions(self.options, self.schema)]

        def read(self, partition: Any) -> Any:
            package.make_importable()
            from deltacli.spark.source_rows import rows_of_partition

            return rows_of_partition(partition.value, self.schema)

    return BatchReader


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
            package.make_importable()
            from deltacli.spark.source_rows import rows_of_partition

            return rows_of_partition(partition.value, self.schema)

    return StreamReader
