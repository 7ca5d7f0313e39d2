"""Literals compared with a column: which values are below, equal or above, exactly.

Integers, decimals, dates and timestamps are whole numbers in a unit, and the literal is a fraction of it: values below
1.5 are below 2. So nothing overflows and nothing is rounded, however long the literal is. Doubles are ordered as in
Spark: NaN is equal to NaN and above everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY
from deltacli.delta.predicate.columns import NUMBERS, TIMES, Column
from deltacli.delta.predicate.literals import Literal, NoColumnValueError, from_text, nearest_double
from deltacli.delta.schema.kinds import Kind

_LEAST, _BEYOND = -(1 << 63), 1 << 63
_DECIMAL_BEYOND = 10**38


class Order(StrEnum):
    """A comparison of two values; > and >= are the opposites of <= and <, also for NaN."""

    LESS = "<"
    LESS_EQUAL = "<="
    EQUAL = "="


ORDERS = {
    "=": (Order.EQUAL, False),
    "<>": (Order.EQUAL, True),
    "<": (Order.LESS, False),
    "<=": (Order.LESS_EQUAL, False),
    ">": (Order.LESS_EQUAL, True),
    ">=": (Order.LESS, True),
}
"""Comparison -> the operation, and whether its answer is negated."""
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison -> the one with exchanged sides; the others are the same."""


class Limit(Protocol):
    """A value that the values of one column are compared with."""

    @property
    def value(self) -> Any:
        """The number of units, the double, or the bytes."""

    @property
    def member(self) -> ArrowScalar:
        """Return the limit as a value of the column, or None if the column cannot hold it or has more than one spelling
        of it.
        """

    def compare(self, order: Order, values: ArrowArray) -> ArrowArray:
        """Return which values are less, less or equal, or equal; null if the value is."""

    def holds_for_nan(self, order: Order) -> bool:
        """The result of `compare` for NaN."""


def limit_of(column: Column, literal: Literal) -> Limit:
    """Return a literal as a limit of a column's values. Raises NoValueError if they cannot be compared."""
    kind = column.kind
    if literal.kind is Kind.TEXT and kind is not Kind.TEXT:
        if kind is Kind.BINARY:
            raise NoColumnValueError(f"{column.name} is binary but '{literal.value}' is a string; write X'…'")
        literal = from_text(literal.value, column.type_name, literal.node)
    if kind in NUMBERS and literal.kind is Kind.DECIMAL:
        if kind is Kind.FLOAT:
            return FloatLimit(nearest_double(literal.value))
        return WholeLimit(column, _scaled(literal.value, 10**column.scale))
    if kind in TIMES and literal.kind in TIMES:
        if kind is Kind.NTZ and literal.has_zone:
            said = f"{column.name} is a timestamp_ntz, which has no time zone, but the literal has one"
            raise NoColumnValueError(said)
        unit = MICROSECONDS_A_DAY if literal.kind is Kind.DATE else 1
        day = MICROSECONDS_A_DAY if kind is Kind.DATE else 1
        return WholeLimit(column, Fraction(literal.value * unit, day))
    if kind is literal.kind and kind in (Kind.TEXT, Kind.BINARY):
        return BytesLimit(literal.value, is_text=kind is Kind.TEXT)
    hint = "; write it as a string: '…'" if kind is Kind.TEXT else ""
    said = f"{column.name} is of type {column.type_name} and cannot be compared with {literal.shown}{hint}"
    raise NoColumnValueError(said)


def _scaled(number: Fraction | float, factor: int) -> Fraction | float:
    return number * factor if isinstance(number, Fraction) else number


