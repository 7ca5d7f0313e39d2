"""Variants written and read by their text alone, random ones, and a model of how a file shreds them.

A variant is None, a bool, an int, a Decimal, a str, bytes, a list, a dict, or a pair of a type and its content: floats
as bytes, times as integers, uuids as bytes. Spec: Parquet Variant Binary Encoding, Variant Shredding.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

Value = Any  # Any: see above
Schema = Any  # Any: the name of a type, a list of one schema, a mapping of names to schemas, or None for a value alone

_PAIRS = {
    "double": (7, 8),
    "date": (11, 4),
    "timestamp": (12, 8),
    "timestamp_ntz": (13, 8),
    "float": (14, 4),
    "time": (17, 8),
    "timestamp_nanos": (18, 8),
    "timestamp_ntz_nanos": (19, 8),
    "uuid": (20, 16),
}
"""Name -> the number of the type, and its bytes."""
_BY_NUMBER = {number: (name, width) for name, (number, width) in _PAIRS.items()}
_INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMALS = {8: 4, 9: 8, 10: 16}
_DIGITS = {4: 9, 8: 18, 16: 38}

ARROW: Mapping[str, Any] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal4": pa.decimal128(9, 2),
    "decimal8": pa.decimal128(18, 3),
    "decimal16": pa.decimal128(38, 10),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("us"),
    "timestamp_nanos": pa.timestamp("ns", "UTC"),
    "timestamp_ntz_nanos": pa.timestamp("ns"),
}
"""The types of shredded values, without uuids: pyarrow makes no nested ones."""
NOT_IN_SPARK = ("time", "timestamp_nanos", "timestamp_ntz_nanos")
IN_SPARK = tuple(name for name in ARROW if name not in NOT_IN_SPARK)


# -- bytes ------------------------------------------------------------------------------------------------------------


def metadata_of(names: Sequence[str]) -> bytes:
    """Return a dictionary of names."""
    texts = [name.encode() for name in names]
    offsets = [sum(map(len, texts[:count])) for count in range(len(texts) + 1)]
    return b"\xc1" + b"".join(_four(number) for number in (len(texts), *offsets)) + b"".join(texts)


def encode(value: Value, names: Sequence[str]) -> bytes:
    """Return the bytes of a value, whose names are among `names`."""
    match value:
        case None:
            return b"\x00"
        case bool():
            return b"\x04" if value else b"\x08"
        case int():
            number, width = next(
                one for one in _INTEGERS.items() if -(1 << 8 * one[1] - 1) <= value < 1 << 8 * one[1] - 1
            )
            return bytes([number << 2]) + value.to_bytes(width, "little", signed=True)
        case Decimal():
            unscaled, scale = _unscaled(value)
            number, width = next(one for one in _DECIMALS.items() if abs(unscaled) < 10 ** _DIGITS[one[1]])
            return bytes([number << 2, scale]) + unscaled.to_bytes(width, "little", signed=True)
        case str():
            text = value.encode()
            return (bytes([len(text) << 2 | 1]) if len(text) < 64 else b"\x40" + _four(len(text))) + text
        case bytes():
            return b"\x3c" + _four(len(value)) + value
        case tuple():
            number, width = _PAIRS[value[0]]
            content = value[1] if isinstance(value[1], bytes) else value[1].to_bytes(width, "little", signed=True)
            return bytes([number << 2]) + content
        case list():
            parts = [encode(one, names) for one in value]
            return b"\x1f" + _four(len(parts)) + _offsets(parts) + b"".join(parts)
    fields = sorted(value.items(), key=lambda field: field[0].encode())
    parts = [encode(one, names) for _, one in fields]
    ids = b"".join(_four(names.index(name)) for name, _ in fields)
    return b"\x7e" + _four(len(parts)) + ids + _offsets(parts) + b"".join(parts)


def decode(variant: Mapping[str, bytes] | None) -> Value:
    """Return a variant of `metadata` and `value`; "missing" for none at all."""
    if variant is None:
        return "missing"
    metadata = variant["metadata"]
    assert metadata[0] & 15 == 1
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    offsets = [_number(metadata, 1 + width * (1 + index), width) for index in range(count + 1)]
    texts = metadata[1 + width * (count + 2) :]
    names = [texts[start:end].decode() for start, end in pairwise(offsets)]
    return _decoded(variant["value"], 0, names)


def _decoded(data: bytes, at: int, names: Sequence[str]) -> Value:
    basic, bits = data[at] & 3, data[at] >> 2
    if basic == 1:
        return data[at + 1 : at + 1 + bits].decode()
    if basic == 0:
        return _primitive(data, at + 1, bits)
    width = (bits & 3) + 1
    count_width = 4 if bits >> (4 if basic == 2 else 2) & 1 else 1
    count, at = _number(data, at + 1, count_width), at + 1 + count_width
    id_width = (bits >> 2 & 3) + 1 if basic == 2 else 0
    ids = [_number(data, at + id_width * index, id_width) for index in range(count)]
    at += id_width * count
    first = at + width * (count + 1)
    values = [_decoded(data, first + _number(data, at + width * index, width), names) for index in range(count)]
    if basic == 3:
        return values
    found = [names[index] for index in ids]
    assert found == sorted(found, key=str.encode)
    return dict(zip(found, values, strict=True))


def _primitive(data: bytes, at: int, number: int) -> Value:
    if number < 3:
        return (None, True, False)[number]
    if number in _INTEGERS:
        return int.from_bytes(data[at : at + _INTEGERS[number]], "little", signed=True)
    if number in _DECIMALS:
        unscaled = int.from_bytes(data[at + 1 : at + 1 + _DECIMALS[number]], "little", signed=True)
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -data[at]))
    if number in (15, 16):
        content = data[at + 4 : at + 4 + _number(data, at, 4)]
        return content if number == 15 else content.decode()
    name, width = _BY_NUMBER[number]
    content = data[at : at + width]
    assert len(content) == width
    return name, content if name in ("double", "float", "uuid") else int.from_bytes(content, "little", signed=True)


def _unscaled(value: Decimal) -> tuple[int, int]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return (-1 if sign else 1) * int("".join(map(str, digits))), -exponent


def _four(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _offsets(parts: Sequence[bytes]) -> bytes:
    return b"".join(_four(sum(map(len, parts[:count]))) for count in range(len(parts) + 1))


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")


# -- shredding --------------------------------------------------------------------------------------------------------


def group_type(schema: Schema, *, is_top: bool = False) -> Any:  # Any: an Arrow type
    """Return the type of a shredded variant in a file, or of a group in it."""
    fields = [pa.field("metadata", pa.binary(), nullable=False)] if is_top else []
    fields.append(pa.field("value", pa.binary()))
    match schema:
        case None:
            return pa.struct(fields)
        case [inner]:
            typed: Any = pa.list_(pa.field("element", group_type(inner), nullable=False))
        case str():
            typed = ARROW[schema]
        case _:
            typed = pa.struct([pa.field(name, group_type(inner), nullable=False) for name, inner in schema.items()])
    return pa.struct([*fields, pa.field("typed_value", typed)])


def shredded(value: Value, schema: Schema, names: Sequence[str]) -> dict[str, Any]:  # Any: values of Arrow
    """Return a group of `value` and `typed_value`."""
    group: dict[str, Any] = {"value": None} | ({} if schema is None else {"typed_value": None})
    match schema, value:
        case [inner], list():
            return group | {"typed_value": [shredded(one, inner, names) for one in value]}
        case dict(), dict():
            rest = {name: one for name, one in value.items() if name not in schema}
            missing = {
                name: {"value": None} | ({} if inner is None else {"typed_value": None})
                for name, inner in schema.items()
            }
            typed = {name: shredded(value[name], inner, names) for name, inner in schema.items() if name in value}
            return {"value": encode(rest, names) if rest else None, "typed_value": missing | typed}
        case str(), _ if (stored := _stored(value, schema)) is not None:
            return group | {"typed_value": stored}
    return group | {"value": encode(value, names)}


def _stored(value: Value, name: str) -> Any:  # Any: a value of Arrow
    """Return a value in a typed column; None if it has another type."""
    if isinstance(value, tuple):
        if value[0] != name:
            return None
        if name in ("double", "float"):
            return struct.unpack("<d" if name == "double" else "<f", value[1])[0]
        return value[1]
    if name == "boolean":
        return value if isinstance(value, bool) else None
    if name.startswith("int") and type(value) is int:
        bits = int(name[3:])
        return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None
    if name.startswith("decimal") and isinstance(value, Decimal):
        kind = ARROW[name]
        unscaled, scale = _unscaled(value)
        fits = scale <= kind.scale and abs(unscaled) * 10 ** (kind.scale - scale) < 10**kind.precision
        return value if fits else None
    is_stored = isinstance(value, str) if name == "string" else isinstance(value, bytes) and name == "binary"
    return value if is_stored else None


# -- random ones ------------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "é", "Z", "long name " * 3, "𝄞", "", "a.b")


def random_value(draw: random.Random, types: Sequence[str], depth: int = 3) -> Value:
    """Return a value; one in three has parts, down to a depth. Times and dates are of `types`."""
    if depth and draw.random() < 0.35:
        if draw.random() < 0.4:
            return [random_value(draw, types, depth - 1) for _ in range(draw.choice((0, 1, 2, 5)))]
        return {name: random_value(draw, types, depth - 1) for name in draw.sample(NAMES, draw.randrange(6))}
    wide = draw.getrandbits(64) - (1 << 63)
    return draw.choice(
        (
            *(None, True, False, draw.randrange(-200, 200), wide >> draw.randrange(64)),
            Decimal(wide).scaleb(-draw.randrange(12)),
            Decimal(draw.randrange(-(10**9), 10**9)).scaleb(-draw.randrange(4)),
            *("", "x" * draw.choice((1, 63, 64, 300)), "ü", draw.randbytes(draw.choice((0, 1, 70)))),
            ("double", struct.pack("<d", draw.choice((0.1, -0.0, 1e300, float("inf"))))),
            ("float", struct.pack("<f", draw.choice((0.5, -0.0, float("-inf"))))),
            *((name, draw.randrange(-(10**5), 10**15)) for name in types if name.startswith("timestamp")),
            *((name, draw.randrange(10**5)) for name in types if name in ("date", "time")),
        )
    )


def random_schema(draw: random.Random, types: Sequence[str], depth: int = 3, *, names: Sequence[str] = NAMES) -> Schema:
    """Return how values are shredded."""
    if depth and draw.random() < 0.6:
        if draw.random() < 0.3:
            return [random_schema(draw, types, depth - 1, names=names)]
        return {
            name: random_schema(draw, types, depth - 1, names=names)
            for name in draw.sample(names, draw.randrange(1, 5))
        }
    return draw.choice(types)
