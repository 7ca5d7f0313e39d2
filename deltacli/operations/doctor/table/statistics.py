"""What the statistics of files are good for: which columns have bounds, how long these are, and how many files a search
for one value opens by them. From a sample of the files. Spec: Per-file Statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.schema.types import simple_name
from deltacli.delta.stats.collect import BOUNDED
from deltacli.delta.stats.columns import StatsColumns, parse_stats
from deltacli.delta.stats.schema import (
    INDEXED_COLUMNS,
    STATS_COLUMNS,
    ColumnPath,
    StatKind,
    indexed_columns,
    kind_of,
    leaf_columns,
)
from deltacli.typing import ArrowArray, Json

if TYPE_CHECKING:
    from deltacli.operations.doctor.table.live_state import LiveState
    from deltacli.operations.table.version import Snapshot

_SEARCHED = 64
"""Values that are searched for, to see how many files a search opens."""
_LONG_BYTES = 24
"""Mean bytes of a bound from which texts are long: writers cut them to 32 characters."""
_OPENED = 0.5
"""Share of the files from which a search for one value gains nothing by a column's bounds."""
MOST_INDEXED = 32


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of a column. `is_indexed`: writers collect its statistics; `with_bounds` is the share of the
    sampled files that have them, `bound_bytes` the mean length of a bound that is a text, `opened` the share of the
    files that a search for one value opens; None where no file has bounds.
    """

    name: str
    type_name: str
    is_indexed: bool
    can_skip: bool
    with_bounds: float
    bound_bytes: float | None
    opened: float | None

    @property
    def is_useful(self) -> bool:
        """False for a type without bounds, and for long texts whose bounds leave no file out."""
        return self.can_skip and not (
            self.bound_bytes is not None
            and self.bound_bytes >= _LONG_BYTES
            and self.opened is not None
            and self.opened >= _OPENED
        )

    def as_json(self) -> dict[str, Json]:
        """As in the document."""
        return {
            "column": self.name,
            "type": self.type_name,
            "indexed": self.is_indexed,
            "canSkip": self.can_skip,
            "withBounds": round(self.with_bounds, 4),
            "boundBytes": None if self.bound_bytes is None else round(self.bound_bytes, 1),
            "filesOpened": None if self.opened is None else round(self.opened, 4),
        }


@dataclass(frozen=True, slots=True)
class StatisticsState:
    """The statistics of a table. `sampled` is the number of files that `columns` is from."""

    files_without: int
    size_bytes: int
    sampled: int
    columns: tuple[ColumnStatistics, ...]
    is_chosen: bool
    """The table has a property that chooses the columns."""

    @property
    def useful(self) -> list[ColumnStatistics]:
        """The indexed columns whose bounds can leave files out."""
        return [one for one in self.columns if one.is_indexed and one.is_useful]

    @property
    def wanted(self) -> list[ColumnStatistics]:
        """The columns that statistics would be of use for, at most as many as are indexed by default."""
        named = [one for one in self.columns if one.is_useful and not set(",`") & set(one.name)]
        return named[:MOST_INDEXED]

    def as_json(self) -> dict[str, Json]:
        """As in the document."""
        return {
            "filesWithout": self.files_without,
            "sizeBytes": self.size_bytes,
            "sampledFiles": self.sampled,
            "indexedColumns": sum(one.is_indexed for one in self.columns),
            "usefulColumns": len(self.useful),
            "columns": [one.as_json() for one in self.columns],
        }


def statistics_state(snapshot: Snapshot, state: LiveState) -> StatisticsState:
    """Return what is known of the statistics of a version, whose live files were read."""
    config = snapshot.config
    parsed = parse_stats(state.statistics, config)
    indexed = {path for path, _ in indexed_columns(config)}
    columns = tuple(
        _column(parsed, len(state.statistics), ".".join(logical), path, simple_name(data_type), kind, path in indexed)
        for logical, path, data_type in leaf_columns(config)
        for kind in (kind_of(data_type),)
    )
    chosen = {STATS_COLUMNS, INDEXED_COLUMNS} & {key for key, value in snapshot.properties.items() if value}
    return StatisticsState(state.without_records, state.statistics_bytes, len(state.statistics), columns, bool(chosen))


def _column(
    parsed: StatsColumns, files: int, name: str, path: ColumnPath, type_name: str, kind: StatKind, is_indexed: bool
) -> ColumnStatistics:
    low, high = _bounds(parsed, path)
    known = 0 if low is None else len(low)
    length = opened = None
    if low is not None and high is not None and known:
        if kind is StatKind.TEXT:
            length = (_total(pc.binary_length(low)) + _total(pc.binary_length(high))) / (2 * known)
        opened = _opened(low, high)
    return ColumnStatistics(
        name, type_name, is_indexed, kind in BOUNDED, known / files if files else 0.0, length, opened
    )


def _bounds(parsed: StatsColumns, path: ColumnPath) -> tuple[ArrowArray | None, ArrowArray | None]:
    """Return the bounds of a column in the files that have both."""
    import pyarrow as pa

    found: tuple[list[ArrowArray], list[ArrowArray]] = ([], [])
    for block in parsed.blocks:
        leaves = [next((leaf for leaf in block.leaves[name] if leaf.path == path), None) for name in _NAMES]
        if None in leaves:
            continue
        low, high = (leaf.values for leaf in leaves if leaf is not None)
        both = pc.and_(pc.is_valid(low), pc.is_valid(high))
        for part, values in zip(found, (low, high), strict=True):
            part.append(pc.filter(values, both))
    kinds = {one.type for part in found for one in part}
    if len(kinds) != 1 or pa.types.is_nested(next(iter(kinds))) or pa.types.is_null(next(iter(kinds))):
        return None, None
    low, high = (pa.concat_arrays(part) for part in found)
    return low, high


_NAMES = ("minValues", "maxValues")


def _opened(low: ArrowArray, high: ArrowArray) -> float:
    """Return the mean share of files whose range contains the least value of one of them."""
    count = len(low)
    places = sorted(
        {place * (count - 1) // max(min(count, _SEARCHED) - 1, 1) for place in range(min(count, _SEARCHED))}
    )
    shares = [
        _total(pc.and_(pc.less_equal(low, low[place]), pc.greater_equal(high, low[place]))) / count for place in places
    ]
    return sum(shares) / len(shares)


def _total(values: ArrowArray) -> int:
    return int(pc.sum(values).as_py() or 0)
