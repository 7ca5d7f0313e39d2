"""Read the changes of rows between versions as a DataFrame: the driver reads commits, executors read files.

Spec: Add CDC File; Change Data Files; Reader Requirements for AddCDCFile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.api.table import open_table
from deltacli.operations.table.api_hints import named_items
from deltacli.spark.python_rows import rows_through_python
from deltacli.spark.session_settings import require_session
from deltacli.spark.spark_types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_changes(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    from_version: int,
    to_version: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the changes of the versions from `from_version` to `to_version` (None: the newest), both included.

    The columns of the last version, or `columns` of them, are followed by `_change_type` (`insert`, `delete`,
    `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`; `where` may use these. The rows
    are in no order. All are read by deltacli on executors: in the language of Spark, nothing is pushed into the scan,
    so prefer `columns` and `where` here. An action raises an error of Spark whose text begins with the code of ours.

    Raises what `Table.changes` raises, UsageError for a session that cannot be used, and what `SparkEngine` raises.
    """
    require_session(spark)
    table = open_table(uri, storage_options=storage_options, allow_external=allow_external)
    changes = table.changes(from_version=from_version, to_version=to_version, columns=columns, where=where)
    schema = spark_schema(changes.columns, described=True)
    files = named_items(changes.changed_files(), table.name)
    return rows_through_python(spark, table.stores, changes.wanted, files, schema)
