"""The parts of a predicate: conditions that are true, false or null for each row, evaluated in columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY
from deltacli.delta.predicate.columns import TIMES, Column
from deltacli.delta.predicate.literals import Limit, NoValueError, Order, as_doubles, ask, whole_numbers
from deltacli.delta.schema.types import Kind

_ANY, _ONE = "%", "_"


class Pattern:
    """A pattern, split into texts and wildcards. Raises NoValueError if the escape character escapes nothing."""

    def __init__(self, pattern: str, escape: str = "\\") -> None:
        self.text = pattern
        self._parts = _parts_of(pattern, escape)

    @cached_property
    def prefix(self) -> str:
        first = self._parts[0] if self._parts else None
        return first[0] if first is not None and first[1] else ""

    @cached_property
    def escaped(self) -> str:
        """Return the same pattern with a backslash as its escape character."""
        escapes = str.maketrans({"\\": "\\\\", _ANY: f"\\{_ANY}", _ONE: f"\\{_ONE}"})
        return "".join(text.translate(escapes) if is_text else text for text, is_text in self._parts)

    @cached_property
    def is_plain(self) -> bool:
        """Return True if only the prefix matches."""
        return all(is_text for _, is_text in self._parts)

    @property
    def is_prefix(self) -> bool:
        """Return True if everything that begins with the prefix matches."""
        wildcards = self._parts[1:] if self.prefix else self._parts
        return wildcards == [(_ANY, False)]

    def match(self, values: ArrowArray) -> ArrowArray:
        """Return which strings match; null if the string is."""
        if self.is_plain:
            return pc.equal(values, self.prefix)
        if self.is_prefix:
            return pc.starts_with(values, self.prefix)
        return pc.match_substring_regex(values, self._expression)

    @cached_property
    def _expression(self) -> str:
        wildcards = {_ANY: ".*", _ONE: "."}
        pieces = [re.escape(text) if is_text else wildcards[text] for text, is_text in self._parts]
        return rf"(?s)\A{''.join(pieces)}\z"


def _parts_of(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return texts and wildcards, in order, each with whether it is text; neighbours are joined."""
    parts: list[tuple[str, bool]] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        is_text = character not in (_ANY, _ONE)
        if character == escape:
            position += 1
            character, is_text = pattern[position : position + 1], True
            if character not in (_ANY, _ONE, escape) or not character:
                place = f"before {character!r}" if character else "at the end"
                raise NoValueError(f"the escape character {escape!r} is {place} in the pattern")
        if is_text and parts and parts[-1][1]:
            parts[-1] = (parts[-1][0] + character, True)
        elif (character, is_text) != (_ANY, False) or not parts or parts[-1] != (_ANY, False):
            parts.append((character, is_text))
        position += 1
    return parts


Columns: TypeAlias = Callable[[Column], ArrowArray]
"""Returns the values of a column; raises KeyError for a missing one."""


@dataclass(frozen=True)
class Constant:
    value: bool | None


@dataclass(frozen=True)
class Flag:
    """A boolean column."""

    column: Column


@dataclass(frozen=True)
class Compare:
    """A column next to a literal."""

    column: Column
    order: Order
    limit: Limit


@dataclass(frozen=True)
class Contained:
    """A column equal to one of many literals."""

    column: Column
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class Like:
    column: Column
    pattern: Pattern


@dataclass(frozen=True)
class CompareColumns:
    left: Column
    order: Order
    right: Column


@dataclass(frozen=True)
class IsNull:
    column: Column


@dataclass(frozen=True)
class Truth:
    """Whether a condition is true, false or null (None); never null itself."""

    part: Condition
    wanted: bool | None


@dataclass(frozen=True)
class CompareConditions:
    """Two conditions as values; false is less than true."""

    left: Condition
    order: Order
    right: Condition


@dataclass(frozen=True)
class Not:
    part: Condition


@dataclass(frozen=True)
class And:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Condition, ...]


Leaf: TypeAlias = Constant | Flag | Compare | Contained | Like | CompareColumns | IsNull
Condition: TypeAlias = Leaf | Truth | CompareConditions | Not | And | Or


def columns_of(condition: Condition) -> Iterator[Column]:
    """Return every column that a condition uses, with repetitions."""
    match condition:
        case Flag(column) | Compare(column) | Contained(column) | Like(column) | IsNull(column):
            yield column
        case CompareColumns(left, _, right):
            yield left
            yield right
        case Truth(part) | Not(part):
            yield from columns_of(part)
        case CompareConditions(one, _, other):
            yield from columns_of(one)
            yield from columns_of(other)
        case And(parts) | Or(parts):
            for part in parts:
                yield from columns_of(part)
        case Constant():
            return


