"""Find data files that still contain columns which the table does not have any more, from their footers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.rules.actions.row_tracking import COLUMN_PROPERTIES
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructType
from deltacli.errors import DataUnreadable
from deltacli.typing import ArrowField, ArrowType
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.task import TaskContext

CONFIG = "config"
"""The name of the shared `TableConfiguration`."""


@dataclass(frozen=True, slots=True)
class FindDroppedColumns:
    """Opens files, and looks for columns and nested fields that the shared configuration does not have."""

    def __call__(self, piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
        """Return for each file whether it has any, True also where it cannot be read. Raises PathExternal."""
        config: TableConfiguration = context.shared(CONFIG)
        return [_has_dropped(file, config, context) for file in piece]


def _has_dropped(file: DataFile, config: TableConfiguration, context: TaskContext) -> bool:
    own = {(config.properties.get(key) or "").lower() for key in COLUMN_PROPERTIES}
    schema = config.schema or StructType(())
    try:
        with open_data_file(context.files, file) as opened:
            stored = [field for field in opened.schema if field.name.lower() not in own]
            return _have_more(stored, schema, config)
    except DataUnreadable:
        return True


def _have_more(stored: Sequence[ArrowField], known: StructType, config: TableConfiguration) -> bool:
    """Return whether there is a stored field, at any depth, that a struct of the table does not have."""
    types = {config.physical_name(field).lower(): field.data_type for field in known.fields}
    return any(
        field.name.lower() not in types or _holds_more(field.type, types[field.name.lower()], config)
        for field in stored
    )


def _holds_more(stored: ArrowType, known: DataType, config: TableConfiguration) -> bool:
    import pyarrow as pa

    match known:
        case StructType() if pa.types.is_struct(stored):
            return _have_more(list(stored), known, config)
        case ArrayType(element, _) if pa.types.is_list(stored):
            return _holds_more(stored.value_type, element, config)
        case MapType(key, value, _) if pa.types.is_map(stored):
            return _holds_more(stored.key_type, key, config) or _holds_more(stored.item_type, value, config)
    return False
