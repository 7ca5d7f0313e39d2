"""JSON hints as conditions.

A recipient evaluates its condition by its own rules, and a file must be kept if a row matches by any of them. Clients
differ in the session time zone, and in the place of NaN (equal to itself and above all numbers, or in no order). What
depends on that becomes UNKNOWN, a condition that may be true, false or null.

A part that is not understood may be true, false or null, so the rest can still be used, whatever operator joins them. A
column is cast to its `valueType` only where no value and no order is lost by it.

Spec: JSON predicates for Filtering.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import orjson

from deltacli.core.errors import UsageError
from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import Json
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, parse_date, parse_moment
from deltacli.delta.predicate import literals
from deltacli.delta.predicate.columns import Column, PredicateColumns
from deltacli.delta.predicate.conditions import (
    And,
    Compare,
    CompareColumns,
    CompareConditions,
    Condition,
    Constant,
    Contained,
    Flag,
    IsNull,
    Not,
    Or,
    Truth,
    columns_of,
)
from deltacli.delta.schema.types import Kind, PrimitiveType, StructType
from deltacli.delta.sql.parser import Form, Node
from deltacli.sharing.protocol.parameters import DEEPEST_JSON_HINT, LONGEST_JSON_HINT, MOST_PARTS

# -- conditions that hold for every client, whatever its dialect -------------------------------------------------------

_NOWHERE = Column((), PrimitiveType("boolean"))
UNKNOWN: Condition = Flag(_NOWHERE)
"""A column of which nothing is known."""

ZONE_MICROSECONDS = 18 * 3_600_000_000
"""The largest offset of a time zone from UTC that an engine accepts."""


class Reading(NamedTuple):
    """A hint as a condition, None if it is skipped, and what was not understood."""

    condition: Condition | None
    problems: tuple[str, ...] = ()


def named_columns(condition: Condition) -> Iterator[Column]:
    """Return the columns of the table that a condition uses, with repetitions."""
    return (column for column in columns_of(condition) if column != _NOWHERE)


def for_any_client(condition: Condition, zoneless: Set[Kind] = frozenset()) -> Condition:
    """Return a condition all clients evaluate alike. Literals at `zoneless` columns are times in an unknown zone."""
    match condition:
        case Not(Compare(column) as part) if column.kind is Kind.FLOAT:
            # This is how > and >= arrive. NaN is above the literal for some clients, and not for others.
            return And((Not(for_any_client(part, zoneless)), UNKNOWN))
        case Compare(column, order, limit):
            return _compared(column, order, limit, zoneless)
        case Contained(column, limits) if column.kind in zoneless:
            least, greatest = literals.ends_of(limits)
            return compare_between(column, literals.Order.EQUAL, moved(least, -1), moved(greatest, 1))
        case CompareColumns():
            return UNKNOWN
        case Not(part):
            return Not(for_any_client(part, zoneless))
        case Truth(part, wanted):
            return Truth(for_any_client(part, zoneless), wanted)
        case CompareConditions(left, order, right):
            return CompareConditions(for_any_client(left, zoneless), order, for_any_client(right, zoneless))
        case And(parts):
            return And(tuple(for_any_client(part, zoneless) for part in parts))
        case Or(parts):
            return Or(tuple(for_any_client(part, zoneless) for part in parts))
    return condition


def _compared(column: Column, order: literals.Order, limit: literals.Limit, zoneless: Set[Kind]) -> Condition:
    if isinstance(limit.value, float) and math.isnan(limit.value):
        return UNKNOWN
    if column.kind in zoneless:
        return compare_between(column, order, moved(limit, -1), moved(limit, 1))
    return Compare(column, order, limit)


def compare_between(column: Column, order: literals.Order, low: literals.Limit, high: literals.Limit) -> Condition:
    """Return the comparison with a value that is somewhere between two limits."""
    if order is literals.Order.EQUAL:
        return And(
            (Not(Compare(column, literals.Order.LESS, low)), Compare(column, literals.Order.LESS_EQUAL, high), UNKNOWN)
        )
    return Or((Compare(column, order, low), And((Compare(column, order, high), UNKNOWN))))


def moved(limit: literals.Limit, direction: int) -> literals.Limit:
    """Return the limit of a column of times, moved by the largest offset of a zone."""
    value: Any = limit.value
    assert isinstance(limit, literals.WholeLimit)
    unit = MICROSECONDS_A_DAY if limit.column.kind is Kind.DATE else 1
    return literals.WholeLimit(limit.column, value + direction * Fraction(ZONE_MICROSECONDS, unit))


# -- JSON hints as conditions ------------------------------------------------------------------------------------------

_MANY_LITERALS = 16
"From so many literals on, the least and the greatest of them decide about a file."

_SYMBOLS = {"equal": "=", "lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">", "greaterThanOrEqual": ">="}

_INTEGERS = {"int": 32, "long": 64}
_LOSSLESS: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"int", "long", "float", "double"}),
    "short": frozenset({"int", "long", "float", "double"}),
    "integer": frozenset({"int", "long", "double"}),
    "long": frozenset({"long"}),
    "float": frozenset({"float", "double"}),
    "double": frozenset({"double"}),
    "boolean": frozenset({"bool"}),
    "string": frozenset({"string"}),
    "date": frozenset({"date", "timestamp"}),
    "timestamp": frozenset({"timestamp"}),
    "timestamp_ntz": frozenset({"timestamp"}),
}
"""Type of a column -> the value types that hold all its values in their order. Dates and times without a zone become
timestamps in the zone of the client's session.
"""
_WHOLE_FLOATS = 1 << 24
"Integers up to this number are floats, and doubles."
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOATING = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?|[+-]?Infinity")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NO_NODE = Node(Form.OTHER)


def read_json(text: str, schema: StructType) -> Reading:
    """Return a JSON hint as a condition on the rows of a table."""
    if len(text) > LONGEST_JSON_HINT:
        return Reading(None, (f"it is longer than {LONGEST_JSON_HINT >> 20} MiB",))
    try:
        value = orjson.loads(text)
    except ValueError:
        return Reading(None, ("it is not JSON, or nested too deeply",))
    return _Reader(schema).read(value)


class _TooLarge(Exception):
    """A predicate beyond a limit; the message says which."""


class _Unusable(Exception):
    """A part that may be anything; the message says why."""


class _Operand(NamedTuple):
    """A side of a comparison: a column, or a literal in its value type."""

    value_type: str
    column: Column | None
    value: Json = None


@dataclass
class _Reader:
    schema: StructType
    problems: dict[str, None] = field(default_factory=dict)
    parts: int = 0

    def __post_init__(self) -> None:
        self.finder = PredicateColumns("", self.schema)

    def read(self, value: Json) -> Reading:
        try:
            condition = self._condition(value, 1)
        except _TooLarge as fault:
            return Reading(None, (str(fault),))
        return Reading(for_any_client(condition), tuple(self.problems))

    def _condition(self, value: Any, depth: int) -> Condition:
        """Return a part as a condition: UNKNOWN with a problem if it is not understood."""
        self.parts += 1
        if depth > DEEPEST_JSON_HINT:
            raise _TooLarge(f"it is nested more than {DEEPEST_JSON_HINT} levels deep")
        if self.parts > MOST_PARTS:
            raise _TooLarge(f"it has more than {MOST_PARTS:,} parts")
        try:
            return self._understood(value, depth)
        except _Unusable as fault:
            self.problems[str(fault)] = None
        except UsageError as fault:
            self.problems[fault.reason] = None
        return UNKNOWN

    def _understood(self, value: Any, depth: int) -> Condition:
        if not isinstance(value, dict):
            raise _Unusable("a part is not an object")
        op, children = value.get("op"), value.get("children")
        children = children if isinstance(children, list) else []
        match op:
            case "and" | "or" if len(children) >= 2:
                joined = tuple(self._condition(child, depth + 1) for child in children)
                return And(joined) if op == "and" else _either(joined)
            case "not" if len(children) == 1:
                return Not(self._condition(children[0], depth + 1))
            case "isNull" if len(children) == 1:
                return self._is_null(self._operand(children[0]))
            case str() if op in _SYMBOLS and len(children) == 2:
                return self._comparison(op, *map(self._operand, children))
            case "column" | "literal":
                return self._alone(self._operand(value))
            case str() if op in _SYMBOLS or op in ("and", "or", "not", "isNull"):
                raise _Unusable(f"{op} has {len(children)} children")
        raise _Unusable("an op is not supported")

    # -- operands -----------------------------------------------------------------------------------------------------

    def _operand(self, value: Any) -> _Operand:
        self.parts += 1
        if not isinstance(value, dict) or value.get("op") not in ("column", "literal"):
            raise _Unusable("a child of a comparison is neither a column nor a literal")
        value_type = value.get("valueType")
        if not isinstance(value_type, str):
            raise _Unusable("a column or literal has no valueType")
        if value["op"] == "literal":
            return _Operand(value_type, None, value.get("value"))
        return _Operand(value_type, self._column(value.get("name")))

    def _column(self, name: Any) -> Column:
        """Return a column by its name, or by the names of the structs around it, joined by dots."""
        if not isinstance(name, str) or not name:
            raise _Unusable("a column has no name")
        path = name.split(".")
        try:
            found = self.finder.find([name], 0)
        except UsageError:
            if len(path) == 1:
                raise
            return self.finder.find(path, 0)
        if len(path) > 1 and self._exists(path):
            raise _Unusable("the name of a column with a dot is also that of a field")
        return found

    def _exists(self, path: list[str]) -> bool:
        try:
            self.finder.find(path, 0)
        except UsageError:
            return False
        return True

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _is_null(self, operand: _Operand) -> Condition:
        if operand.column is None:
            raise _Unusable("isNull has a literal")
        _require_cast(operand.column, operand.value_type)
        return IsNull(operand.column)

    def _alone(self, operand: _Operand) -> Condition:
        if operand.column is None or operand.column.kind is not Kind.BOOLEAN or operand.value_type != "bool":
            raise _Unusable("a column or literal that is not a boolean column stands alone")
        return Flag(operand.column)

    def _comparison(self, op: str, left: _Operand, right: _Operand) -> Condition:
        symbol = _SYMBOLS[op]
        if left.column is None:
            left, right, symbol = right, left, literals.FLIPPED.get(symbol, symbol)
        if left.column is None or right.column is not None:
            raise _Unusable("a comparison is not between a column and a literal")
        self.finder.require_comparable(left.column, 0)
        order, is_negated = literals.ORDERS[symbol]
        condition = _compare(left.column, left.value_type, order, right)
        return Not(condition) if is_negated else condition


def _either(parts: tuple[Condition, ...]) -> Condition:
    """Return a disjunction. Many comparisons of one column with literals become one."""
    limits: dict[Column, list[literals.Limit]] = {}
    for part in parts:
        if _is_membership(part):
            limits.setdefault(part.column, []).append(part.limit)  # type: ignore[union-attr]
    many = {column: found for column, found in limits.items() if len(found) >= _MANY_LITERALS}
    rest = [part for part in parts if not (_is_membership(part) and part.column in many)]  # type: ignore[union-attr]
    rest += [Contained(column, tuple(found)) for column, found in many.items()]
    return rest[0] if len(rest) == 1 else Or(tuple(rest))


def _is_membership(part: Condition) -> bool:
    return isinstance(part, Compare) and part.order is literals.Order.EQUAL and part.column.kind is not Kind.FLOAT


def _require_cast(column: Column, value_type: str) -> None:
    """Raise _Unusable unless a column keeps its values and their order as a value type."""
    if value_type not in _LOSSLESS.get(_type_name(column), ()):
        raise _Unusable(f"column {column.name} is of type {column.type_name}, which is not compared as a valueType")


def _type_name(column: Column) -> str:
    return column.type_name.partition("(")[0] if column.kind is not Kind.TEXT else "string"


def _compare(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:
    if _type_name(column) == "long" and value_type == "int":
        return _narrowed(column, order, literal)
    _require_cast(column, value_type)
    read = _READERS.get(literal.value_type)
    if read is None:
        raise _Unusable("a valueType is not supported")
    return read(column, value_type, order, literal)


def _narrowed(column: Column, order: literals.Order, literal: _Operand) -> Condition:
    """Compare longs as integers: beyond their range anything may come out."""
    least = literals.WholeLimit(column, Fraction(-(1 << 31)))
    beyond = literals.WholeLimit(column, Fraction(1 << 31))
    inside = And((Not(Compare(column, literals.Order.LESS, least)), Compare(column, literals.Order.LESS, beyond)))
    return Or((And((inside, _compare(column, "long", order, literal))), And((Not(inside), UNKNOWN))))


# -- literals by their value type -------------------------------------------------------------------------------------


def _whole(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:
    number = int(_text_of(literal, int, _INTEGER))
    limit = 1 << (_INTEGERS[literal.value_type] - 1)
    if not -limit <= number < limit:
        raise _Unusable("an integer is out of range")
    if value_type not in _INTEGERS:
        if value_type not in ("float", "double") or abs(number) > _WHOLE_FLOATS:
            raise _Unusable("an integer is next to another type")
    elif column.kind is not Kind.WHOLE:
        raise _Unusable("an integer is next to another type")
    return Compare(column, order, _number_limit(column, Fraction(number)))


def _floating(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:  # noqa: ARG001
    text = _text_of(literal, float, _FLOATING)
    number = float(text)
    if literal.value_type == "float":
        number = _single(number)
    is_exact = column.kind is Kind.FLOAT or (literal.value_type == "double" and _type_name(column) != "long")
    if not is_exact or column.kind not in (Kind.WHOLE, Kind.FLOAT):
        raise _Unusable("an inexact number is next to another type")
    if number in (float("inf"), -float("inf")):
        return Compare(
            column,
            order,
            literals.FloatLimit(number) if column.kind is Kind.FLOAT else literals.WholeLimit(column, number),
        )
    return Compare(column, order, _number_limit(column, Fraction(number)))


def _number_limit(column: Column, number: Fraction) -> literals.Limit:
    return literals.FloatLimit(float(number)) if column.kind is Kind.FLOAT else literals.WholeLimit(column, number)


def _single(number: float) -> float:
    import struct

    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _Unusable("a number is out of range for a float") from None
    return single


def _boolean(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:
    value = literal.value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        value = value.lower() == "true"
    if not isinstance(value, bool) or value_type != "bool":
        raise _Unusable("a literal is not true or false, or next to another type")
    return CompareConditions(Flag(column), order, Constant(value))


def _text(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:
    if value_type != "string" or not isinstance(literal.value, str) or not is_utf8_encodable(literal.value):
        raise _Unusable("a string is next to another type, or not text")
    return Compare(column, order, literals.BytesLimit(literal.value, is_text=True))


def _date(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:
    days = parse_date(_text_of(literal, str, _DATE))
    if days is None or value_type != "date":
        raise _Unusable("a literal is not a date (yyyy-mm-dd), or next to another type")
    return Compare(column, order, literals.WholeLimit(column, Fraction(days)))


def _timestamp(column: Column, value_type: str, order: literals.Order, literal: _Operand) -> Condition:
    """Compare times. Without a zone on either side, the offset of the client's session is unknown."""
    text = literal.value if isinstance(literal.value, str) else ""
    moment = parse_moment(text)
    if moment is None or value_type != "timestamp" or (moment.has_zone and literals.names_a_place(text)):
        raise _Unusable("a literal is not a timestamp (yyyy-mm-ddThh:mm:ssZ), or next to another type")
    limit = literals.limit_of(column, literals.Literal(Kind.TIMESTAMP, moment.microseconds, _NO_NODE))
    if column.kind is Kind.TIMESTAMP and moment.has_zone:
        return Compare(column, order, limit)
    return compare_between(column, order, moved(limit, -1), moved(limit, 1))


def _text_of(literal: _Operand, kind: type, spelling: re.Pattern[str]) -> str:
    """Return a literal as text; numbers may also be JSON numbers."""
    value = literal.value
    if not isinstance(value, bool) and isinstance(value, (int, kind)):
        value = str(value)
    if not isinstance(value, str) or not spelling.fullmatch(value):
        raise _Unusable("a literal is not a value of its valueType")
    return value


_READERS: Mapping[str, Callable[[Column, str, literals.Order, _Operand], Condition]] = {
    "int": _whole,
    "long": _whole,
    "float": _floating,
    "double": _floating,
    "bool": _boolean,
    "string": _text,
    "date": _date,
    "timestamp": _timestamp,
}
