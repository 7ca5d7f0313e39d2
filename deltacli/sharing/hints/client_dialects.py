"""Conditions that hold for every client, whatever its dialect.

A recipient evaluates its condition by its own rules, and a file must be kept if a row matches by any of them. Clients
differ in the session time zone, and in the place of NaN (equal to itself and above all numbers, or in no order). What
depends on that becomes UNKNOWN, a condition that may be true, false or null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from fractions import Fraction
from typing import Any, NamedTuple

from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.compared_literals import Limit, Order, WholeLimit, ends_of
from deltacli.delta.predicate.conditions import (
    And,
    Compare,
    CompareColumns,
    CompareConditions,
    Condition,
    Contained,
    Flag,
    Not,
    Or,
    Truth,
    columns_of,
)
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import PrimitiveType

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
    """Return a condition without what clients evaluate differently. Literals next to columns of the `zoneless` kinds
    are times in an unknown zone.
    """
    match condition:
        case Not(Compare(column) as part) if column.kind is Kind.FLOAT:
            # This is how > and >= arrive. NaN is above the literal for some clients, and not for others.
            return And((Not(for_any_client(part, zoneless)), UNKNOWN))
        case Compare(column, order, limit):
            return _compared(column, order, limit, zoneless)
        case Contained(column, limits) if column.kind in zoneless:
            least, greatest = ends_of(limits)
            return compare_between(column, Order.EQUAL, moved(least, -1), moved(greatest, 1))
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


def _compared(column: Column, order: Order, limit: Limit, zoneless: Set[Kind]) -> Condition:
    if isinstance(limit.value, float) and math.isnan(limit.value):
        return UNKNOWN
    if column.kind in zoneless:
        return compare_between(column, order, moved(limit, -1), moved(limit, 1))
    return Compare(column, order, limit)


def compare_between(column: Column, order: Order, low: Limit, high: Limit) -> Condition:
    """Return the comparison with a value that is somewhere between two limits."""
    if order is Order.EQUAL:
        return And((Not(Compare(column, Order.LESS, low)), Compare(column, Order.LESS_EQUAL, high), UNKNOWN))
    return Or((Compare(column, order, low), And((Compare(column, order, high), UNKNOWN))))


def moved(limit: Limit, direction: int) -> Limit:
    """Return the limit of a column of times, moved by the largest offset of a zone."""
    value: Any = limit.value
    assert isinstance(limit, WholeLimit)
    unit = MICROSECONDS_A_DAY if limit.column.kind is Kind.DATE else 1
    return WholeLimit(limit.column, value + direction * Fraction(ZONE_MICROSECONDS, unit))
