"""Digests of rows that come in batches: of rows in one order, of rows in any order, and SHA-256.

None depends on the batches or on values hidden below a null. The digest of rows in one order has checksums of every
value, every null and every length, column by column. For rows in any order, each row becomes 64 bits, mixed from every
value and every null of the row: a lost, doubled, changed or mixed-up row changes the digest. It does not depend on the
process, so that tasks of a cluster can each compute a part. It is no protection against rows that were chosen to
collide.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowType, RecordBatch


class Digest(Protocol):
    """Takes rows of one schema."""

    def take(self, rows: RecordBatch) -> None:
        """Add rows."""

    def answer(self) -> tuple[int, ...]:
        """Return the digest of the rows so far, equal for equal rows."""


class RowDigest:
    """The digest of rows in one order."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [_Column(field.type) for field in schema]

    def take(self, rows: RecordBatch) -> None:
        """Add a batch or a table, whose columns have the types of the schema."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            for column, values in zip(self._columns, batch.columns, strict=True):
                column.take(values)

    def answer(self) -> tuple[int, ...]:
        """Return the number of values, and the checksums of each column, with those of its parts."""
        return tuple(number for column in self._columns for number in column.answer())


class _Column:
    """The checksums of a column: which values are null, how long each is, and what they contain."""

    def __init__(self, kind: ArrowType) -> None:
        types = pa.types
        self._count = self._nulls = self._lengths = self._content = 0
        self._parts: list[_Column] = []
        if types.is_struct(kind):
            self._add, inside = self._add_struct, [field.type for field in kind]
        elif types.is_map(kind):
            self._add, inside = self._add_map, [kind.key_type, kind.item_type]
        elif types.is_list(kind):
            self._add, inside = self._add_list, [kind.value_type]
        else:
            self._add, inside = self._add_texts if _is_text(kind) else self._add_values, []
        self._parts = [_Column(part) for part in inside]

    def take(self, values: Any) -> None:
        if values.null_count:
            places = pc.add(pc.cast(pc.indices_nonzero(pc.is_null(values)), pa.int64()), self._count)
            self._nulls = zlib.crc32(_bytes(places), self._nulls)
        self._count += len(values)
        present = pc.drop_null(values) if values.null_count else values
        if len(present):
            self._add(present)

    def answer(self) -> list[int]:
        own = [self._count, self._nulls, self._lengths, self._content]
        return own + [number for part in self._parts for number in part.answer()]

    def _add_struct(self, values: Any) -> None:
        for part, inner in zip(self._parts, values.flatten(), strict=True):
            part.take(inner)

    def _add_list(self, values: Any) -> None:
        self._lengths = zlib.crc32(_bytes(pc.list_value_length(values)), self._lengths)
        self._parts[0].take(pc.list_flatten(values))

    def _add_map(self, values: Any) -> None:
        offsets = values.offsets
        self._lengths = zlib.crc32(_bytes(pc.subtract(offsets.slice(1), offsets.slice(0, len(values)))), self._lengths)
        first, last = offsets[0].as_py(), offsets[len(values)].as_py()
        for part, inner in zip(self._parts, (values.keys, values.items), strict=True):
            part.take(inner.slice(first, last - first))

    def _add_texts(self, values: Any) -> None:
        self._lengths = zlib.crc32(_bytes(pc.binary_length(values)), self._lengths)
        self._add_values(values)

    def _add_values(self, values: Any) -> None:
        self._content = zlib.crc32(_content(values), self._content)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _content(column: Any) -> Any:
    values = pc.drop_null(column) if column.null_count else column
    if not _is_text(column.type):
        return _bytes(pc.cast(values, pa.uint8()) if pa.types.is_boolean(values.type) else values)
    if len(values) == 0:
        return b""
    offsets = memoryview(values.buffers()[1]).cast("i")
    first, last = offsets[values.offset], offsets[values.offset + len(values)]
    return memoryview(values.buffers()[2] or b"")[first:last]


def _bytes(values: Any) -> Any:
    """Return the bytes of values of fixed width, none of which is null."""
    width = values.type.bit_width // 8
    buffer = values.buffers()[1]
    return memoryview(buffer)[values.offset * width : (values.offset + len(values)) * width] if buffer else b""


_MODULUS = 1 << 64
_FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
_BEGIN, _NULL, _PLACE = 0x2545F4914F6CDD1D, 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
_WORD = 8
_LONG_TEXT = 256
"""Bytes from which on texts are hashed one by one: by then a call costs less than reading them in columns."""


class MultisetDigest:
    """The digest of some rows: their number and two sums over them. That of all rows is the sum of those of parts."""

    def __init__(self) -> None:
        self._rows = self._first = self._second = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Add rows. Their columns matter by their order and values, not by their names."""
        if batch.num_rows:
            prints = combined([prints_of(column) for column in batch.columns], batch.num_rows)
            other = _mixed(pc.bit_wise_xor(prints, _number(_PLACE)))
            self.add((batch.num_rows, pc.sum(prints).as_py(), pc.sum(other).as_py()))

    def add(self, answer: tuple[int, ...]) -> None:
        """Add the rows of which another digest gave this answer."""
        rows, first, second = answer
        self._rows += rows
        self._first = (self._first + first) % _MODULUS
        self._second = (self._second + second) % _MODULUS

    def answer(self) -> tuple[int, ...]:
        """Return the digest of the rows so far, equal for the same rows in any order."""
        return self._rows, self._first, self._second