class WholeLimit:
    """A limit of a column whose values are whole numbers of a unit."""

    def __init__(self, column: Column, value: Fraction | float) -> None:
        self.column = column
        self.value: Any = value

    def compare(self, order: Order, values: Any) -> Any:
        value = self.value
        if isinstance(value, float):
            return _constant(values, order is not Order.EQUAL and not value < 0)
        match order:
            case Order.LESS:
                return self._below(values, math.ceil(value))
            case Order.LESS_EQUAL:
                return self._below(values, math.floor(value) + 1)
        if value.denominator != 1 or not self._fits(value.numerator):
            return _constant(values, False)
        numbers = self._numbers(values)
        return pc.equal(numbers, self._scalar(value.numerator))

    def holds_for_nan(self, _order: Order) -> bool:
        return False

    @property
    def member(self) -> ArrowScalar:
        value = self.value
        if isinstance(value, float) or value.denominator != 1 or not self._fits(value.numerator):
            return None
        return self._scalar(value.numerator)

    def _below(self, values: Any, end: int) -> Any:
        if self.column.kind is Kind.DECIMAL:
            least, beyond = -_DECIMAL_BEYOND + 1, _DECIMAL_BEYOND
        else:
            least, beyond = _LEAST, _BEYOND
        if end >= beyond or end <= least:
            return _constant(values, end >= beyond)
        return pc.less(self._numbers(values), self._scalar(end))

    def _fits(self, number: int) -> bool:
        if self.column.kind is Kind.DECIMAL:
            return abs(number) < _DECIMAL_BEYOND
        return _LEAST <= number < _BEYOND

    def _numbers(self, values: Any) -> Any:
        return values if self.column.kind is Kind.DECIMAL else whole_numbers(values)

    def _scalar(self, number: int) -> Any:
        import pyarrow as pa

        if self.column.kind is Kind.DECIMAL:
            return pa.scalar(decimal_of(number, self.column.scale), pa.decimal128(38, self.column.scale))
        return pa.scalar(number, pa.int64())


class FloatLimit:
    """A limit of a column of floats or doubles; floats are widened first."""

    def __init__(self, value: float) -> None:
        self.value: Any = value
        self.member = None  # 0.0 and -0.0 are equal, as are all NaN

    def compare(self, order: Order, values: Any) -> Any:
        doubles = as_doubles(values)
        if math.isnan(self.value):
            return _constant(values, True) if order is Order.LESS_EQUAL else _nan(doubles, order is Order.EQUAL)
        return ask(order, doubles, self.value)

    def holds_for_nan(self, order: Order) -> bool:
        return math.isnan(self.value) and order is not Order.LESS


class BytesLimit:
    """A limit of a column of strings or binary values, in the order of their bytes."""

    def __init__(self, value: str | bytes, *, is_text: bool) -> None:
        self.value: Any = value
        self.is_text = is_text

    def compare(self, order: Order, values: Any) -> Any:
        return ask(order, values, self.member)

    def holds_for_nan(self, _order: Order) -> bool:
        return False

    @property
    def member(self) -> ArrowScalar:
        import pyarrow as pa

        return pa.scalar(self.value, pa.string() if self.is_text else pa.binary())


def ask(order: Order, left: Any, right: Any) -> Any:  # Any: Arrow arrays and scalars
    """Return Arrow's own comparison."""
    match order:
        case Order.LESS:
            return pc.less(left, right)
        case Order.LESS_EQUAL:
            return pc.less_equal(left, right)
    return pc.equal(left, right)


def ends_of(limits: Sequence[Limit]) -> tuple[Limit, Limit]:
    """The least and the greatest of the limits of one column."""
    ordered = sorted(limits, key=_sortable)
    return ordered[0], ordered[-1]


def _sortable(limit: Limit) -> Any:
    value = limit.value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float) and math.isnan(value):
        return (1, 0.0)
    return value if isinstance(value, bytes) else (0, value)


# -- arrays -----------------------------------------------------------------------------------------------------------


def _constant(values: ArrowArray, answer: bool) -> ArrowArray:
    """Return the same answer for every value, null if the value is null."""
    import pyarrow as pa

    return pc.if_else(pc.is_valid(values), pa.scalar(answer), pa.scalar(None, pa.bool_()))


def _nan(values: Any, is_wanted: bool) -> Any:
    """Return which doubles are NaN, or which are not; null if the value is."""
    mask = pc.equal(values, values)
    return pc.invert(mask) if is_wanted else mask


def as_doubles(values: Any) -> Any:
    """Numbers as doubles, each the nearest one."""
    import pyarrow as pa

    if pa.types.is_decimal(values.type):
        # Arrow's conversion from decimals to doubles rounds more than once, the one from texts does not.
        return pc.cast(pc.cast(values, pa.string()), pa.float64())
    return pc.cast(values, pa.float64(), safe=False)


def whole_numbers(values: Any) -> Any:
    """Integers, dates and timestamps as 64-bit integers of their unit."""
    import pyarrow as pa

    if pa.types.is_date32(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.timestamp("us", values.type.tz))
    return pc.cast(values, pa.int64())


def decimal_of(number: int, scale: int) -> Decimal:
    """Return a number of units as a decimal, without rounding to the digits of Python's context."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
