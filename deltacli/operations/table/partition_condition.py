"""A condition on partition columns: which files it chooses. Spec: Partition Value Serialization."""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.arrow import compute as pc
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.partitions.values import partition_columns
from deltacli.delta.predicate.parse import parse_on_partitions
from deltacli.errors import CommitCorrupt, DataUnreadable
from deltacli.typing import ArrowArray, RecordBatch


class PartitionCondition:
    """Chooses file actions by their partition values. Raises UsageError (`usage.where`) for an invalid condition, and
    for one on other columns. Thread-safe.
    """

    def __init__(self, config: TableConfiguration, where: str) -> None:
        self._config = config
        self._predicate, self._needed = parse_on_partitions(config, where)

    def __call__(self, adds: RecordBatch) -> ArrowArray:
        """Return which file actions the condition is true for. Raises DataUnreadable (`partition.*`)."""
        import pyarrow as pa

        if not adds.num_rows:
            return pa.array([], pa.bool_())
        values = partition_columns(adds, self._config, [name for name, _ in self._needed])
        columns = {column.name: values[name] for name, column in self._needed} or {"_": adds.column("path")}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return pc.fill_null(self._predicate.matches(rows), False)

    def chooses(self, values: Mapping[str, str | None]) -> bool:
        """Return whether a file with these partition values is chosen, or may be: they are not valid."""
        from deltacli.delta.log.file_actions import action_schemas, whole_actions

        try:
            one = whole_actions([{"path": "", "partitionValues": dict(values)}], action_schemas().add, "")
            return bool(self(one)[0].as_py())
        except (CommitCorrupt, DataUnreadable):
            return True
