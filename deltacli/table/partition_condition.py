"""Choose file actions by a condition on their partition values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import partition_columns

if TYPE_CHECKING:
    import pyarrow

Mask = Callable[["pyarrow.RecordBatch"], ArrowArray]
"""Returns which file actions are chosen: never null."""


class PartitionCondition:
    """A condition in SQL on partition columns, which chooses file actions. Thread-safe."""

    def __init__(self, config: TableConfiguration, where: str) -> None:
        """Parse the condition.

        Args:
            config: The configuration of the table.
            where: The condition.

        Raises:
            UsageError: `usage.where`, for an invalid condition, and for one on other columns.
        """
        from deltacli.delta.predicate.parse import parse_on_partitions

        self._config = config
        self._predicate, self._needed_columns = parse_on_partitions(config, where)

    def __call__(self, adds: RecordBatch) -> ArrowArray:
        """Return which file actions the condition is true for.

        Raises:
            DataUnreadable: `partition.*`, for a value that is not one of its type.
        """
        if not adds.num_rows:
            return pa.array([], pa.bool_())
        values = partition_columns(adds, self._config, [name for name, _ in self._needed_columns])
        columns = {column.name: values[name] for name, column in self._needed_columns}
        if not columns:
            columns = {"_": adds.column("path")}  # for a condition without columns, a batch has no number of rows
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return pc.fill_null(self._predicate.matches(rows), False)

    def may_match(self, values: Mapping[str, str | None]) -> bool:
        """Return True if a file with these partition values is chosen, or may be because they are invalid."""
        try:
            add = {"path": "", "partitionValues": dict(values)}
            adds = whole_actions([add], action_schemas().add, "")
            return bool(self(adds)[0].as_py())
        except (errors.CommitCorrupt, errors.DataUnreadable):
            return True
