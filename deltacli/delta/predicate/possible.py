"""The possible results of a condition for the rows of many files at once, given what is known of their columns.

For each file there are three conservative answers: may it be true for some row, may it be false, may it be null.
Without information all three are yes. A file is skipped only if the condition cannot be true.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.compared_literals import Limit, Order, ends_of
from deltacli.delta.predicate.conditions import (
    And,
    Compare,
    CompareConditions,
    Condition,
    Contained,
    Flag,
    IsNull,
    Leaf,
    Like,
    Not,
    Or,
    Truth,
    columns_of,
    evaluate_leaf,
)
from deltacli.delta.schema.kinds import Kind

TIE_BREAKERS = "\x7f\u07ff\ufffd\uffff\U0010ffff"
"Characters that writers append to a truncated string so that it is above the original."
_LONGEST_PREFIX = 1000
"Upper bounds of more characters than this are not examined."


class Bounds(NamedTuple):
    """What is known about a column in each file.

    `low`, `high`: null if unknown. Neither covers NaN. `high` of strings may be truncated, with or without a
    tie-breaker.
    """

    low: ArrowArray
    high: Any
    may_be_null: Any
    has_values: Any
    """False where every row is null."""


class Exact(NamedTuple):
    """The one value that a column has in all rows of each file. If `is_known` is false it may be anything."""

    values: ArrowArray
    is_known: Any


Known: TypeAlias = Bounds | Exact | None
"""None: nothing."""
Source: TypeAlias = Callable[[Column], Known]


class Possible(NamedTuple):
    """Whether a condition may be true, false and null in each file: boolean arrays without nulls."""

    true: ArrowArray
    false: Any
    null: Any


def possible(condition: Condition, source: Source, count: int) -> Possible:
    """Return the possible results of a condition in each of `count` files."""
    match condition:
        case Not(part):
            mask = possible(part, source, count)
            return Possible(mask.false, mask.true, mask.null)
        case And(parts):
            return reduce(_both, (possible(part, source, count) for part in parts))
        case Or(parts):
            return reduce(_either, (possible(part, source, count) for part in parts))
        case Truth(part, wanted):
            return _truth(possible(part, source, count), wanted, count)
        case CompareConditions(left, order, right):
            return _compared(possible(left, source, count), order, possible(right, source, count))
    return _leaf(condition, source, count)


def _both(one: Possible, other: Possible) -> Possible:
    return Possible(pc.and_(one.true, other.true), pc.or_(one.false, other.false), pc.or_(one.null, other.null))


def _either(one: Possible, other: Possible) -> Possible:
    return Possible(pc.or_(one.true, other.true), pc.and_(one.false, other.false), pc.or_(one.null, other.null))


def _truth(part: Possible, wanted: bool | None, count: int) -> Possible:
    never = constant(False, count)
    if wanted is None:
        return Possible(part.null, pc.or_(part.true, part.false), never)
    if wanted:
        return Possible(part.true, pc.or_(part.false, part.null), never)
    return Possible(part.false, pc.or_(part.true, part.null), never)


def _compared(left: Possible, order: Order, right: Possible) -> Possible:
    """Compare two conditions as values, for every possible pair."""
    equal = pc.or_(pc.and_(left.true, right.true), pc.and_(left.false, right.false))
    less, greater = pc.and_(left.false, right.true), pc.and_(left.true, right.false)
    null = pc.or_(left.null, right.null)
    match order:
        case Order.LESS:
            return Possible(less, pc.or_(equal, greater), null)
        case Order.LESS_EQUAL:
            return Possible(pc.or_(less, equal), greater, null)
    return Possible(equal, pc.or_(less, greater), null)


# -- single conditions ------------------------------------------------------------------------------------------------


def _leaf(condition: Leaf, source: Source, count: int) -> Possible:
    known = {column: source(column) for column in columns_of(condition)}
    exact = {column: value for column, value in known.items() if isinstance(value, Exact)}
    if len(exact) == len(known):
        return _exact(condition, exact, count)
    bounds = next(iter(known.values())) if len(known) == 1 else None
    if not isinstance(bounds, Bounds):
        return Possible(*[constant(True, count)] * 3)
    return _bounded(condition, bounds, count)


def _exact(condition: Leaf, known: dict[Column, Exact], count: int) -> Possible:
    mask = evaluate_leaf(condition, lambda column: known[column].values, count)
    unknown = constant(False, count)
    for column in known.values():
        unknown = pc.or_(unknown, pc.invert(column.is_known))
    return Possible(
        pc.or_(pc.fill_null(mask, False), unknown),
        pc.or_(pc.fill_null(pc.invert(mask), False), unknown),
        pc.or_(pc.is_null(mask), unknown),
    )


def _bounded(condition: Leaf, bounds: Bounds, count: int) -> Possible:
    null, has_values = bounds.may_be_null, bounds.has_values
    match condition:
        case Flag():
            return Possible(has_values, has_values, null)
        case IsNull():
            return Possible(null, has_values, constant(False, count))
        case Compare(column, order, limit):
            true, false = _ordered(column, order, limit, bounds)
            return Possible(pc.and_(has_values, true), pc.and_(has_values, false), null)
        case Contained(column, limits):
            # Between the least and the greatest of them: a thousand limits cost as much as two.
            least, greatest = ends_of(limits)
            true = pc.and_(
                _known_or(greatest.compare(Order.LESS_EQUAL, bounds.low)),
                _reaches(column, least, bounds.high, or_equal=True),
            )
            return Possible(pc.and_(has_values, true), has_values, null)
        case Like(_, pattern):
            true = _may_begin_with(pattern.prefix, bounds) if pattern.prefix else has_values
            return Possible(pc.and_(has_values, true), has_values, null)
    return Possible(*[constant(True, count)] * 3)


def _ordered(column: Column, order: Order, limit: Limit, bounds: Bounds) -> tuple[Any, Any]:
    """Return whether a comparison may be true, and whether it may be false, for values between the bounds and for
    NaN.
    """
    match order:
        case Order.EQUAL:
            true = pc.and_(
                _known_or(limit.compare(Order.LESS_EQUAL, bounds.low)),
                _reaches(column, limit, bounds.high, or_equal=True),
            )
            false = constant(True, len(true))  # a truncated or widened bound may look like the only value
        case _:
            true = _known_or(limit.compare(order, bounds.low))
            false = _reaches(column, limit, bounds.high, or_equal=order is Order.LESS)
    if column.kind is Kind.FLOAT:
        for_nan = constant(limit.holds_for_nan(order), len(true))
        true, false = pc.or_(true, for_nan), pc.or_(false, pc.invert(for_nan))
    return true, false


def _reaches(column: Column, limit: Limit, high: Any, *, or_equal: bool) -> Any:
    """Return whether values below an upper bound may be above a limit, or equal to it."""
    mask = _known_or(pc.invert(limit.compare(Order.LESS if or_equal else Order.LESS_EQUAL, high)))
    return pc.or_(mask, _is_cut_of(limit.value, high)) if column.kind is Kind.TEXT else mask


def _is_cut_of(text: str, high: Any) -> Any:
    """Return which upper bounds, without their tie-breakers, may be the beginning of a text, because they may have been
    truncated.
    """
    import pyarrow as pa

    bare = pc.utf8_rtrim(high, characters=TIE_BREAKERS)
    beginnings = pa.array([text[:length] for length in range(min(len(text), _LONGEST_PREFIX) + 1)], pa.string())
    mask = pc.is_in(bare, value_set=beginnings)
    if len(text) > _LONGEST_PREFIX:
        mask = pc.or_(mask, _known_or(pc.greater(pc.binary_length(bare), _LONGEST_PREFIX)))
    return pc.fill_null(mask, False)


def _may_begin_with(prefix: str, bounds: Bounds) -> Any:
    """Return whether strings between the bounds may begin with a text."""
    starts = _known_or(pc.less_equal(pc.utf8_slice_codeunits(bounds.low, 0, len(prefix)), prefix))
    reaches = _known_or(pc.invert(pc.less(bounds.high, prefix)))
    return pc.and_(starts, pc.or_(reaches, _is_cut_of(prefix, bounds.high)))


def _known_or(mask: Any) -> Any:
    """Return an answer, with yes for missing values."""
    return pc.fill_null(mask, True)


def constant(value: bool, count: int) -> ArrowArray:
    """Return the same answer for every file."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(value), count)
