"""`read_share`: a version of a shared table, or its changes, as a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import UsageError
from deltacli.core.typing import RecordBatch, SparkSchema
from deltacli.engine.spark.tasks import spread_frame
from deltacli.sharing.client.addresses import CODE, FORM, parse_address
from deltacli.sharing.client.tables.share_storage import open_address
from deltacli.spark.carried_modules import carried_package
from deltacli.spark.session_settings import require_session
from deltacli.spark.shares.share_options import ShareBatchOptions
from deltacli.spark.shares.share_plans import read_shared
from deltacli.spark.spark_types import spark_schema
from deltacli.table.api_arguments import moment_ms, named_call, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = "deltacli.spark.executor_rows"
_MOST_TASKS = 10_000


@named_call
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
) -> DataFrame:
    """Return the rows of a shared table, `PROFILE#SHARE.SCHEMA.TABLE`, as a DataFrame: of the newest version, of
    `version`, or of the newest one committed until `timestamp`. With `changes_from`, the changes of the versions from
    there to `changes_to` (None: the newest), with the columns of `read_changes`.

    The profile is read here, and the server is asked for the files here: executors get their URLs, and no token. So
    run an action before the URLs expire. `where` is sent to the server as a hint, excludes files, and selects rows on
    executors; `columns` are read only.

    Raises what `open_table` and `Table.snapshot` raise, and UsageError for a session that cannot be used. An action
    raises an error of Spark whose text begins with the code of ours, such as `[share.url-expired]`.
    """
    require_session(spark)
    parsed = parse_address(text_of(address, "the address"))
    if parsed is None:
        raise UsageError("the address is not that of a shared table", code=CODE, facts={"expected": FORM})
    _require_one(version=version, timestamp=timestamp, changes_from=changes_from)
    if changes_to is not None and changes_from is None:
        raise UsageError("changes_to needs changes_from")
    options = ShareBatchOptions(
        parsed.uri,
        version=version,
        timestamp_ms=None if timestamp is None else moment_ms(timestamp, "timestamp"),
        read_change_feed=changes_from is not None,
        first=changes_from,
        last=changes_to,
        columns=None if columns is None else tuple(columns),
        where=where,
    )
    rows = read_shared(open_address(parsed), options)
    return _frame(spark, rows.partitions(), spark_schema(rows.columns, described=True))


def _require_one(**given: object) -> None:
    """Raise UsageError where more than one argument is given."""
    if len(names := [name for name, value in given.items() if value is not None]) > 1:
        raise UsageError(f"{names[0]} and {names[1]} exclude each other")


def _frame(session: Any, partitions: Sequence[bytes], schema: Any) -> Any:  # Any: SparkSession, StructType, DataFrame
    """Return the rows of partitions as a frame, each read by one task."""
    import pyarrow as pa

    if not partitions:
        return session.createDataFrame([], schema)
    parts = [number % _MOST_TASKS for number in range(len(partitions))]
    spread = spread_frame(session, parts, partition=(pa.array(partitions, pa.binary()), "binary"))
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
