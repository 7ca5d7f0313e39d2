"""Find data files that still have columns which the table does not have any more, or types from before a widening, from
their footers. Spec: Type Widening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from deltacli.core.errors import DataUnreadable
from deltacli.core.typing import ArrowField, ArrowType
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.to_arrow import arrow_type
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructField, StructType
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.task import TaskContext

CONFIG = "config"
"""The name of the shared `TableConfiguration`."""


def find_dropped_columns(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether it has columns or nested fields that the shared configuration does not have, True
    also where it cannot be read. A task. Raises PathExternal.
    """
    return [_has_any(_is_dropped, file, context) for file in piece]


def find_older_types(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether a type differs of the columns whose types the shared configuration has changed, True
    also where it cannot be read. A task. Raises PathExternal.
    """
    return [_has_any(_is_older, file, context) for file in piece]


_Leaf = tuple[ArrowType, DataType | None, StructField | None]
"""A type in a file, that of the same place of the table, and the innermost field there; None if there is none."""


def _has_any(is_wanted: Callable[[_Leaf], bool], file: DataFile, context: TaskContext) -> bool:
    config: TableConfiguration = context.shared(CONFIG)
    own = {(config.properties.get(key) or "").lower() for key in COLUMN_PROPERTIES}
    try:
        with open_data_file(context.files, file) as opened:
            stored = [field for field in opened.schema if field.name.lower() not in own]
            return any(map(is_wanted, _leaves(stored, config.schema or StructType(()), config)))
    except DataUnreadable:
        return True


def _is_dropped(leaf: _Leaf) -> bool:
    return leaf[2] is None


def _is_older(leaf: _Leaf) -> bool:
    stored, known, field = leaf
    if field is None or known is None or TYPE_CHANGES_KEY not in field.metadata:
        return False
    return not stored.equals(arrow_type(known))


def _leaves(stored: Sequence[ArrowField], known: StructType, config: TableConfiguration) -> Iterator[_Leaf]:
    by_name = {config.physical_name(field).lower(): field for field in known.fields}
    for one in stored:
        field = by_name.get(one.name.lower())
        yield from _leaves_of(one.type, None if field is None else field.data_type, field, config)


def _leaves_of(
    stored: ArrowType, known: DataType | None, field: StructField | None, config: TableConfiguration
) -> Iterator[_Leaf]:
    import pyarrow as pa

    match known:
        case StructType() if pa.types.is_struct(stored):
            yield from _leaves(list(stored), known, config)
        case ArrayType(element, _) if pa.types.is_list(stored):
            yield from _leaves_of(stored.value_type, element, field, config)
        case MapType(key, value, _) if pa.types.is_map(stored):
            yield from _leaves_of(stored.key_type, key, field, config)
            yield from _leaves_of(stored.item_type, value, field, config)
        case _:
            yield stored, known, field
