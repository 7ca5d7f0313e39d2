"""The content of a checkpoint in columns: actions, parsed statistics and partition values, and row groups.

Spec: Checkpoints; Checkpoint Schema; Action Reconciliation; Transaction Identifiers; Per-file Statistics; Partition
Value Serialization; V2 Spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowType
from deltacli.delta.footers.thrift import read_null_counts
from deltacli.delta.log import state
from deltacli.delta.log.action_schemas import schema_of_action
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import build_action_column
from deltacli.delta.schema.to_arrow import typed
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.delta.stats.columns import INFINITE, NOT_A_NUMBER, StatsBlock, StatsColumns, parse_stats
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, ColumnPath, indexed_columns

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


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

    def type_of(kind: str) -> Any:
        match kind:
            case "add":
                return _add_type(columns)
            case "remove":
                return pa.struct([field for field in schema_of_action("remove") if field.name not in _NOT_OF_REMOVES])
        return pa.struct(schema_of_action(kind))

    return pa.schema([pa.field(kind, type_of(kind)) for kind in kinds])


def _add_type(columns: Columns) -> Any:
    fields = [field for field in schema_of_action("add") if field.name != "stats"]
    if columns.has_stats:
        fields.append(pa.field("stats", pa.string()))
    if columns.partition_values is not None:
        fields.append(pa.field("partitionValues_parsed", columns.partition_values))
    if columns.stats is not None:
        fields.append(pa.field("stats_parsed", columns.stats))
    return pa.struct(fields)


def struct_of_actions(
    rows: pyarrow.RecordBatch, kind: Any, extra: Mapping[str, Any]
) -> Any:  # Any: an Arrow struct type; arrays; a struct array
    """Return file actions as the struct of a checkpoint, `dataChange` false. `extra`: columns that actions lack."""
    columns = []
    for field in kind:
        if field.name == "dataChange":
            columns.append(pa.repeat(pa.scalar(False), rows.num_rows))
        else:
            columns.append(extra[field.name] if field.name in extra else rows.column(field.name))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def small_rows(actions: Sequence[tuple[str, Action]], schema: pyarrow.Schema) -> pyarrow.Table:
    """Return small actions, one per row. Raises CommitCorrupt for a value that a checkpoint cannot hold."""
    columns = []
    for field in schema:
        rows = [_with_pairs(action, field.type) if kind == field.name else None for kind, action in actions]
        columns.append(build_action_column(rows, field, "the state"))
    return pa.Table.from_arrays(columns, schema=schema)


def _with_pairs(action: Action, kind: Any) -> Any:
    """Return an action with lists of pairs where Arrow requires maps."""
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


def leaves_in_file(schema: pyarrow.Schema, wanted: Sequence[str]) -> list[str]:
    """Return those of some leaves that a file of this schema has."""
    kinds = set(schema.names)
    return [leaf for leaf in wanted if leaf.split(".", 1)[0] in kinds]


def dictionary_leaves(schema: pyarrow.Schema) -> list[str]:
    """Return the leaves for which a dictionary pays off."""
    return leaves_in_file(schema, _DICTIONARY_LEAVES)


def counted_leaves(schema: pyarrow.Schema) -> list[str]:
    """Return the leaves that get statistics in the footer."""
    parsed = "add.stats_parsed.numRecords"
    has_parsed = "add" in schema.names and schema.field("add").type.get_field_index("stats_parsed") >= 0
    return [*leaves_in_file(schema, _COUNTED_LEAVES), *([parsed] if has_parsed else [])]


def tombstone_cutoff(properties: Mapping[str, str], now_ms: int) -> int:
    """A remove whose deletionTimestamp is greater than this (epoch milliseconds) must be kept."""
    return now_ms - state.deleted_file_retention_ms(properties)


def live_transactions(
    transactions: Iterable[state.SetTransaction], properties: Mapping[str, str], now_ms: int
) -> list[state.SetTransaction]:
    """Return the transactions to keep: all, unless the table limits their age; one without lastUpdated is kept."""
    retention = state.parse_interval(properties.get(state.TRANSACTION_RETENTION) or "")
    if retention is None:
        return list(transactions)
    cutoff = now_ms - retention
    return [
        transaction
        for transaction in transactions
        if transaction.last_updated is None or transaction.last_updated > cutoff
    ]


# -- `stats_parsed` and `partitionValues_parsed` -----------------------------------------------------------------------

_MOST_NAMES = 96
"Maximum number of names in the path of a column with parsed statistics: a deeper one below "
"`add.stats_parsed.minValues` exceeds the 100 levels that Arrow reads of a Parquet schema."
_WITHOUT_BOUNDS = ("boolean", "binary")
_STAND_INS = {NOT_A_NUMBER: float("nan"), INFINITE: float("inf"), -INFINITE: float("-inf")}
_SPELLED = '"(NaN|-?Infinity)"'


# -- statistics -------------------------------------------------------------------------------------------------------


def stats_type(config: state.TableConfiguration) -> ArrowType:
    """Return the type of `stats_parsed`: columns with statistics by physical name, except any too deep for Parquet."""
    if config.schema is None:
        return None
    columns = [(path, kind) for path, kind in indexed_columns(config) if len(path) <= _MOST_NAMES]
    fields = [pa.field("numRecords", pa.int64())]
    if "deletionVectors" in config.features:
        fields.append(pa.field("tightBounds", pa.bool_()))
    for part in BOUNDS:
        bounds = _nested([(path, _bound_type(kind)) for path, kind in columns])
        fields += [pa.field(part, bounds)] if bounds is not None else []
    counts = _nested([(path, pa.int64()) for path, _ in columns])
    fields += [pa.field(NULL_COUNT, counts)] if counts is not None else []
    return pa.struct(fields)


def _bound_type(kind: DataType) -> Any:
    if isinstance(kind, PrimitiveType) and kind.name in _WITHOUT_BOUNDS:
        return None
    return typed(kind)


def _nested(leaves: list[tuple[ColumnPath, Any]]) -> Any:
    """Return a struct type with these leaves, without those that have no type, or None if none is left."""
    below: dict[str, list[tuple[ColumnPath, Any]]] = {}
    for path, kind in leaves:
        if kind is not None:
            below.setdefault(path[0], []).append((path[1:], kind))
    fields = []
    for name, rest in below.items():
        kind = rest[0][1] if not rest[0][0] else _nested(rest)
        if kind is not None:
            fields.append(pa.field(name, kind))
    return pa.struct(fields) if fields else None


def parse_statistics(
    texts: Any, config: state.TableConfiguration, kind: Any
) -> Any:  # Any: a string array; a struct type; an array
    """Return the statistics of adds as a struct, null if the text is missing or cannot be read."""
    return _Collected(parse_stats(texts, config), texts).struct(kind)


class _Collected:
    """The columns of all blocks of a parse, in the order of the rows."""

    def __init__(self, stats: StatsColumns, texts: Any) -> None:
        self._found = stats
        self._texts = texts
        self._count = count = len(texts)
        self._is_whole = len(stats.blocks) == 1 and stats.blocks[0].rows is None
        self._leaves = [
            {(part, leaf.path): leaf.values for part, leaves in block.leaves.items() for leaf in leaves}
            for block in stats.blocks
        ]
        if not self._is_whole:
            rows = [pc.cast(_as_array(block.rows), pa.int64()) for block in stats.blocks]
            known = pa.concat_arrays(rows) if rows else pa.nulls(0, pa.int64())
            self._places = pc.index_in(pa.array(range(count), pa.int64()), value_set=known)

    def struct(self, kind: Any) -> Any:
        if not self._found.blocks:
            return pa.nulls(self._count, kind)
        columns = [self._part(field) for field in kind]
        mask = None if self._is_whole else pc.is_null(self._places)
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)

    def _part(self, field: Any) -> Any:
        if field.name == "numRecords":
            return self._ordered([block.records for block in self._found.blocks], field.type)
        if field.name == "tightBounds":
            return self._ordered([block.is_tight for block in self._found.blocks], field.type)
        return self._below(field.name, (), field.type)

    def _below(self, part: str, path: ColumnPath, kind: Any) -> Any:
        if pa.types.is_struct(kind):
            fields = list(kind)
            columns = [self._below(part, (*path, field.name), field.type) for field in fields]
            return pa.StructArray.from_arrays(columns, fields=fields)
        return self._ordered([leaves.get((part, path)) for leaves in self._leaves], kind)

    def _ordered(self, columns: list[Any], kind: Any) -> Any:
        cast = [
            pa.nulls(len(block.records), kind) if column is None else self._cast(block, column, kind)
            for block, column in zip(self._found.blocks, columns, strict=True)
        ]
        return cast[0] if self._is_whole else pc.take(pa.concat_arrays(cast), self._places)

    def _cast(self, block: StatsBlock, column: Any, kind: Any) -> Any:
        """Return a parsed bound in the type of its column. The largest doubles become NaN or the infinities if the text
        has such a word, and are unchanged otherwise.
        """
        if pa.types.is_floating(kind) and _may_stand_in(column):
            is_spelled = block.align(self._names_floats)
            for number, value in _STAND_INS.items():
                stands = pc.and_(is_spelled, pc.fill_null(pc.equal(column, number), False))
                column = pc.if_else(stands, value, column)
        return column if column.type.equals(kind) else pc.cast(column, kind)

    @cached_property
    def _names_floats(self) -> Any:
        """Return which texts contain NaN or an infinity."""
        return pc.fill_null(pc.match_substring_regex(self._texts, _SPELLED), False)


def _as_array(rows: Any) -> Any:  # Any: an integer array, or a sequence
    return rows if isinstance(rows, pa.Array) else pa.array(rows, pa.int64())


def _may_stand_in(column: Any) -> bool:
    """Return True if a number is as large as those that represent NaN and the infinities."""
    ends = pc.min_max(column).as_py()
    return ends["max"] is not None and max(abs(ends["max"]), abs(ends["min"])) >= INFINITE


def parsed_columns(
    adds: pyarrow.RecordBatch, config: state.TableConfiguration, partition_values: Any, stats: Any
) -> dict[str, Any]:  # Any: Arrow types and arrays
    """Return the parsed columns of adds (`action_schemas().add`) for the types that are not None."""
    columns = {}
    if partition_values is not None:
        from deltacli.delta.partitions.values import parse_partition_values

        maps = adds.column("partitionValues")
        columns["partitionValues_parsed"] = parse_partition_values(maps, config, partition_values)
    if stats is not None:
        columns["stats_parsed"] = parse_statistics(adds.column("stats"), config, stats)
    return columns


# -- columns and row groups of a checkpoint that is read ---------------------------------------------------------------

SMALL_ACTIONS = {
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
    "checkpointMetadata": "version",
}
"""Every small action of a checkpoint with the leaf that is never null in it: where the leaf is null, the row is
another action.
"""

_VECTOR_LEAVES = ("storageType", "pathOrInlineDv", "offset", "cardinality")


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: what it may hold according to its footer statistics. True if they do not say."""

    index: int
    rows: int
    has_adds: bool
    has_removes: bool
    has_add_vectors: bool
    has_remove_vectors: bool
    removes_are_whole: bool
    """Every remove with a deletionTimestamp has a path."""
    stats_are_parsed: bool
    """Every add has stats_parsed.numRecords, so the JSON text need not be read."""
    needs_parsed_stats: bool
    "Some adds have statistics only in stats_parsed."