def evaluate(condition: Condition, columns: Columns, count: int) -> ArrowArray:
    """Return the condition for each of `count` rows."""
    match condition:
        case Truth(part, wanted):
            mask = evaluate(part, columns, count)
            if wanted is None:
                return pc.is_null(mask)
            return pc.fill_null(mask if wanted else pc.invert(mask), False)
        case CompareConditions(one, order, other):
            sides = [pc.cast(evaluate(side, columns, count), pa.int8()) for side in (one, other)]
            return ask(order, *sides)
        case Not(part):
            return pc.invert(evaluate(part, columns, count))
        case And(parts):
            return reduce(pc.and_kleene, (evaluate(part, columns, count) for part in parts))
        case Or(parts):
            return reduce(pc.or_kleene, (evaluate(part, columns, count) for part in parts))
    return evaluate_leaf(condition, columns, count)


def evaluate_leaf(condition: Leaf, columns: Columns, count: int) -> Any:
    """Return a simple condition for each of `count` rows."""
    match condition:
        case Constant(value):
            return pa.repeat(pa.scalar(value, pa.bool_()), count)
        case Flag(column):
            return columns(column)
        case Compare(column, order, limit):
            return limit.compare(order, columns(column))
        case Contained(column, limits):
            return _contained(columns(column), limits)
        case Like(column, pattern):
            return pattern.match(columns(column))
        case CompareColumns(left, order, right):
            return _compare_columns(order, left, columns(left), right, columns(right))
        case IsNull(column):
            return pc.is_null(columns(column))


def _contained(values: Any, limits: tuple[Limit, ...]) -> Any:
    members = [limit.member.as_py() for limit in limits if limit.member is not None]
    if not members:
        return limits[0].compare(Order.EQUAL, values)  # not a value of the column's type: false, or null
    kind = next(limit.member.type for limit in limits if limit.member is not None)
    if pa.types.is_int64(kind):
        values = whole_numbers(values)
    elif not values.type.equals(kind):
        values = pc.cast(values, kind)
    mask = pc.is_in(values, value_set=pa.array(members, kind))
    return pc.if_else(pc.is_valid(values), mask, pa.scalar(None, pa.bool_()))


def _compare_columns(order: Order, left: Column, left_values: Any, right: Column, right_values: Any) -> Any:
    kinds = {left.kind, right.kind}
    if Kind.FLOAT in kinds:
        return _compare_doubles(order, as_doubles(left_values), as_doubles(right_values))
    if Kind.DATE in kinds and kinds != {Kind.DATE}:
        return ask(order, _microseconds(left_values), _microseconds(right_values))
    if kinds <= TIMES or kinds == {Kind.WHOLE}:
        return ask(order, whole_numbers(left_values), whole_numbers(right_values))
    if Kind.DECIMAL in kinds:
        scale = max(left.scale, right.scale)
        return ask(order, _wide_decimals(left_values, scale), _wide_decimals(right_values, scale))
    return ask(order, left_values, right_values)


def _compare_doubles(order: Order, left: Any, right: Any) -> Any:
    """Compare doubles in Spark's order: NaN equals itself and is above everything else."""
    mask = ask(order, left, right)
    left_nan, right_nan = (pc.invert(pc.equal(side, side)) for side in (left, right))
    match order:
        case Order.LESS:
            return pc.or_(mask, pc.and_(right_nan, pc.invert(left_nan)))
        case Order.LESS_EQUAL:
            return pc.or_(mask, right_nan)
    return pc.or_(mask, pc.and_(left_nan, right_nan))


def _microseconds(values: Any) -> Any:
    """Return times as decimals: the microseconds of the last representable dates exceed 64-bit integers."""
    is_date = pa.types.is_date32(values.type)
    numbers = pc.cast(whole_numbers(values), pa.decimal128(19, 0))
    unit = MICROSECONDS_A_DAY if is_date else 1
    return pc.cast(pc.multiply(numbers, pa.scalar(Decimal(unit), pa.decimal128(11, 0))), pa.decimal128(38, 0))


def _wide_decimals(values: Any, scale: int) -> Any:
    """Numbers as decimals with room for 38 digits before the point, whatever is behind it."""
    if not pa.types.is_decimal(values.type):
        values = pc.cast(whole_numbers(values), pa.decimal128(19, 0))
    return pc.cast(values, pa.decimal256(38 + scale, scale))
