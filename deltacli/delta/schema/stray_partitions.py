"""Partition columns that the schema lacks: one answer for rules and for everything that reads, rewrites or shares rows.

Such a metaData contradicts itself. Readers would take the column's values for nulls, or have no column for them.
Spec: Change Metadata; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.core.errors import Unreadable
from deltacli.core.hints import command
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import DataType, StructType, parts_of

UNKNOWN, NESTED = "metadata.partition-column-unknown", "metadata.partition-column-nested"
"""The rules of `validate` that report what is refused here."""


class StrayPartition(NamedTuple):
    """A partition column that is not a column: the rule that reports it, the name, what is there, and why."""

    rule: str
    name: str
    seen: str
    expected: str
    reason: str


def stray_partitions(config: TableConfiguration) -> Iterator[StrayPartition]:
    """Yield the partition columns that the schema does not have under exactly that name at its top level."""
    if config.metadata is None or config.schema is None:
        return
    columns = [field.name for field in config.schema.fields]
    for name in dict.fromkeys(config.metadata.partition_columns):
        if name not in columns:
            yield _stray(name, columns, config.schema)


def _stray(name: str, columns: list[str], schema: StructType) -> StrayPartition:
    same = next((column for column in columns if column.casefold() == name.casefold()), None)
    inside = next((path for path in _nested(schema, "") if path == name or path.rpartition(".")[2] == name), None)
    if same is not None:
        reason = f"partition column {name} is {same} in the schema; names are case-sensitive"
        return StrayPartition(UNKNOWN, name, name, same, reason)
    if inside is not None:
        reason = f"partition column {name} is inside another column"
        return StrayPartition(NESTED, name, inside, "a top-level column", reason)
    return StrayPartition(
        UNKNOWN, name, name, "a column of the schema", f"partition column {name} is not in the schema"
    )


def _nested(data_type: DataType, prefix: str) -> Iterator[str]:
    """Return the dotted paths of all fields below the top level."""
    for part in parts_of(data_type):
        path = f"{prefix}{part.name}"
        if prefix and isinstance(data_type, StructType):
            yield path
        yield from _nested(part.data_type, f"{path}.")


def require_partitions(config: TableConfiguration, version: int) -> None:
    """Raise Unreadable where the schema of a version lacks one of its partition columns."""
    for stray in stray_partitions(config):
        raise Unreadable(
            f"the rows of version {version} cannot be read: {stray.reason}",
            code=stray.rule,
            facts={"column": stray.name, "seen": stray.seen, "expected": stray.expected},
            hint=command("validate", select=["metadata.*"]),
        )
