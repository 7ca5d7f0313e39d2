"""Variants as bytes: the dictionary of names, objects and arrays. Spec: Parquet Variant Binary Encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from deltacli.core.cached import cached_property

NULL, TRUE, FALSE = b"\x00", b"\x04", b"\x08"
INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16, DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT = range(3, 15)
BINARY, STRING, TIME, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS, UUID = range(15, 21)
"""The types of primitive values; the first two bits of a header say that a value is one."""
_SHORT_STRING, _OBJECT, _ARRAY = 1, 2, 3
_WIDTHS: Mapping[int, int] = {
    **dict.fromkeys((0, 1, 2), 0),
    **dict.fromkeys((INT64, DOUBLE, TIME, TIMESTAMP, TIMESTAMP_NTZ, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS), 8),
    **dict.fromkeys((INT32, FLOAT, DATE), 4),
    INT8: 1,
    INT16: 2,
    DECIMAL4: 5,
    DECIMAL8: 9,
    DECIMAL16: 17,
    UUID: 16,
}
"""The bytes of a value after its header; a decimal begins with its scale."""
_LONGEST_SHORT_STRING = 63


class MalformedVariant(ValueError):
    """Bytes that are not a variant."""


class Dictionary:
    """The names of a `metadata` value, read when the first is needed. Raises MalformedVariant where they are read."""

    def __init__(self, metadata: bytes) -> None:
        self.metadata = metadata

    @cached_property
    def names(self) -> list[bytes]:
        """Return the names by id."""
        if not self.metadata or self.metadata[0] & 0x0F != 1:
            raise MalformedVariant("its metadata is not of version 1")
        width = (self.metadata[0] >> 6) + 1
        count = _integer(self.metadata, 1, width)
        offsets = list(_integers(self.metadata, 1 + width, width, count + 1))
        first = 1 + width * (count + 2)
        if offsets != sorted(offsets) or first + offsets[-1] > len(self.metadata):
            raise MalformedVariant("its metadata ends too early")
        return [self.metadata[first + start : first + end] for start, end in pairwise(offsets)]

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """Return the ids by name."""
        return {name: index for index, name in enumerate(self.names)}


class Names:
    """The names of one variant: those of its dictionary, and those that the dictionary lacks."""

    __slots__ = ("_added", "_given")

    def __init__(self, given: Dictionary) -> None:
        self._given = given
        self._added: dict[bytes, int] | None = None

    def id_of(self, name: bytes) -> int:
        """Return the id of a name. A new one gets the next."""
        found = self._given.ids.get(name)
        if found is not None:
            return found
        if self._added is None:
            self._added = {}
        return self._added.setdefault(name, len(self._given.names) + len(self._added))

    def name_of(self, index: int) -> bytes:
        """Return the name of an id in bytes of the variant. Raises MalformedVariant."""
        if index >= len(self._given.names):
            raise MalformedVariant("a field has a name that is not in the metadata")
        return self._given.names[index]

    @property
    def metadata(self) -> bytes:
        """Return the bytes of the dictionary. Names that were added follow those that were given."""
        if self._added is None:
            return self._given.metadata
        names = [*self._given.names, *self._added]
        offsets = _offsets(names)
        width = _width(max(offsets[-1], len(names)))
        header = bytes([1 | (width - 1) << 6])
        return header + b"".join(_packed([len(names), *offsets], width)) + b"".join(names)


def string_value(text: bytes) -> bytes:
    """Return a string."""
    if len(text) <= _LONGEST_SHORT_STRING:
        return bytes([len(text) << 2 | _SHORT_STRING]) + text
    return bytes([STRING << 2]) + len(text).to_bytes(4, "little") + text


def binary_value(content: bytes) -> bytes:
    """Return a binary."""
    return bytes([BINARY << 2]) + len(content).to_bytes(4, "little") + content


def array_value(elements: Sequence[bytes]) -> bytes:
    """Return an array of values."""
    offsets = _offsets(elements)
    width, is_large = _width(offsets[-1]), len(elements) > 0xFF
    header = bytes([is_large << 4 | (width - 1) << 2 | _ARRAY])
    return b"".join((header, _count(elements), *_packed(offsets, width), *elements))


def object_value(fields: Sequence[tuple[bytes, bytes]], names: Names) -> bytes:
    """Return an object of names, ascending by their bytes, and values."""
    ids = [names.id_of(name) for name, _ in fields]
    values = [value for _, value in fields]
    offsets = _offsets(values)
    id_width, width, is_large = _width(max(ids, default=0)), _width(offsets[-1]), len(fields) > 0xFF
    header = bytes([is_large << 6 | (id_width - 1) << 4 | (width - 1) << 2 | _OBJECT])
    return b"".join((header, _count(fields), *_packed(ids, id_width), *_packed(offsets, width), *values))


def object_fields(value: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the ids of the names of an object, and its values. Raises MalformedVariant for any other value."""
    if not value or value[0] & 3 != _OBJECT:
        raise MalformedVariant("it has shredded fields, but its value is not an object")
    ids, offsets, first = _object_parts(value, 0)
    for index, offset in zip(ids, offsets, strict=False):
        start = first + offset
        yield index, value[start : start + _size(value, start)]


