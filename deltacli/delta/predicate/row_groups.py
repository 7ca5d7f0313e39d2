"""Row groups of a data file that a predicate need not read, by the statistics in the file's footer.

The footer's own bytes are read instead of Arrow's result, because pyarrow 26.0.1 ends the process when it reads the
statistics of a hostile footer. Unusual parts are treated as unknown, and their row group is read. Spec: parquet.thrift.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deltacli.core.typing import ArrowType
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY
from deltacli.delta.footers.thrift import LeafStatistics, read_statistics
from deltacli.delta.predicate.columns import Column, ColumnPath
from deltacli.delta.predicate.conditions import columns_of
from deltacli.delta.predicate.literals import decimal_of
from deltacli.delta.predicate.parse import Predicate
from deltacli.delta.predicate.prune import Bounds, Exact, Known, constant, possible
from deltacli.delta.schema.types import Kind

_UNITS = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Unit of a timestamp -> microseconds as a fraction."""


@dataclass(frozen=True, slots=True)
class PredicateLeaf:
    """Where a column of a predicate is in a file.

    `index`: of the leaf among those of the file, `arrow_type`: as the file stores it. A column without a leaf is
    `absent`, so all its rows are null, or has one `constant` value, as partition columns do. A column that is not given
    may hold anything.
    """

    index: int | None
    arrow_type: ArrowType
    absent: bool = False
    constant: Any = None
    """An Arrow scalar of the table's type, which may be null."""


def kept_row_groups(
    predicate: Predicate, metadata: Any, leaves: Mapping[ColumnPath, PredicateLeaf], footer: bytes
) -> list[int]:  # Any: pyarrow has no types
    """Return the row groups that may have rows which match a predicate.

    `metadata` and `footer` are of the same file; `footer` may be empty, then nothing is known of its leaves. `leaves`
    are given by logical path.
    """
    count = metadata.num_row_groups
    if count == 0:
        return []
    reader = _FooterReader(metadata, footer)
    known = {
        column: _known(reader, column, leaves[column.path])
        for column in dict.fromkeys(columns_of(predicate.condition))
        if column.path in leaves
    }
    may_be_true = possible(predicate.condition, known.get, count).true
    return [index for index, is_kept in enumerate(may_be_true.to_pylist()) if is_kept]


def _known(reader: _FooterReader, column: Column, leaf: PredicateLeaf) -> Known:
    count = reader.count
    if leaf.absent or leaf.constant is not None:
        value = pa.scalar(None, column.arrow_type or pa.null()) if leaf.absent else leaf.constant
        return Exact(pa.repeat(value, count), constant(True, count))
    if leaf.index is None or column.kind is Kind.OTHER:
        return None
    kind, physical = reader.physical_type(leaf.index), leaf.arrow_type
    lows, highs, nulls, values = [], [], [], []
    for chunk in reader.statistics(leaf.index):
        low, high = _ends(column, kind, physical, chunk)
        lows.append(low)
        highs.append(high)
        is_all_null = chunk.nulls is not None and 0 < chunk.nulls == chunk.values and low is None and high is None
        values.append(not is_all_null)
        nulls.append(column.is_nested or chunk.nulls != 0)
    arrow = (
        pa.int64() if column.kind in _AS_INTEGERS else pa.float64() if column.kind is Kind.FLOAT else column.arrow_type
    )
    low_ends, high_ends = (pa.array(ends, _roomy(arrow)) for ends in (lows, highs))
    return Bounds(low_ends, high_ends, pa.array(nulls, pa.bool_()), pa.array(values, pa.bool_()))


_AS_INTEGERS = frozenset({Kind.WHOLE, Kind.DATE, Kind.TIMESTAMP, Kind.NTZ})


def _roomy(arrow: ArrowType) -> ArrowType:
    return pa.decimal128(38, arrow.scale) if pa.types.is_decimal(arrow) else arrow


class _FooterReader:
    """Reads the statistics of unambiguously named leaves."""

    def __init__(self, metadata: Any, footer: bytes) -> None:
        self._schema = metadata.schema
        self._footer = footer
        self.count: int = metadata.num_row_groups
        paths = (self._schema.column(index).path for index in range(len(self._schema)))
        self._uses = Counter(paths)

    def physical_type(self, index: int) -> str:
        return str(self._schema.column(index).physical_type)

    def statistics(self, index: int) -> Sequence[LeafStatistics]:
        """Return what the footer records about a leaf in each row group, or nothing for an ambiguous name (a name may
        contain a dot).
        """
        leaf = self._schema.column(index)
        if self._uses[leaf.path] > 1:
            return [LeafStatistics()] * self.count
        return read_statistics(self._footer, leaf.path, self.count)