def prints_of(values: ArrowArray, *, as_compared: bool = False) -> ArrowArray:
    """Return 64 bits for each value (uint64, without nulls). `as_compared`: NaNs are equal, and so are 0.0 and -0.0."""
    kind = values.type
    if pa.types.is_null(kind):
        return pa.repeat(_number(_NULL), len(values))
    if pa.types.is_struct(kind):
        parts = [prints_of(part, as_compared=as_compared) for part in values.flatten()]
        prints = combined(parts, len(values))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        prints = _of_lists(values, as_compared=as_compared)
    elif pa.types.is_decimal(kind):
        prints = combined(_words_of_decimals(values), len(values))
    elif pa.types.is_boolean(kind):
        prints = _mixed(pc.cast(values, pa.uint64()))
    elif pa.types.is_primitive(kind):
        if as_compared and pa.types.is_floating(kind):
            values = plain_floats(values)
        unsigned = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[kind.bit_width]
        prints = _mixed(pc.cast(values.view(unsigned), pa.uint64()))
    else:
        prints = _of_texts(values)
    if not values.null_count:
        return prints
    return pc.if_else(pc.is_valid(values), prints, _number(_NULL))


def combined(parts: Sequence[ArrowArray], rows: int) -> ArrowArray:
    """Return one number for each row from the numbers of its parts, whose order matters."""
    begin = pa.repeat(_number(_BEGIN), rows)
    return reduce(lambda prints, part: _mixed(pc.bit_wise_xor(prints, part)), parts, begin)


def codes(columns: Sequence[ArrowArray], count: int) -> ArrowArray:
    """Return a number for each row, equal where the rows have equal values; nulls equal each other."""
    found = pa.repeat(pa.scalar(0, pa.int32()), count)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        pairs = pc.add(
            pc.multiply(pc.cast(found, pa.int64()), len(encoded.dictionary)), pc.cast(encoded.indices, pa.int64())
        )
        found = pc.dictionary_encode(pairs).indices
    return found


def plain_floats(values: ArrowArray) -> ArrowArray:
    """Return floating-point numbers with one NaN, and 0.0 for -0.0."""
    zero, nan = pa.scalar(0.0, values.type), pa.scalar(float("nan"), values.type)
    found = pc.if_else(pc.equal(values, zero), zero, values)
    return pc.if_else(pc.is_nan(found), nan, found)


def _mixed(numbers: ArrowArray) -> ArrowArray:
    """Return the numbers with each bit spread over all: a bijection."""
    for factor, shift in zip(_FACTORS, (32, 29), strict=True):
        numbers = pc.multiply(numbers, _number(factor))
        numbers = pc.bit_wise_xor(numbers, pc.shift_right(numbers, pa.scalar(shift, pa.uint64())))
    return pc.add(numbers, _number(_BEGIN))  # 0 is not mapped to 0


def _words_of_decimals(values: ArrowArray) -> list[ArrowArray]:
    width = values.type.bit_width // 64
    count = (values.offset + len(values)) * width
    words = pa.Array.from_buffers(pa.uint64(), count, [None, values.buffers()[1]])
    pairs = pa.FixedSizeListArray.from_arrays(words, width).slice(values.offset)
    return [_mixed(pc.list_element(pairs, place)) for place in range(width)]


