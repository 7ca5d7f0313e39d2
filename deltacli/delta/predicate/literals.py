"""Literals of a predicate: values and casts, and which values of a column are below, equal or above them.

A number is exact in every spelling: 1e3 is 1000, and it is a double only next to a FLOAT or DOUBLE column. A timestamp
without a zone is UTC.

Integers, decimals, dates and timestamps are whole numbers in a unit, and the literal is a fraction of it: values below
1.5 are below 2. So nothing overflows and nothing is rounded, however long the literal is. Doubles are ordered as in
Spark: NaN is equal to NaN and above everything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.texts import add_article, is_utf8_encodable
from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, parse_date, parse_moment
from deltacli.delta.partitions.values import Spelling, spelling_of
from deltacli.delta.predicate.columns import NUMBERS, TIMES, Column, refuse, refuse_value
from deltacli.delta.schema.type_changes import canonical_name
from deltacli.delta.schema.types import PLAIN_TYPES, WHOLE_BITS, Kind, decimal_parts
from deltacli.delta.sql.parser import Form, Node

_SUFFIX = re.compile(r"(?:BD|[LSYDF])\Z", re.IGNORECASE)
_SUFFIX_TYPES = {"L": "long", "S": "short", "Y": "byte", "D": "double", "F": "float", "BD": "decimal"}
_EXACT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?")
_MAX_DIGITS = 400
"More digits, or a larger exponent, than any number in a table."
_NAMED_ZONE = re.compile(r"[A-Za-z]/|[A-Za-z]\Z")
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_TYPED = {"date": "date", "timestamp": "timestamp", "timestamp_ltz": "timestamp", "timestamp_ntz": "timestamp_ntz"}
_OTHER_TYPES = {"timestamp_ltz": "timestamp", "bool": "boolean"}


class Literal(NamedTuple):
    """A value of a predicate.

    By kind: DECIMAL any number, as a Fraction, or a float that is NaN or infinite; DATE days, TIMESTAMP and NTZ
    microseconds since the epoch; TEXT, BINARY and BOOLEAN as Python has them; OTHER is NULL.
    """

    kind: Kind
    value: Any
    node: Node
    has_zone: bool = False

    @property
    def is_null(self) -> bool:
        return self.kind is Kind.OTHER

    @property
    def shown(self) -> str:
        what = {Kind.DECIMAL: "a number", Kind.TEXT: "a string", Kind.BINARY: "binary", Kind.OTHER: "NULL"}
        return what.get(self.kind) or add_article(self.kind.value)


class NoValueError(ValueError):
    """A text that is not a value of a type; the message finishes a sentence."""


class NoColumnValueError(NoValueError):
    """A literal with which a column cannot be compared; the message is about the column."""


def literal_of(text: str, node: Node) -> Literal | None:
    """Return the literal of a node, or None for other nodes. Raises UsageError for one without a value."""
    try:
        return _literal(text, node)
    except NoValueError as fault:
        raise refuse_value(text, node.position, str(fault)) from None


def _literal(text: str, node: Node) -> Literal | None:
    match node.form:
        case Form.NULL:
            return Literal(Kind.OTHER, None, node)
        case Form.NUMBER:
            return Literal(Kind.DECIMAL, _number(node.name), node)
        case Form.TEXT:
            return Literal(Kind.TEXT, require_text(node.value), node)
        case Form.CONDITION if node.name in ("true", "false") and not node.parts:
            return Literal(Kind.BOOLEAN, node.name == "true", node)
        case Form.CAST:
            inner = literal_of(text, node.parts[0])
            return None if inner is None else _cast(text, node, inner)
        case Form.VALUE if node.name in ("-", "+") and len(node.parts) == 1:
            return _signed(text, node)
        case Form.VALUE if node.name in _TYPED:
            return from_text(require_text(node.parts[0].value), _TYPED[node.name], node)
        case Form.VALUE if node.name == "x":
            digits = node.parts[0].value
            if not re.fullmatch("[0-9a-fA-F]*", digits):
                raise NoValueError(f"X'{digits}' is not a hexadecimal number")
            return Literal(Kind.BINARY, bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"), node)
    return None


def require_text(text: str) -> str:
    """A text that has bytes. Raises NoValueError."""
    if not is_utf8_encodable(text):
        raise NoValueError("the string holds half a character (a surrogate)")
    return text


def _signed(text: str, node: Node) -> Literal | None:
    inner = literal_of(text, node.parts[0])
    if inner is None or inner.kind not in (Kind.DECIMAL, Kind.OTHER):
        return None
    return inner._replace(value=-inner.value if node.name == "-" and not inner.is_null else inner.value, node=node)


def _number(text: str) -> Fraction | float:
    """Return a number as written; with a suffix, as a value of that type."""
    match = _SUFFIX.search(text)
    if match is None:
        return parse_exact_number(text)
    bare, name = text[: match.start()], _SUFFIX_TYPES[match[0].upper()]
    if name in ("float", "double"):
        return _floating(parse_exact_number(bare), name, text)
    if name in WHOLE_BITS and not bare.isdigit():
        raise NoValueError(f"{text} is not {add_article(name)}")
    return parse_exact_number(bare)


def parse_exact_number(text: str) -> Fraction:
    """A number without a suffix. Raises NoValueError."""
    match = _EXACT.fullmatch(text)
    if match is None:
        raise NoValueError(f"{_cut(text)} is not a number")
    if len(text) > _MAX_DIGITS or abs(int(match[1] or 0)) > _MAX_DIGITS:
        raise NoValueError(f"{_cut(text)} has too many digits")
    return Fraction(text)


def nearest_double(number: Fraction | float) -> float:
    """Return the nearest double of a number. Raises NoValueError if it is out of range."""
    try:
        return float(number)
    except OverflowError:
        raise NoValueError("the number is too large for a double") from None


def _floating(number: Fraction | float, name: str, text: str) -> Fraction | float:
    """A number rounded to a float or a double."""
    nearest = nearest_double(number)
    if name == "float" and math.isfinite(nearest):
        nearest = _single(nearest, text)
    return Fraction(nearest) if math.isfinite(nearest) else nearest


def _single(number: float, text: str) -> float:
    import struct

    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise NoValueError(f"{_cut(text)} is too large for a float") from None
    return single


# -- texts as values of a type ----------------------------------------------------------------------------------------


def from_text(text: str, type_name: str, node: Node) -> Literal:
    """Return a text as a value of a type, as a cast does. Raises NoValueError."""
    bare = text.strip()
    match type_name:
        case "string":
            return Literal(Kind.TEXT, text, node)
        case "binary":
            return Literal(Kind.BINARY, text.encode(), node)
        case "boolean":
            return Literal(Kind.BOOLEAN, _boolean(bare), node)
        case "date":
            days = parse_date(bare)
            if days is None:
                raise NoValueError(f"'{_cut(text)}' is not a date (yyyy-mm-dd)")
            return Literal(Kind.DATE, days, node)
        case "timestamp" | "timestamp_ntz":
            return _moment(bare, type_name, node)
        case "float" | "double":
            return Literal(Kind.DECIMAL, _floating_text(bare, type_name), node)
    if type_name in WHOLE_BITS:
        if not re.fullmatch(r"[+-]?[0-9]{1,400}", bare):
            raise NoValueError(f"'{_cut(text)}' is not an integer")
        return Literal(Kind.DECIMAL, Fraction(int(bare)), node)
    return Literal(Kind.DECIMAL, parse_exact_number(bare), node)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE or text.lower() in _FALSE:
        return text.lower() in _TRUE
    raise NoValueError(f"'{_cut(text)}' is neither true nor false")


def _moment(text: str, type_name: str, node: Node) -> Literal:
    moment = parse_moment(text)
    if moment is None:
        raise NoValueError(f"'{_cut(text)}' is not a timestamp (yyyy-mm-dd hh:mm:ss)")
    if moment.has_zone and names_a_place(text):
        raise NoValueError(f"'{_cut(text)}' has a named time zone; write its offset instead, as in +02:00")
    if moment.has_zone and type_name == "timestamp_ntz":
        raise NoValueError(f"'{_cut(text)}' has a time zone, but a timestamp_ntz has none")
    kind = Kind.NTZ if type_name == "timestamp_ntz" else Kind.TIMESTAMP
    return Literal(kind, moment.microseconds, node, moment.has_zone)


def names_a_place(text: str) -> bool:
    """Return True if the zone of a timestamp is a place name, whose offset is not resolved."""
    return bool(_NAMED_ZONE.search(text)) and not text.endswith(("Z", "UTC", "GMT"))


def _floating_text(text: str, type_name: str) -> Fraction | float:
    if text == "" or spelling_of(type_name, text) is Spelling.UNPARSABLE:
        raise NoValueError(f"'{_cut(text)}' is not a number")
    bare = text.rstrip("fFdD") if text[-1:] in "fFdD" and text[-2:-1].isdigit() else text
    if bare.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(bare)
    number = parse_exact_number(bare.rstrip("."))
    return _floating(number, type_name, text)


# -- casts ------------------------------------------------------------------------------------------------------------


def _cast(text: str, node: Node, inner: Literal) -> Literal:
    """Return a literal as another type. A cast without a value is an error, with TRY_CAST it is NULL."""
    type_name = canonical_name(_OTHER_TYPES.get(node.name, node.name))
    if type_name.startswith(("varchar(", "char(")):
        type_name = "string"
    if type_name not in PLAIN_TYPES and not decimal_parts(type_name):
        raise refuse(text, node.position, f"a cast to {node.name} is not supported")
    if inner.is_null:
        return inner._replace(node=node)
    try:
        return _converted(inner, type_name, node)
    except NoValueError:
        if node.word == "try_cast":
            return Literal(Kind.OTHER, None, node)
        raise


def _converted(inner: Literal, type_name: str, node: Node) -> Literal:
    if inner.kind is Kind.TEXT:
        converted = from_text(inner.value, type_name, node)
        return _in_range(converted, type_name, node) if converted.kind is Kind.DECIMAL else converted
    if inner.kind is Kind.DECIMAL:
        if type_name == "boolean":
            return Literal(Kind.BOOLEAN, inner.value != 0, node)
        if type_name in WHOLE_BITS or type_name in ("float", "double") or decimal_parts(type_name):
            return _in_range(inner, type_name, node)
    if inner.kind is Kind.BOOLEAN and (type_name in WHOLE_BITS or type_name in ("float", "double", "boolean")):
        return inner if type_name == "boolean" else Literal(Kind.DECIMAL, Fraction(int(inner.value)), node)
    if inner.kind is Kind.BOOLEAN and type_name == "string":
        return Literal(Kind.TEXT, "true" if inner.value else "false", node)
    if inner.kind is Kind.BINARY and type_name == "binary":
        return inner._replace(node=node)
    if inner.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.NTZ) and type_name in ("date", "timestamp", "timestamp_ntz"):
        return _other_time(inner, type_name, node)
    raise NoValueError(f"{inner.shown} cannot be cast to {type_name} here")


def _in_range(inner: Literal, type_name: str, node: Node) -> Literal:
    """Return a number in a type: truncated for integers, rounded half up for decimals, to the nearest for doubles."""
    number = inner.value
    if type_name in ("float", "double"):
        return Literal(Kind.DECIMAL, _floating(number, type_name, "the number"), node)
    if isinstance(number, float):
        raise NoValueError(f"{number} is not {add_article(type_name)}")
    if type_name in WHOLE_BITS:
        limit = 1 << (WHOLE_BITS[type_name] - 1)
        whole = math.trunc(number)
        if not -limit <= whole < limit:
            raise NoValueError(f"the number is out of range for {add_article(type_name)}")
        return Literal(Kind.DECIMAL, Fraction(whole), node)
    precision, scale = decimal_parts(type_name) or (38, 0)
    scaled = math.floor(abs(number) * 10**scale + Fraction(1, 2))
    if scaled >= 10**precision:
        raise NoValueError(f"the number is out of range for {type_name}")
    return Literal(Kind.DECIMAL, Fraction(scaled if number >= 0 else -scaled, 10**scale), node)


def _other_time(inner: Literal, type_name: str, node: Node) -> Literal:
    if type_name == "date":
        days = inner.value if inner.kind is Kind.DATE else inner.value // MICROSECONDS_A_DAY
        return Literal(Kind.DATE, days, node)
    kind = Kind.TIMESTAMP if type_name == "timestamp" else Kind.NTZ
    microseconds = inner.value * MICROSECONDS_A_DAY if inner.kind is Kind.DATE else inner.value
    return Literal(kind, microseconds, node)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


# -- literals compared with a column -----------------------------------------------------------------------------------

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
        """Return the limit as a value of the column, or None if the column has no, or more than one, spelling of it."""

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
        value = literal.value
        return WholeLimit(column, value * 10**column.scale if isinstance(value, Fraction) else value)
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
    return pc.if_else(pc.is_valid(values), pa.scalar(answer), pa.scalar(None, pa.bool_()))


def _nan(values: Any, is_wanted: bool) -> Any:
    """Return which doubles are NaN, or which are not; null if the value is."""
    mask = pc.equal(values, values)
    return pc.invert(mask) if is_wanted else mask


def as_doubles(values: Any) -> Any:
    """Numbers as doubles, each the nearest one."""
    if pa.types.is_decimal(values.type):
        # Arrow's conversion from decimals to doubles rounds more than once, the one from texts does not.
        return pc.cast(pc.cast(values, pa.string()), pa.float64())
    return pc.cast(values, pa.float64(), safe=False)


def whole_numbers(values: Any) -> Any:
    """Integers, dates and timestamps as 64-bit integers of their unit."""
    if pa.types.is_date32(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.timestamp("us", values.type.tz))
    return pc.cast(values, pa.int64())


def decimal_of(number: int, scale: int) -> Decimal:
    """Return a number of units as a decimal, without rounding to the digits of Python's context."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
