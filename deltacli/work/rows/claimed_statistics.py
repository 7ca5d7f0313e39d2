"""Compare the statistics that the log has of a file with its rows, while these are read.

`validate` asks this of every file, and `stats` of the files whose statistics it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from deltacli.core.errors import DataUnreadable
from deltacli.core.typing import Json
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import StructField
from deltacli.delta.stats.collect import Claimed, StatisticsOfRows
from deltacli.delta.stats.columns import dig, read_json
from deltacli.delta.stats.schema import BOUNDS, PER_COLUMN, ColumnPath, StatKind, StatSchema
from deltacli.work.facts import row_facts


class ClaimedStatistics:
    """Asks the rows of files about the columns that have statistics. One instance serves all files of a table."""

    def __init__(self, config: TableConfiguration) -> None:
        self._schema = StatSchema(config)
        self._columns = FileColumns(config.mapping_mode, config.physical_name)

    def ask(self, file: row_facts.OpenFileContext) -> StatisticsOfRows | None:
        """Begin with a file. Return None where it has no statistics of columns."""
        claimed = self.find_claims(file.add.get("stats"), file.stored)
        return StatisticsOfRows(claimed) if claimed else None

    def find_claims(self, text: str | None, stored: pa.Schema) -> list[Claimed]:
        """Return the columns of the table that statistics name, given the Arrow schema of the file."""
        if not text:
            return []
        try:
            stats = read_json(text)
        except ValueError:
            return []
        paths = dict.fromkeys(path for part in PER_COLUMN for path in self._paths(dig(stats, (part,)), ()))
        claims = [self._claimed(stored, stats, path) for path in paths]
        return [claim for claim in claims if claim is not None]

    def is_absent(self, stored: pa.Schema, path: ColumnPath) -> bool:
        """Return True for a column that the file does not have: it is younger than the file, and null in all rows."""
        fields = self._schema.fields_along(path)
        try:
            return fields is not None and self._columns.leaf(stored, fields) is None
        except DataUnreadable:
            return False

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

    def _claimed(self, stored: pa.Schema, stats: Any, path: ColumnPath) -> Claimed | None:
        column = self._schema.column(path)
        fields = self._schema.fields_along(path)
        if column is None or fields is None:
            return None
        low, high = (dig(stats, (part, *path)) for part in BOUNDS)
        is_single = column.type_name == "double" and self._is_single(stored, fields)
        return Claimed(column, path, [field.name for field in fields], low, high, is_single)

    def _is_single(self, stored: pa.Schema, fields: list[StructField]) -> bool:
        """Return True where the file stores a column of doubles as floats."""
        try:
            leaf = self._columns.leaf(stored, fields)
        except DataUnreadable:
            return False
        return leaf is not None and bool(pa.types.is_float32(leaf[1]))
