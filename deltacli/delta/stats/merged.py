"""The statistics of a file as the log has them, with what is missing or wrong taken from others.

Spec: Per-file Statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

import orjson

from deltacli.core.made_once import NamedTuple
from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType
from deltacli.delta.stats.collect import BOUNDED
from deltacli.delta.stats.columns import as_single
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, PER_COLUMN, ColumnPath, StatKind, bound_kind

_SHORT = 32
"""Characters from which on texts are cut."""


class _Parsed(NamedTuple):
    """Statistics by column."""

    value: dict[str, Any]  # Any: JSON values
    leaves: dict[str, dict[ColumnPath, Any]]


def merged(
    old: str | None, new: str, types: Mapping[ColumnPath, DataType], *, has_vector: bool, from_rows: bool
) -> str | None:
    """Return the statistics of a file with what is missing or wrong taken from those that were computed; None where
    nothing is. `types` are those of the columns.

    Of a file with deleted rows, footers prove nothing wrong, and add nothing to bounds that claim to be tight. What
    contradicts itself is left out where it cannot be replaced.
    """
    ours = _parsed(old, _exactly) if old else None
    theirs = None if ours is None else _parsed(new, _exactly)
    if ours is None or theirs is None:
        return new
    is_wide, proves = ours.value.get("tightBounds") is False, from_rows or not has_vector
    is_counted = ours.value.get("numRecords") == theirs.value["numRecords"]
    if not any(ours.leaves.values()):
        is_same = ours.value == theirs.value or (is_counted and not any(theirs.leaves.values()))
        return None if is_same else _joined(old, new, PER_COLUMN)
    wrong = [
        (parts, path)
        for parts in (BOUNDS, (NULL_COUNT,))
        for path, data_type in types.items()
        if _is_impossible([ours.leaves[part].get(path) for part in parts], data_type, theirs.value["numRecords"])
    ]
    edits: dict[tuple[str, ColumnPath], bool] = {}  # whether it is taken, or left out
    # Of a column whose values were read and that has no statistics now, those that are there are wrong, or say nothing.
    read = [path for path, data_type in types.items() if from_rows and _is_told_by_rows(data_type)]
    for path in dict.fromkeys(chain(*(theirs.leaves[part] for part in PER_COLUMN), read)):
        for parts in (BOUNDS, (NULL_COUNT,)):
            had, has = ([one.leaves[part].get(path) for part in parts] for one in (ours, theirs))
            is_bounded = parts is not BOUNDS or path not in types or bound_kind(types[path]) in BOUNDED
            if None in has:
                if from_rows and is_bounded and any(one is not None for one in had):
                    edits |= dict.fromkeys(((part, path) for part in parts), False)
            elif ((None in had or (parts, path) in wrong) and (proves or is_wide)) or (
                proves and None not in had and not _agree(parts, had, has, types.get(path) if parts is BOUNDS else None)
            ):
                edits |= dict.fromkeys(((part, path) for part in parts), True)
    for parts, path in wrong:
        edits = dict.fromkeys(((part, path) for part in parts), False) | edits
    is_tight_before_deletion = has_vector and from_rows and not is_wide
    if not edits and not is_tight_before_deletion and is_counted:
        return None
    return _joined(old, new, (), edits, is_wide=is_tight_before_deletion)


def _is_impossible(had: Sequence[Any], data_type: DataType, rows: int) -> bool:
    """Return whether a minimum is above its maximum, or a null count is not one of so many rows."""
    if None in had:
        return False
    if len(had) == 1:
        return type(had[0]) is int and not 0 <= had[0] <= rows
    kind = bound_kind(data_type)
    if kind in (StatKind.TEXT, StatKind.BOOLEAN):
        return all(isinstance(one, str | bool) for one in had) and type(had[0]) is type(had[1]) and had[0] > had[1]
    if kind in (StatKind.DATE, StatKind.TIMESTAMP):  # a maximum may be cut to its millisecond
        moments = [one for one in (parse_moment(str(text)) for text in had) if one is not None]
        low, *high = [one.microseconds // 1_000 for one in moments] or [0]
        return bool(high) and low > high[0]
    try:
        least, most = (_number(one, data_type) for one in had)
        return least > most
    except (InvalidOperation, OverflowError):
        return False


def _number(value: Any, data_type: DataType | None) -> Decimal:
    """Return a number as a column has it. Raises InvalidOperation and OverflowError."""
    number = Decimal(str(value))
    if data_type is None or bound_kind(data_type) is not StatKind.FLOAT:
        return number
    # The same double has more than one shortest text.
    return Decimal(as_single(float(number)) if getattr(data_type, "name", "") == "float" else float(number))


def _is_told_by_rows(data_type: DataType) -> bool:
    """Return whether rows tell the statistics of a column of this type, or that it has none."""
    is_plain = bound_kind(data_type) in (*BOUNDED, StatKind.BOOLEAN) or data_type == PrimitiveType("binary")
    return is_plain or isinstance(data_type, ArrayType | MapType)


def _parsed(text: str, read: Any) -> _Parsed | None:  # Any: a parser of JSON
    try:
        value = read(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return _Parsed(value, {part: dict(_leaves(value.get(part), ())) for part in PER_COLUMN})


def _leaves(value: Any, path: ColumnPath) -> Iterator[tuple[ColumnPath, Any]]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _leaves(below, (*path, name))
    elif value is not None and path:
        yield path, value


def _exactly(text: str) -> Any:
    """Return JSON with exact numbers: bounds of decimals may be equal as doubles. Raises ValueError."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(text, parse_float=Decimal, parse_constant=refuse)


