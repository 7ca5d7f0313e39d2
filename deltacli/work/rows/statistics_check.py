"""The checks of a file's rows against its statistics, for the columns that these contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.rules.statistics.evidence import fields_at
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import StructField
from deltacli.delta.stats.column_facts import Claimed, StatisticsOfRows
from deltacli.delta.stats.schema import BOUNDS, PER_COLUMN, ColumnPath, StatKind, StatSchema
from deltacli.delta.stats.values import dig, read_json
from deltacli.errors import DataUnreadable
from deltacli.typing import Json
from deltacli.work.file_facts import OpenFileContext, RowCheckFactory


def statistics_check(config: TableConfiguration) -> RowCheckFactory:
    """The questions for files of a configuration; none for a file without statistics."""
    return _Checks(config).ask


class _Checks:
    def __init__(self, config: TableConfiguration) -> None:
        self._config = config
        self._schema = StatSchema(config)
        self._columns = FileColumns(config.mapping_mode, config.physical_name)

    def ask(self, file: OpenFileContext) -> StatisticsOfRows | None:
        """Begin with a file."""
        text = file.add.get("stats")
        if not text:
            return None
        try:
            stats = read_json(text)
        except ValueError:
            return None
        paths = dict.fromkeys(path for part in PER_COLUMN for path in self._paths(dig(stats, (part,)), ()))
        claimed = [one for one in (self._claimed(file, stats, path) for path in paths) if one is not None]
        return StatisticsOfRows(claimed) if claimed else None

    def _paths(self, given: Json, parent: ColumnPath) -> Iterator[ColumnPath]:
        """Return the columns of the schema that an object of statistics names."""
        if not isinstance(given, Mapping):
            return
        for name, below in given.items():
            path = (*parent, name)
            column = self._schema.column(path)
            if column is not None and column.kind is StatKind.STRUCT:
                yield from self._paths(below, path)
            elif column is not None and not column.is_partition and below is not None:
                yield path

    def _claimed(self, file: OpenFileContext, stats: Any, path: ColumnPath) -> Claimed | None:
        column, fields = self._schema.column(path), fields_at(self._config, path)
        if column is None or fields is None:
            return None
        low, high = (dig(stats, (part, *path)) for part in BOUNDS)
        is_single = column.type_name == "double" and self._is_single(file, fields)
        return Claimed(column, path, [field.name for field in fields], low, high, is_single)

    def _is_single(self, file: OpenFileContext, fields: list[StructField]) -> bool:
        """Return True where the file stores a column of doubles as floats."""
        import pyarrow as pa

        try:
            leaf = self._columns.leaf(file.stored, fields)
        except DataUnreadable:
            return False
        return leaf is not None and bool(pa.types.is_float32(leaf[1]))
