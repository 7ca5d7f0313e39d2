"""The statistics of a new data file, from its rows. Spec: Per-file Statistics.

They are exact: the least and the greatest value of each column, and how many rows have none. A bound that no reader
could understand in the same way is left out, which is always correct: NaN is above every number, infinities are not
JSON, and years beyond four digits are not dates to many readers. Long texts are cut as the reference implementation
does, and so that no value is beyond a bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.value_text import date_text, moment_text
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.types import DataType, simple_name
from deltacli.delta.stats.indexed_columns import indexed_columns
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, ColumnPath, StatKind, kind_of

if TYPE_CHECKING:
    import pyarrow

_SHORT, _LONGEST = 32, 64
"""A longer text is cut to so many characters; its upper bound to so many where the characters after are the last ones
of Unicode.
"""
_LAST_ASCII, _LAST = "\x7f", "\U0010ffff"
_DAYS = (-719_162, 2_932_896)
"""Year 1 to year 9999."""
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
BOUNDED = {StatKind.WHOLE, StatKind.FLOAT, StatKind.DECIMAL, StatKind.DATE, StatKind.TIMESTAMP, StatKind.TEXT}


class StatisticsCollector:
    """Takes the rows of one new file, whose columns have physical names, and returns the JSON text for its add."""

    def __init__(self, config: TableConfiguration, schema: pyarrow.Schema) -> None:
        self._rows = 0
        self._claims_exactness = "deletionVectors" in config.features
        self._columns = [_Column(path, kind) for path, kind in indexed_columns(config) if _has(schema, path)]

    def take(self, rows: pyarrow.RecordBatch | pyarrow.Table) -> None:
        """Add rows."""
        self._rows += rows.num_rows
        for column in self._columns:
            column.take(rows)

    def text(self, *, is_tight: bool = True) -> str:
        """Return the statistics as JSON; not `is_tight` for a file some of whose rows are deleted."""
        parts = [f'"numRecords":{self._rows}']
        for number, name in enumerate(BOUNDS):
            bounds = [(column.path, column.bounds()[number]) for column in self._columns]
            parts.append(f'"{name}":{_nested((path, text) for path, text in bounds if text is not None)}')
        counts = _nested((column.path, str(column.nulls)) for column in self._columns)
        parts.append(f'"{NULL_COUNT}":{counts}')
        if self._claims_exactness or not is_tight:
            parts.append(f'"tightBounds":{"true" if is_tight else "false"}')
        return "{" + ",".join(parts) + "}"


class _Column:
    """One column with statistics. Its bounds are times in microseconds, dates in days, texts as their bytes."""

    def __init__(self, path: ColumnPath, data_type: DataType) -> None:
        self.path = path
        self.nulls = 0
        self._kind = kind_of(data_type)
        self._zone = "Z" if simple_name(data_type) == "timestamp" else ""
        self._low: Any = None  # Any: a value that compares
        self._high: Any = None
        self._has_nan = False

    def take(self, rows: Any) -> None:
        values = rows.column(self.path[0])
        for name in self.path[1:]:
            values = pc.struct_field(values, [name])
        self.nulls += values.null_count
        if self._kind not in BOUNDED or values.null_count == len(values):
            return
        if self._kind is StatKind.FLOAT:
            self._has_nan = self._has_nan or bool(pc.any(pc.is_nan(values)).as_py())
        low, high = _ends(values)
        if isinstance(low, float) and math.isnan(low):  # nothing but NaN
            return
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def bounds(self) -> tuple[str | None, str | None]:
        """Return the least and the greatest value in JSON, None for a bound that is left out."""
        low, high = self._low, self._high
        if low is None:
            return None, None
        match self._kind:
            case StatKind.FLOAT:
                # Zero has two signs, which some readers order.
                return _float(low or -0.0), None if self._has_nan else _float(high or 0.0)
            case StatKind.DECIMAL:
                return format(low, "f"), format(high, "f")
            case StatKind.DATE:
                return _day(low), _day(high)
            case StatKind.TIMESTAMP:
                return self._moment(low), self._moment(high)
            case StatKind.TEXT:
                return _texts(low, high)
        return str(low), str(high)

    def _moment(self, microseconds: int) -> str | None:
        """Engines write milliseconds, and add one to the maximum when they read. Digits below are written where there
        are some, for readers that add nothing.
        """
        if not _MICROSECONDS[0] <= microseconds <= _MICROSECONDS[1]:
            return None
        seconds, rest = divmod(microseconds, 1_000_000)
        fraction = f"{rest:06}" if rest % 1_000 else f"{rest // 1_000:03}"
        return f'"{moment_text(seconds * 1_000_000)}.{fraction}{self._zone}"'


def _ends(values: Any) -> tuple[Any, Any]:
    """Return the least and the greatest of values, not all of which are null."""
    import pyarrow as pa

    if pa.types.is_string(values.type):
        values = pc.cast(values, pa.binary())
    ends = pc.min_max(values)
    is_number = pa.types.is_temporal(values.type)
    low, high = (ends[name].value if is_number else ends[name].as_py() for name in ("min", "max"))
    return low, high


def _float(value: float) -> str | None:
    return repr(value) if math.isfinite(value) else None


def _day(days: int) -> str | None:
    return f'"{date_text(days)}"' if _DAYS[0] <= days <= _DAYS[1] else None


def _texts(low: bytes, high: bytes) -> tuple[str | None, str | None]:
    """Return bounds of texts; none where they are not UTF-8, because JSON could not contain them."""
    try:
        least, most = low.decode()[:_SHORT], _cut_above(high.decode())
    except UnicodeDecodeError:
        return None, None
    return _json(least), None if most is None else _json(most)


def _cut_above(text: str) -> str | None:
    """Return a short text that is not less than a text, None if there is none."""
    if len(text) <= _SHORT:
        return text
    for length in range(_SHORT, _LONGEST + 1):
        if length == len(text):
            return text
        if text[length] < _LAST_ASCII:
            return text[:length] + _LAST_ASCII
        if text[length] < _LAST:
            return text[:length] + _LAST
    return None


def _json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _nested(leaves: Iterable[tuple[ColumnPath, str]]) -> str:
    """Return an object of objects, with a text of JSON at each path."""
    below: dict[str, list[tuple[ColumnPath, str]]] = {}
    for path, text in leaves:
        below.setdefault(path[0], []).append((path[1:], text))
    fields = (f"{_json(name)}:{rest[0][1] if not rest[0][0] else _nested(rest)}" for name, rest in below.items())
    return "{" + ",".join(fields) + "}"


def _has(schema: pyarrow.Schema, path: ColumnPath) -> bool:
    """Return True if a file contains a column; one of type void is in none."""
    fields: Any = schema
    for name in path:
        place = fields.get_field_index(name)
        if place < 0:
            return False
        fields = fields.field(place).type
    return True
