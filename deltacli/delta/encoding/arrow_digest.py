"""A digest of rows in columns, with a checksum per leaf, to verify that a file has the intended content.

It covers every value and every null. It depends neither on the chunks of the rows nor on values hidden below a null.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc

if TYPE_CHECKING:
    import pyarrow

_NULL = -1


def digest_rows(rows: pyarrow.Table) -> tuple[int, ...]:
    """One checksum per leaf, in the order of the schema, for rows in one order."""
    return tuple(crc for column in rows.columns for crc in _column(column.chunks, column.type))


def sha256_rows(rows: pyarrow.Table, begin: bytes) -> str:
    """SHA-256, in hexadecimal, of `begin` and of rows in one order; their columns hold numbers, times and texts."""
    import hashlib  # with OpenSSL, which a plan does without

    digest = hashlib.sha256(b"%d\n" % len(begin) + begin + b"%d\n" % rows.num_rows)
    for column in rows.columns:
        for describe in (_shape, _content):
            for chunk in column.chunks:
                digest.update(describe(chunk))
    return digest.hexdigest()


def _column(chunks: list[Any], kind: Any) -> Iterator[int]:  # Any: Arrow arrays and types
    import pyarrow as pa

    count = sum(len(chunk) for chunk in chunks)
    if sum(chunk.null_count for chunk in chunks) == count:
        yield zlib.crc32(b"null %d" % count)
    elif pa.types.is_struct(kind):
        yield _crc(map(_validity, chunks))
        parts = [chunk.flatten() for chunk in chunks]
        for index in range(kind.num_fields):
            yield from _column([part[index] for part in parts], kind.field(index).type)
    elif pa.types.is_map(kind):
        yield _crc(map(_list_lengths, chunks))
        entries = [_entries(chunk) for chunk in chunks]
        yield from _column([keys for keys, _ in entries], kind.key_type)
        yield from _column([items for _, items in entries], kind.item_type)
    elif pa.types.is_list(kind):
        yield _crc(map(_list_lengths, chunks))
        yield from _column([pc.list_flatten(chunk) for chunk in chunks], kind.value_type)
    else:
        yield _crc(map(_shape, chunks))
        yield _crc(map(_content, chunks))


def _crc(parts: Iterable[Any]) -> int:  # Any: buffers
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _shape(column: Any) -> Any:  # Any: an Arrow array; a buffer
    """Return the lengths of the texts, and the positions of nulls."""
    if _is_text(column.type):
        return _bytes(pc.fill_null(pc.binary_length(column), _NULL))
    return _validity(column)


def _content(column: Any) -> Any:
    """Return the values that are not null."""
    import pyarrow as pa

    values = pc.drop_null(column) if column.null_count else column
    if not _is_text(column.type):
        return _bytes(pc.cast(values, pa.uint8()) if pa.types.is_boolean(values.type) else values)
    if len(values) == 0:
        return b""
    offsets = memoryview(values.buffers()[1]).cast("i")
    first, last = offsets[values.offset], offsets[values.offset + len(values)]
    return memoryview(values.buffers()[2] or b"")[first:last]


def _validity(column: Any) -> Any:
    import pyarrow as pa

    return _bytes(pc.cast(pc.is_valid(column), pa.uint8()))


def _list_lengths(column: Any) -> Any:
    import pyarrow as pa

    lengths = pc.subtract(column.offsets.slice(1), column.offsets.slice(0, len(column)))
    return _bytes(pc.if_else(pc.is_valid(column), lengths, pa.scalar(_NULL, pa.int32())))


def _entries(column: Any) -> tuple[Any, Any]:
    """Return the keys and the items of a slice of a map."""
    if column.null_count:
        column = pc.drop_null(column)
    first, last = (column.offsets[0].as_py(), column.offsets[len(column)].as_py()) if len(column) else (0, 0)
    return column.keys.slice(first, last - first), column.items.slice(first, last - first)


def _bytes(column: Any) -> Any:
    """The values of an array of fixed width without nulls."""
    width = column.type.bit_width // 8
    buffer = column.buffers()[1]
    return memoryview(buffer)[column.offset * width : (column.offset + len(column)) * width] if buffer else b""
