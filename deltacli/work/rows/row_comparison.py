"""Compare the rows of two versions of a table by key, without holding the rows.

A row is reduced to a fingerprint: the columns of its key, and 64 bits for each other column. A hash of the key chooses
the group of a row, so that all rows of a key are in one group, of whichever version and wherever they were read. Then
one group after the other is compared:

    row            id=7, name="a", price=3.0
    fingerprint    k0=7, v0=0x9c1f…, v1=0x04be…       in the group hash(7) modulo the number of groups

Values are equal as Spark compares them: NaN equals NaN, 0.0 equals -0.0, and a null in a key equals a null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import DeltacliError
from deltacli.core.typing import ArrowArray, ArrowScalar, ArrowTable, ArrowType, RecordBatch
from deltacli.delta.encoding.digests import codes, combined, plain_floats, prints_of
from deltacli.work.outputs.row_outputs import RowsPiece, read_piece_rows
from deltacli.work.task import TaskContext

_BUFFERED_BYTES = 16 << 20
"""Bytes of kept rows that are distributed to groups at once."""
SPEC = "spec"
GROUPS = "groups"
"""The names of the shared `ReadSpec` of a version, and of the number of groups (`GROUPS` of the engine)."""
DIFFERENCE_COLUMNS = ("change", "rowsFrom", "rowsTo", "columns")
"""The columns of rows that differ, before those of the key."""


@dataclass
class RowCounts:
    """The numbers of keys that differ between two versions.

    Attributes:
        added: Keys that only the newer version has.
        removed: Keys that only the older version has.
        changed: Keys with other values in the two versions.
        unchanged: Keys with the same values in both.
        repeated: Keys that occur more than once in a version.
        columns: For each column, the number of changed keys whose values differ in it.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0
    repeated: int = 0
    columns: Counter[str] = field(default_factory=Counter)

    def add(self, other: RowCounts) -> None:
        """Add the counts of other keys."""
        self.added += other.added
        self.removed += other.removed
        self.changed += other.changed
        self.unchanged += other.unchanged
        self.repeated += other.repeated
        self.columns.update(other.columns)


@dataclass(frozen=True)
class ComparedColumns:
    """The columns that are compared, those of the `key` and the `others`, and the Arrow types in which they are."""

    key: tuple[str, ...]
    others: tuple[str, ...]
    types: tuple[ArrowType, ...]

    @property
    def fingerprint_schema(self) -> pa.Schema:
        """The schema of what is kept of rows."""
        names = [f"k{number}" for number in range(len(self.key))] + [f"v{number}" for number in range(len(self.others))]
        kinds = [*self.types[: len(self.key)], *[pa.uint64()] * len(self.others)]
        return pa.schema(list(zip(names, kinds, strict=True)))

    def make_fingerprints(self, batch: RecordBatch, groups: int) -> RecordBatch:
        """Return what is kept of rows, with the group of each."""
        columns = [
            values if values.type == kind else pc.cast(values, kind)
            for values, kind in zip(batch.columns, self.types, strict=True)
        ]
        keys = [
            plain_floats(values) if pa.types.is_floating(values.type) else values for values in columns[: len(self.key)]
        ]
        prints = [prints_of(values, as_compared=True) for values in columns[len(self.key) :]]
        of_key = pc.shift_right(combined([prints_of(values) for values in keys], batch.num_rows), _make_scalar(33))
        quotient = pc.divide(of_key, _make_scalar(groups))
        group = pc.cast(pc.subtract(of_key, pc.multiply(quotient, _make_scalar(groups))), pa.int64())
        return pa.RecordBatch.from_arrays(
            [*keys, *prints, group], schema=self.fingerprint_schema.append(pa.field("group", group.type))
        )


@dataclass(frozen=True)
class FingerprintRows:
    """Reads the rows of a piece, and yields what is kept of them by groups."""

    columns: ComparedColumns
    table: str | None
    """The table as its caller wrote it, for errors."""

    def __call__(self, piece: RowsPiece, context: TaskContext) -> Iterator[tuple[int, RecordBatch]]:
        """Yield groups with rows, a group again and again. Raises DataUnreadable, StorageFailed."""
        groups: int = context.shared(GROUPS)
        held: list[RecordBatch] = []
        try:
            for batch in read_piece_rows(context.files, context.shared(SPEC), piece):
                if batch.num_rows:
                    held.append(self.columns.make_fingerprints(batch, groups))
                if sum(fingerprints.nbytes for fingerprints in held) > _BUFFERED_BYTES:
                    yield from _divide_by_group(held)
                    held.clear()
        except DeltacliError as fault:
            fault.table = fault.table or self.table
            raise
        if held:
            yield from _divide_by_group(held)


def _divide_by_group(held: Sequence[RecordBatch]) -> Iterator[tuple[int, RecordBatch]]:
    rows = pa.Table.from_batches(held).combine_chunks()
    counts = sorted((count["values"], count["counts"]) for count in pc.value_counts(rows["group"]).to_pylist())
    ordered = rows.take(pc.sort_indices(rows["group"])) if len(counts) > 1 else rows
    begin = 0
    for group, count in counts:
        for batch in ordered.slice(begin, count).drop_columns(["group"]).to_batches():
            yield group, batch
        begin += count


