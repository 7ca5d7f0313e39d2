"""What Paimon does with a change of a column's type, and whether every value survives it.

Two tables of Java decide: the one that ALTER asks (implicit and explicit casts), and the one of casts that a reader of
old files can execute. A change needs both. "Implicit" does not mean lossless: `DECIMAL(12, 4)` to `DECIMAL(5, 2)` and
`TIMESTAMP` to `DATE` are implicit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from deltacli.paimon.schema import is_true
from deltacli.paimon.types import MAX_LENGTH, AtomicType, DataType, Root

_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_NUMBERS = (*_INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_TEXTS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)

_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_EXACT_IN = {
    Root.FLOAT: (Root.TINYINT, Root.SMALLINT),
    Root.DOUBLE: (Root.TINYINT, Root.SMALLINT, Root.INT, Root.FLOAT),
}
"""The numbers of which a float has every value."""


class Loss(StrEnum):
    """What a change does to values that are already there."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"
    REFUSED = "refused"


class Cast(NamedTuple):
    """The verdict on a change of type. `paimon` is Paimon's own word, `implicit` or `explicit`; None: there is no such
    cast. `reason` says why a change is lossy or refused.
    """

    loss: Loss
    paimon: str | None
    reason: str = ""


EXPLICIT_DISABLED = "it is an explicit cast, and disable-explicit-type-casting is true"
"""Why a change is refused that readers of old files could execute."""


def judge_change(before: DataType, after: DataType, options: Mapping[str, str]) -> Cast:
    """Return the verdict on changing a column of a table with these options from one type to another."""
    found = judge_cast(before, after)
    if (
        found.loss is Loss.REFUSED
        or found.paimon != "explicit"
        or not is_true(options, "disable-explicit-type-casting")
    ):
        return found
    return Cast(Loss.REFUSED, found.paimon, EXPLICIT_DISABLED)


def judge_cast(before: DataType, after: DataType) -> Cast:
    """Return the verdict on changing a column from one type to another."""
    kind = _kind(before.root, after.root)
    if before.nullable and not after.nullable:
        return Cast(Loss.REFUSED, kind, "the column may contain nulls")
    if not isinstance(before, AtomicType) or not isinstance(after, AtomicType):
        return _judge_parts(before, after, kind)
    if kind is None:
        return Cast(Loss.REFUSED, None, "Paimon has no such cast")
    if not _is_executable(before, after):
        return Cast(Loss.REFUSED, kind, "Paimon cannot execute this cast when it reads old files")
    reason = _why_lossy(before, after)
    return Cast(Loss.LOSSY, kind, reason) if reason else Cast(Loss.LOSSLESS, kind)


def _judge_parts(before: DataType, after: DataType, kind: str | None) -> Cast:
    if before.root in (Root.ARRAY, Root.MAP, Root.ROW) and after.root in _TEXTS:
        return Cast(Loss.LOSSY, kind, "the values become text")
    return Cast(
        Loss.REFUSED, kind, "Paimon has no such cast; change the type of an element, a value or a field instead"
    )


def _kind(before: Root, after: Root) -> str | None:
    """Return `implicit`, `explicit`, or None for a cast that Paimon does not have."""
    if after in _IMPLICIT.get(before, ()):
        return "implicit"
    return "explicit" if after in _EXPLICIT.get(before, ()) else None