def _of_lists(values: ArrowArray, *, as_compared: bool) -> ArrowArray:
    """Return the numbers of lists and maps, from those of their elements and the places of these."""
    if pa.types.is_map(values.type):
        entry = pa.struct([values.type.key_field, values.type.item_field])
        values = values.view(pa.list_(pa.field("entries", entry, nullable=False)))
    elements = prints_of(pc.list_flatten(values), as_compared=as_compared)
    lengths = pc.cast(pc.coalesce(pc.list_value_length(values), 0), pa.int64())
    ends = pc.cumulative_sum(lengths)
    starts = pc.subtract(ends, lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    parents = pc.list_parent_indices(pa.LargeListArray.from_arrays(offsets, elements))
    places = pc.subtract(pc.cumulative_sum(pa.repeat(1, len(elements))), pc.take(starts, parents))
    placed = _mixed(pc.bit_wise_xor(elements, _mixed(pc.add(pc.cast(places, pa.uint64()), _number(_PLACE)))))
    sums = pa.concat_arrays([pa.array([0], pa.uint64()), pc.cumulative_sum(placed)])
    of_rows = pc.subtract(pc.take(sums, ends), pc.take(sums, starts))
    return combined([pc.cast(lengths, pa.uint64()), of_rows], len(values))


def _of_texts(values: ArrowArray) -> ArrowArray:
    """Return the numbers of texts and bytes, eight bytes of all rows at a time; nulls may have any number."""
    from hashlib import blake2b

    lengths = pc.cast(pc.coalesce(pc.binary_length(values), 0), pa.int64())
    prints = _mixed(pc.cast(lengths, pa.uint64()))
    starts, words = _words_of_texts(values)
    is_long = pc.greater_equal(lengths, _LONG_TEXT)
    done = 0
    while True:
        more = pc.and_not(pc.greater(lengths, done), is_long)
        if not pc.any(more).as_py():
            break
        rest = pc.subtract(pc.filter(lengths, more), done)
        read = _words_at(words, pc.add(pc.filter(starts, more), done), rest)
        prints = pc.replace_with_mask(prints, more, _mixed(pc.bit_wise_xor(pc.filter(prints, more), read)))
        done += _WORD
    if pc.any(is_long).as_py():
        texts = pc.cast(pc.filter(values, is_long), pa.large_binary()).to_pylist()
        hashes = [int.from_bytes(blake2b(text, digest_size=_WORD).digest(), "little") for text in texts]
        prints = pc.replace_with_mask(prints, is_long, pa.array(hashes, pa.uint64()))
    return prints


def _words_of_texts(values: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
    """Return where each text starts in the bytes of all, and these bytes as words, with one more word at the end."""
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, offsets_buffer, content = values.buffers()
    kind = pa.int64() if is_large else pa.int32()
    offsets = pa.Array.from_buffers(kind, len(values) + 1, [None, offsets_buffer], offset=values.offset)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    data = memoryview(content)[first:last] if content is not None else b""
    padded = b"".join((data, bytes(2 * _WORD - (last - first) % _WORD)))
    words = pa.Array.from_buffers(pa.uint64(), len(padded) // _WORD, [None, pa.py_buffer(padded)])
    return pc.subtract(pc.cast(offsets.slice(0, len(values)), pa.int64()), first), words


def _words_at(words: ArrowArray, places: ArrowArray, lengths: ArrowArray) -> ArrowArray:
    """Return the eight bytes at each place, zero behind the rest of a text that is shorter."""
    index = pc.shift_right(places, 3)
    bits = pc.cast(pc.multiply(pc.bit_wise_and(places, _WORD - 1), 8), pa.uint64())
    low = pc.shift_right(pc.take(words, index), bits)
    high = pc.shift_left(pc.take(words, pc.add(index, 1)), pc.subtract(_number(63), bits))
    both = pc.bit_wise_or(low, pc.shift_left(high, _number(1)))  # a shift by 64 would do nothing
    masks = pa.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], pa.uint64())
    return pc.bit_wise_and(both, pc.take(masks, pc.if_else(pc.less(lengths, _WORD), lengths, _WORD)))


def _number(value: int) -> ArrowArray:
    return pa.scalar(value, pa.uint64())


def sha256_rows(rows: pa.Table, begin: bytes) -> str:
    """SHA-256, in hexadecimal, of `begin` and of rows in one order; their columns hold numbers, times and texts."""
    import hashlib  # with OpenSSL, which a plan does without

    digest = hashlib.sha256(b"%d\n" % len(begin) + begin + b"%d\n" % rows.num_rows)
    for column in rows.columns:
        for describe in (_shape, _content):
            for chunk in column.chunks:
                digest.update(describe(chunk))
    return digest.hexdigest()


def _shape(column: Any) -> Any:  # Any: an Arrow array; a buffer
    """Return the lengths of the texts, and the positions of nulls."""
    if not _is_text(column.type):
        return _bytes(pc.cast(pc.is_valid(column), pa.uint8()))
    # Of 64 bits each, as the digests of plans that were saved earlier have them.
    lengths = pc.cast(pc.binary_length(column), pa.int64())
    return _bytes(pc.fill_null(lengths, -1))
