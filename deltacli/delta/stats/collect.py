"""The statistics of a new data file, from its rows, and facts about columns collected batch by batch.

Text is compared with the claimed bounds, because finding its minimum would cost four times as much.

They are exact: the least and the greatest value of each column, and how many rows have none. A bound that no reader
could understand in the same way is left out, which is always correct: NaN is above every number, infinities are not
JSON, and years beyond four digits are not dates to many readers. The other bound is left out with it, because readers
compare with a missing one as with null, and skip the file. Long texts are cut as the reference implementation does, and
so that no value is beyond a bound.

Spec: Per-file Statistics.
"""

from __future__ import annotations

import json
import math
from codecs import utf_8_decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.lock_free_property import cached_property
from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.encoding.value_text import date_text, moment_text
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import number_leaves
from deltacli.delta.schema.types import DataType, simple_name
from deltacli.delta.stats.schema import (
    BOUNDS,
    NULL_COUNT,
    ColumnPath,
    StatColumn,
    StatKind,
    bound_kind,
    indexed_columns,
)

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


_SECONDS_A_DAY = 86_400


class NestedValues:
    """The columns of some rows, and the fields within their structs. A field of a struct that is null is null, too.

    A struct is taken apart once: it may have thousands of fields, and each of them would cost as much as all.
    """

    def __init__(self, rows: pyarrow.RecordBatch | pyarrow.Table) -> None:
        self._rows = rows
        self._fields: dict[Sequence[str], list[ArrowArray]] = {}

    def at(self, path: Sequence[str]) -> ArrowArray:
        """Return the values at a path of names, which leads through structs only."""
        *parent, name = path
        if not parent:
            return self._rows.column(name)
        struct = self.at(parent)
        key = tuple(parent)
        if key not in self._fields:
            self._fields[key] = struct.flatten()
        return self._fields[key][struct.type.get_field_index(name)]


class ColumnFacts(NamedTuple):
    """One column of one file: bounds in the form of `comparable_type`, None if there is no value; for text only if a
    value is beyond a claimed bound. NaN is in no bounds. `nulls_above` are those of structs around it.
    """

    low: Any  # Any: a value of the column
    high: Any
    rows: int
    nulls: int
    nulls_above: int
    has_nan: bool
    is_single: bool
    misses_low: bool
    misses_high: bool


class Claimed(NamedTuple):
    """A column with statistics. `names` lead to it in a batch, `low` and `high` are its claimed bounds, needed only for
    text; `is_single`: the file stores floats.
    """

    column: StatColumn
    path: ColumnPath
    names: Sequence[str]
    low: Json = None
    high: Any = None
    is_single: bool = False


