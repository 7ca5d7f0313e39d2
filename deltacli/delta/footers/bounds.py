"""The bounds of column chunks as comparable values, many at a time.

Spec: parquet.thrift, Statistics; ColumnOrder. Bytes are interpreted by the type of their column. Bounds of a wrong
length, of an undefined order (INT96, unsigned integers), or of a type that does not match the table's are treated as
unknown.
"""

from __future__ import annotations

from typing import Any

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowType
from deltacli.delta.footers.schema import FileLeaf
from deltacli.delta.schema.conversion import to_microseconds
from deltacli.delta.schema.kinds import decimal_parts
from deltacli.delta.stats.schema import StatColumn, StatKind

_SECONDS_A_DAY = 86_400
_MICROSECONDS_A_DAY = 86_400_000_000
_PER_MICROSECOND = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""Unit of a timestamp -> microseconds as a fraction."""
_MOST_DECIMAL_BYTES = 16
_SIGN = b"\x80"


def decode_bounds(leaf: FileLeaf, kind: Any, column: StatColumn, data: Any) -> Any:  # Any: Arrow types and arrays
    """Return bounds of a leaf, whose Arrow type is `kind`, in the form of `comparable_type`, or None if they have
    none.
    """
    import pyarrow as pa

    types = pa.types
    match column.kind:
        case StatKind.WHOLE if types.is_signed_integer(kind):
            return _integers(leaf, data)
        case StatKind.FLOAT:
            return _floats(leaf, kind, data)
        case StatKind.DECIMAL:
            return _decimals(leaf, kind, column, data)
        case StatKind.DATE if types.is_date32(kind):
            return _scaled(_integers(leaf, data), _SECONDS_A_DAY, 1)
        case StatKind.TIMESTAMP if types.is_date32(kind):
            return _scaled(_integers(leaf, data), _MICROSECONDS_A_DAY, 1)
        case StatKind.TIMESTAMP if types.is_timestamp(kind):
            return _scaled(_integers(leaf, data), *_PER_MICROSECOND[kind.unit])
        case StatKind.TEXT if leaf.physical_type == "BYTE_ARRAY" and not types.is_decimal(kind):
            return data
        case StatKind.BOOLEAN if leaf.physical_type == "BOOLEAN":
            return pc.cast(pc.index_in(data, value_set=pa.array([b"\x00", b"\x01"])), pa.int64())
    return None


def comparable_type(column: StatColumn) -> ArrowType:
    """Return the type in which values of a column are compared: dates in seconds, times in microseconds, text as its
    bytes; None for types without an order.
    """
    import pyarrow as pa

    match column.kind:
        case StatKind.WHOLE | StatKind.DATE | StatKind.TIMESTAMP | StatKind.BOOLEAN:
            return pa.int64()
        case StatKind.FLOAT:
            return pa.float64()
        case StatKind.DECIMAL:
            return pa.decimal256(76, (decimal_parts(column.type_name) or (38, 0))[1])
        case StatKind.TEXT:
            return pa.binary()
    return None


def _integers(leaf: FileLeaf, data: Any) -> Any:
    import pyarrow as pa

    width = {"INT32": 4, "INT64": 8}.get(leaf.physical_type)
    if width is None:
        return None
    return pc.cast(_of_width(data, width, pa.int32() if width == 4 else pa.int64()), pa.int64())


def _of_width(data: Any, width: int, kind: Any) -> Any:
    """Return bytes of one width as numbers, null for another width."""
    import pyarrow as pa

    sized = pc.if_else(pc.equal(pc.binary_length(data), width), data, pa.scalar(None, pa.binary()))
    fixed = pc.cast(sized, pa.binary(width))
    return pa.Array.from_buffers(kind, len(fixed), fixed.buffers(), offset=fixed.offset)


def _scaled(numbers: Any, factor: int, divisor: int) -> Any:
    """Return numbers times a fraction, null on overflow of 64 bits."""
    import pyarrow as pa

    if numbers is None or factor == divisor:
        return numbers
    if divisor > 1:
        return to_microseconds(numbers)
    limit = ((1 << 63) - 1) // factor
    fits = pc.and_(pc.less_equal(numbers, limit), pc.greater_equal(numbers, -limit))
    return pc.multiply(pc.if_else(fits, numbers, pa.scalar(None, pa.int64())), factor)


def _floats(leaf: FileLeaf, kind: Any, data: Any) -> Any:
    """Return doubles. NaN is not a bound."""
    import pyarrow as pa

    if pa.types.is_signed_integer(kind) and kind.bit_width <= 32:
        whole = _integers(leaf, data)
        return None if whole is None else pc.cast(whole, pa.float64())
    form = {"FLOAT": (4, pa.float32()), "DOUBLE": (8, pa.float64())}.get(leaf.physical_type)
    if form is None:
        return None
    numbers = pc.cast(_of_width(data, *form), pa.float64())
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


def _decimals(leaf: FileLeaf, kind: Any, column: StatColumn, data: Any) -> Any:
    import pyarrow as pa

    wanted = comparable_type(column)
    if pa.types.is_signed_integer(kind):
        whole, scale = _integers(leaf, data), 0
    elif not pa.types.is_decimal(kind) or kind.scale > wanted.scale:
        return None
    elif leaf.physical_type in ("INT32", "INT64"):
        whole, scale = _integers(leaf, data), kind.scale
    elif leaf.physical_type in ("FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"):
        return pc.cast(_big_endian(leaf, data, kind.scale), wanted)
    else:
        return None
    if whole is None:
        return None
    # The digits without a point, read with another scale.
    unscaled = pc.cast(whole, pa.decimal128(19, 0))
    return pc.cast(pa.Array.from_buffers(pa.decimal128(38, scale), len(whole), unscaled.buffers()), wanted)


def _big_endian(leaf: FileLeaf, data: Any, scale: int) -> Any:
    """Return decimals of up to 16 bytes, the highest byte first."""
    import pyarrow as pa

    length = pc.binary_length(data)
    is_sized = pc.and_(pc.greater(length, 0), pc.less_equal(length, _MOST_DECIMAL_BYTES))
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        is_sized = pc.and_(is_sized, pc.equal(length, leaf.length))
    data = pc.if_else(is_sized, data, pa.scalar(None, pa.binary()))
    missing = pc.subtract(_MOST_DECIMAL_BYTES, pc.binary_length(data))
    is_negative = pc.greater_equal(pc.binary_slice(data, 0, 1), pa.scalar(_SIGN))
    head = pc.binary_repeat(pc.if_else(is_negative, pa.scalar(b"\xff"), pa.scalar(b"\x00")), missing)
    fixed = pc.cast(pc.binary_reverse(pc.binary_join_element_wise(head, data, pa.scalar(b""))), pa.binary(16))
    numbers = pa.Array.from_buffers(pa.decimal128(38, scale), len(fixed), fixed.buffers(), offset=fixed.offset)
    wide = pc.cast(numbers, pa.decimal256(76, scale))
    limit = pa.scalar(10 ** (38 - scale), pa.decimal256(76, scale))
    return pc.if_else(pc.less(pc.abs(wide), limit), wide, pa.scalar(None, wide.type))
