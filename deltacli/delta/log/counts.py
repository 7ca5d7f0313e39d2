"""Counting a state: sums over narrow file actions.

Spec: Add File and Remove File; Per-file Statistics; Deletion Vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.units import OLDEST_MS

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.log.file_actions import FileBatch

_SAFE_SUM = 2**62


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Live files.

    `records` sums the known numRecords; `deleted_rows` sums the cardinality of deletion vectors. Of the files with a
    vector, `tight` have bounds that are not said to be wide, `unjudged` may have such, and `exceeding` vectors delete
    more rows than the file has.
    """

    count: int = 0
    size_bytes: int = 0
    records: int = 0
    files_without_records: int = 0
    deletion_vectors: int = 0
    deleted_rows: int = 0
    tight: int = 0
    unjudged: int = 0
    exceeding: int = 0

    @property
    def rows(self) -> int | None:
        """Return the number of visible rows, or None if any live file has no row count."""
        return None if self.files_without_records else self.records - self.deleted_rows

    def __add__(self, other: FileCounts) -> FileCounts:
        return FileCounts(
            self.count + other.count,
            self.size_bytes + other.size_bytes,
            self.records + other.records,
            self.files_without_records + other.files_without_records,
            self.deletion_vectors + other.deletion_vectors,
            self.deleted_rows + other.deleted_rows,
            self.tight + other.tight,
            self.unjudged + other.unjudged,
            self.exceeding + other.exceeding,
        )


@dataclass(frozen=True, slots=True)
class TombstoneCounts:
    """Removes in a state; `expired` of them no longer protect their file at the time of counting."""

    count: int = 0
    expired: int = 0

    def __add__(self, other: TombstoneCounts) -> TombstoneCounts:
        return TombstoneCounts(self.count + other.count, self.expired + other.expired)


def count_adds(adds: pyarrow.RecordBatch) -> FileCounts:
    """Count a batch of `narrow_add`."""
    records, cardinality, is_tight = (adds.column(name) for name in ("num_records", "dv_cardinality", "is_tight"))
    has_vectors = cardinality.null_count < adds.num_rows
    return FileCounts(
        count=adds.num_rows,
        size_bytes=_sum(adds.column("size")),
        records=_sum(records),
        files_without_records=records.null_count,
        deletion_vectors=adds.num_rows - cardinality.null_count,
        deleted_rows=_sum(cardinality),
        tight=pc.sum(is_tight).as_py() or 0 if has_vectors else 0,
        unjudged=is_tight.null_count,
        exceeding=pc.sum(pc.greater(cardinality, records)).as_py() or 0 if has_vectors else 0,
    )


def count_removes(removes: pyarrow.RecordBatch, expired_before_ms: int, *, are_young: bool = False) -> TombstoneCounts:
    """Count a batch of `narrow_remove`; a tombstone without a deletion timestamp counts as deleted at 0."""
    kept = unexpired(removes.column("deletion_timestamp"), expired_before_ms, are_young=are_young)
    return TombstoneCounts(removes.num_rows, removes.num_rows - kept.true_count)


def unexpired(timestamps: pyarrow.Array, cutoff_ms: int, *, are_young: bool = False) -> pyarrow.Array:
    """Return which tombstones with these deletion timestamps must be kept. Where they `are_young`, being those of
    commits after the cutoff, one that is no time in milliseconds, where the cutoff is one, does not speak against it.
    """
    known = pc.fill_null(timestamps, 0)
    kept = pc.greater(known, cutoff_ms)
    return pc.or_(kept, pc.less(known, OLDEST_MS)) if are_young and cutoff_ms >= OLDEST_MS else kept


def _sum(column: pyarrow.Array) -> int:
    """Sum int64 exactly. Values for which Arrow's sum would overflow are added as Python integers."""

    extremes = pc.min_max(column).as_py()
    widest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    if widest * max(len(column), 1) < _SAFE_SUM:
        return pc.sum(column).as_py() or 0
    return sum(value for value in column.to_pylist() if value is not None)


def count_batch(
    batch: FileBatch, cutoff_ms: int, files: FileCounts, tombstones: TombstoneCounts, *, are_young: bool = False
) -> tuple[FileCounts, TombstoneCounts]:
    """Return the counts with those of one more batch, the tombstones as by `unexpired`."""
    if batch.adds is not None:
        files += count_adds(batch.adds)
    if batch.removes is not None:
        tombstones += count_removes(batch.removes, cutoff_ms, are_young=are_young)
    return files, tombstones
