"""Facts about the columns named in statistics from the rows of one file, collected batch by batch.

Text is compared with the claimed bounds, because finding its minimum would cost four times as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.encoding.value_text import has_bytes
from deltacli.delta.stats.schema import ColumnPath, StatColumn, StatKind

if TYPE_CHECKING:
    import pyarrow

_SECONDS_A_DAY = 86_400


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
    _columns: list[_Column] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._columns = [_Column(one) for one in self.claimed]

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Add some rows."""
        for column in self._columns:
            column.take(batch)

    def answer(self) -> Mapping[ColumnPath, ColumnFacts]:
        """Return the facts, by physical path."""
        return {column.claimed.path: column.facts() for column in self._columns}


class _Column:
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

    def take(self, batch: pyarrow.RecordBatch) -> None:
        values, above = batch.column(self.claimed.names[0]), 0
        for name in self.claimed.names[1:]:
            above = values.null_count
            values = pc.struct_field(values, [name])
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
        import pyarrow as pa

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
    return isinstance(given, str) and has_bytes(given)


def _comparable(end: Any) -> Any:  # Any: an Arrow scalar, and its value in the form of `comparable_type`
    import pyarrow as pa

    if not end.is_valid:
        return None
    if pa.types.is_timestamp(end.type):
        return end.value
    if pa.types.is_date32(end.type):
        return end.value * _SECONDS_A_DAY
    value = end.as_py()
    return int(value) if isinstance(value, bool) else value
