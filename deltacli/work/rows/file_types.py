"""Compare the types of columns in data files with those of the table, from the schemas of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import StructField
from deltacli.errors import DataUnreadable
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.task import TaskContext

COLUMNS = "columns"
"""The name of the shared `ColumnsOfFiles`."""


@dataclass(frozen=True)
class ColumnsOfFiles:
    """Columns of a table, and the configuration by which they are found in files."""

    config: TableConfiguration
    columns: tuple[StructField, ...]


@dataclass(frozen=True, slots=True)
class CheckTypes:
    """Opens files, and checks that the types of the shared `ColumnsOfFiles` can be read in those of the table."""

    def __call__(self, piece: Sequence[str], context: TaskContext) -> list[str | None]:
        """Return for each path in the log what is wrong with its types, None if nothing is.

        Raises DataUnreadable for a file that cannot be read, and PathExternal.
        """
        wanted: ColumnsOfFiles = context.shared(COLUMNS)
        finder = FileColumns(wanted.config.mapping_mode, wanted.config.physical_name)
        return [_mismatch(path, finder, wanted.columns, context) for path in piece]


def _mismatch(path: str, finder: FileColumns, columns: Sequence[StructField], context: TaskContext) -> str | None:
    try:
        with open_data_file(context.files, DataFile(path, None)) as opened:
            finder.find(opened.schema, columns)
    except DataUnreadable as fault:
        if fault.code != "data.type-mismatch":
            raise
        return fault.message
    return None