@dataclass
class StatisticsOfRows:
    """Reads the live rows of a file, and returns facts about each claimed column."""

    claimed: Sequence[Claimed]
    _columns: list[_ClaimedColumn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._columns = [_ClaimedColumn(one) for one in self.claimed]

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Add some rows."""
        values = NestedValues(batch)
        for column in self._columns:
            column.take(values)

    def answer(self) -> Mapping[ColumnPath, ColumnFacts]:
        """Return the facts, by physical path."""
        return {column.claimed.path: column.facts() for column in self._columns}


class _ClaimedColumn:
    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed
        self._low: Any = None
        self._high: Any = None
        self._rows = self._nulls = self._nulls_above = 0
        self._has_nan = False
        is_text = claimed.column.kind is StatKind.TEXT
        low, high = (given if is_text and _is_text(given) else None for given in (claimed.low, claimed.high))
        self._low_claim: str | None = low
        self._high_claim: str | None = high
        self._seeks_low, self._seeks_high = low is not None, high is not None

    def take(self, rows: NestedValues) -> None:
        names = self.claimed.names
        values = rows.at(names)
        above = rows.at(names[:-1]).null_count if len(names) > 1 else 0
        self._rows += len(values)
        self._nulls += values.null_count
        self._nulls_above += above
        if values.null_count == len(values):
            return
        match self.claimed.column.kind:
            case StatKind.TEXT:
                self._take_text(values)
            case StatKind.FLOAT:
                self._has_nan = self._has_nan or bool(pc.any(pc.is_nan(values)).as_py())
                self._take_ends(values)
            case StatKind.WHOLE | StatKind.DECIMAL | StatKind.DATE | StatKind.TIMESTAMP | StatKind.BOOLEAN:
                self._take_ends(values)

    def _take_ends(self, values: ArrowArray) -> None:
        ends = pc.min_max(values)
        low, high = (_comparable(end) for end in (ends["min"], ends["max"]))
        if low is None or (isinstance(low, float) and math.isnan(low)):  # nulls alone, NaN alone
            return
        self._low = low if self._low is None or low < self._low else self._low
        self._high = high if self._high is None or high > self._high else self._high

    def _take_text(self, values: Any) -> None:
        low, high = self._low_claim, self._high_claim
        is_low = low is not None and pc.any(pc.less(values, pa.scalar(low, values.type))).as_py()
        is_high = high is not None and pc.any(pc.greater(values, pa.scalar(high, values.type))).as_py()
        if is_low or is_high:
            ends = pc.min_max(pc.cast(values, pa.binary()))
            least, greatest = ends["min"].as_py(), ends["max"].as_py()
            if is_low:
                self._low = least if self._low is None else min(self._low, least)
            if is_high:
                self._high = greatest if self._high is None else max(self._high, greatest)
        if self._seeks_low and pc.any(pc.starts_with(values, low)).as_py():
            self._seeks_low = False
        if high is not None and self._seeks_high and pc.any(pc.starts_with(values, high[:-1])).as_py():
            self._seeks_high = False  # the maximum itself, or one that was truncated and got another last character

    def facts(self) -> ColumnFacts:
        return ColumnFacts(
            self._low,
            self._high,
            self._rows,
            self._nulls,
            self._nulls_above,
            self._has_nan,
            self.claimed.is_single,
            self._seeks_low,
            self._seeks_high,
        )


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and is_utf8_encodable(given)


def _comparable(end: Any) -> Any:  # Any: an Arrow scalar, and its value in the form of `comparable_type`
    if not end.is_valid:
        return None
    if pa.types.is_timestamp(end.type):
        return end.value
    if pa.types.is_date32(end.type):
        return end.value * _SECONDS_A_DAY
    value = end.as_py()
    return int(value) if isinstance(value, bool) else value


# -- the statistics of a new data file, from its rows ------------------------------------------------------------------

_SHORT, _LONGEST = 32, 64
"""A longer text is cut to so many characters; its upper bound to so many where the characters after are the last ones
of Unicode.
"""
_BYTES = 4 * (_LONGEST + 2)
"""So many of a text have all characters that its bounds depend on, and perhaps a part of one more."""
_LAST_ASCII, _LAST = "\x7f", "\U0010ffff"
_DAYS = (-719_162, 2_932_896)
"""Year 1 to year 9999."""
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
KNOWN_TIMES = {StatKind.DATE: (-141_427, _DAYS[1]), StatKind.TIMESTAMP: (-2_208_988_800_000_000, _MICROSECONDS[1])}
"""The first and the last day and microsecond that a footer of any writer means in the same way: some writers count
times before 1582-10-15 and 1900-01-01 by another calendar, or by local time.
"""
BOUNDED = {StatKind.WHOLE, StatKind.FLOAT, StatKind.DECIMAL, StatKind.DATE, StatKind.TIMESTAMP, StatKind.TEXT}


class StatisticsCollector:
    """Takes the rows of one new file, whose columns have physical names, and returns the JSON text for its add.

    With `from_footer` the bounds are those in the footer that Arrow wrote for these rows, which `take_footer` takes
    at the end: they are the same, and were computed already. The columns of `clustering` have statistics in any case;
    `columns`, physical paths with their types, are instead of those of the properties.
    """

    def __init__(
        self,
        config: TableConfiguration,
        schema: pyarrow.Schema,
        *,
        from_footer: bool = False,
        clustering: Collection[ColumnPath] = (),
        columns: Iterable[tuple[ColumnPath, DataType]] | None = None,
    ) -> None:
        self._rows = 0
        self._claims_exactness = "deletionVectors" in config.features
        named = indexed_columns(config, clustering) if columns is None else columns
        leaves = number_leaves(schema)
        self._from_footer = from_footer
        # A column without a number is in no file: it has the type void.
        self._columns = [_Column(path, kind, leaves[path]) for path, kind in named if path in leaves]

    @cached_property
    def _by_leaf(self) -> Mapping[int, _Column]:
        return {column.leaf: column for column in self._columns}

    def take(self, rows: pyarrow.RecordBatch | pyarrow.Table) -> None:
        """Add rows."""
        self._rows += rows.num_rows
        values = NestedValues(rows)
        for column in self._columns:
            column.count(values)
            if not self._from_footer:
                column.widen(values)

    def take_footer(self, metadata: pyarrow.parquet.FileMetaData) -> list[tuple[int, int]]:
        """Take the bounds of the columns, and return the row groups and leaves that have none, because a value is too
        long for a footer: these must be given to `take_leaf`.
        """
        return [
            (group, column.leaf)
            for group in range(metadata.num_row_groups)
            for column in self._columns
            if not column.take_footer(metadata, group)
        ]

    def take_leaf(self, leaf: int, rows: pyarrow.RecordBatch) -> None:
        """Take the bounds of one column from rows that were counted before."""
        self._by_leaf[leaf].widen(NestedValues(rows))

    def text(self, *, is_tight: bool = True, file_rows: int | None = None) -> str:
        """Return the statistics as JSON; not `is_tight` for a file some of whose rows are deleted. With `file_rows`
        those that were taken are the others: a null count is left out then unless it is zero or that of all of them.
        """
        parts = [f'"numRecords":{self._rows if file_rows is None else file_rows}']
        for number, name in enumerate(BOUNDS):
            bounds = [(column.path, column.bounds()[number]) for column in self._columns]
            parts.append(f'"{name}":{_nested((path, text) for path, text in bounds if text is not None)}')
        known = [(column.path, column.nulls) for column in self._columns]
        if file_rows is not None:
            known = [(path, file_rows if nulls else 0) for path, nulls in known if nulls in (0, self._rows)]
        counts = _nested((path, str(nulls)) for path, nulls in known)
        parts.append(f'"{NULL_COUNT}":{counts}')
        if self._claims_exactness or not is_tight:
            parts.append(f'"tightBounds":{"true" if is_tight else "false"}')
        return "{" + ",".join(parts) + "}"


class _Column:
    """One column with statistics. Its bounds are times in microseconds, dates in days, texts as their bytes."""

    def __init__(self, path: ColumnPath, data_type: DataType, leaf: int) -> None:
        self.path, self.leaf = path, leaf
        self.nulls = 0
        self._kind = bound_kind(data_type)
        self._zone = "Z" if simple_name(data_type) == "timestamp" else ""
        self._low: Any = None  # Any: a value that compares
        self._high: Any = None
        self._has_nan = False

    def count(self, rows: NestedValues) -> None:
        """Count the nulls, and look for NaN, which a footer does not mention: with one, the sum is NaN, too."""
        values = rows.at(self.path)
        self.nulls += values.null_count
        if self._kind is StatKind.FLOAT and not self._has_nan:
            self._has_nan = _is_nan(pc.sum(values).as_py()) and bool(pc.any(pc.is_nan(values)).as_py())

    def widen(self, rows: NestedValues) -> None:
        """Widen the bounds by the values of rows."""
        values = rows.at(self.path)
        if self._kind in BOUNDED and values.null_count < len(values):
            self._widen(*_ends(values))

    def take_footer(self, metadata: Any, group: int) -> bool:  # Any: a footer
        """Widen the bounds by those of a row group; return False where it has values, but no bounds."""
        found = metadata.row_group(group).column(self.leaf).statistics
        if self._kind not in BOUNDED or (found is not None and not found.num_values):
            return True
        if found is None or not found.has_min_max:
            return found is not None and self._kind is StatKind.FLOAT  # nothing but NaN
        low, high = found.min_raw, found.max_raw
        if self._kind is StatKind.DECIMAL:
            scale = metadata.schema.column(self.leaf).scale
            low, high = _decimal(low, scale), _decimal(high, scale)
        self._widen(low, high)
        return True

    def _widen(self, low: Any, high: Any) -> None:
        if _is_nan(low):  # nothing but NaN
            return
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def bounds(self) -> tuple[str | None, str | None]:
        """Return the least and the greatest value in JSON, both or none."""
        if self._low is None or self._has_nan:
            return None, None
        low, high = self._texts()
        return (None, None) if low is None or high is None else (low, high)

    def _texts(self) -> tuple[str | None, str | None]:
        low, high = self._low, self._high
        match self._kind:
            case StatKind.FLOAT:
                return _float(low or -0.0), _float(high or 0.0)  # zero has two signs, which some readers order
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
        """Engines write milliseconds, and readers add one to a maximum; digits below are for those that add nothing."""
        if not _MICROSECONDS[0] <= microseconds <= _MICROSECONDS[1]:
            return None
        seconds, rest = divmod(microseconds, 1_000_000)
        fraction = f"{rest:06}" if rest % 1_000 else f"{rest // 1_000:03}"
        return f'"{moment_text(seconds * 1_000_000)}.{fraction}{self._zone}"'


def _ends(values: Any) -> tuple[Any, Any]:
    """Return the least and the greatest of values, not all of which are null."""
    if pa.types.is_string(values.type):
        values = pc.cast(values, pa.binary())
        if values.nbytes > _BYTES * len(values):  # Arrow copies the ends several times
            values = pc.binary_slice(values, 0, _BYTES)
    ends = pc.min_max(values)
    is_number = pa.types.is_temporal(values.type)
    low, high = (ends[name].value if is_number else ends[name].as_py() for name in ("min", "max"))
    return low, high


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _decimal(stored: int | bytes, scale: int) -> Decimal:
    """Return a decimal as a footer has it: an integer, or its bytes."""
    number = int.from_bytes(stored, "big", signed=True) if isinstance(stored, bytes) else stored
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -scale))  # exact, whatever the precision of the context


def _float(value: float) -> str | None:
    return repr(value) if math.isfinite(value) else None


def _day(days: int) -> str | None:
    return f'"{date_text(days)}"' if _DAYS[0] <= days <= _DAYS[1] else None


def _texts(low: bytes, high: bytes) -> tuple[str | None, str | None]:
    """Return bounds of texts; none where they are not UTF-8, because JSON could not contain them."""
    try:
        least, most = (utf_8_decode(end, "strict", len(end) < _BYTES)[0] for end in (low, high))
    except UnicodeDecodeError:
        return None, None
    greatest = cut_above(most)
    return _json(cut_below(least) or ""), None if greatest is None else _json(greatest)


def cut_below(text: str, *, is_whole: bool = True) -> str | None:
    """Return a short text that is not above a text; None where only its beginning is known, which is too short."""
    return text[:_SHORT] if is_whole or len(text) >= _SHORT else None


def cut_above(text: str, *, is_whole: bool = True) -> str | None:
    """Return a short text not less than a text; None without one, or where the known beginning is too short."""
    if len(text) <= _SHORT:
        return text if is_whole else None
    for length in range(_SHORT, _LONGEST + 1):
        if length == len(text):
            return text if is_whole else None
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
