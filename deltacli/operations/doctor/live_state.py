"""The live files of a version in columns, read in one pass: sizes, partitions, deleted rows, a sample of statistics;
and what these are good for: which columns have bounds, how long these are, and how many files a search for one value
opens by them.

Memory grows by about a hundred bytes per file, and not with the statistics: of these a sample is kept. Spec: Per-file
Statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import DataUnreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray, ArrowTable, Json, RecordBatch
from deltacli.delta.schema.types import simple_name
from deltacli.delta.stats.collect import BOUNDED
from deltacli.delta.stats.columns import StatsColumns, parse_stats
from deltacli.delta.stats.schema import (
    INDEXED_COLUMNS,
    STATS_COLUMNS,
    ColumnPath,
    StatKind,
    bound_kind,
    indexed_columns,
    leaf_columns,
)
from deltacli.operations.optimize.live_files import LIVE_FIELDS, LiveFiles, LivePart, LiveReader, join_parts
from deltacli.operations.read.file_sizes import CLASS_LIMITS, partition_name, partition_texts

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

SAMPLED_FILES = 20_000
"""About so many files are examined for the statistics of each column."""
SHOWN_PARTITIONS = 100
_SEARCHED = 64
"""Values that are searched for, to see how many files a search opens."""
_LONG_BYTES = 24
"""Mean bytes of a bound from which texts are long: writers cut them to 32 characters."""
_OPENED = 0.5
"""Share of the files from which a search for one value gains nothing by a column's bounds."""
MOST_INDEXED = 32


class PartitionSize(NamedTuple):
    """A partition: `name` is `column=value/…`, empty for a table without partitions; `rows` None if unknown."""

    name: str
    files: int
    size_bytes: int
    small_files: int
    rows: int | None

    def as_json(self, files_after: int) -> dict[str, Json]:
        """As in the document. `files_after`: the files that an optimization would leave."""
        return {
            "partition": self.name,
            "files": self.files,
            "sizeBytes": self.size_bytes,
            "smallFiles": self.small_files,
            "filesAfter": files_after,
            "rows": self.rows,
        }


@dataclass(frozen=True, eq=False)
class LiveState:
    """The live files. `texts` are their partition values as one text, `statistics` the JSON texts of a sample, the
    length of all of which is `statistics_bytes`. `is_typed` is False where partition values are not of their types.
    """

    live: LiveFiles
    names: dict[str, str]
    """Physical name of each partition column -> its name."""
    texts: ArrowArray
    statistics: ArrowArray
    statistics_bytes: int
    vector_files: int
    is_typed: bool

    @property
    def count(self) -> int:
        return len(self.live.columns.sizes)

    @cached_property
    def size_bytes(self) -> int:
        return _sum(self.live.columns.sizes)

    @cached_property
    def without_records(self) -> int:
        """The number of files whose statistics have no row count."""
        return int(self.live.columns.rows.null_count)

    @cached_property
    def records(self) -> int:
        """The rows of all files whose number is known, deleted ones included."""
        return _sum(self.live.columns.rows)

    @cached_property
    def deleted_rows(self) -> int:
        return _sum(self.live.columns.deleted)

    @cached_property
    def vectors(self) -> int:
        """The number of files with a deletion vector."""
        return _sum(self.live.columns.has_vector)

    @cached_property
    def median_bytes(self) -> int:
        """The median of the sizes; 0 without files."""
        return _median(self.live.columns.sizes)

    @cached_property
    def classes(self) -> list[tuple[int, int | None, int, int]]:
        """Return (lower limit, upper limit or None, files, bytes) of the classes of sizes in use, and those between."""
        sizes = self.live.columns.sizes
        limits = [*CLASS_LIMITS, None]
        found = [(0, 0)]
        for limit in limits:
            below = sizes if limit is None else pc.filter(sizes, pc.less(sizes, limit))
            found.append((len(below), _sum(below)))
        rows = [
            (low, high, after[0] - before[0], after[1] - before[1])
            for low, high, before, after in zip((0, *CLASS_LIMITS), limits, found, found[1:], strict=False)
        ]
        used = [place for place, row in enumerate(rows) if row[2]]
        return rows[used[0] : used[-1] + 1] if used else []

    @cached_property
    def partitions(self) -> ArrowTable:
        """Return a row per partition, the largest first: `code`, `size_count`, `size_sum`, `rows_sum`, `unknown_sum`
        (its files without a row count) and `place_min`, one of its files.
        """
        columns = self.live.columns
        count = self.count
        table = pa.table(
            {
                "code": self.live.of_partition,
                "size": columns.sizes,
                "rows": pc.subtract(columns.rows, columns.deleted),
                "unknown": pc.cast(pc.is_null(columns.rows), pa.int64()),
                "place": pa.array(range(count), pa.int64()),
            }
        )
        wanted = [("size", "count"), ("size", "sum"), ("rows", "sum"), ("unknown", "sum"), ("place", "min")]
        found = aggregate_rows(table, ["code"], wanted)
        order = pc.sort_indices(found, [("size_sum", "descending"), ("place_min", "ascending")])
        return pc.take(found, order)

    def largest(self, small_below: int) -> list[PartitionSize]:
        """Return the partitions with the most bytes. Files below `small_below` bytes are small."""
        shown = self.partitions.slice(0, SHOWN_PARTITIONS)
        codes = shown.column("code").combine_chunks()
        is_small = pc.less(self.live.columns.sizes, small_below)
        small = pc.value_counts(pc.filter(self.live.of_partition, is_small))
        places = pc.index_in(codes, value_set=pc.struct_field(small, [0]))
        smalls = pc.fill_null(pc.take(pc.struct_field(small, [1]), places), pa.scalar(0, pa.int64()))
        texts = pc.take(self.texts, shown.column("place_min").combine_chunks()).to_pylist()
        return [
            PartitionSize(
                partition_name(self.names, text) if self.names else "",
                row["size_count"],
                row["size_sum"],
                count,
                None if row["unknown_sum"] else (row["rows_sum"] or 0),
            )
            for row, text, count in zip(shown.to_pylist(), texts, smalls.to_pylist(), strict=True)
        ]

    def name_of(self, row: int) -> str:
        """Return `column=value/…` of a row of `partitions`."""
        return partition_name(self.names, self.texts[self.partitions.column("place_min")[row].as_py()].as_py())

    @cached_property
    def median_partition_bytes(self) -> int:
        """The median of the bytes of partitions; 0 without files."""
        return _median(self.partitions.column("size_sum").combine_chunks()) if self.count else 0