def _object_parts(value: bytes, place: int) -> tuple[list[int], list[int], int]:
    """Return the ids and the offsets of an object at a place, and where its values begin."""
    bits = value[place] >> 2
    width, id_width, count_width = (bits & 3) + 1, (bits >> 2 & 3) + 1, 4 if bits >> 4 & 1 else 1
    count = _integer(value, place + 1, count_width)
    at = place + 1 + count_width
    ids = list(_integers(value, at, id_width, count))
    at += id_width * count
    return ids, list(_integers(value, at, width, count + 1)), at + width * (count + 1)


def _size(value: bytes, place: int) -> int:
    """Return how many bytes the value at a place has. Raises MalformedVariant if not all of them are there."""
    if place >= len(value):
        raise MalformedVariant("its value ends too early")
    basic, bits = value[place] & 3, value[place] >> 2
    if basic == _SHORT_STRING:
        size = 1 + bits
    elif basic == _OBJECT:
        _, offsets, first = _object_parts(value, place)
        size = first + offsets[-1] - place
    elif basic == _ARRAY:
        width, count_width = (bits & 3) + 1, 4 if bits >> 2 & 1 else 1
        count = _integer(value, place + 1, count_width)
        last = place + 1 + count_width + width * count
        size = last + width + _integer(value, last, width) - place
    elif bits in (BINARY, STRING):
        size = 5 + _integer(value, place + 1, 4)
    elif bits in _WIDTHS:
        size = 1 + _WIDTHS[bits]
    else:
        raise MalformedVariant(f"a value has the unknown type {bits}")
    if place + size > len(value):
        raise MalformedVariant("its value ends too early")
    return size


def _integer(value: bytes, place: int, width: int) -> int:
    if place + width > len(value):
        raise MalformedVariant("its bytes end too early")
    return int.from_bytes(value[place : place + width], "little")


def _integers(value: bytes, place: int, width: int, count: int) -> Iterator[int]:
    if place + width * count > len(value):
        raise MalformedVariant("its bytes end too early")
    return (int.from_bytes(value[at : at + width], "little") for at in range(place, place + width * count, width))


def _offsets(values: Sequence[bytes]) -> list[int]:
    """Return where each value begins, and where the last ends."""
    offsets, end = [0], 0
    for value in values:
        end += len(value)
        offsets.append(end)
    return offsets


def _width(greatest: int) -> int:
    """Return the bytes of an integer."""
    return max(1, (greatest.bit_length() + 7) // 8)


def _count(values: Sequence[object]) -> bytes:
    return len(values).to_bytes(4 if len(values) > 0xFF else 1, "little")


def _packed(integers: Sequence[int], width: int) -> Iterator[bytes]:
    if width == 1:
        return iter((bytes(integers),))
    return (integer.to_bytes(width, "little") for integer in integers)
