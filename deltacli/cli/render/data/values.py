"""Values of a table as text and as JSON, a column at a time: exact, without a Python object for each.

Decimals never pass through a float, nor times through a calendar that ends: what Arrow's own text of them cannot hold
is written by hand. Everything a reader of JSON could round or refuse (decimals, NaN, binary) is a string there.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowType
from deltacli.core.units import SIZE_UNITS, format_timestamp
from deltacli.delta.encoding.arrow_json import (
    date_texts,
    escaped,
    join_items,
    map_items,
    moment_texts,
    null_where_null,
    quoted,
)

if TYPE_CHECKING:
    import pyarrow

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""
_PLAIN_SCALE = 6
"""Decimals of a larger scale get an exponent from Arrow where they are small: `1E-8`."""


def text_column(column: pyarrow.Array) -> pyarrow.Array:
    """Return each value as text, nested ones as JSON: any array in, string array out, null where the value is null."""
    column = _stored(column)
    return json_column(column) if _is_nested(column.type) else _plain(column)


def timestamp_texts(milliseconds: pyarrow.Array) -> pyarrow.Array:
    """Return times as `format_timestamp` writes them."""
    import pyarrow as pa

    ends = pc.min_max(milliseconds).as_py()
    if ends["min"] is None:
        return pa.nulls(len(milliseconds), pa.string())
    if not _FIRST_MS <= ends["min"] <= ends["max"] <= _LAST_MS:
        return pa.array(
            [one if one is None else format_timestamp(one) for one in milliseconds.to_pylist()], pa.string()
        )
    moments = pc.cast(milliseconds, pa.int64()).view(pa.timestamp("ms"))
    return pc.binary_join_element_wise(pc.replace_substring(pc.cast(moments, pa.string()), " ", "T"), "Z", "")


def size_texts(sizes: pyarrow.Array) -> pyarrow.Array:
    """Return numbers of bytes as `format_size` writes them. They are rounded first, so that few texts are made."""
    import pyarrow as pa

    scaled, unit = pc.cast(sizes, pa.float64(), safe=False), 0.0
    for _ in SIZE_UNITS[1:]:
        is_large = pc.greater_equal(pc.abs(scaled), 1024.0)
        scaled = pc.if_else(is_large, pc.divide(scaled, 1024.0), scaled)
        unit = pc.add(unit, pc.cast(is_large, pa.float64()))
    tenths = pc.round(pc.multiply(scaled, 10.0), round_mode="half_to_even")
    found = pc.add(pc.multiply(tenths, float(len(SIZE_UNITS))), unit).dictionary_encode()
    texts = [
        f"{tenth / 10:.1f} {SIZE_UNITS[at]}" if at else f"{tenth // 10:,} B"
        for tenth, at in (divmod(int(one), len(SIZE_UNITS)) for one in found.dictionary.to_pylist())
    ]
    return pa.array(texts, pa.string()).take(found.indices)


def json_column(column: pyarrow.Array) -> pyarrow.Array:
    """Return each value as JSON: any array in, string array out, null where the value is null."""
    import pyarrow as pa

    column = _stored(column)
    kind = column.type
    if pa.types.is_struct(kind):
        fields = zip(kind.names, column.flatten(), strict=True)
        return _as_null(json_objects(list(fields), len(column)), column)
    if pa.types.is_map(kind):
        return _json_map(column)
    if _is_nested(kind):
        return join_items(json_column(pc.list_flatten(column)), column, "[", "]", null_item="null")
    text = _plain(column)
    if pa.types.is_string(kind):
        return quoted(escaped(text))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return text
    if pa.types.is_floating(kind):
        is_number = pc.fill_null(pc.is_finite(column), True)
        return text if pc.all(is_number).as_py() else pc.if_else(is_number, text, quoted(text))
    return quoted(text)


def json_objects(
    fields: Sequence[tuple[str, pyarrow.Array]], rows: int, *, opening: str = "{", closing: str = "}"
) -> pyarrow.Array:
    """Return an object for each row of columns, null values written as null: `"name":value,…` between two texts."""
    import pyarrow as pa

    parts: list[Any] = []  # Any: texts all rows share, and columns
    shared = opening
    for index, (name, column) in enumerate(fields):
        shared += f"{',' if index else ''}{orjson.dumps(name).decode()}:"
        column = _stored(column)
        if pa.types.is_string(column.type) and column.null_count == 0:
            parts += [shared + '"', escaped(column)]
            shared = '"'
        else:
            text = json_column(column)
            parts += [shared, text if text.null_count == 0 else pc.coalesce(text, pa.scalar("null"))]
            shared = ""
    if not fields:
        return pa.repeat(shared + closing, rows)
    return pc.binary_join_element_wise(*parts, shared + closing, "")


def _json_map(column: pyarrow.MapArray) -> pyarrow.Array:
    """Maps as objects, keys as text; as lists of `{"key":…,"value":…}` where the keys are nested."""
    import pyarrow as pa

    if len(column) == 0:
        return pa.array([], pa.string())
    keys, values = map_items(column)
    is_object = not _is_nested(_stored(keys).type)
    if is_object:
        entries = pc.binary_join_element_wise(
            '"', escaped(text_column(keys)), '":', pc.coalesce(json_column(values), pa.scalar("null")), ""
        )
    else:
        entries = json_objects([("key", keys), ("value", values)], len(keys))
    relative = pc.subtract(column.offsets, column.offsets[0])
    body = pc.binary_join(pa.ListArray.from_arrays(relative, entries), ",")
    opening, closing = ("{", "}") if is_object else ("[", "]")
    return _as_null(pc.binary_join_element_wise(opening, body, closing, ""), column)


def _as_null(text: pyarrow.Array, column: pyarrow.Array) -> pyarrow.Array:
    return text if column.null_count == 0 else null_where_null(text, column)


def _stored(column: pyarrow.Array) -> pyarrow.Array:
    """A column as plain values: no extension, no dictionary, no views or large offsets of text and binary."""
    import pyarrow as pa

    if isinstance(column, pa.ExtensionArray):
        return _stored(column.storage)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _stored(pc.cast(column, kind.value_type))
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pc.cast(column, pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return pc.cast(column, pa.binary())
    return column


def _is_nested(kind: ArrowType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    """Values without parts as text that no quotes are around."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_date32(kind):
        return date_texts(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_binary(kind):
        return _hex(column)
    return pc.cast(column, pa.string())


def _floats(column: pyarrow.Array) -> pyarrow.Array:
    """The shortest text that reads back as the same number: `1.0`, `0.1`, `1e+20`, `NaN`, `-Infinity`."""
    import pyarrow as pa

    if pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float32())
    text = pc.cast(column, pa.string())
    is_whole = pc.fill_null(pc.equal(column, pc.floor(column)), False)
    if pc.any(is_whole).as_py():
        has_mark = pc.match_substring_regex(text, "[.ein]")
        text = pc.if_else(has_mark, text, pc.binary_join_element_wise(text, ".0", ""))
    is_number = pc.fill_null(pc.is_finite(column), True)
    if pc.all(is_number).as_py():
        return text
    infinite = pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity")
    return pc.if_else(is_number, text, pc.if_else(pc.is_nan(column), "NaN", infinite))


