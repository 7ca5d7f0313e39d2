"""Minimal parsing of Parquet's own structures: Thrift's compact protocol, page headers, statistics of row groups.

Spec: parquet.thrift, PageHeader and ColumnMetaData. Page headers are read without their pages, because Arrow allocates
what a header claims before checking it, so a checkpoint from an untrusted source is measured first. Null counts and
bounds are read from footers here, because pyarrow 26.0.1 decodes all statistics of a column to return one, and ends the
process if the smallest value of an integer column is shorter than an integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
INTEGERS = (4, 5, 6)
_MAX_DEPTH = 16
_MAX_SHIFT = 63


class ThriftFaultError(ValueError):
    """Bytes that are not a valid structure."""


class CompactReader:
    """Reads values one after the other. An IndexError means the end of the bytes."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def fields(self, *, after: int = 0) -> Iterator[tuple[int, int]]:
        """Yield (id, type) of each field of the struct that begins or continues here. The caller reads the value."""
        last, data = after, self.data
        while True:
            head = data[self.position]
            self.position += 1
            if head == 0:
                return
            step = head >> 4
            last = last + step if step else self.integer()
            yield last, head & 0x0F

    def byte(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value

    def unsigned(self) -> int:
        """Return an integer without zigzag decoding."""
        value, shift, data = 0, 0, self.data
        while True:
            byte = data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _MAX_SHIFT:
                raise ThriftFaultError("an integer of more than 64 bits")

    def integer(self) -> int:
        """A signed integer."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def integer_of_struct(self, wanted: int) -> int | None:
        """Return an integer field of the struct that begins here, or None if it is absent. The struct is consumed."""
        number = None
        for field, kind in self.fields():
            if field == wanted and kind in INTEGERS:
                number = self.integer()
            else:
                self.skip(kind)
        return number

    def binary(self) -> bytes:
        """Bytes with their length before them."""
        length = self.unsigned()
        self._pass(length)
        return self.data[self.position - length : self.position]

    def elements(self) -> tuple[int, int]:
        """Return the header of a list or set: the number of elements, and their type."""
        head = self.byte()
        count = head >> 4
        return (self.unsigned() if count == 15 else count), head & 0x0F

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skip a value of a type. Raises ThriftFaultError."""
        if depth > _MAX_DEPTH:
            raise ThriftFaultError("nested too deeply")
        if kind in INTEGERS:
            self.unsigned()
        elif kind == BINARY:
            self._pass(self.unsigned())
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (LIST, SET):
            self._skip_elements(depth)
        elif kind in (BYTE, DOUBLE):
            self._pass(1 if kind == BYTE else 8)
        elif kind not in (TRUE, FALSE):  # no Parquet structure is a map
            raise ThriftFaultError(f"an unexpected type {kind}")

    def _skip_elements(self, depth: int) -> None:
        count, kind = self.elements()
        if kind in (TRUE, FALSE):
            self._pass(count)
            return
        if count > len(self.data) - self.position:
            raise IndexError
        for _ in range(count):
            self.skip(kind, depth + 1)

    def _pass(self, length: int) -> None:
        self.position += length
        if self.position > len(self.data):
            raise IndexError


DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
_BODIES = {5: DATA_PAGE, 7: DICTIONARY_PAGE, 8: DATA_PAGE_V2}
"Field of the header -> the kind of page with its own header, whose first field is the number of values."

_PATH_FIELD = 0x19
"""The head of ColumnMetaData.path_in_schema: the field after the one before it, a list."""
_MAX_SHORT_LIST = 14
"The length of a longer list is stored elsewhere."
_BOUND_FIELDS = {1: "old_high", 2: "old_low", 5: "high", 6: "low"}


class PageHeader(NamedTuple):
    """The header of a page. `length` is that of the header; sizes are those of the page, in bytes."""

    length: int
    kind: int
    unpacked_bytes: int
    packed_bytes: int
    values: int


def read_page_header(data: bytes) -> PageHeader | None:
    """Read the page header at the start of `data`, or return None if it is not complete. Raises ThriftFaultError."""
    reader = CompactReader(data)
    fields: dict[int, int] = {}
    values = 0
    try:
        for field, kind in reader.fields():
            if kind in INTEGERS:
                fields[field] = reader.integer()
            elif kind == STRUCT and field in _BODIES:
                values = reader.integer_of_struct(1) or 0
            elif kind in (LIST, SET):
                raise ThriftFaultError(f"an unexpected type {kind}")
            else:
                reader.skip(kind)
    except IndexError:
        return None
    header = PageHeader(reader.position, fields.get(1, -1), fields.get(2, -1), fields.get(3, -1), values)
    if header.packed_bytes < 0 or header.unpacked_bytes < 0 or header.values < 0:
        raise ThriftFaultError("a page header without sizes")
    return header


def read_null_counts(footer: bytes, leaf: str, row_groups: int) -> list[int | None]:
    """Return how many values of a leaf are null in each row group, None if the footer does not record it.

    `footer` is a FileMetaData; `leaf` is a dotted path. It is searched in the form that every Thrift library writes. A
    path that does not occur exactly once per row group gives no result.
    """
    return [statistics.nulls for statistics in read_statistics(footer, leaf, row_groups)]


class LeafStatistics(NamedTuple):
    """What a footer records about a leaf in one row group, None if nothing.

    Bounds are raw bytes. `old_low`, `old_high`: bounds from before the order of values was specified.
    """

    values: int | None = None
    nulls: int | None = None
    low: bytes | None = None
    high: bytes | None = None
    old_low: bytes | None = None
    old_high: bytes | None = None


_NO_STATISTICS = LeafStatistics()


def read_statistics(footer: bytes, leaf: str, row_groups: int) -> list[LeafStatistics]:
    """Return what a footer records about a leaf in each row group; see `read_null_counts`."""
    names = [name.encode() for name in leaf.split(".")]
    if len(names) > _MAX_SHORT_LIST:
        return [_NO_STATISTICS] * row_groups
    path = bytes([_PATH_FIELD, len(names) << 4 | BINARY]) + b"".join(_size(len(name)) + name for name in names)
    statistics, position = [], footer.find(path)
    while position >= 0:
        statistics.append(_statistics(footer, position + len(path)))
        position = footer.find(path, position + 1)
    return statistics if len(statistics) == row_groups else [_NO_STATISTICS] * row_groups


def _size(number: int) -> bytes:
    """A length as Thrift writes it."""
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def _statistics(footer: bytes, position: int) -> LeafStatistics:
    """Return the statistics in the rest of a ColumnMetaData, whose path ends at a position."""
    reader = CompactReader(footer, position)
    values = None
    try:
        for field, kind in reader.fields(after=3):
            if field == 12 and kind == STRUCT:
                return _fields_of(reader)._replace(values=values)
            if field > 12:
                break
            if field == 5 and kind in INTEGERS:
                values = reader.integer()
            else:
                reader.skip(kind)
    except (IndexError, ThriftFaultError):
        return _NO_STATISTICS
    return LeafStatistics(values)


def _fields_of(reader: CompactReader) -> LeafStatistics:
    """Return the Statistics that begin here."""
    nulls, bounds = None, {}
    for field, kind in reader.fields():
        if field == 3 and kind in INTEGERS:
            nulls = reader.integer()
        elif field in _BOUND_FIELDS and kind == BINARY:
            bounds[_BOUND_FIELDS[field]] = reader.binary()
        else:
            reader.skip(kind)
    return LeafStatistics(None, nulls, **bounds)