# -- values -----------------------------------------------------------------------------------------------------------


def _ends(column: Column, kind: str, arrow: Any, statistics: LeafStatistics) -> tuple[Any, Any]:
    """Return the bounds of a row group in comparable form, None if unknown."""
    low, high = statistics.low, statistics.high
    if low is None and high is None and kind in ("INT32", "INT64", "FLOAT", "DOUBLE"):
        low, high = statistics.old_low, statistics.old_high  # only those of bytes were ever ordered wrongly
    ends = (_value(column, kind, arrow, low, is_low=True), _value(column, kind, arrow, high, is_low=False))
    if None not in ends and ends[0] > ends[1]:
        return None, None
    if statistics.nulls is not None and (
        statistics.nulls < 0 or (statistics.values is not None and statistics.nulls > statistics.values)
    ):
        return None, None
    return ends


def _value(column: Column, kind: str, arrow: Any, data: bytes | None, *, is_low: bool) -> Any:
    """Return a bound from its bytes, in the column's type, or None if it is invalid."""
    if data is None:
        return None
    match column.kind:
        case Kind.TEXT:
            return _text(data) if kind == "BYTE_ARRAY" and _is_text(arrow) else None
        case Kind.BINARY:
            return None  # whether it was truncated is unknown, and there is no order to check it by
        case Kind.FLOAT:
            return _as_float(_number(kind, arrow, data))
        case Kind.WHOLE:
            return _whole(kind, data) if pa.types.is_signed_integer(arrow) else None
        case Kind.DECIMAL:
            return _as_decimal(column, _number(kind, arrow, data))
        case Kind.DATE:
            return _whole(kind, data) if pa.types.is_date32(arrow) else None
        case Kind.TIMESTAMP | Kind.NTZ:
            return _microseconds(kind, arrow, data, is_low=is_low)
    return None


def _whole(kind: str, data: bytes) -> int | None:
    if len(data) != {"INT32": 4, "INT64": 8}.get(kind):
        return None
    return int.from_bytes(data, "little", signed=True)


def _number(kind: str, arrow: Any, data: bytes) -> int | float | Decimal | None:
    """An integer, a double or a decimal, as the file stores it."""
    if pa.types.is_signed_integer(arrow):
        return _whole(kind, data)
    if pa.types.is_decimal(arrow):
        unscaled = _whole(kind, data)
        if kind in ("FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY") and 0 < len(data) <= 16:
            unscaled = int.from_bytes(data, "big", signed=True)
        return None if unscaled is None else decimal_of(unscaled, arrow.scale)
    layout = {"FLOAT": "<f", "DOUBLE": "<d"}.get(kind)
    if layout is None or len(data) != struct.calcsize(layout):
        return None
    number: float = struct.unpack(layout, data)[0]
    return number


def _as_float(number: int | float | Decimal | None) -> float | None:
    if number is None or isinstance(number, Decimal) or math.isnan(number):
        return None
    return float(number)


def _as_decimal(column: Column, number: int | float | Decimal | None) -> Decimal | None:
    if number is None or isinstance(number, float):
        return None
    _, digits, exponent = Decimal(number).as_tuple()
    assert isinstance(exponent, int)
    # A wider type never has fewer digits behind the point; a narrower one would round.
    fits = -exponent <= column.scale and len(digits) + exponent + column.scale <= 38
    return Decimal(number) if fits else None


def _microseconds(kind: str, arrow: Any, data: bytes, *, is_low: bool) -> int | None:
    """Return a time in microseconds, rounded outwards. A date that became a timestamp is its midnight."""
    number = _whole(kind, data)
    if number is None:
        return None
    if pa.types.is_date32(arrow):
        number *= MICROSECONDS_A_DAY
    elif pa.types.is_timestamp(arrow):
        factor, divisor = _UNITS[arrow.unit]
        number = number * factor // divisor if is_low else -(-number * factor // divisor)
    else:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _is_text(arrow: Any) -> bool:
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
