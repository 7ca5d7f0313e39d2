"""The statistics of a file as the log has them, with what is missing or wrong taken from others.

Spec: Per-file Statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any, NamedTuple

import orjson

from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, PER_COLUMN, ColumnPath

_SHORT = 32
"""Characters from which on texts are cut."""


class _Parsed(NamedTuple):
    """Statistics by column."""

    value: dict[str, Any]  # Any: JSON values
    leaves: dict[str, dict[ColumnPath, Any]]


def merged(old: str | None, new: str, times: frozenset[ColumnPath], *, has_vector: bool, from_rows: bool) -> str | None:
    """Return the statistics of a file with what is missing or wrong taken from those that were computed; None where
    nothing is. `times` are columns of timestamps, whose bounds may be cut to milliseconds.

    Of a file with deleted rows, footers prove nothing wrong, and add nothing to bounds that claim to be tight.
    """
    ours = _parsed(old, orjson.loads) if old else None
    theirs = None if ours is None else _parsed(new, orjson.loads)
    if ours is None or theirs is None:
        return new
    is_wide, proves = ours.value.get("tightBounds") is False, from_rows or not has_vector
    if not any(ours.leaves.values()):
        return None if ours.value == theirs.value else _joined(old, new, PER_COLUMN)
    edits: dict[tuple[str, ColumnPath], bool] = {}  # whether it is taken, or left out
    for path in dict.fromkeys(chain.from_iterable(theirs.leaves[part] for part in PER_COLUMN)):
        for parts in (BOUNDS, (NULL_COUNT,)):
            had, has = ([one.leaves[part].get(path) for part in parts] for one in (ours, theirs))
            if None in has:
                if from_rows and any(one is not None for one in had):
                    edits |= dict.fromkeys(((part, path) for part in parts), False)
            elif (None in had and (proves or is_wide)) or (
                proves and None not in had and not _agree(parts, had, has, is_time=parts is BOUNDS and path in times)
            ):
                edits |= dict.fromkeys(((part, path) for part in parts), True)
    is_tight_before_deletion = has_vector and from_rows and not is_wide
    if not edits and not is_tight_before_deletion and ours.value.get("numRecords") == theirs.value["numRecords"]:
        return None
    return _joined(old, new, (), edits, is_wide=is_tight_before_deletion)


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


def _agree(parts: Sequence[str], had: Sequence[Any], has: Sequence[Any], *, is_time: bool) -> bool:
    """Return whether values are those that were computed, which may be cut in another way."""
    return all(
        _is_same(old, new, is_time=is_time, is_high=part == BOUNDS[1])
        for part, old, new in zip(parts, had, has, strict=True)
    )


def _is_same(old: Any, new: Any, *, is_time: bool, is_high: bool) -> bool:
    if is_time:
        moments = [parse_moment(one) if isinstance(one, str) else None for one in (old, new)]
        return None not in moments and len({one.microseconds // 1_000 for one in moments if one is not None}) == 1
    if isinstance(old, str) and isinstance(new, str):
        # A maximum that was cut has a character more, or a longer text.
        is_cut = min(len(old), len(new)) >= _SHORT and old[:_SHORT] == new[:_SHORT]
        return old == new or (is_cut and not (is_high and len(old) == _SHORT))
    if isinstance(old, bool) or isinstance(old, str) != isinstance(new, str):
        try:
            return not isinstance(old, bool) and Decimal(str(old)) == Decimal(str(new))
        except InvalidOperation:
            return False
    return bool(old == new)