@dataclass(frozen=True)
class CompareRows:
    """Compares the rows of a group, of both versions, by their keys. Without `lists` only counts are returned."""

    columns: ComparedColumns
    lists: bool

    def __call__(self, sides: Sequence[Sequence[RecordBatch]]) -> tuple[RowCounts, RecordBatch | None]:
        """Return the counts, and the keys that differ: `DIFFERENCE_COLUMNS`, and the columns of the key."""
        tables = [pa.Table.from_batches(list(batches), self.columns.fingerprint_schema) for batches in sides]
        rows = pa.concat_tables(tables).combine_chunks()
        if not rows.num_rows:
            return RowCounts(), None
        keys = [_combine_chunks(rows[f"k{number}"]) for number in range(len(self.columns.key))]
        numbered = codes(keys, rows.num_rows)
        total = pc.max(numbered).as_py() + 1
        others = [f"v{number}" for number in range(len(self.columns.others))]
        whole = combined([_combine_chunks(rows[name]) for name in others], rows.num_rows)
        summed = pa.table({"code": numbered, "whole": whole, **{name: _combine_chunks(rows[name]) for name in others}})

        cut = tables[0].num_rows
        groups = [_sum_by_key(side, others, total) for side in (summed.slice(0, cut), summed.slice(cut))]
        old, new = (group["count"] for group in groups)

        # A key occurs in a version as often as `old` and `new` say. Its values differ if the sums of 64 bits do.
        is_added = pc.equal(old, 0)
        is_removed = pc.equal(new, 0)
        is_both = pc.invert(pc.or_(is_added, is_removed))
        is_other = pc.or_(pc.not_equal(old, new), pc.not_equal(groups[0]["whole"], groups[1]["whole"]))
        is_changed = pc.and_(is_both, is_other)
        is_single = pc.and_(is_changed, pc.and_(pc.equal(old, 1), pc.equal(new, 1)))
        differing = [pc.and_(is_single, pc.not_equal(groups[0][name], groups[1][name])) for name in others]

        counts = RowCounts(
            added=_count_true(is_added),
            removed=_count_true(is_removed),
            changed=_count_true(is_changed),
            unchanged=_count_true(pc.and_not(is_both, is_other)),
            repeated=_count_true(pc.or_(pc.greater(old, 1), pc.greater(new, 1))),
            columns=Counter(
                {name: _count_true(mask) for name, mask in zip(self.columns.others, differing, strict=True)}
            ),
        )
        chosen = pc.or_(pc.or_(is_added, is_removed), is_changed)
        if not self.lists or not pc.any(chosen).as_py():
            return counts, None
        change = pc.if_else(is_added, "add", pc.if_else(is_removed, "remove", "change"))
        places = pc.filter(_find_first_rows(numbered, total), chosen)
        fixed = [pc.filter(column, chosen) for column in (change, old, new, self._texts(differing, is_single))]
        columns = [*fixed, *(pc.take(column, places) for column in keys)]
        return counts, pa.RecordBatch.from_arrays(columns, names=[*DIFFERENCE_COLUMNS, *self.columns.key])

    def _texts(self, differing: Sequence[ArrowArray], is_single: ArrowArray) -> ArrowArray:
        """Return the names of the columns that differ, where there is one row on both sides, else null."""
        if not differing:
            return pa.nulls(len(is_single), pa.string())
        names = (pa.scalar(f"{name},") for name in self.columns.others)
        texts = [pc.if_else(mask, name, pa.scalar("")) for name, mask in zip(names, differing, strict=True)]
        joined = pc.replace_substring_regex(pc.binary_join_element_wise(*texts, ""), ",$", "")
        return pc.if_else(is_single, joined, pa.scalar(None, pa.string()))


def _sum_by_key(rows: ArrowTable, others: Sequence[str], total: int) -> dict[str, ArrowArray]:
    """Return the number of rows, and the sums of 64 bits of each column, for each code from 0 on."""
    names = ["whole", *others]
    sums = aggregate_rows(rows, ["code"], [("code", "count"), *((name, "sum") for name in names)])
    places = pc.index_in(pa.array(range(total), pa.int32()), value_set=_combine_chunks(sums["code"]))
    totals = {
        name: _fill_with_zero(pc.take(_combine_chunks(sums[f"{name}_sum"]), places), pa.uint64()) for name in names
    }
    return {**totals, "count": _fill_with_zero(pc.take(_combine_chunks(sums["code_count"]), places), pa.int64())}


def _fill_with_zero(values: ArrowArray, kind: ArrowType) -> ArrowArray:
    return pc.fill_null(pc.cast(values, kind), pa.scalar(0, kind))


def _find_first_rows(numbered: ArrowArray, total: int) -> ArrowArray:
    rows = pa.table({"code": numbered, "place": pa.array(range(len(numbered)), pa.int64())})
    first_rows = aggregate_rows(rows, ["code"], [("place", "min")])
    places = pc.index_in(pa.array(range(total), pa.int32()), value_set=_combine_chunks(first_rows["code"]))
    return pc.take(_combine_chunks(first_rows["place_min"]), places)


def _combine_chunks(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _count_true(mask: ArrowArray) -> int:
    total: int | None = pc.sum(mask).as_py()
    return total or 0


def _make_scalar(value: int) -> ArrowScalar:
    return pa.scalar(value, pa.uint64())
