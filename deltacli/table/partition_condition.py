"""Select file actions by a SQL condition on partition columns.

Partition values are part of `add` and `remove` actions, so a condition such as `day >= '2026-01-01'` is
evaluated without opening data files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import parse_partition_columns

if TYPE_CHECKING:
    import pyarrow

Mask = Callable[["pyarrow.RecordBatch"], ArrowArray]
"""A function that returns a boolean array without nulls: which file actions of a batch are selected."""


class PartitionCondition:
    """A SQL condition on partition columns that selects file actions. Thread-safe."""

    def __init__(self, config: TableConfiguration, where: str) -> None:
        """Parse the condition.

        Args:
            config: The configuration of the table.
            where: The condition, such as `day >= '2026-01-01'`.

        Raises:
            UsageError: `usage.where`, if the condition is invalid or uses other columns.
        """
        # Imported here because most operations have no condition, and start faster without the parser.
        from deltacli.delta.predicate.parse import parse_on_partitions

        self._config = config
        self._predicate, self._partition_columns = parse_on_partitions(config, where)

    def __call__(self, adds: RecordBatch) -> ArrowArray:
        """Return a mask of the file actions for which the condition is true.

        Args:
            adds: File actions with the column `partitionValues`.

        Raises:
            DataUnreadable: `partition.*`, if a partition value is not valid for the type of its column.
        """
        if not adds.num_rows:
            return pa.array([], pa.bool_())
        values = parse_partition_columns(adds, self._config, [name for name, _ in self._partition_columns])
        columns = {column.name: values[name] for name, column in self._partition_columns}
        if not columns:
            # A condition such as `true` uses no column, but a record batch needs one to have a length.
            columns = {"_": adds.column("path")}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return pc.fill_null(self._predicate.matches(rows), False)

    def may_match(self, values: Mapping[str, str | None]) -> bool:
        """Return True unless the condition is false for a file with these partition values.

        Files with invalid partition values may match, too: the condition cannot be evaluated for them.

        Args:
            values: The partition values as in the log.
        """
        try:
            add = {"path": "", "partitionValues": dict(values)}
            adds = build_action_batch([add], action_schemas().add, "")
            return bool(self(adds)[0].as_py())
        except (errors.CommitCorrupt, errors.DataUnreadable):
            return True
