"""Find data files whose columns have types from before a widening, from their footers. Spec: Type Widening."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.to_arrow import arrow_type
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructType
from deltacli.errors import DataUnreadable
from deltacli.typing import ArrowField
from deltacli.work.rewrite.dropped_columns import CONFIG
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.task import TaskContext


@dataclass(frozen=True, slots=True)
class FindOlderTypes:
    """Opens files, and compares the columns whose types the shared configuration has changed."""

    def __call__(self, piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
        """Return for each file whether a type differs, True also where it cannot be read. Raises PathExternal."""
        config: TableConfiguration = context.shared(CONFIG)
        return [_has_older(file, config, context) for file in piece]


def _has_older(file: DataFile, config: TableConfiguration, context: TaskContext) -> bool:
    try:
        with open_data_file(context.files, file) as opened:
            return _of_struct(list(opened.schema), config.schema or StructType(()), config)
    except DataUnreadable:
        return True


def _of_struct(stored: Sequence[ArrowField], known: StructType, config: TableConfiguration) -> bool:
    by_name = {config.physical_name(field).lower(): field for field in known.fields}
    return any(
        _differs(field.type, one.data_type, config, is_changed=TYPE_CHANGES_KEY in one.metadata)
        for field in stored
        if (one := by_name.get(field.name.lower())) is not None
    )


def _differs(stored: Any, known: DataType, config: TableConfiguration, *, is_changed: bool) -> bool:  # Any: Arrow type
    import pyarrow as pa

    match known:
        case StructType() if pa.types.is_struct(stored):
            return _of_struct(list(stored), known, config)
        case ArrayType(element, _) if pa.types.is_list(stored):
            return _differs(stored.value_type, element, config, is_changed=is_changed)
        case MapType(key, value, _) if pa.types.is_map(stored):
            return _differs(stored.key_type, key, config, is_changed=is_changed) or _differs(
                stored.item_type, value, config, is_changed=is_changed
            )
    return is_changed and not stored.equals(arrow_type(known))
