"""What is known of the columns of a condition in each file, for clients of all kinds.

Partition values are exact, except timestamps without a zone, which every client reads in its own zone, and floating-
point numbers, which are compared as floats or as doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from deltacli.arrow import compute as pc
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.predicate.columns import Column, ColumnPath
from deltacli.delta.predicate.file_stats import read_bounds
from deltacli.delta.predicate.possible import Bounds, Exact, Known
from deltacli.delta.predicate.prune import is_partition, partition_source, physical_path
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import StructField
from deltacli.sharing.hints.client_dialects import ZONE_MICROSECONDS
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    import pyarrow

Source: TypeAlias = Callable[[Column], Known]

_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
"The key of a field's metadata that names the type of its strings in Spark."
_WITH_ZONE = r":[0-9]{2}([.][0-9]+)? ?(Z|UTC|GMT|[+-][0-9]{2}(:?[0-9]{2}){0,2})$"
_FARTHEST = 1 << 62


class KnownColumns:
    """The columns of conditions, split into partition columns and columns with statistics.

    Columns of other types, and strings padded to a length, which clients compare in different ways, are left out.
    """

    def __init__(self, columns: Iterable[Column], config: TableConfiguration) -> None:
        self._config = config
        self.partitions: dict[Column, str] = {}
        self.others: dict[Column, ColumnPath] = {}
        for column in dict.fromkeys(columns):
            path = physical_path(config, column.path)
            if is_partition(config, path):
                if column.kind is not Kind.FLOAT:
                    self.partitions[column] = path[0]
            elif column.kind is not Kind.OTHER:
                self.others[column] = path
        for column in [column for column in (*self.partitions, *self.others) if _is_padded(config, column)]:
            self.partitions.pop(column, None)
            self.others.pop(column, None)

    def of_partitions(self, files: pyarrow.RecordBatch) -> Source:
        """Return what partition values reveal about files."""
        values = partition_source(files, self._config, self.partitions)
        maps = files.column("partitionValues")

        def source(column: Column) -> Known:
            if column not in self.partitions:
                return None
            found = values(column)
            is_zoned = column.kind is Kind.TIMESTAMP and isinstance(found, Exact)
            return _in_any_zone(found, maps, self.partitions[column]) if is_zoned else found

        return source

    def of_statistics(self, files: pyarrow.RecordBatch) -> Source:
        """Return what partition values and statistics reveal about files."""
        values, bounds = self.of_partitions(files), read_bounds(files.column("stats"), self.others)
        return lambda column: values(column) if column in self.partitions else bounds.get(column)


def _is_padded(config: TableConfiguration, column: Column) -> bool:
    """Return True for CHAR columns: some clients compare them without the blanks at the end."""
    if column.type_name.startswith("char("):
        return True
    fields: Iterable[StructField] = config.schema.fields if config.schema else ()
    field = next((field for field in fields if field.name == column.path[0]), None)
    return field is not None and _names_char(field, column.path[1:])


def _names_char(field: StructField, path: ColumnPath) -> bool:
    if path:
        below = getattr(field.data_type, "fields", ())
        inner = next((one for one in below if one.name == path[0]), None)
        return inner is not None and _names_char(inner, path[1:])
    return str(field.metadata.get(_PADDED, "")).lower().startswith("char")


def _in_any_zone(found: Known, maps: ArrowArray, name: str) -> Known:
    """Return timestamps as bounds: those without a zone may be earlier and later."""
    import pyarrow as pa

    assert isinstance(found, Exact)
    texts = pc.map_lookup(maps, query_key=pa.scalar(name), occurrence="first")
    is_zoned = pc.fill_null(pc.match_substring_regex(texts, _WITH_ZONE), False)
    slack = pc.if_else(is_zoned, pa.scalar(0, pa.int64()), pa.scalar(ZONE_MICROSECONDS, pa.int64()))
    numbers = pc.cast(found.values, pa.int64())
    is_usable = pc.and_(found.is_known, pc.fill_null(pc.less(pc.abs(numbers), _FARTHEST), False))
    numbers = pc.if_else(is_usable, numbers, pa.scalar(None, pa.int64()))
    unknown, is_null = pc.invert(found.is_known), pc.is_null(found.values)
    return Bounds(
        pc.subtract(numbers, slack),
        pc.add(numbers, slack),
        pc.or_(unknown, is_null),
        pc.or_(unknown, pc.invert(is_null)),
    )
