"""Conditions on partition columns. Spec: Partition Value Serialization."""

from __future__ import annotations

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.schema.types import StructField, StructType
from deltacli.errors import UsageError
from deltacli.hints import sql_name

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
        facts = {"partition columns": ", ".join(columns) or "none: the table is not partitioned"}
        for _, column in list(columns.values())[:1]:
            facts["example"] = f"{sql_name(column.name)} = {_literal(column)}"
        raise UsageError(
            f"the condition uses {others[0]}, which is not a partition column", code="usage.where", facts=facts
        )
    return predicate, [columns[path[0]] for path in predicate.columns]


def _literal(column: StructField) -> str:
    """Return a value of the type of a column, as it is written in a condition."""
    kind = str(getattr(column.data_type, "name", ""))
    examples = {"date": "'2026-01-01'", "boolean": "true", "string": "'Bern'"}
    return examples.get(kind) or ("'2026-01-01 09:00:00'" if kind.startswith("timestamp") else "1")