def _as_written(text: str) -> Any:
    """Return JSON whose numbers keep their digits."""

    def number(digits: str) -> orjson.Fragment:
        return orjson.Fragment(digits.encode())

    return json.loads(text, parse_float=number, parse_int=number)


def _joined(
    old: str | None,
    new: str,
    whole: Sequence[str],
    edits: Mapping[tuple[str, ColumnPath], bool] | None = None,
    *,
    is_wide: bool = False,
) -> str:
    """Return the old statistics with some parts, or edits of columns, from the new ones."""
    ours, theirs = _parsed(old or "", _as_written), _parsed(new, _as_written)
    if ours is None or theirs is None:
        return new
    value = ours.value | {"numRecords": theirs.value["numRecords"]} | {part: theirs.value[part] for part in whole}
    if is_wide or (whole and "tightBounds" in theirs.value):
        value["tightBounds"] = False if is_wide else theirs.value["tightBounds"]
    for (part, path), is_taken in (edits or {}).items():
        below = value.setdefault(part, {}) if isinstance(value.get(part, {}), dict) else {}
        value[part] = below
        for name in path[:-1]:
            below[name] = below[name] if isinstance(below.get(name), dict) else {}
            below = below[name]
        if is_taken:
            below[path[-1]] = theirs.leaves[part][path]
        else:
            below.pop(path[-1], None)
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half a surrogate pair
        return new


def _agree(parts: Sequence[str], had: Sequence[Any], has: Sequence[Any], data_type: DataType | None) -> bool:
    """Return whether values are those that were computed, or bounds that are cut to the safe side."""
    return all(
        _is_same(old, new, data_type, is_high=part == BOUNDS[1]) for part, old, new in zip(parts, had, has, strict=True)
    )


def _is_same(old: Any, new: Any, data_type: DataType | None, *, is_high: bool) -> bool:
    if old == new and type(old) is type(new):
        return True
    kind = None if data_type is None else bound_kind(data_type)
    if kind is StatKind.TIMESTAMP:
        before, now = (parse_moment(one) if isinstance(one, str) else None for one in (old, new))
        if before is None or now is None or before.microseconds // 1_000 != now.microseconds // 1_000:
            return False
        # Readers add a millisecond to a maximum that is cut.
        is_cut = before.microseconds % 1_000 == 0
        return is_cut or before.microseconds >= now.microseconds if is_high else before.microseconds <= now.microseconds
    if isinstance(old, str) and isinstance(new, str):
        # A maximum that was cut has a character more, or a longer text.
        is_cut = min(len(old), len(new)) >= _SHORT and old[:_SHORT] == new[:_SHORT]
        return old == new or (is_cut and (old >= new if is_high else old <= new))
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    try:
        return _number(old, data_type) == _number(new, data_type)
    except (InvalidOperation, OverflowError):
        return False
