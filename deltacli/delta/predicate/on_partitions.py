"""Conditions on partition columns. Spec: Partition Value Serialization."""

from __future__ import annotations

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.schema.types import StructField, StructType
from deltacli.errors import UsageError

PartitionColumns = list[tuple[str, StructField]]
"""Columns with their physical names."""


def parse_on_partitions(config: TableConfiguration, where: str) -> tuple[Predicate, PartitionColumns]:
    """Return a condition and the partition columns that it uses.

    Raises UsageError (`usage.where`) for an invalid condition, and for one on other columns.
    """
    predicate = parse_predicate(where, config.schema or StructType(()))
    columns = {column.name: (name, column) for name, column in config.partition_columns.items() if column}
    others = [".".join(path) for path in predicate.columns if path[0] not in columns]
    if others:
        raise UsageError(
            f"the condition uses {others[0]}, which is not a partition column",
            code="usage.where",
            facts={"partition columns": ", ".join(columns) or "none: the table is not partitioned"},
        )
    return predicate, [columns[path[0]] for path in predicate.columns]