_IMPLICIT: Mapping[Root, tuple[Root, ...]] = {
    Root.BOOLEAN: (Root.BOOLEAN,),
    **{root: (*_INTEGERS[place:], Root.FLOAT, Root.DOUBLE, Root.DECIMAL) for place, root in enumerate(_INTEGERS)},
    Root.FLOAT: (Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
    Root.DOUBLE: (Root.DOUBLE, Root.DECIMAL),
    Root.DECIMAL: (Root.DECIMAL, Root.FLOAT, Root.DOUBLE),
    Root.CHAR: (Root.CHAR, Root.VARCHAR),
    Root.VARCHAR: (Root.VARCHAR,),
    Root.BINARY: (Root.BINARY, Root.VARBINARY),
    Root.VARBINARY: (Root.VARBINARY,),
    Root.DATE: (Root.DATE,),
    Root.TIME: (Root.TIME,),
    Root.TIMESTAMP: (Root.DATE, Root.TIME, *_TIMESTAMPS),
    Root.TIMESTAMP_LTZ: _TIMESTAMPS,
}

_EXPLICIT: Mapping[Root, tuple[Root, ...]] = {
    Root.BOOLEAN: (*_NUMBERS, *_TEXTS),
    **dict.fromkeys(_INTEGERS, (*_NUMBERS, Root.BOOLEAN, *_TEXTS, *_TIMESTAMPS)),
    **dict.fromkeys((Root.FLOAT, Root.DOUBLE, Root.DECIMAL), (*_NUMBERS, *_TEXTS)),
    **dict.fromkeys(_TEXTS, (*_TEXTS, Root.BOOLEAN, *_NUMBERS, *_BYTES, Root.DATE, Root.TIME, *_TIMESTAMPS)),
    **dict.fromkeys(_BYTES, (*_TEXTS, *_BYTES)),
    Root.DATE: (*_TIMESTAMPS, *_TEXTS),
    Root.TIME: (*_TIMESTAMPS, *_TEXTS),
    Root.TIMESTAMP: (*_TEXTS, Root.INT, Root.BIGINT),
    Root.TIMESTAMP_LTZ: (*_TEXTS, Root.DATE, Root.TIME, Root.INT, Root.BIGINT),
    **dict.fromkeys((Root.ARRAY, Root.MAP, Root.ROW), _TEXTS),
}


def _is_executable(before: AtomicType, after: AtomicType) -> bool:
    """Return False for casts that ALTER could accept but that no reader has."""
    pair = (before.root, after.root)
    if pair in ((Root.BOOLEAN, Root.BOOLEAN), (Root.TIME, Root.TIME), (Root.DATE, Root.DATE)):
        return False
    if after.root in _TIMESTAMPS and before.root in (Root.TINYINT, Root.SMALLINT):
        return False
    if after.root in _TEXTS and before.root in (Root.DATE, Root.TIME, *_TIMESTAMPS):
        return after.root is Root.VARCHAR and after.arguments == (MAX_LENGTH,) and after.nullable
    return True


def _why_lossy(before: AtomicType, after: AtomicType) -> str:
    """Return why values can change; empty where every value survives."""
    if before.root is after.root:
        return _why_narrower(before, after)
    judge = _CROSSINGS.get((before.root, after.root))
    if judge is not None:
        return judge(before, after)
    if after.root in _INTEGERS and before.root in _INTEGERS:
        is_wider = _INTEGERS.index(before.root) < _INTEGERS.index(after.root)
        return "" if is_wider else "larger values overflow"
    if after.root is Root.DECIMAL and before.root in _DIGITS:
        return _why_digits_are_lost((_DIGITS[before.root], 0), after)
    if before.root in _EXACT_IN.get(after.root, ()):
        return ""
    return _LOSSES.get(after.root, "values are converted")


def _why_narrower(before: AtomicType, after: AtomicType) -> str:
    if before.root is Root.DECIMAL:
        return _why_digits_are_lost(before.arguments, after)
    if before.root in (*_TEXTS, *_BYTES):
        return _why_shorter(before, after)
    if before.root in (*_TIMESTAMPS, Root.TIME) and _first(after) < _first(before):
        return "digits of the second are lost"
    return ""


def _why_shorter(before: AtomicType, after: AtomicType) -> str:
    if _first(after) < _first(before):
        return "longer values are cut"
    is_padded = after.root in (Root.CHAR, Root.BINARY) and _first(after) > _first(before)
    return "shorter values are padded" if is_padded else ""


def _why_digits_are_lost(before: tuple[int | str, ...], after: AtomicType) -> str:
    precision, scale = map(int, before)
    new_precision, new_scale = map(int, after.arguments)
    if new_scale < scale:
        return "digits after the point are lost"
    return "larger values become null" if new_precision - new_scale < precision - scale else ""


def _why_time_is_lost(_before: AtomicType, _after: AtomicType) -> str:
    return "the time of day is lost"


def _first(data_type: AtomicType) -> int:
    return int(data_type.arguments[0])


def _never_lossy(_before: AtomicType, _after: AtomicType) -> str:
    return ""


_CROSSINGS: Mapping[tuple[Root, Root], Callable[[AtomicType, AtomicType], str]] = {
    (Root.CHAR, Root.VARCHAR): _why_shorter,
    (Root.BINARY, Root.VARBINARY): _why_shorter,
    (Root.DATE, Root.TIMESTAMP): _never_lossy,
    (Root.TIMESTAMP, Root.DATE): _why_time_is_lost,
    (Root.TIMESTAMP_LTZ, Root.DATE): _why_time_is_lost,
}
"""Pairs of types whose loss depends on more than the new type."""

_LOSSES: Mapping[Root, str] = {
    Root.FLOAT: "digits are lost",
    Root.DOUBLE: "digits are lost",
    Root.DECIMAL: "digits are lost, and larger values become null",
    Root.CHAR: "values become text",
    Root.VARCHAR: "values become text",
    Root.TIME: "the date is lost",
    Root.TIMESTAMP: "values depend on the time zone of the reader",
    Root.TIMESTAMP_LTZ: "values depend on the time zone of the reader",
    **dict.fromkeys(
        _INTEGERS, "fractions are cut and larger values overflow, or text that is not a number is an error"
    ),
}
