"""The statistics of a file as the log has them, with what is missing or wrong taken from others.

Spec: Per-file Statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import orjson

from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.delta.stats.collect import BOUNDED
from deltacli.delta.stats.columns import WRONG_TYPE, as_single, is_long, read_bound
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, PER_COLUMN, ColumnPath, StatColumn, StatKind, bound_kind

_SHORT = 32
"""Characters from which on texts are cut."""


class _Parsed(NamedTuple):
    """Statistics by column."""

    value: dict[str, Any]  # Any: JSON values
    leaves: dict[str, dict[ColumnPath, Any]]


class Judgement(NamedTuple):
    """What the rows of a file, or its footer, show about the statistics that the log has of it.

    Attributes:
        wrong_bounds: Columns that have values beyond their bounds.
        wrong_null_counts: Columns whose null count is wrong.
        absent: Columns that the file does not have, because they were added to the table after it was written.
    """

    wrong_bounds: Set[ColumnPath]
    wrong_null_counts: Set[ColumnPath]
    absent: Set[ColumnPath]


UNJUDGED = Judgement(frozenset(), frozenset(), frozenset())


class MergedStatistics(NamedTuple):
    """The statistics that a file should have.

    Attributes:
        text: The statistics as JSON; None where those in the log stay.
        is_due: True if something is missing or wrong. False if `text` only adds null counts of columns that are younger
            than the file, which no writer owes.
        could_be_tighter: True if bounds that stay are wider than necessary, or a null count that stays means nothing.
        needs_rows: True if the null count of a column is missing that the footer does not have, and rows would tell.
    """

    text: str | None
    is_due: bool
    could_be_tighter: bool = False
    needs_rows: bool = False


def merged(
    old: str | None,
    new: str,
    types: Mapping[ColumnPath, DataType],
    *,
    has_vector: bool,
    from_rows: bool,
    judgement: Judgement = UNJUDGED,
) -> MergedStatistics:
    """Return the statistics of a file with what is missing or wrong taken from those that were computed.

    Bounds that hold for all rows stay, even if they are wider than the computed ones, or if none were computed: NaN,
    infinities and ancient dates are right bounds of other writers. Of a file with deleted rows, footers add nothing to
    bounds that claim to be tight. What is wrong is left out where it cannot be replaced.

    Args:
        old: The statistics in the log.
        new: The computed statistics.
        types: The types of the columns that are looked at, by physical path.
        has_vector: Whether rows of the file are deleted.
        from_rows: Whether rows were read, and not only a footer.
        judgement: What rows or the footer show about `old`.
    """
    ours = _parsed(old, _exactly) if old else None
    theirs = None if ours is None else _parsed(new, _exactly)
    if ours is None or theirs is None:
        return MergedStatistics(new, is_due=True)
    is_uncertain = has_vector or from_rows  # null counts beside a vector need not be told
    needs_rows = not is_uncertain and any(
        ours.leaves[NULL_COUNT].get(path) is None
        and theirs.leaves[NULL_COUNT].get(path) is None
        and path not in judgement.absent
        and (bound_kind(data_type) in (*BOUNDED, StatKind.BOOLEAN) or data_type == PrimitiveType("binary"))
        for path, data_type in types.items()
    )
    is_counted = ours.value.get("numRecords") == theirs.value["numRecords"]
    if not any(ours.leaves.values()):
        is_same = ours.value == theirs.value or (is_counted and not any(theirs.leaves.values()))
        text = None if is_same else _joined(old, new, PER_COLUMN)
        return MergedStatistics(text, is_due=not is_same, needs_rows=needs_rows)

    is_wide = ours.value.get("tightBounds") is False
    proves = from_rows or not has_vector
    # Whether a statistic is taken (True) or left out (False).
    edits: dict[tuple[str, ColumnPath], bool] = {}
    is_due = not is_counted
    could_be_tighter = False
    for path, data_type in types.items():
        for parts in (BOUNDS, (NULL_COUNT,)):
            had, has = ([one.leaves[part].get(path) for part in parts] for one in (ours, theirs))
            is_wrong = (
                path in (judgement.wrong_bounds if parts is BOUNDS else judgement.wrong_null_counts)
                or _is_impossible(had, data_type, theirs.value["numRecords"])
                or _is_unreadable(parts, had, has, data_type)
            )
            is_known = None not in has
            if is_wrong or (None in had and is_known):
                is_taken = is_known and (proves or is_wide)
                if is_wrong or is_taken:
                    edits |= dict.fromkeys(((part, path) for part in parts), is_taken)
                    is_due = is_due or is_wrong or path not in judgement.absent
            elif is_known and proves and not _agree(parts, had, has, data_type if parts is BOUNDS else None):
                could_be_tighter = True

    # Bounds that were tight before rows were deleted must not claim to be it.
    becomes_wide = has_vector and from_rows and not is_wide
    if not edits and not becomes_wide and is_counted:
        return MergedStatistics(None, False, could_be_tighter, needs_rows)
    text = _joined(old, new, (), edits, is_wide=becomes_wide)
    return MergedStatistics(text, is_due or becomes_wide, could_be_tighter, needs_rows)


def states_the_same(old: str, new: str) -> bool:
    """Return whether each statistic of a column in the log is the computed one, so that nothing has to be judged."""
    ours, theirs = _parsed(old, _exactly), _parsed(new, _exactly)
    if ours is None or theirs is None:
        return False
    return all(
        value == theirs.leaves[part].get(path) and type(value) is type(theirs.leaves[part].get(path))
        for part in PER_COLUMN
        for path, value in ours.leaves[part].items()
    )


def _is_unreadable(parts: Sequence[str], had: Sequence[Any], has: Sequence[Any], data_type: DataType) -> bool:
    """Return whether a statistic is not a value of its type, unless it is equal to the computed one, as 9.0 and 9."""
    if had == has and [*map(type, had)] == [*map(type, has)]:  # nearly all
        return False
    if parts is not BOUNDS:
        is_wrong_type = any(one is not None and not is_long(one) for one in had)
    else:
        kind = bound_kind(data_type)
        column = StatColumn("", kind, data_type, is_partition=False)
        given = [one for one in had if one is not None] if kind in BOUNDED else []
        is_wrong_type = any(read_bound(column, one) in (None, WRONG_TYPE) for one in given)
    if not is_wrong_type:
        return False
    return None in (*had, *has) or not _agree(parts, had, has, data_type if parts is BOUNDS else None)


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
