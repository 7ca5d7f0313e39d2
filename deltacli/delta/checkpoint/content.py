"""The rows of a checkpoint in columns: one struct per action, each row with exactly one of them; and what a new
checkpoint may omit, expired tombstones and transactions.

Spec: Checkpoints; Checkpoint Schema; Action Reconciliation; Transaction Identifiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.typing import ArrowType
from deltacli.delta.log.action_fields import arrow_schema
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import whole_column
from deltacli.delta.log.state import SetTransaction
from deltacli.delta.protocol.property_values import TRANSACTION_RETENTION, deleted_file_retention_ms, parse_interval

if TYPE_CHECKING:
    import pyarrow

_NOT_OF_REMOVES = ("stats", "tags")
_OF_BOTH = ("partitionValues.key_value.key", "partitionValues.key_value.value", "deletionVector.storageType")
_DICTIONARY_LEAVES = (
    *(f"{kind}.{leaf}" for kind in ("add", "remove") for leaf in _OF_BOTH),
    *("add.tags.key_value.key", "add.tags.key_value.value", "add.clusteringProvider"),
)
"Leaves with few values, for which a dictionary pays off."

_COUNTED_LEAVES = (
    "txn.appId",
    "add.path",
    "add.deletionVector.storageType",
    "remove.path",
    "remove.deletionTimestamp",
    "remove.deletionVector.storageType",
    "metaData.id",
    "protocol.minReaderVersion",
    "domainMetadata.domain",
    "checkpointMetadata.version",
    "sidecar.path",
)
"""Leaves whose null counts tell a reader which actions a row group holds."""


class Columns(NamedTuple):
    """Additional columns of the adds of a checkpoint. A type is None if there is no such column."""

    has_stats: bool = True
    partition_values: ArrowType = None
    stats: ArrowType = None


def checkpoint_schema(columns: Columns, *, kinds: Sequence[str]) -> pyarrow.Schema:
    """Return the schema of a file that holds these kinds of actions."""
    import pyarrow as pa

    def type_of(kind: str) -> Any:
        match kind:
            case "add":
                return _add_type(columns)
            case "remove":
                return _remove_type()
        return pa.struct(arrow_schema(kind))

    return pa.schema([pa.field(kind, type_of(kind)) for kind in kinds])


def _add_type(columns: Columns) -> Any:
    import pyarrow as pa

    fields = [field for field in arrow_schema("add") if field.name != "stats"]
    if columns.has_stats:
        fields.append(pa.field("stats", pa.string()))
    if columns.partition_values is not None:
        fields.append(pa.field("partitionValues_parsed", columns.partition_values))
    if columns.stats is not None:
        fields.append(pa.field("stats_parsed", columns.stats))
    return pa.struct(fields)


def _remove_type() -> Any:
    import pyarrow as pa

    return pa.struct([field for field in arrow_schema("remove") if field.name not in _NOT_OF_REMOVES])


def struct_of_actions(
    rows: pyarrow.RecordBatch, kind: Any, extra: Mapping[str, Any]
) -> Any:  # Any: an Arrow struct type; arrays; a struct array
    """Return file actions (`action_schemas()`) as the struct of a checkpoint, with `dataChange` false.

    `extra` are columns that the actions do not have.
    """
    import pyarrow as pa

    columns = []
    for field in kind:
        if field.name == "dataChange":
            columns.append(pa.repeat(pa.scalar(False), rows.num_rows))
        else:
            columns.append(extra[field.name] if field.name in extra else rows.column(field.name))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def small_rows(actions: Sequence[tuple[str, Action]], schema: pyarrow.Schema) -> pyarrow.Table:
    """Return small actions, one per row. Raises CommitCorrupt for a value that a checkpoint cannot hold."""
    import pyarrow as pa

    columns = []
    for field in schema:
        rows = [_with_pairs(action, field.type) if kind == field.name else None for kind, action in actions]
        columns.append(whole_column(rows, field, "the state"))
    return pa.Table.from_arrays(columns, schema=schema)


def _with_pairs(action: Action, kind: Any) -> Any:
    """Return an action with lists of pairs where Arrow requires maps."""
    import pyarrow as pa

    converted: Action = {}
    for field in kind:
        value = action.get(field.name)
        if pa.types.is_map(field.type) and value is not None:
            converted[field.name] = list(value.items())
        elif pa.types.is_struct(field.type) and value is not None:
            converted[field.name] = _with_pairs(value, field.type)
        else:
            converted[field.name] = value
    return converted


def leaves_of(schema: pyarrow.Schema, wanted: Sequence[str]) -> list[str]:
    """Return those of some leaves that a file of this schema has."""
    kinds = set(schema.names)
    return [leaf for leaf in wanted if leaf.split(".", 1)[0] in kinds]


def dictionary_leaves(schema: pyarrow.Schema) -> list[str]:
    """Return the leaves for which a dictionary pays off."""
    return leaves_of(schema, _DICTIONARY_LEAVES)


def counted_leaves(schema: pyarrow.Schema) -> list[str]:
    """Return the leaves that get statistics in the footer."""
    parsed = "add.stats_parsed.numRecords"
    has_parsed = "add" in schema.names and schema.field("add").type.get_field_index("stats_parsed") >= 0
    return [*leaves_of(schema, _COUNTED_LEAVES), *([parsed] if has_parsed else [])]


def tombstone_cutoff(properties: Mapping[str, str], now_ms: int) -> int:
    """A remove whose deletionTimestamp is greater than this (epoch milliseconds) must be kept."""
    return now_ms - deleted_file_retention_ms(properties)


def live_transactions(
    transactions: Iterable[SetTransaction], properties: Mapping[str, str], now_ms: int
) -> list[SetTransaction]:
    """Return the transactions that must be kept: all of them, unless the table limits their age.

    One without lastUpdated is kept, so that no stream writes a batch twice.
    """
    retention = parse_interval(properties.get(TRANSACTION_RETENTION) or "")
    if retention is None:
        return list(transactions)
    cutoff = now_ms - retention
    return [
        transaction
        for transaction in transactions
        if transaction.last_updated is None or transaction.last_updated > cutoff
    ]
