"""The bounds of column chunks in a Parquet footer: which chunks of floating-point columns have some, and how to remove
them.

Writers such as Arrow leave NaN out of the bounds of a chunk. Spark orders NaN above all numbers and skips a row group
by its bounds, so a condition such as `f > 100` loses the rows with NaN of a row group whose maximum is 99. A chunk that
contains NaN must therefore have no bounds, or NaN as its maximum, as Spark writes it. Arrow's writer can only omit the
bounds of a column in all row groups of a file, hence its footer is changed here.

Spec: parquet.thrift, FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and Statistics.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from deltacli.delta.footers.thrift import BINARY, INTEGERS, LIST, STRUCT, CompactReader

_ROW_GROUPS_OF_FILE = 4
_COLUMNS_OF_ROW_GROUP = 1
_METADATA_OF_COLUMN = 3
_STATISTICS_OF_METADATA = 12
_NULL_COUNT = 3
_BOUNDS = frozenset({1, 2, 5, 6})
"""Fields of Statistics: the maximum and the minimum of old writers, and those of all others."""

_NULL_COUNT_HEAD = bytes([_NULL_COUNT << 4 | 6])
"""The head of the first field of a struct: its number, and the type of a 64-bit integer."""
_END_OF_STRUCT = b"\x00"

_FLOAT_FORMATS = {4: "<f", 8: "<d"}
"""The format of a floating-point number by its size in bytes."""


class ChunkStatistics(NamedTuple):
    """Where the statistics of a column chunk are in a footer: bytes from `start` to before `end`."""

    row_group: int
    leaf: int
    start: int
    end: int


class BoundsBesideNan(NamedTuple):
    """A column of a file that has NaN in row groups whose bounds leave NaN out.

    Attributes:
        column: The name of the column, with dots for fields of structs.
        row_groups: How many row groups are affected.
    """

    column: str
    row_groups: int


def remove_bounds(footer: bytes, chunks: Collection[tuple[int, int]]) -> bytes:
    """Return a footer without the minima and maxima of some column chunks. Their null counts are kept.

    A struct of Thrift is written without its length, so everything around the statistics stays as it is.

    Args:
        footer: A FileMetaData in Thrift's compact protocol, without the length and the magic number behind it.
        chunks: The chunks, as the number of the row group and that of the leaf column.

    Raises:
        ThriftFaultError: If the bytes are not a FileMetaData.
        IndexError: If they end too early.
    """
    parts = []
    copied = 0
    for chunk in _find_statistics(footer):
        if (chunk.row_group, chunk.leaf) not in chunks:
            continue
        parts.append(footer[copied : chunk.start])
        parts.append(_statistics_without_bounds(footer, chunk))
        copied = chunk.end
    parts.append(footer[copied:])
    return b"".join(parts)


def find_numeric_bounds(footer: bytes, leaves: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the chunks of floating-point columns whose bounds are numbers, so that readers trust them.

    Bounds that are NaN, or have the size of no floating-point number, are ignored by readers.

    Args:
        footer: As in `remove_bounds`.
        leaves: The numbers of the leaf columns to look at.

    Yields:
        The number of the row group and that of the leaf column.

    Raises:
        ThriftFaultError: If the bytes are not a FileMetaData.
        IndexError: If they end too early.
    """
    for chunk in _find_statistics(footer):
        if chunk.leaf not in leaves:
            continue
        bounds = list(_read_bounds(footer, chunk))
        if bounds and not any(math.isnan(bound) for bound in bounds):
            yield chunk.row_group, chunk.leaf


def _find_statistics(footer: bytes) -> Iterator[ChunkStatistics]:
    """Yield where the statistics of each column chunk are, in the order of the footer."""
    reader = CompactReader(footer)
    for _ in _visit(reader, _ROW_GROUPS_OF_FILE, LIST):
        row_groups, _ = reader.elements()
        for row_group in range(row_groups):
            for _ in _visit(reader, _COLUMNS_OF_ROW_GROUP, LIST):
                columns, _ = reader.elements()
                for leaf in range(columns):
                    yield from _find_statistics_of_column(reader, row_group, leaf)


def _find_statistics_of_column(reader: CompactReader, row_group: int, leaf: int) -> Iterator[ChunkStatistics]:
    """Read the ColumnChunk that begins here, and yield where its statistics are, if it has some."""
    for _ in _visit(reader, _METADATA_OF_COLUMN, STRUCT):
        for _ in _visit(reader, _STATISTICS_OF_METADATA, STRUCT):
            start = reader.position
            reader.skip(STRUCT)
            yield ChunkStatistics(row_group, leaf, start, reader.position)


def _visit(reader: CompactReader, wanted: int, wanted_kind: int) -> Iterator[None]:
    """Read the struct that begins here, and yield where the value of its wanted field begins.

    The loop over this generator reads that value, and has to run to its end: it reads the fields behind it.
    """
    for field, kind in reader.fields():
        if field == wanted and kind == wanted_kind:
            yield
        else:
            reader.skip(kind)


def _statistics_without_bounds(footer: bytes, chunk: ChunkStatistics) -> bytes:
    """Return the statistics of a chunk with nothing but their null count, if they have one."""
    reader = CompactReader(footer, chunk.start)
    for field, kind in reader.fields():
        start = reader.position
        reader.skip(kind)
        if field == _NULL_COUNT and kind in INTEGERS:
            return _NULL_COUNT_HEAD + footer[start : reader.position] + _END_OF_STRUCT
    return _END_OF_STRUCT


def _read_bounds(footer: bytes, chunk: ChunkStatistics) -> Iterator[float]:
    """Yield the bounds of a chunk that have the size of a floating-point number."""
    reader = CompactReader(footer, chunk.start)
    for field, kind in reader.fields():
        if field not in _BOUNDS or kind != BINARY:
            reader.skip(kind)
            continue
        bound = reader.binary()
        if len(bound) in _FLOAT_FORMATS:
            yield struct.unpack(_FLOAT_FORMATS[len(bound)], bound)[0]
