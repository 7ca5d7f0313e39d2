"""The rows that differ between two versions, by key, as a DataFrame that executors compute."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING

from deltacli.api.table import open_table
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.errors import UsageError
from deltacli.operations.diff.request import DiffRequest
from deltacli.operations.diff.rows import FIXED, RowDiff
from deltacli.spark.executor_rows import MergedRows
from deltacli.spark.python_rows import engine_of
from deltacli.spark.session_settings import require_session
from deltacli.spark.spark_types import spark_schema
from deltacli.work.rows.kept_rows import CompareRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KINDS = ("string", "long", "long", "string")
"""The types of `FIXED`."""


def diff(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    key: Sequence[str],
    other: str | os.PathLike[str] | None = None,
    from_timestamp: datetime | date | None = None,
    to_timestamp: datetime | date | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the keys whose rows differ between two versions, as `deltacli diff --rows --format csv` lists them.

    The frame has the columns `change` (`add`, `remove` or `change`), `rowsFrom` and `rowsTo`, the number of rows with
    the key in each version, `columns`, the names of those that differ where each version has one row, and the columns
    of the key. The versions are those of `Table.diff` (None: the newest), the second one of the table `other` where
    that is given; `storage_options` and `allow_external` are as in `open_table`, of both tables.

    Both versions are read by deltacli on executors, and compared there; nothing is read before an action. Values are
    equal as for `Table.diff`. Raises UsageError for arguments and sessions that cannot be used, what `Table.snapshot`
    raises, and what `SparkEngine` raises. An action raises an error of Spark whose text begins with the code of ours.
    """
    require_session(spark)
    opened = partial(open_table, storage_options=storage_options, allow_external=allow_external)
    table = opened(uri)
    second = table if other is None else opened(other)
    request = DiffRequest(
        from_version=from_version,
        to_version=to_version,
        from_timestamp=from_timestamp,
        to_timestamp=to_timestamp,
        other=None if other is None else second,
        rows=True,
        key=key,
    )
    before = table.snapshot(version=request.begin[0], timestamp=from_timestamp)
    after = second.snapshot(version=request.end[0], timestamp=to_timestamp)
    found = RowDiff(before, after, request.key)
    if taken := next((name for name in found.key if name.lower() in map(str.lower, FIXED)), None):
        raise UsageError(
            f"the frame has a column {taken} of its own, so that it cannot be a key here",
            code="usage.column",
            hint="compare in one process: open_table(…).diff(…, rows=True, key=[…])",
        )
    fixed = [StructField(name, PrimitiveType(kind), True, {}) for name, kind in zip(FIXED, _KINDS, strict=True)]
    schema = spark_schema([*fixed, *found.fields[: len(found.key)]])
    merged = MergedRows(CompareRows(found.columns, lists=True), found.columns.kept)
    return engine_of(spark).regrouped(found.readings(), merged, found.kept_bytes(), schema)
