"""Dates and times that Spark wrote in the calendar that was Julian before 1582-10-15: which leaves of a file have them,
by the marks in its footer, and their values in the calendar of the table's types. Readers, checks and rewrites ask
here.

Spark 2 and, in its mode LEGACY, later ones write so. They read such files as they are rebased here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray

_SPARK = "org.apache.spark."
_MARKS = (f"{_SPARK}legacyDateTime", f"{_SPARK}legacyINT96")
_HYBRID_UNTIL = {"INT96": (3, 1)}
"""Physical type -> the first version of Spark whose files are in the calendar of today unless they are marked."""
_FIRST_DAY = -141_427
"""1582-10-15, from which on dates are the same in both calendars."""
_FIRST_SECOND = -2_208_988_800
"""1900-01-01, from which on times are: before, time zones were not at whole hours."""
_CYCLES = 15_000
"""Cycles of 400 years by which years are moved, so that divisions are of positive numbers."""
_DAYS_BEFORE = 2_440_588 + 32_082 + 146_100 * _CYCLES
"""Days before 1970 of a first of March from which Julian years are counted."""
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Hybrid(NamedTuple):
    """What of a leaf or a column is in the older calendar. `zone` is that of the session which wrote it."""

    zone: str
    dates: bool
    times: bool


def hybrid_leaf(stored: Any, metadata: Mapping[bytes, bytes] | None) -> Hybrid | None:
    """Return the calendar of a leaf (a column of a Parquet schema) if it is not that of the table's types, else None.
    `metadata` are the marks of the footer.
    """
    if not metadata or (stored.physical_type != "INT96" and stored.logical_type.type not in ("TIMESTAMP", "DATE")):
        return None
    marks = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
    if not is_hybrid(stored.physical_type, marks):
        return None
    is_date = stored.logical_type.type == "DATE"
    return Hybrid(marks.get(f"{_SPARK}timeZone", "UTC"), is_date, not is_date)


def hybrid_column(schema: Any, leaves: Iterable[int], metadata: Mapping[bytes, bytes] | None) -> Hybrid | None:
    """Return the same for the leaves of a column of a Parquet schema."""
    if not metadata:
        return None
    found = [one for leaf in leaves if (one := hybrid_leaf(schema.column(leaf), metadata)) is not None]
    return Hybrid(found[0].zone, any(one.dates for one in found), any(one.times for one in found)) if found else None


def is_hybrid(physical_type: str, marks: Mapping[str, str]) -> bool:
    """Return True if Spark wrote a leaf of dates or times in the calendar that was Julian before 1582."""
    mark = "legacyINT96" if physical_type == "INT96" else "legacyDateTime"
    if f"{_SPARK}{mark}" in marks:
        return True
    version = marks.get(f"{_SPARK}version", "").split(".")
    if len(version) < 2 or not (version[0].isdigit() and version[1].isdigit()):
        return False
    return (int(version[0]), int(version[1])) < _HYBRID_UNTIL.get(physical_type, (3, 0))


def hybrid_types(footer: bytes) -> frozenset[str]:
    """Return the physical types whose dates and times are in the older calendar, by the bytes of a footer."""
    if _SPARK.encode() not in footer:
        return frozenset()
    marks = {name: "" for name in _MARKS if name.encode() in footer}
    version = re.search(rb"org\.apache\.spark\.version\x18[\x00-\x7f](\d+\.\d+)", footer)
    if version is not None:
        marks[f"{_SPARK}version"] = version[1].decode()
    return frozenset(kind for kind in ("INT32", "INT64", "INT96") if is_hybrid(kind, marks))


def is_old(values: ArrowArray) -> bool:
    """Return whether dates or times may differ between the calendars."""
    import pyarrow as pa

    if not pa.types.is_date(values.type) and not pa.types.is_timestamp(values.type):
        return False
    least = pc.min_max(values)["min"]
    if not least.is_valid:
        return False
    if pa.types.is_date32(values.type):
        return bool(least.value < _FIRST_DAY)
    unit = 1_000 if pa.types.is_date64(values.type) else _UNITS[values.type.unit]
    return bool(least.value < _FIRST_SECOND * unit)


def rebased(values: ArrowArray, of: Hybrid) -> ArrowArray:
    """Return dates and times, also within arrays, maps and structs, in the calendar of the table's types."""
    import pyarrow as pa

    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([rebased(chunk, of) for chunk in values.chunks], kind)
    if pa.types.is_dictionary(kind):
        return rebased(pc.cast(values, kind.value_type), of)
    if pa.types.is_struct(kind):
        parts = [rebased(values.field(place), of) for place in range(kind.num_fields)]
        mask = pc.is_null(values) if values.null_count else None
        return pa.StructArray.from_arrays(parts, fields=_fields(kind, parts), mask=mask)
    if pa.types.is_map(kind):
        mask = pc.is_null(values) if values.null_count else None
        start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
        keys, items = (rebased(part.slice(start, stop - start), of) for part in (values.keys, values.items))
        offsets = pc.subtract(values.offsets, values.offsets[0])
        return pa.MapArray.from_arrays(offsets, keys, items, type=pa.map_(keys.type, items.type), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        mask = pc.is_null(values) if values.null_count else None
        start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
        inner = rebased(values.values.slice(start, stop - start), of)
        offsets = pc.subtract(values.offsets, values.offsets[0])
        return type(values).from_arrays(offsets, inner, mask=mask)
    if not is_old(values) or not (of.dates if pa.types.is_date(kind) else of.times):
        return values
    if pa.types.is_date32(kind):
        return _gregorian_days(pc.cast(values.view(pa.int32()), pa.int64())).cast(pa.int32()).view(kind)
    return _times(values.view(pa.int64()), _UNITS[kind.unit], of.zone).view(kind)


def _fields(kind: Any, parts: list[ArrowArray]) -> list[Any]:
    return [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]


def _gregorian_days(days: ArrowArray) -> ArrowArray:
    """Return days of the hybrid calendar as the days with the same year, month and day. A 29th of February that the
    other calendar lacks is the 1st of March. In both, years that begin in March differ in their last day alone.
    """
    import pyarrow as pa

    def number(value: int) -> Any:
        return pa.scalar(value, pa.int64())

    counted = pc.add(pc.multiply(pc.add(days, number(_DAYS_BEFORE)), number(4)), number(3))
    years = pc.divide(counted, number(1_461))
    leap_days = pc.subtract(pc.divide(years, number(400)), pc.divide(years, number(100)))
    moved = pc.add(pc.add(days, leap_days), number(38 + 3 * _CYCLES))
    return pc.if_else(pc.less(days, number(_FIRST_DAY)), moved, days)


def _times(times: ArrowArray, unit: int, zone: str) -> ArrowArray:
    """Return times as those with the same local date and time in the zone, before 1900."""
    import pyarrow as pa

    day = pa.scalar(86_400 * unit, pa.int64())
    standard, offset_of = _offsets(zone)
    local = pc.add(times, pa.scalar(standard * unit, pa.int64()))
    days = pc.divide(local, day)
    rest = pc.subtract(local, pc.multiply(days, day))
    is_before = pc.cast(pc.less(rest, pa.scalar(0, pa.int64())), pa.int64())
    days, rest = pc.subtract(days, is_before), pc.add(rest, pc.multiply(is_before, day))
    moved = pc.add(pc.multiply(_gregorian_days(days), day), rest)
    is_early = pc.less(times, pa.scalar(_FIRST_SECOND * unit, pa.int64()))
    if offset_of is not None:
        old = pc.if_else(is_early, moved, pa.scalar(None, pa.int64())).to_pylist()
        known = {value: offset_of(value // unit) * unit for value in {*old} - {None}}
        offsets = pa.array([known.get(value, 0) for value in old], pa.int64())
        moved = pc.subtract(moved, offsets)
    return pc.if_else(is_early, moved, times)


def _offsets(zone: str) -> tuple[int, Any]:
    """Return the offset in seconds that Java's older calendar has before 1900, which is the standard one of today, and
    a function for the offset at a local time, which was that of the place; None for UTC, and where a zone is not known.
    """
    from datetime import datetime, timedelta
    from zoneinfo import ZoneInfo

    if zone in ("UTC", "Z", "GMT", "Etc/UTC"):
        return 0, None
    try:
        found = ZoneInfo(zone)
    except (ValueError, OSError):  # an offset such as +01:00 is the same before and after
        return 0, None
    winter = datetime(2020, 1, 1, tzinfo=found)
    standard = int(((winter.utcoffset() or timedelta()) - (winter.dst() or timedelta())).total_seconds())
    first = -62_135_596_800  # 0001-01-01

    def offset_of(local: int) -> int:
        at = datetime(1, 1, 2) + timedelta(seconds=max(local - first - 86_400, 0))
        return int((at.replace(tzinfo=found).utcoffset() or timedelta()).total_seconds())

    return standard, offset_of
