"""Convert values of a column of a file to the type of the table.

Spec: Type Widening; Delta Data Type to Parquet Type Mappings. Only exact conversions are made: the physical forms of
one type, and the widenings that the protocol allows. Timestamps of nanoseconds are truncated to microseconds, as every
reader of the table's type does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from deltacli.arrow import compute as pc
from deltacli.core.errors import DataUnreadable
from deltacli.core.hints import command
from deltacli.core.typing import ArrowArray
from deltacli.delta.schema.kinds import NANOSECONDS, WHOLE_BITS, YEAR_MONTH, decimal_parts, interval_name

_FIRST = -(1 << 63) + 1_000
"""From here on no microsecond begins before the first nanosecond of 64 bits."""


def to_microseconds(numbers: ArrowArray) -> ArrowArray:
    """Return nanoseconds as the microseconds that contain them, also before 1970, where a cast would return the next
    one.
    """
    import pyarrow as pa

    least = pc.min_max(numbers).as_py()["min"]
    if least is None or least >= _FIRST:
        # 30 ns per row; the division below takes 100.
        cut = pc.floor_temporal(numbers.view(pa.timestamp("ns")), unit="microsecond")
        return pc.cast(cut, pa.timestamp("us")).view(pa.int64())
    whole = pc.divide(numbers, 1_000)
    is_later = pc.less(pc.subtract(numbers, pc.multiply(whole, 1_000)), 0)
    return pc.subtract(whole, pc.cast(is_later, pa.int64()))


Convert: TypeAlias = Callable[[ArrowArray], ArrowArray]

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"The digits before the decimal point that a decimal needs for every integer of so many bits. New changes need more "
"(10 and 20), but tables of early writers have these."


def conversion(kind: Any, name: str, wanted: Any, path: str) -> Convert | None:
    """Return the conversion of an Arrow type to `wanted`, the Arrow type of the primitive type `name`, or None if they
    are equal. Raises DataUnreadable (`data.type-mismatch`); so does the function for a value that does not fit.
    """
    import pyarrow as pa

    if kind.equals(wanted):
        return None
    if pa.types.is_dictionary(kind):
        inner = conversion(kind.value_type, name, wanted, path)
        plain = _decoded(kind.value_type, path)
        return plain if inner is None else lambda values: inner(plain(values))
    if not fits(kind, name):
        raise mismatch(path, kind, wanted)
    if name in ("timestamp", "timestamp_ntz") and pa.types.is_timestamp(kind):
        return _time(kind, wanted, path)
    return _checked(wanted, path)


def mismatch(path: str, actual: Any, wanted: Any) -> DataUnreadable:
    """Return the error for a type in a file that is not a form of the type in the table."""
    return DataUnreadable(
        f"column {path} is {str(actual)[:120]} in the file, but {str(wanted)[:120]} in the table",
        code="data.type-mismatch",
        facts={"column": path, "in the file": str(actual)[:200], "in the table": str(wanted)[:200]},
        hint=command("snapshot", schema=True),
    )


def fits(kind: Any, name: str) -> bool:
    """Return True if every value of an Arrow type is one of the table's type `name`, or may be and is checked."""
    import pyarrow as pa

    types = pa.types
    if name in WHOLE_BITS:
        # Parquet has no integers of less than 32 bits, and a writer may omit that a column has only 8 or 16.
        return bool(types.is_integer(kind) and kind.bit_width <= max(WHOLE_BITS[name], 32))
    if parts := decimal_parts(name):
        return _fits_decimal(kind, *parts)
    if name == "float":
        return bool(types.is_float32(kind) or types.is_float16(kind))
    if name == "double":
        return bool(types.is_floating(kind) or (types.is_integer(kind) and kind.bit_width <= 32))
    if interval := interval_name(name):
        # Arrow reads a duration that it wrote as one, not as the INT64 that it is stored as.
        is_duration = interval != YEAR_MONTH and kind == pa.duration("us")
        width = 32 if interval == YEAR_MONTH else 64
        return bool(is_duration or (types.is_signed_integer(kind) and kind.bit_width == width))
    if name in NANOSECONDS:
        return bool(types.is_timestamp(kind) and (kind.tz is None) == (NANOSECONDS[name] is None))
    if name == "timestamp":
        return bool(types.is_timestamp(kind))
    if name == "timestamp_ntz":
        return bool((types.is_timestamp(kind) and kind.tz is None) or types.is_date(kind))
    if name == "date":
        return bool(types.is_date(kind))
    if name == "boolean":
        return bool(types.is_boolean(kind))
    return _is_bytes(kind)


def _fits_decimal(kind: Any, precision: int, scale: int) -> bool:
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return precision - scale >= _DIGITS[kind.bit_width]
    return bool(pa.types.is_decimal(kind) and kind.scale <= scale and kind.precision - kind.scale <= precision - scale)


def _is_bytes(kind: Any) -> bool:
    """Return True for text and bytes in every form."""
    import pyarrow as pa

    types = pa.types
    return any(
        (
            types.is_string(kind),
            types.is_large_string(kind),
            types.is_string_view(kind),
            types.is_binary(kind),
            types.is_large_binary(kind),
            types.is_binary_view(kind),
            types.is_fixed_size_binary(kind),
        )
    )


def _checked(wanted: Any, path: str) -> Convert:
    """Return a cast that refuses values that do not fit."""
    import pyarrow as pa

    def convert(values: Any) -> Any:
        try:
            return pc.cast(values, wanted)
        except MemoryError:
            raise
        except pa.ArrowException as fault:
            raise DataUnreadable(
                f"column {path} holds a value that is not a {wanted}",
                code="data.type-mismatch",
                facts={"column": path, "in the file": str(values.type)[:200], "reason": str(fault)[:200]},
            ) from fault

    return convert


def _decoded(value_type: Any, path: str) -> Convert:
    """Return the values that a dictionary represents."""
    import pyarrow as pa

    checked = _checked(value_type, path)

    def convert(values: Any) -> Any:
        # A field that is never null has an index even below a null struct; if all of them are null, there is no value.
        return checked(values) if len(values.dictionary) else pa.nulls(len(values), value_type)

    return convert


def _time(kind: Any, wanted: Any, path: str) -> Convert:
    """Return timestamps in microseconds. One without a zone, in a column with one, is in UTC."""
    import pyarrow as pa

    checked = _checked(wanted, path)
    if kind.unit != "ns":
        return checked

    def convert(values: Any) -> Any:
        return checked(to_microseconds(values.view(pa.int64())).view(pa.timestamp("us")))

    return convert
