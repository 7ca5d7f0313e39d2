"""The possible statistics of a table: its columns by physical name, the type of each bound, and the columns that get
them by the properties of the table.

Spec: Per-file Statistics; Statistics for columns of nested types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.core.typing import ArrowType
from deltacli.delta.log.state import TableConfiguration, parse_integer_property
from deltacli.delta.schema import types
from deltacli.delta.schema.to_arrow import plain_type

ColumnPath = tuple[str, ...]
"""Physical names from the root to a column."""

BOUNDS = ("minValues", "maxValues")
NULL_COUNT = "nullCount"
PER_COLUMN = (*BOUNDS, NULL_COUNT)


class StatKind(StrEnum):
    """How the bounds of a column are written in JSON."""

    WHOLE = "an integer"
    FLOAT = "a number"
    DECIMAL = "a decimal"
    DATE = "a date"
    TIMESTAMP = "a timestamp"
    TEXT = "a string"
    BOOLEAN = "true or false"
    VARIANT = "a z85 string"
    INTERVAL = "an interval"
    STRUCT = "an object"
    OTHER = "anything"


_WRITTEN = {
    types.Kind.WHOLE: StatKind.WHOLE,
    types.Kind.FLOAT: StatKind.FLOAT,
    types.Kind.DECIMAL: StatKind.DECIMAL,
    types.Kind.DATE: StatKind.DATE,
    types.Kind.TIMESTAMP: StatKind.TIMESTAMP,
    types.Kind.NTZ: StatKind.TIMESTAMP,
    types.Kind.TEXT: StatKind.TEXT,
    types.Kind.BOOLEAN: StatKind.BOOLEAN,
}


class StatColumn(NamedTuple):
    """A column of statistics. `name` is its logical path with dots."""

    name: str
    kind: StatKind
    data_type: types.DataType
    is_partition: bool

    @property
    def type_name(self) -> str:
        return types.simple_name(self.data_type)


class StatSchema:
    """The columns that statistics under a configuration may have; each is looked up when a file names it."""

    def __init__(self, config: TableConfiguration) -> None:
        self._config = config
        self._partitions = config.partition_columns
        self._fields: dict[ColumnPath, dict[str, types.StructField]] = {(): config.columns}
        self._columns: dict[ColumnPath, StatColumn | None] = {}

    @property
    def is_known(self) -> bool:
        """False where the table's schema cannot be read."""
        return self._config.schema is not None

    def column(self, path: ColumnPath) -> StatColumn | None:
        """Return the column at a path of physical names, or None if the schema has none."""
        if path not in self._columns:
            self._columns[path] = self._find(path)
        return self._columns[path]

    def fields_along(self, path: ColumnPath) -> list[types.StructField] | None:
        """Return the fields from the top-level column to a path of physical names, or None if the schema has none."""
        fields = [self._fields_below(path[:depth]).get(name) for depth, name in enumerate(path)]
        return None if None in fields else [field for field in fields if field is not None]

    def is_logical(self, path: ColumnPath) -> bool:
        """Return True if, under column mapping, the path fails at the logical name of a column."""
        if self._config.mapping_mode == "none":
            return False
        unknown = self.shortest_unknown(path)
        if unknown is None:
            return False
        fields = self._fields_below(unknown[:-1])
        return any(field.name == unknown[-1] for field in fields.values())

    def shortest_unknown(self, path: ColumnPath) -> ColumnPath | None:
        """Return the beginning of a path up to the first name that no column has, or None if it leads to a column."""
        beginnings = (path[:length] for length in range(1, len(path) + 1))
        return next((beginning for beginning in beginnings if self.column(beginning) is None), None)

    def _find(self, path: ColumnPath) -> StatColumn | None:
        parent = path[:-1]
        field = self._fields_below(parent).get(path[-1])
        if field is None:
            return None
        above = self.column(parent) if parent else None
        name = f"{above.name}.{field.name}" if above else field.name
        return StatColumn(
            name, bound_kind(field.data_type), field.data_type, not parent and path[0] in self._partitions
        )

    def _fields_below(self, path: ColumnPath) -> dict[str, types.StructField]:
        if path not in self._fields:
            column = self.column(path)
            nested = column.data_type.fields if column and isinstance(column.data_type, types.StructType) else ()
            self._fields[path] = {self._config.physical_name(field): field for field in nested}
        return self._fields[path]