class CheckpointColumns:
    """The leaves one Parquet file of a checkpoint has, found by name; unknown ones are ignored."""

    def __init__(
        self, metadata: pyarrow.parquet.FileMetaData, paths: Iterable[Sequence[str]], footer: bytes = b""
    ) -> None:
        """`paths`: the names that lead to each leaf; `footer`: the bytes of `metadata`, without it nothing is known."""
        self._metadata = metadata
        self._footer = footer
        self._leaves = {".".join(path) for path in paths}
        self._null_counts: dict[str, list[int | None]] = {}

    def has(self, prefix: str) -> bool:
        """True if a leaf of that name, or below it, exists."""
        return any(leaf == prefix or leaf.startswith(f"{prefix}.") for leaf in self._leaves)

    def row_groups(self) -> list[RowGroup]:
        """Describe every row group by its footer alone."""
        return [self._describe(index) for index in range(self._metadata.num_row_groups)]

    def holds(self, group: int, leaf: str) -> bool:
        """Return False only if the footer proves that the leaf is absent or null in every row of that row group."""
        return leaf in self._leaves and self._nulls(group, leaf) != self._metadata.row_group(group).num_rows

    def knows(self, group: int, leaf: str) -> bool:
        """Return whether the footer says how many values of the leaf are null in that row group."""
        return self._nulls(group, leaf) is not None

    def narrow_add(self, group: RowGroup, *, with_paths: bool, with_records: bool = True) -> list[str]:
        """Return the leaves needed to count the adds of a row group; those of their rows only with `with_records`."""
        wanted = ["add.size", *(f"add.deletionVector.{leaf}" for leaf in _VECTOR_LEAVES if group.has_add_vectors)]
        if with_paths:
            wanted.append("add.path")
        if not with_records:
            return [leaf for leaf in wanted if leaf in self._leaves]
        if "add.stats_parsed.numRecords" in self._leaves:
            wanted.append("add.stats_parsed.numRecords")
        if not group.stats_are_parsed:
            wanted.append("add.stats")
        return [leaf for leaf in wanted if leaf in self._leaves]

    def narrow_remove(self, group: RowGroup, *, with_paths: bool) -> list[str]:
        """Return the leaves needed to count the removes of a row group."""
        wanted = ["remove.deletionTimestamp"]
        if with_paths or not group.removes_are_whole:
            wanted.append("remove.path")  # an incomplete remove is recognized by its missing path
        if with_paths and group.has_remove_vectors:
            wanted += [f"remove.deletionVector.{leaf}" for leaf in _VECTOR_LEAVES]
        leaves = [leaf for leaf in wanted if leaf in self._leaves]
        return leaves or ["remove.path"]

    def whole(self, kind: str, fields: Sequence[str]) -> list[str]:
        """The prefixes of the named fields of `add` or `remove` that this file has."""
        return [f"{kind}.{name}" for name in fields if self.has(f"{kind}.{name}")]

    def _describe(self, index: int) -> RowGroup:
        rows = self._metadata.row_group(index).num_rows
        add_nulls = self._nulls(index, "add.path")
        parsed_nulls = self._nulls(index, "add.stats_parsed.numRecords")
        text_nulls = self._nulls(index, "add.stats")
        lacks_texts = text_nulls is not None and add_nulls is not None and text_nulls > add_nulls
        return RowGroup(
            index,
            rows,
            has_adds=self.holds(index, "add.path"),
            has_removes=self.holds(index, "remove.path") or self.holds(index, "remove.deletionTimestamp"),
            has_add_vectors=self.holds(index, "add.deletionVector.storageType"),
            has_remove_vectors=self.holds(index, "remove.deletionVector.storageType"),
            removes_are_whole=self._nulls(index, "remove.path") == self._nulls(index, "remove.deletionTimestamp"),
            stats_are_parsed=add_nulls is not None and parsed_nulls is not None and add_nulls == parsed_nulls,
            needs_parsed_stats=self.has("add.stats_parsed") and ("add.stats" not in self._leaves or lacks_texts),
        )

    def _nulls(self, group: int, leaf: str) -> int | None:
        """Return the null count of a leaf in a row group, or None if the footer has none."""
        if leaf not in self._leaves:
            return None
        if leaf not in self._null_counts:
            self._null_counts[leaf] = read_null_counts(self._footer, leaf, self._metadata.num_row_groups)
        return self._null_counts[leaf][group]
