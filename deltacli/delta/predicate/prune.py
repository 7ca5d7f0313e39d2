"""Files that a predicate need not read, by their partition values and their statistics.

A file is kept unless the predicate cannot be true for any row of it. Spec: Per-file Statistics; Partition Value
Serialization.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray
from deltacli.delta.checkpoint.parsed_columns import parse_partition_values
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.predicate.columns import Column, ColumnPath
from deltacli.delta.predicate.conditions import columns_of
from deltacli.delta.predicate.file_stats import read_bounds
from deltacli.delta.predicate.parse import Predicate
from deltacli.delta.predicate.possible import Exact, Known, Possible, constant, possible
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import StructType

if TYPE_CHECKING:
    import pyarrow

_NAMED_ZONE = "[A-Za-z]/"


class Pruned(NamedTuple):
    """Which files have to be read, and which others were excluded by their partition values alone; never null."""

    kept: ArrowArray
    by_partition: Any


def prune_files(adds: pyarrow.RecordBatch, predicate: Predicate, config: TableConfiguration) -> Pruned:
    """Return which of the files in whole add actions may have rows that match a predicate."""
    count = adds.num_rows
    partitions, others = _columns_by_source(predicate, config)
    values = partition_source(adds, config, partitions)
    kept = possible(predicate.condition, lambda column: values(column) if column in partitions else None, count).true
    by_partition = pc.invert(kept)
    if others and pc.any(kept).as_py():
        rows = pc.indices_nonzero(kept)
        rest = adds if len(rows) == count else pc.take(adds.select(["partitionValues", "stats"]), rows)
        kept = _possible_by_statistics(rest, predicate, config, partitions, others).true
        kept = _spread(kept, rows, count)
    return Pruned(kept, by_partition)


def certainly_true(adds: pyarrow.RecordBatch, predicate: Predicate, config: TableConfiguration) -> ArrowArray:
    """Return for which of the files a predicate is true in every row, by partition values and statistics."""
    found = _possible_by_statistics(adds, predicate, config, *_columns_by_source(predicate, config))
    return pc.invert(pc.or_(found.false, found.null))


def _columns_by_source(
    predicate: Predicate, config: TableConfiguration
) -> tuple[dict[Column, str], dict[Column, ColumnPath]]:
    """Return the partition columns of a predicate, and those that may have statistics, by their physical names."""
    paths = {column: physical_path(config, column.path) for column in dict.fromkeys(columns_of(predicate.condition))}
    partitions = {column: path[0] for column, path in paths.items() if is_partition(config, path)}
    others = {
        column: path for column, path in paths.items() if column not in partitions and column.kind is not Kind.OTHER
    }
    return partitions, others


def _possible_by_statistics(
    adds: pyarrow.RecordBatch,
    predicate: Predicate,
    config: TableConfiguration,
    partitions: dict[Column, str],
    others: dict[Column, ColumnPath],
) -> Possible:
    bounds = read_bounds(adds.column("stats"), others) if others else {}
    values = partition_source(adds, config, partitions)
    return possible(
        predicate.condition,
        lambda column: values(column) if column in partitions else bounds.get(column),
        adds.num_rows,
    )


def _spread(kept: Any, rows: Any, count: int) -> Any:
    """Return the answers for some rows among all; the others are not kept."""
    import pyarrow as pa

    if len(rows) == count:
        return kept
    return pc.is_in(pa.array(range(count), pa.uint64()), value_set=pc.cast(pc.filter(rows, kept), pa.uint64()))


def physical_path(config: TableConfiguration, path: ColumnPath) -> ColumnPath:
    """Return the names of a column in files and statistics."""
    names, fields = [], config.schema.fields if config.schema else ()
    for name in path:
        field = next(field for field in fields if field.name == name)
        names.append(config.physical_name(field))
        fields = field.data_type.fields if isinstance(field.data_type, StructType) else ()
    return tuple(names)


def is_partition(config: TableConfiguration, path: ColumnPath) -> bool:
    """Return True for the physical path of a partition column."""
    return len(path) == 1 and path[0] in config.partition_columns


# -- partition values -------------------------------------------------------------------------------------------------


def partition_source(
    adds: pyarrow.RecordBatch, config: TableConfiguration, partitions: dict[Column, str]
) -> Callable[[Column], Known]:
    """Return a function that returns the partition values of a column, parsed at the first request."""

    @cache
    def values(column: Column) -> Known:
        return _partition_values(adds.column("partitionValues"), config, column, partitions[column])

    return values


def _partition_values(maps: Any, config: TableConfiguration, column: Column, name: str) -> Known:
    """One partition column: its values if the texts are unambiguous."""
    import pyarrow as pa

    kind = column.arrow_type
    if kind is None:
        return None
    texts = pc.map_lookup(maps, query_key=pa.scalar(name), occurrence="first")
    parsed = parse_partition_values(maps, config, pa.struct([(name, kind)]))
    values = pc.struct_field(parsed, [0])
    is_null = pc.and_(pc.is_null(texts), _names_key(maps, name, texts))
    if column.kind not in (Kind.TEXT, Kind.BINARY):
        # Null for every engine, except that engines differ for strings.
        is_null = pc.or_(is_null, pc.fill_null(pc.equal(texts, ""), False))
    is_known = pc.or_(pc.is_valid(values), is_null)
    if column.kind is Kind.TIMESTAMP:
        is_known = pc.and_(is_known, pc.invert(pc.fill_null(pc.match_substring_regex(texts, _NAMED_ZONE), False)))
    return Exact(values, is_known)


def _names_key(maps: Any, name: str, texts: Any) -> Any:
    """Return which of the maps without a text have the key: null is a value, but a missing key is unknown."""
    import pyarrow as pa

    count = len(texts)
    if texts.null_count == 0:
        return constant(False, count)
    without = pc.indices_nonzero(pc.is_null(texts))
    taken = pc.take(maps, without)
    lists = pa.ListArray.from_arrays(taken.offsets, taken.keys)
    parents = pc.list_parent_indices(lists)
    parents_with_name = pc.filter(parents, pc.equal(pc.list_flatten(lists), name))
    rows = pc.take(without, pc.unique(parents_with_name))
    return pc.is_in(pa.array(range(count), pa.uint64()), value_set=pc.cast(rows, pa.uint64()))