class _Part(NamedTuple):
    live: LivePart
    texts: ArrowArray
    statistics: ArrowArray
    statistics_bytes: int
    vectors: ArrowArray


class _Reader:
    """Reads batches of adds, in several threads."""

    def __init__(self, live: LiveReader, step: int) -> None:
        self._live, self._step = live, step

    def read(self, adds: RecordBatch) -> _Part | None:
        live = self._live.read(adds)
        if live is None:
            return None
        statistics, values = adds.column("stats"), adds.column("partitionValues")
        sampled = pa.array(range(0, len(statistics), self._step), pa.int64())
        vectors = adds.column("deletionVector")
        kinds, places = (pc.struct_field(vectors, [name]) for name in ("storageType", "pathOrInlineDv"))
        is_stored = pc.fill_null(pc.is_in(kinds, value_set=pa.array(["u", "p"])), False)
        return _Part(
            live,
            partition_texts(values),
            pc.take(statistics, sampled),
            _sum(pc.binary_length(statistics)),
            pc.unique(pc.filter(places, is_stored)),
        )


class _TextReader(LiveReader):
    """Tells partitions apart by the texts of their values, where these are not of their types."""

    def partitions(self, adds: RecordBatch) -> list[ArrowArray]:
        return [partition_texts(adds.column("partitionValues"))]


def live_state(snapshot: Snapshot, expected: int) -> LiveState:
    """Return the live files of a version. `expected`: about how many there are.

    Raises CommitCorrupt, CheckpointUnreadable, StorageFailed.
    """
    try:
        return _live_state(snapshot, LiveReader(snapshot, None), expected, is_typed=True)
    except DataUnreadable:
        return _live_state(snapshot, _TextReader(snapshot, None), expected, is_typed=False)


def _live_state(snapshot: Snapshot, reader: LiveReader, expected: int, *, is_typed: bool) -> LiveState:
    read = _Reader(reader, max(1, expected // SAMPLED_FILES)).read
    found = snapshot.file_actions.map_actions("add", read, fields=LIVE_FIELDS)
    parts: Sequence[_Part] = [part for part in found if part is not None]
    names = dict(zip(snapshot.physical_partition_columns, snapshot.metadata.partition_columns, strict=True))

    def whole(columns: Sequence[ArrowArray]) -> ArrowArray:
        return pa.concat_arrays(columns) if columns else pa.array([], pa.string())

    return LiveState(
        join_parts([part.live for part in parts]),
        names,
        whole([part.texts for part in parts]),
        whole([part.statistics for part in parts]),
        sum(part.statistics_bytes for part in parts),
        len(pc.unique(whole([part.vectors for part in parts]))),
        is_typed,
    )


def _sum(values: ArrowArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _median(values: ArrowArray) -> int:
    if not len(values):
        return 0
    order = pc.sort_indices(values)
    return int(values[order[len(order) // 2].as_py()].as_py() or 0)


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
        for kind in (bound_kind(data_type),)
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
