"""The question of `validate` which columns of a data file have bounds in the footer that leave NaN out.

It is asked while the rows of the file are read anyway, so that only files with NaN are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.footers.chunk_bounds import BoundsBesideNan
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.work.facts.row_facts import OpenFileContext
from deltacli.work.nan_columns import has_nan
from deltacli.work.rows.data_files import OpenDataFile
from deltacli.work.rows.nan_bounds import FieldPath, FloatLeaf, find_bounds_beside_nan, find_leaves


@dataclass(frozen=True)
class NanBoundsCheck:
    """The question which columns of a file have bounds that leave NaN out; one for all files of a table.

    Attributes:
        fields: The floating-point columns of the table.
        columns: How they are found in a file.
    """

    fields: tuple[FieldPath, ...]
    columns: FileColumns

    def __call__(self, file: OpenFileContext) -> _NanBounds | None:
        """Begin with a file. Return None if it has no floating-point column."""
        leaves = find_leaves(self.columns, file.stored, self.fields)
        return _NanBounds(file.opened, leaves) if leaves else None


class _NanBounds:
    """The question for one file. Its bounds are looked at only if a row has NaN, so most files cost nothing more."""

    def __init__(self, opened: OpenDataFile, leaves: Sequence[FloatLeaf]) -> None:
        self._opened = opened
        self._leaves_without_nan = list(leaves)
        self._leaves_with_nan: list[FloatLeaf] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """Look for NaN in some rows, whose columns have the names of the table."""
        for leaf in list(self._leaves_without_nan):
            values = batch.column(leaf.path[0].name)
            for field in leaf.path[1:]:
                values = pc.struct_field(values, [field.name])
            if has_nan(values):
                self._leaves_without_nan.remove(leaf)
                self._leaves_with_nan.append(leaf)

    def answer(self) -> list[BoundsBesideNan]:
        """Return the columns whose bounds leave NaN out. The file is still open."""
        return find_bounds_beside_nan(self._opened, self._leaves_with_nan) if self._leaves_with_nan else []
