"""Engines that believe statistics, as an oracle: would one of them lose a row, or count one that is not there?

Which behaviours there are:

- A file is skipped for `c < x` (and the other five comparisons) where the bounds exclude a match: text by its bytes,
  `float` columns as floats, `double` columns as doubles, decimals exactly, the maximum of a time without
  digits below milliseconds with the 999 microseconds that writers cut off, -0.0 and 0.0 equal.
- Floats in two orders: NaN above all numbers and equal to itself, or NaN equal to nothing. An engine of the first kind
  believes a bound NaN, one of the second takes it for none.
- `IS NULL` skips a file without nulls (`nullCount` 0); `IS NOT NULL` and every comparison skip one of nulls alone
  (`nullCount` = `numRecords`).
- `count(*)` is `numRecords` less the rows that a deletion vector deletes; `count(c)` is `numRecords` less `nullCount`,
  where the bounds are tight and no row is deleted.
- The field of a null struct is null, or is not counted: who reads `nullCount` either way must be wrong.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

CUT_MICROSECONDS = 999
Value = Any  # Any: integers (times in microseconds), floats, decimals, bytes, booleans; None for null

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Claims:
    """What the log says of one column, values as an exact reader has them; None: nothing."""

    kind: str
    low: Value
    high: Value
    nulls: int | None
    records: int | None
    is_tight: bool


@dataclass(frozen=True)
class Truth:
    """The live rows of one column. `without_struct`: which of them have no struct around the field."""

    values: Sequence[Value]
    without_struct: Sequence[bool]
    physical_rows: int
    has_vector: bool


def goes_wrong(claims: Claims, truth: Truth, literals: Sequence[Value]) -> str | None:
    """The first thing that an engine gets wrong, in words."""
    return _contradiction(claims) or _null_fault(claims, truth) or _comparison_fault(claims, truth, literals)


def single(number: float) -> float:
    """A double as the nearest float."""
    try:
        found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


def _contradiction(claims: Claims) -> str | None:
    """Statistics that can't be: no engine is asked."""
    if claims.nulls is not None and (
        claims.nulls < 0 or (claims.records is not None and claims.records < claims.nulls)
    ):
        return "no such number of nulls"
    if claims.low is None or claims.high is None:
        return None
    is_cut = _is_time(claims.kind) and claims.high % 1000 == 0
    if _key(claims.low) > _key(claims.high) and not (is_cut and claims.low <= claims.high + CUT_MICROSECONDS):
        return "the minimum is above the maximum"
    return None


def _null_fault(claims: Claims, truth: Truth) -> str | None:
    nulls, records = claims.nulls, claims.records
    inner = [value for value, is_gone in zip(truth.values, truth.without_struct, strict=True) if not is_gone]
    readings = (sum(value is None for value in truth.values), sum(value is None for value in inner))
    if nulls is None:
        return None
    if nulls == 0 and readings[1]:
        return "IS NULL"
    if nulls == records and records == truth.physical_rows and readings[0] < len(truth.values):
        return "IS NOT NULL"
    if claims.is_tight and not truth.has_vector and not readings[1] <= nulls <= readings[0]:
        return "count(c)"
    return None


def _comparison_fault(claims: Claims, truth: Truth, literals: Sequence[Value]) -> str | None:
    present = [value for value in truth.values if value is not None]
    for nan_is_greatest in (True, False) if claims.kind in ("float", "double") else (True,):
        for name, compare in OPERATORS.items():
            for literal in literals:
                if not _skips(claims, name, literal, nan_is_greatest=nan_is_greatest):
                    continue
                if any(_matches(value, compare, literal, nan_is_greatest=nan_is_greatest) for value in present):
                    return f"{name} {literal!r}, NaN {'is greatest' if nan_is_greatest else 'equals nothing'}"
    return None


def _matches(value: Value, compare: Callable[[Any, Any], bool], literal: Value, *, nan_is_greatest: bool) -> bool:
    return compare(_key(value), _key(literal)) if nan_is_greatest else compare(value, literal)


def _skips(claims: Claims, name: str, literal: Value, *, nan_is_greatest: bool) -> bool:
    low, high = claims.low, claims.high
    if not nan_is_greatest:
        low, high = (None if _is_nan(bound) else bound for bound in (low, high))
        if _is_nan(literal):
            return False
    if high is not None and _is_time(claims.kind) and high % 1000 == 0:
        high += CUT_MICROSECONDS
    low, high, wanted = (None if value is None else _key(value) for value in (low, high, literal))
    below = low is not None and wanted < low
    above = high is not None and wanted > high
    match name:
        case "=":
            return below or above
        case "!=":
            return low is not None and low == high == wanted
        case "<":
            return low is not None and wanted <= low
        case "<=":
            return below
        case ">":
            return high is not None and wanted >= high
        case _:
            return above


def _key(value: Value) -> Any:
    """NaN above all numbers, and equal to itself."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_time(kind: str) -> bool:
    return kind in ("timestamp", "timestamp_ntz")
