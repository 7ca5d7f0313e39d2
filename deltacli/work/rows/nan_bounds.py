"""Find row groups that have NaN although the bounds in their footer leave it out.

`validate` reports such files and a purge rewrites them, so both ask here. See `delta/footers/chunk_bounds.py` for what
is wrong with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from deltacli.arrow.parquet import read_footer_bytes
from deltacli.core.errors import DataUnreadable
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.delta.footers.chunk_bounds import BoundsBesideNan, find_numeric_bounds
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import DataType, PrimitiveType, StructField, StructType
from deltacli.work.nan_columns import find_nan_leaves
from deltacli.work.rows.data_files import OpenDataFile

_FLOATING = frozenset({"float", "double"})
_ROWS_AT_ONCE = 1 << 16

FieldPath = tuple[StructField, ...]
"""A column, or a field of a struct: the fields along its path, from the top-level column to the field itself."""


def find_float_fields(config: TableConfiguration) -> list[FieldPath]:
    """Return the floating-point columns of a table, also those within structs.

    Elements of arrays and maps are left out: no engine skips row groups by their bounds.
    """
    fields = config.schema.fields if config.schema is not None else ()
    return [path for field in fields for path in _find_within(field.data_type, (field,))]


def _find_within(kind: DataType, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _find_within(field.data_type, (*path, field))
    elif isinstance(kind, PrimitiveType) and kind.name in _FLOATING:
        yield path


class FloatLeaf(NamedTuple):
    """A floating-point column in a file: the number of its leaf, and its fields."""

    number: int
    path: FieldPath

    @property
    def name(self) -> str:
        """Return the name of the column, with dots for fields of structs."""
        return ".".join(field.name for field in self.path)


def find_leaves(columns: FileColumns, stored: pa.Schema, fields: Sequence[FieldPath]) -> list[FloatLeaf]:
    """Return where a file has some columns of its table, without those that it lacks.

    Args:
        columns: How the file's columns are found.
        stored: The Arrow schema of the file.
        fields: The columns, as of `find_float_fields`.
    """
    leaves = []
    for path in fields:
        try:
            leaf = columns.leaf(stored, path)
        except DataUnreadable:
            continue  # Other rules report a column of a wrong type.
        if leaf is not None:
            number, _ = leaf
            leaves.append(FloatLeaf(number, path))
    return leaves


def find_bounds_beside_nan(opened: OpenDataFile, leaves: Sequence[FloatLeaf]) -> list[BoundsBesideNan]:
    """Return the columns of an open file that have NaN in row groups whose bounds are numbers.

    Only chunks with such bounds are read. Rows that a deletion vector deletes count, too: readers skip row groups
    before they look at vectors.

    Raises:
        DataUnreadable: If the footer or a chunk cannot be decoded.
    """
    names = {leaf.number: leaf.name for leaf in leaves}
    row_groups = Counter[str]()
    try:
        for row_group, number in list(find_numeric_bounds(read_footer_bytes(opened.source), names)):
            if _has_nan(opened, row_group, number):
                row_groups[names[number]] += 1
    except (ThriftFaultError, IndexError, pa.ArrowException, OSError) as error:
        raise_if_out_of_memory(error)
        raise DataUnreadable("the bounds of its row groups cannot be read", code="data.not-parquet") from error
    return [BoundsBesideNan(column, count) for column, count in row_groups.items()]


def _has_nan(opened: OpenDataFile, row_group: int, leaf: int) -> bool:
    batches = opened.parquet.read_leaves(_ROWS_AT_ONCE, row_group, [leaf])
    return any(find_nan_leaves(pa.Table.from_batches([batch])) for batch in batches)
