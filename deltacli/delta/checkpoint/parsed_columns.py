"""`stats_parsed` and `partitionValues_parsed`: the texts of an add in the types of the table.

Spec: Checkpoint Schema; Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.core.cached import cached_property
from deltacli.core.typing import ArrowType
from deltacli.delta.encoding.value_text import (
    interval_microseconds,
    months_of,
    nanoseconds_of,
    parse_date,
    parse_moment,
)
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.text import Spelling, is_text, spelling_of
from deltacli.delta.schema.kinds import NANOSECONDS, YEAR_MONTH, interval_name
from deltacli.delta.schema.to_arrow import plain_type
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.delta.stats.columns import StatsBlock, StatsColumns, parse_stats
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, ColumnPath, indexed_columns
from deltacli.delta.stats.values import INFINITE, NOT_A_NUMBER

if TYPE_CHECKING:
    import pyarrow

_MOST_NAMES = 96
"Maximum number of names in the path of a column with parsed statistics: a deeper one below "
"`add.stats_parsed.minValues` exceeds the 100 levels that Arrow reads of a Parquet schema."
_WITHOUT_BOUNDS = ("boolean", "binary")
_STAND_INS = {NOT_A_NUMBER: float("nan"), INFINITE: float("inf"), -INFINITE: float("-inf")}
_SPELLED = '"(NaN|-?Infinity)"'


def typed(data_type: DataType) -> ArrowType:
    """Return the Arrow type that holds values of a primitive type of the table."""
    return plain_type(data_type.name) if isinstance(data_type, PrimitiveType) else None


# -- partition values -------------------------------------------------------------------------------------------------


def partition_type(config: TableConfiguration) -> ArrowType:
    """Return the type of `partitionValues_parsed`: fields by physical name, in the order of the partition columns."""
    import pyarrow as pa

    fields = [
        pa.field(name, kind)
        for name, column in config.partition_columns.items()
        if column is not None and (kind := typed(column.data_type)) is not None
    ]
    return pa.struct(fields) if fields else None


def parse_partition_values(
    maps: Any, config: TableConfiguration, kind: Any
) -> Any:  # Any: Arrow arrays and a struct type
    """Return the typed `partitionValues` of adds. A text that is not a value of its type is null."""
    import pyarrow as pa

    columns = []
    for field in kind:
        column = config.partition_columns[field.name]
        texts = pc.map_lookup(maps, query_key=pa.scalar(field.name), occurrence="first")
        name = column.data_type.name if column and isinstance(column.data_type, PrimitiveType) else ""
        encoded = pc.dictionary_encode(texts)
        values = [None if text is None else _value(name, text) for text in encoded.dictionary.to_pylist()]
        columns.append(pc.take(_array(values, field.type), encoded.indices))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _array(values: list[Any], kind: Any) -> Any:
    import pyarrow as pa

    if not values:
        return pa.nulls(0, kind)
    if pa.types.is_temporal(kind):
        unit = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return pa.array(values, unit).view(kind)
    return pa.array(values, kind)


def _value(type_name: str, text: str) -> Any:  # Any: what Arrow takes for the type
    """Return a partition value: times as microseconds, dates as days since the epoch, None for an invalid value."""
    if text == "":
        return None
    if type_name == "binary":
        return text.encode("utf-8", "replace")
    if is_text(type_name):
        return text
    bare = text.strip()
    if spelling_of(type_name, text) is Spelling.UNPARSABLE:
        return None
    match type_name:
        case "boolean":
            return bare.lower() == "true"
        case "date":
            return parse_date(bare)
        case "timestamp" | "timestamp_ntz":
            moment = parse_moment(bare)
            return moment.microseconds if moment and abs(moment.microseconds) < 1 << 63 else None
        case "float" | "double":
            return float(bare.rstrip("fFdD") if bare[-1:] in "fFdD" and bare[:1].isdigit() else bare)
        case "byte" | "short" | "integer" | "long":
            return int(bare)
    return _other_value(type_name, bare)


def _other_value(type_name: str, bare: str) -> Any:
    if interval := interval_name(type_name):
        return months_of(bare) if interval == YEAR_MONTH else interval_microseconds(bare)
    if type_name in NANOSECONDS:
        return nanoseconds_of(bare)
    if not type_name.startswith("decimal"):
        return None  # no text is a value of an array, a map, a struct or a variant
    from decimal import Decimal

    return Decimal(bare)


# -- statistics -------------------------------------------------------------------------------------------------------


def stats_type(config: TableConfiguration) -> ArrowType:
    """Return the type of `stats_parsed`: the columns with statistics by physical name. Columns nested too deeply for
    Parquet are left out.
    """
    import pyarrow as pa

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
    import pyarrow as pa

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
    texts: Any, config: TableConfiguration, kind: Any
) -> Any:  # Any: a string array; a struct type; an array
    """Return the statistics of adds as a struct, null if the text is missing or cannot be read."""
    return _Collected(parse_stats(texts, config), texts).struct(kind)


class _Collected:
    """The columns of all blocks of a parse, in the order of the rows."""

    def __init__(self, stats: StatsColumns, texts: Any) -> None:
        import pyarrow as pa

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
        import pyarrow as pa

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
        import pyarrow as pa

        if pa.types.is_struct(kind):
            fields = list(kind)
            columns = [self._below(part, (*path, field.name), field.type) for field in fields]
            return pa.StructArray.from_arrays(columns, fields=fields)
        return self._ordered([leaves.get((part, path)) for leaves in self._leaves], kind)

    def _ordered(self, columns: list[Any], kind: Any) -> Any:
        import pyarrow as pa

        cast = [
            pa.nulls(len(block.records), kind) if column is None else self._cast(block, column, kind)
            for block, column in zip(self._found.blocks, columns, strict=True)
        ]
        return cast[0] if self._is_whole else pc.take(pa.concat_arrays(cast), self._places)

    def _cast(self, block: StatsBlock, column: Any, kind: Any) -> Any:
        """Return a parsed bound in the type of its column. The largest doubles become NaN or the infinities if the text
        has such a word, and are unchanged otherwise.
        """
        import pyarrow as pa

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
    import pyarrow as pa

    return rows if isinstance(rows, pa.Array) else pa.array(rows, pa.int64())


def _may_stand_in(column: Any) -> bool:
    """Return True if a number is as large as those that represent NaN and the infinities."""
    ends = pc.min_max(column).as_py()
    return ends["max"] is not None and max(abs(ends["max"]), abs(ends["min"])) >= INFINITE


def parsed_columns(
    adds: pyarrow.RecordBatch, config: TableConfiguration, partition_values: Any, stats: Any
) -> dict[str, Any]:  # Any: Arrow types and arrays
    """Return the parsed columns of adds (`action_schemas().add`) for the types that are not None."""
    columns = {}
    if partition_values is not None:
        maps = adds.column("partitionValues")
        columns["partitionValues_parsed"] = parse_partition_values(maps, config, partition_values)
    if stats is not None:
        columns["stats_parsed"] = parse_statistics(adds.column("stats"), config, stats)
    return columns
