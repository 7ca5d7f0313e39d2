"""The columns that get statistics, by the properties of a table. Spec: Per-file Statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.read_property import parse_integer
from deltacli.delta.schema.types import DataType, StructField, StructType
from deltacli.delta.stats.schema import ColumnPath

INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_DEFAULT_INDEXED_COLUMNS = 32


def indexed_columns(
    config: TableConfiguration, clustering: Collection[ColumnPath] = ()
) -> Iterator[tuple[ColumnPath, DataType]]:
    """Yield physical path and type of the leaves that get statistics: the named ones, or the first ones in the order of
    the schema, and in any case those of the physical paths `clustering`.
    """
    named = str(config.properties.get(STATS_COLUMNS) or "").strip()
    leaves = leaf_columns(config)
    if named:
        wanted = {part.strip().replace("`", "").lower() for part in named.split(",")}
        for logical, physical, kind in leaves:
            named_here = any(".".join(logical[:length]).lower() in wanted for length in range(1, len(logical) + 1))
            if named_here or physical in clustering:
                yield physical, kind
        return
    count = parse_integer(config.properties, INDEXED_COLUMNS)
    most = _DEFAULT_INDEXED_COLUMNS if count is None else count
    for place, (_, physical, kind) in enumerate(leaves):
        if most < 0 or place < most or physical in clustering:
            yield physical, kind


def leaf_columns(config: TableConfiguration) -> list[tuple[ColumnPath, ColumnPath, DataType]]:
    """Return logical path, physical path and type of every leaf except the partition columns, in the order of the
    schema.
    """
    return list(_leaves(config, config.schema.fields if config.schema else (), (), ()))


def _leaves(
    config: TableConfiguration, fields: Sequence[StructField], logical: ColumnPath, physical: ColumnPath
) -> Iterator[tuple[ColumnPath, ColumnPath, DataType]]:
    """Yield logical path, physical path and type of each leaf except the partition columns. Maps and arrays are
    leaves.
    """
    for field in fields:
        name = config.physical_name(field)
        if not physical and name in config.partition_columns:
            continue
        if isinstance(field.data_type, StructType):
            yield from _leaves(config, field.data_type.fields, (*logical, field.name), (*physical, name))
        else:
            yield (*logical, field.name), (*physical, name), field.data_type