def _decimals(column: pyarrow.Array) -> pyarrow.Array:
    """Every digit, without exponent: the digits as an integer, which Arrow writes in full, and a point put between."""
    import pyarrow as pa

    kind = column.type
    if kind.scale <= _PLAIN_SCALE:
        return pc.cast(column, pa.string())
    unscaled = pa.Array.from_buffers(_whole_type(kind), len(column), column.buffers(), offset=column.offset)
    text = pc.cast(unscaled, pa.string())
    is_negative = pc.starts_with(text, "-")
    digits = pc.if_else(is_negative, pc.utf8_slice_codeunits(text, 1), text)
    padded = pc.ascii_lpad(digits, kind.scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -kind.scale)
    return pc.binary_join_element_wise(
        pc.if_else(is_negative, "-", ""), whole, ".", pc.utf8_slice_codeunits(padded, -kind.scale), ""
    )


def _whole_type(kind: ArrowType) -> ArrowType:
    """The type of the same width without a scale."""
    import pyarrow as pa

    return {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}[kind.bit_width](
        kind.precision, 0
    )


def _timestamps(column: pyarrow.Array) -> pyarrow.Array:
    """`2024-01-01T08:12:44Z`, the fraction only where there is one; without the Z where the type has no zone."""
    import pyarrow as pa

    unit, zone = column.type.unit, column.type.tz
    column = column.view(pa.timestamp(unit))  # the moment is that of UTC whatever the zone
    whole = pc.cast(column, pa.timestamp("s"), safe=False)  # towards zero, so right where nothing is cut
    is_whole = pc.equal(pc.cast(whole, column.type), column)
    if pc.all(pc.fill_null(is_whole, True)).as_py():
        text = _moments(whole)
    elif pc.any(pc.fill_null(is_whole, False)).as_py():
        text = pc.if_else(is_whole, _moments(whole), _moments(column))
    else:
        text = _moments(column)
    return pc.binary_join_element_wise(text, "Z", "") if zone else text


def _moments(column: pyarrow.Array) -> pyarrow.Array:
    import pyarrow as pa

    text = moment_texts(column)
    validity, ends, data = text.buffers()
    if data is None:
        return text
    # There is a blank in each text and nothing else that could be one: a third of the time of replacing in Arrow.
    return pa.StringArray.from_buffers(
        len(text), ends, pa.py_buffer(bytes(data).replace(b" ", b"T")), validity, offset=text.offset
    )


def _hex(column: pyarrow.Array) -> pyarrow.Array:
    """Binary as lower-case hex: all bytes of the column at once, and twice the offsets."""
    import pyarrow as pa

    _, ends, data = column.buffers()
    if len(column) == 0 or data is None:
        return pc.cast(column, pa.string())
    offsets = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, ends], offset=column.offset)
    first, last = offsets[0].as_py(), offsets[len(column)].as_py()
    digits = pa.py_buffer(binascii.hexlify(memoryview(data)[first:last]))
    twice = pc.multiply_checked(pc.subtract(offsets, offsets[0]), pa.scalar(2, pa.int32()))
    return _as_null(pa.StringArray.from_buffers(len(column), twice.buffers()[1], digits), column)
