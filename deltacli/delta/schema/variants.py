"""Variants: their binary encoding, and those that a file stores in typed columns, as binary again.

Each part is encoded for a whole batch, and the parts of a row are joined. Bytes of `value` are copied, and names keep
the ids of `metadata`. What contradicts the text is an error, even where some readers choose one of two values.

Spec: Parquet Variant Binary Encoding; Parquet Variant Shredding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowType
from deltacli.delta.schema.type_changes import Convert

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
    if len(text) <= _LONGEST_SHORT_STRING:
        return bytes([len(text) << 2 | _SHORT_STRING]) + text
    return bytes([STRING << 2]) + len(text).to_bytes(4, "little") + text


def binary_value(content: bytes) -> bytes:
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
    return max(1, (greatest.bit_length() + 7) // 8)


def _count(values: Sequence[object]) -> bytes:
    return len(values).to_bytes(4 if len(values) > 0xFF else 1, "little")


def _packed(integers: Sequence[int], width: int) -> Iterator[bytes]:
    if width == 1:
        return iter((bytes(integers),))
    return (integer.to_bytes(width, "little") for integer in integers)


# -- variants that a file stores in typed columns ----------------------------------------------------------------------

Encoded: TypeAlias = list[bytes | None]
"""One value per row, None where it is missing."""
_Encode: TypeAlias = Callable[[Any, Sequence[Names], Encoded], Encoded]
"""Encodes a `typed_value`: an Arrow array, the names of each row, and the `value` next to it."""

CODE = "data.variant-shape"
METADATA, VALUE, TYPED = "metadata", "value", "typed_value"


def is_shredded(kind: ArrowType) -> bool:
    """Return True for a struct with a typed value, as variants in files are."""
    return any(field.name == TYPED for field in kind)


def shredding_fault(kind: Any) -> str | None:
    """Return what is wrong with the typed columns of a shredded variant; None if they can be read."""
    try:
        _group(kind, VALUE, (METADATA,))
    except MalformedVariant as fault:
        return str(fault)
    return None


def shredded(kind: Any, wanted: Any, path: str) -> Convert:
    """Return the conversion of a shredded variant to `wanted`, the struct of metadata and value.

    Raises DataUnreadable (`data.variant-shape`), naming the column; so does the function.
    """
    try:
        encode = _group(kind, VALUE, (METADATA,))
    except MalformedVariant as fault:
        raise _unreadable(path, kind, fault) from fault

    def convert(values: Any) -> Any:
        try:
            return _whole(encode, values, wanted)
        except MalformedVariant as fault:
            raise _unreadable(path, kind, fault, reason=str(fault)) from fault

    return convert


def require_values(values: Any, path: str) -> Any:
    """Return unshredded variants, whose parts are never null. Raises DataUnreadable for one that lacks a part."""
    for part in values.flatten():
        if part.null_count > values.null_count:
            reason = "its metadata or its value is null"
            raise _unreadable(path, values.type, MalformedVariant(reason), reason=reason)
    if not values.null_count:
        return values
    parts = [pc.fill_null(values.field(place), b"") for place in range(values.type.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=list(values.type), mask=values.is_null())


def not_a_type(path: str, name: str) -> DataUnreadable:
    """Return the error for a typed value of a type that shredded variants do not have."""
    return _unreadable(path, name, MalformedVariant(f"a typed value is {name}, which is not a type of variants"))


def _unreadable(path: str, kind: Any, fault: MalformedVariant, **more: str) -> DataUnreadable:
    """Return the error. A `reason` among the facts says that values are at fault, and not the schema."""
    message = f"column {path} has a variant that cannot be read: {fault}"
    return DataUnreadable(message, code=CODE, facts={"column": path, "in the file": str(kind)[:200], **more})


def _whole(encode: _Encode, values: Any, wanted: Any) -> Any:
    """Return variants as structs of metadata and value."""
    parts = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    if parts[METADATA].null_count > values.null_count:
        raise MalformedVariant("its metadata is null")
    given = _content(parts[METADATA])
    known: dict[bytes | None, Dictionary] = {one: Dictionary(one or b"") for one in set(given)}
    names = [Names(known[one]) for one in given]
    encoded = encode(values, names, [])
    if encoded.count(None) > values.null_count:
        raise MalformedVariant("both its value and its typed value are null")
    metadata = [None if one is None else own.metadata for one, own in zip(given, names, strict=True)]
    columns = [pa.array(metadata, pa.binary()), pa.array(encoded, pa.binary())]
    mask = pc.is_null(values) if values.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=mask)


# -- groups of value and typed_value -----------------------------------------------------------------------------------


def _group(kind: Any, place: str, more: Sequence[str] = ()) -> _Encode:
    """Return the encoder of a group; `more` are its other fields. Raises MalformedVariant for what is not a group."""
    if not pa.types.is_struct(kind):
        raise MalformedVariant(f"{place} is not a group")
    positions = {field.name: position for position, field in enumerate(kind)}
    if len(positions) < kind.num_fields or not {*more} <= positions.keys() <= {*more, VALUE, TYPED}:
        raise MalformedVariant(f"{place} has the fields {', '.join(field.name for field in kind)}")
    if positions.keys() == {*more}:
        raise MalformedVariant(f"{place} has neither value nor typed_value")
    if any(not _is_binary(kind.field(positions[name]).type) for name in (*more, VALUE) if name in positions):
        raise MalformedVariant(f"a value of {place} is not binary")
    has_type = TYPED in positions and not pa.types.is_null(kind.field(positions[TYPED]).type)
    typed = _typed(kind.field(positions[TYPED]).type, place) if has_type else None

    def encode(values: Any, names: Sequence[Names], _: Encoded) -> Encoded:
        parts = values.flatten()  # null where the group is null
        own: Encoded = [None] * len(values)
        if VALUE in positions:
            own = _content(parts[positions[VALUE]])
        if typed is None or parts[positions[TYPED]].null_count == len(values):
            return own
        return typed(parts[positions[TYPED]], names, own)

    return encode


def _typed(kind: Any, place: str) -> _Encode:
    """Return the encoder of a `typed_value`."""
    types = pa.types
    if types.is_dictionary(kind):
        inner = _typed(kind.value_type, place)
        return lambda values, names, own: inner(values.dictionary_decode(), names, own)
    if types.is_struct(kind):
        return _object(kind, place)
    if any(test(kind) for test in (types.is_list, types.is_large_list)):
        return _array(_group(kind.value_type, f"{place}[]"))
    return _or_value(_primitive(kind, place))


def _or_value(encode: Callable[[Any, Sequence[Names]], Encoded]) -> _Encode:
    """Return the encoder of a `typed_value` that excludes a `value`."""

    def encode_or_value(values: Any, names: Sequence[Names], own: Encoded) -> Encoded:
        pairs = list(zip(own, encode(values, names), strict=True))
        if any(value is not None and typed is not None for value, typed in pairs):
            raise MalformedVariant("it has both a value and a typed value, but is not an object")
        return [value if typed is None else typed for value, typed in pairs]

    return encode_or_value


def _array(element: _Encode) -> _Encode:
    def encode(values: Any, names: Sequence[Names]) -> Encoded:
        elements = pc.list_flatten(values)
        lengths = pc.list_value_length(values).to_pylist()
        owners = [name for name, length in zip(names, lengths, strict=True) for _ in range(length or 0)]
        inner = element(elements, owners, [])
        if None in inner:
            raise MalformedVariant("an element of an array is missing")
        arrays, start = [], 0
        for length in lengths:
            end = start + (length or 0)
            arrays.append(None if length is None else array_value([one or b"" for one in inner[start:end]]))
            start = end
        return arrays

    return _or_value(encode)


def _object(kind: Any, place: str) -> _Encode:
    """Return the encoder of an object whose fields are groups; those that are not shredded are in its `value`."""
    fields = [(field.name.encode(), position) for position, field in enumerate(kind)]
    inner = [_group(field.type, f"{place}.{field.name}") for field in kind]
    shredded_names = {name for name, _ in fields}
    if len(shredded_names) < len(fields):
        raise MalformedVariant(f"{place} has two fields of one name")
    fields.sort()

    def encode(values: Any, names: Sequence[Names], own: Encoded) -> Encoded:
        parts = values.flatten()
        if any(part.null_count > values.null_count for part in parts):
            raise MalformedVariant("a shredded field is null instead of missing")
        columns = [(name, inner[position](parts[position], names, [])) for name, position in fields]
        results: Encoded = []
        for row, is_object in enumerate(pc.is_valid(values).to_pylist()):
            rest = own[row]
            if not is_object:
                results.append(rest)
                continue
            found = [(name, value) for name, column in columns if (value := column[row]) is not None]
            if rest is not None:
                others = [(names[row].name_of(index), value) for index, value in object_fields(rest)]
                if not shredded_names.isdisjoint(name for name, _ in others):
                    raise MalformedVariant("a shredded field is in its value, too")
                found = sorted(found + others)
            results.append(object_value(found, names[row]))
        return results

    return encode


# -- primitive values --------------------------------------------------------------------------------------------------


def _primitive(kind: Any, place: str) -> Callable[[Any, Sequence[Names]], Encoded]:
    types = pa.types
    if types.is_boolean(kind):
        return lambda values, _: [_BOOLEANS[value] for value in values.to_pylist()]
    if _is_binary(kind):
        return lambda values, _: _each(binary_value, _content(values))
    if types.is_string(kind) or types.is_large_string(kind):
        return lambda values, _: _each(string_value, _content(_valid(values)))
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return _decimal(kind)
    is_extension = isinstance(kind, pa.BaseExtensionType)
    found = _FIXED.get(str(kind.extension_name if is_extension else kind))
    if found is None:
        raise MalformedVariant(f"the typed value of {place} is {str(kind)[:80]}, which is not a type of variants")
    return _fixed(bytes([found << 2]), (kind.storage_type if is_extension else kind).bit_width // 8)


_BOOLEANS = {None: None, True: TRUE, False: FALSE}
_FIXED = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "float": FLOAT,
    "double": DOUBLE,
    "date32[day]": DATE,
    "time64[us]": TIME,
    "timestamp[us, tz=UTC]": TIMESTAMP,
    "timestamp[us]": TIMESTAMP_NTZ,
    "timestamp[ns, tz=UTC]": TIMESTAMP_NANOS,
    "timestamp[ns]": TIMESTAMP_NTZ_NANOS,
    "arrow.uuid": UUID,
}
"""The types whose bytes in Arrow are those of the variant."""


def _decimal(kind: Any) -> Callable[[Any, Sequence[Names]], Encoded]:
    width, number = (4, DECIMAL4) if kind.precision <= 9 else (8, DECIMAL8)
    if kind.precision > 18:
        width, number = 16, DECIMAL16
    encode = _fixed(bytes([number << 2, kind.scale]), width)
    return lambda values, names: encode(_valid(values), names)


def _fixed(prefix: bytes, width: int) -> Callable[[Any, Sequence[Names]], Encoded]:
    """Return the encoder of values of a fixed width: the first `width` bytes of each, which are little-endian."""

    def encode(values: Any, _: Sequence[Names]) -> Encoded:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        step = values.type.bit_width // 8
        start = values.offset * step
        content = values.buffers()[1][start : start + len(values) * step].to_pybytes()
        encoded: Encoded = [prefix + content[at : at + width] for at in range(0, len(content), step)]
        if not values.null_count:
            return encoded
        return [
            one if is_valid else None for one, is_valid in zip(encoded, pc.is_valid(values).to_pylist(), strict=True)
        ]

    return encode


def _each(encode: Callable[[bytes], bytes], contents: Encoded) -> Encoded:
    return [None if content is None else encode(content) for content in contents]


def _valid(values: Any) -> Any:
    """Return decimals or strings. Raises MalformedVariant for too many digits, and for what is not UTF-8."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as fault:
        raise MalformedVariant(" ".join(str(fault).split())[:200]) from fault
    return values


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _content(values: Any) -> Encoded:
    """Return the bytes of binaries and strings."""
    content: Encoded = pc.cast(values, pa.large_binary()).to_pylist()
    return content
