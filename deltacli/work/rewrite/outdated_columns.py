"""Find data files with columns that the table has dropped, types that it has changed, or values that engines misread.

Spec: Type Widening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from deltacli.core.errors import DataUnreadable
from deltacli.core.typing import ArrowField, ArrowType
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import to_arrow, types
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.rows.nan_bounds import find_bounds_beside_nan, find_float_fields, find_leaves
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


CONFIG = "config"
"""The name of the shared `TableConfiguration`."""


def find_dropped_columns(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether it has columns or nested fields that the shared configuration does not have, True
    also where it cannot be read. A task. Raises PathExternal.
    """
    return [_has_any(_is_dropped, file, context) for file in piece]


def find_files_to_purge(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether it has columns that the shared configuration does not have, NaN in row groups whose
    bounds in the footer leave it out, or times that engines misread as INT96; True also where it cannot be read. A
    task. Raises PathExternal.
    """
    dropped = find_dropped_columns(piece, context)
    return [
        is_named or _has_bounds_beside_nan(file, context) or _has_misread_times(file, context)
        for file, is_named in zip(piece, dropped, strict=True)
    ]


def _has_bounds_beside_nan(file: DataFile, context: TaskContext) -> bool:
    """Return whether readers that order NaN above all numbers lose rows of a file by the bounds in its footer."""
    config: TableConfiguration = context.shared(CONFIG)
    fields = find_float_fields(config)
    if not fields:
        return False
    try:
        with open_data_file(context.files, file) as opened:
            if str(opened.parquet.metadata.created_by).startswith(_RIGHT_ABOUT_NAN):
                return False
            leaves = find_leaves(FileColumns(config.mapping_mode, config.physical_name), opened.schema, fields)
            return bool(find_bounds_beside_nan(opened, leaves))
    except DataUnreadable:
        return True


def _has_misread_times(file: DataFile, context: TaskContext) -> bool:
    """Return whether a file has timestamps of the type INT96 that some engines read as other times.

    Its values are read only if the statistics in the log allow such times, which they rarely do.
    """
    from deltacli.delta.stats.nanosecond_range import may_exceed_nanoseconds
    from deltacli.work.rows.int96_times import (
        find_int96_columns,
        find_timestamp_columns,
        has_times_beyond_nanoseconds,
        has_unit_in_arrow_schema,
    )

    config: TableConfiguration = context.shared(CONFIG)
    fields = find_timestamp_columns(config)
    if not fields or not may_exceed_nanoseconds(pa.array([file.stats], pa.string()), config)[0].as_py():
        return False
    try:
        with open_data_file(context.files, file) as opened:
            # The engines that misread such times read them right by the Arrow schema in the footer.
            if has_unit_in_arrow_schema(opened):
                return False
            columns = FileColumns(config.mapping_mode, config.physical_name)
            return has_times_beyond_nanoseconds(opened, find_int96_columns(opened, columns, fields))
    except DataUnreadable:
        return True


_RIGHT_ABOUT_NAN = "parquet-mr"
"""The writer of Spark, whose bounds never leave NaN out. Its files need not be read."""


def find_older_types(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether a type differs of the columns whose types the shared configuration has changed, True
    also where it cannot be read. A task. Raises PathExternal.
    """
    return [_has_any(_is_older, file, context) for file in piece]


_Leaf = tuple[ArrowType, types.DataType | None, types.StructField | None]
"""A type in a file, that of the same place of the table, and the innermost field there; None if there is none."""


def _has_any(is_wanted: Callable[[_Leaf], bool], file: DataFile, context: TaskContext) -> bool:
    config: TableConfiguration = context.shared(CONFIG)
    row_id_columns = {(config.properties.get(key) or "").lower() for key in COLUMN_PROPERTIES}
    try:
        with open_data_file(context.files, file) as opened:
            stored = [field for field in opened.schema if field.name.lower() not in row_id_columns]
            return any(map(is_wanted, _pair_leaves(stored, config.schema or types.StructType(()), config)))
    except DataUnreadable:
        return True


def _is_dropped(leaf: _Leaf) -> bool:
    return leaf[2] is None


def _is_older(leaf: _Leaf) -> bool:
    stored, known, field = leaf
    if field is None or known is None or TYPE_CHANGES_KEY not in field.metadata:
        return False
    return not stored.equals(to_arrow.arrow_type(known))


def _pair_leaves(stored: Sequence[ArrowField], known: types.StructType, config: TableConfiguration) -> Iterator[_Leaf]:
    by_name = {config.physical_name(field).lower(): field for field in known.fields}
    for stored_field in stored:
        field = by_name.get(stored_field.name.lower())
        yield from _pair_leaves_of_type(stored_field.type, None if field is None else field.data_type, field, config)


def _pair_leaves_of_type(
    stored: ArrowType, known: types.DataType | None, field: types.StructField | None, config: TableConfiguration
) -> Iterator[_Leaf]:
    match known:
        case types.StructType() if pa.types.is_struct(stored):
            yield from _pair_leaves(list(stored), known, config)
        case types.ArrayType(element, _) if pa.types.is_list(stored):
            yield from _pair_leaves_of_type(stored.value_type, element, field, config)
        case types.MapType(key, value, _) if pa.types.is_map(stored):
            yield from _pair_leaves_of_type(stored.key_type, key, field, config)
            yield from _pair_leaves_of_type(stored.item_type, value, field, config)
        case _:
            yield stored, known, field
