"""Statistics of the small writer: never false, but as narrow, wide, cut or partial as writers leave them."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.support.small_parquet import PartitionText
from tests.support.small_types import Column, Row, Struct, Value, shown

CUT = 5
"""Texts longer than this are cut."""

Tree = dict[str, Any]  # Any: JSON values


def statistics(columns: Sequence[Column], rows: Sequence[Row], mode: str, seed: int) -> str | None:
    """The text of a file's statistics; `mode` is none, records, some, all or wide."""
    if mode == "none":
        return None
    found: Tree = {"numRecords": len(rows)}
    if mode in ("some", "all", "wide"):
        chooser = random.Random(seed)
        chosen = [column for column in columns if mode != "some" or chooser.random() < 0.5]
        counts, low, high = _tree(chosen, rows, chooser, wide=mode == "wide")
        found |= {"minValues": low, "maxValues": high, "nullCount": counts}
    if mode == "wide":
        found["tightBounds"] = False
    # Spark writes decimals as bare numbers of any length: the text is put together so that no digit is lost.
    return json.dumps(found, ensure_ascii=False, default=_never).replace('"\\u0000', "").replace('\\u0000"', "")


def _never(value: object) -> str:
    raise TypeError(value)


def _tree(
    columns: Iterable[Column], rows: Sequence[Row], chooser: random.Random, *, wide: bool
) -> tuple[Tree, Tree, Tree]:
    """Null counts, smallest and largest values of columns, structs as objects."""
    counts: Tree = {}
    low: Tree = {}
    high: Tree = {}
    for column in columns:
        values = [row.get(column.number) for row in rows]
        if values and isinstance(values[0], PartitionText):
            continue
        if isinstance(column.type, Struct):
            within = [value or {} for value in values]
            inner = _tree(column.type.fields, within, chooser, wide=wide)
            counts[column.physical], low[column.physical], high[column.physical] = inner
            continue
        if column.type == "void":
            continue
        nulls = sum(value is None for value in values)
        if not wide or nulls in (0, len(values)):
            counts[column.physical] = nulls
        present = [shown(value, column.type) for value in values if value is not None]
        bounds = _bounds(present, column.type, wide=wide)
        if bounds is not None:
            low[column.physical], high[column.physical] = bounds
    return counts, low, high


def _bounds(values: Sequence[Value], kind: object, *, wide: bool) -> tuple[object, object] | None:
    """A lower and an upper bound as JSON values; None where the type has none, or nothing can be said."""
    if not values or not isinstance(kind, str) or kind in ("binary", "boolean"):
        return None
    if kind in ("float", "double"):
        return _float_bounds(values, single=kind == "float")
    low, high = min(values), max(values)
    match low:
        case int():
            return (max(low - 3, -128), min(high + 3, 127)) if wide and kind == "byte" else (low, high)
        case Decimal():
            return _bare(low), _bare(high)
        case str():
            return _text_bounds(low, high)
        case datetime():
            return _instant_bounds(low, high)
        case date():
            return low.isoformat(), high.isoformat()
    return None


def _float_bounds(values: Sequence[float], *, single: bool) -> tuple[object, object] | None:
    """NaN is greater than all to Spark, and an infinity is a text."""
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return None
    low, high = _number(min(numbers), single=single), _number(max(numbers), single=single)
    return (low, high) if len(numbers) == len(values) else (low, "NaN")


def _number(value: float, *, single: bool) -> object:
    """A float as its shortest text: of a single one that is not its value as a double."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not single:
        return value
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return next(float(text) for text in texts if _single(float(text)) == value)


def _single(value: float) -> float:
    try:
        found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.inf
    return found


def _bare(value: Decimal) -> str:
    """A decimal between marks that `statistics` takes away, and the quotes with them."""
    return f"\0{value:f}\0"


def _text_bounds(low: str, high: str) -> tuple[object, object] | None:
    """Texts that are cut: a prefix bounds from below, from above only with a character that is greater than all."""
    if "\0" in low + high:
        return None
    if len(high) > CUT:
        high = high[:CUT] + chr(0x10FFFF)
    return low[:CUT], high


def _instant_bounds(low: datetime, high: datetime) -> tuple[object, object]:
    """Milliseconds, cut off on both sides as Spark does it: a reader adds one to the largest."""
    zone = "Z" if low.tzinfo else ""
    return tuple(_millis(value) + zone for value in (low, high))  # type: ignore[return-value]


def _millis(value: datetime) -> str:
    naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return (naive - timedelta(microseconds=naive.microsecond % 1000)).isoformat(timespec="milliseconds")