def bound_kind(data_type: types.DataType) -> StatKind:
    """Return how bounds of a type are written."""
    if isinstance(data_type, types.StructType):
        return StatKind.STRUCT
    if not isinstance(data_type, types.PrimitiveType):
        return StatKind.OTHER
    name = data_type.name
    if name.startswith("interval"):
        return StatKind.INTERVAL
    if name == "variant":
        return StatKind.VARIANT
    if name.startswith(types.FIXED_TEXTS):  # not a type of a table schema: nothing is known of its bounds
        return StatKind.OTHER
    return _WRITTEN.get(types.value_kind(data_type), StatKind.OTHER)


def bound_type(column: StatColumn) -> ArrowType:
    """Return the Arrow type as which a column's bounds are read, or None for any text."""
    match column.kind:
        case StatKind.WHOLE:
            return plain_type(column.type_name)
        case StatKind.FLOAT:
            return pa.float64()
        case StatKind.DECIMAL:
            return pa.decimal128(*(types.decimal_parts(column.type_name) or (38, 0)))
        case StatKind.DATE:
            return pa.timestamp("s")
        case StatKind.TIMESTAMP:
            return pa.timestamp("us")
        case StatKind.TEXT | StatKind.VARIANT | StatKind.INTERVAL:
            return pa.string()
        case StatKind.BOOLEAN:
            return pa.bool_()
        case _:
            return None


def stats_fields(schema: StatSchema, shape: dict[str, Any]) -> pa.Schema:  # Any: shapes within shapes
    """Return the Arrow schema by which statistics of a shape (nested names, None at the ends) are read."""
    fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
    fields += [pa.field(part, _struct(schema, part, (), shape.get(part) or {})) for part in PER_COLUMN]
    return pa.schema(fields)


def _struct(schema: StatSchema, part: str, parent: ColumnPath, shape: dict[str, Any]) -> pa.DataType:
    fields = []
    for name, below in shape.items():
        path = (*parent, name)
        column = schema.column(path)
        if column is None:
            continue
        if column.kind is StatKind.STRUCT:
            data_type = _struct(schema, part, path, below or {})
        else:
            data_type = pa.int64() if part == NULL_COUNT else bound_type(column)
        if data_type is not None:
            fields.append(pa.field(name, data_type))
    return pa.struct(fields)


def merge(shape: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return both shapes in one."""
    merged = dict(shape)
    for name, below in other.items():
        known = merged.get(name)
        merged[name] = merge(known, below) if isinstance(known, dict) and isinstance(below, dict) else below or known
    return merged


def shape_of_value(value: dict[str, Any]) -> dict[str, Any]:
    """Return the shape of one file's statistics."""
    return {name: shape_of_value(below) if isinstance(below, dict) else None for name, below in value.items()}


def shape_of_type(fields: Any) -> dict[str, Any]:
    """Return the shape of an Arrow schema or struct type."""
    return {field.name: shape_of_type(field.type) if pa.types.is_struct(field.type) else None for field in fields}


INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_DEFAULT_INDEXED_COLUMNS = 32


def indexed_columns(
    config: TableConfiguration, clustering: Collection[ColumnPath] = ()
) -> Iterator[tuple[ColumnPath, types.DataType]]:
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
    count = parse_integer_property(config.properties, INDEXED_COLUMNS)
    most = _DEFAULT_INDEXED_COLUMNS if count is None else count
    for place, (_, physical, kind) in enumerate(leaves):
        if most < 0 or place < most or physical in clustering:
            yield physical, kind


def leaf_columns(config: TableConfiguration) -> list[tuple[ColumnPath, ColumnPath, types.DataType]]:
    """Return logical path, physical path and type of every leaf but the partition columns, in schema order."""
    return list(_leaves(config, config.schema.fields if config.schema else (), (), ()))


def _leaves(
    config: TableConfiguration, fields: Sequence[types.StructField], logical: ColumnPath, physical: ColumnPath
) -> Iterator[tuple[ColumnPath, ColumnPath, types.DataType]]:
    """Yield logical path, physical path and type of each leaf but the partition columns. Maps and arrays are leaves."""
    for field in fields:
        name = config.physical_name(field)
        if not physical and name in config.partition_columns:
            continue
        if isinstance(field.data_type, types.StructType):
            yield from _leaves(config, field.data_type.fields, (*logical, field.name), (*physical, name))
        else:
            yield (*logical, field.name), (*physical, name), field.data_type
