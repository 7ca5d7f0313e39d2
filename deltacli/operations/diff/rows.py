"""Which rows differ between two versions, by key: streamed, in memory that does not grow with the tables.

Of each row only the key and 64 bits per other column are kept, in parts by a hash of the key, in a temporary file where
they are many. One part after the other is compared: keys by their values, the other columns by these 64 bits.

Values are equal as Spark compares them: NaN equals NaN, 0.0 equals -0.0, and a null in a key equals a null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.multiset_digest import combined, plain_floats, prints_of
from deltacli.delta.schema.allowed_widenings import is_allowed_change
from deltacli.delta.schema.names import NameIndex
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.errors import UsageError
from deltacli.hints import nearest_name, parameter
from deltacli.operations.optimize.live import codes
from deltacli.typing import ArrowArray, ArrowScalar, ArrowTable, ArrowType, Json, RecordBatch
from deltacli.work.ordering.spill import SpillFile

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.version import Snapshot

_PART_BYTES = 64 << 20
"""About the bytes of a part that is compared at once; Arrow needs several times as much."""
_BUFFERED_BYTES = 32 << 20
_MOST_PARTS = 1_024
_SIDES = (0, 1)
FIXED = ("change", "rowsFrom", "rowsTo", "columns")
"""The columns of rows that differ, before those of the key."""


@dataclass
class RowCounts:
    """How many keys only one version has, have other values, or have the same; how many occur more than once in a
    version; and per column, of how many of the others its values differ.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0
    repeated: int = 0
    columns: Counter[str] = field(default_factory=Counter)


class RowDiff:
    """The rows of two versions by key. Each call of `changes` reads both versions once.

    Raises UsageError for columns that cannot be a key of both.
    """

    def __init__(self, before: Snapshot, after: Snapshot, key: Sequence[str], temp_dir: str | None) -> None:
        self._sides = before, after
        self._temp_dir = temp_dir
        self._columns = _Columns(before.schema, after.schema, key)
        self._counts: RowCounts | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self._columns.key

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The columns that only one version has, or whose types cannot be compared."""
        return self._columns.not_compared

    @property
    def counts(self) -> RowCounts:
        """How many rows differ. Raises what `changes` raises."""
        if self._counts is None:
            for _ in self.changes():
                pass
        assert self._counts is not None
        return self._counts

    @property
    def is_equal(self) -> bool:
        """Whether no row differs."""
        return not (self.counts.added or self.counts.removed or self.counts.changed)

    def as_json(self) -> dict[str, Json]:
        """Return what is in documents of it."""
        found = self.counts
        return {
            "key": list(self.key),
            "added": found.added,
            "removed": found.removed,
            "changed": found.changed,
            "unchanged": found.unchanged,
            "repeatedKeys": found.repeated,
            "columns": {name: found.columns[name] for name in self._columns.others if found.columns[name]},
            "notCompared": list(self.not_compared),
        }

    def changes(self) -> Iterator[RecordBatch]:
        """Yield the keys that differ: `change` (`add`, `remove` or `change`), the number of rows with the key in each
        version, the columns that differ where both have one, and the columns of the key.

        Raises DataUnreadable, StorageFailed and NoSpace.
        """
        counts = RowCounts()
        parts = self._number_of_parts()
        store: AbstractContextManager[_Store] = (
            nullcontext(_Memory()) if parts == 1 else SpillFile(self._temp_dir, self._columns.kept)
        )
        with store as spilled:
            places = [self._fill(side, parts, spilled) for side in _SIDES]
            spilled.finish()
            for part in range(parts):
                rows = [[spilled.read(place) for place in of_side[part]] for of_side in places]
                yield from self._compared(rows, counts)
        self._counts = counts

    def _number_of_parts(self) -> int:
        files = [side.counts()[0] for side in self._sides]
        rows = sum(one.records + (one.size_bytes // 8 if one.files_without_records else 0) for one in files)
        width = 8 * len(self._columns.others) + 24 * len(self.key)
        return max(1, min(_MOST_PARTS, rows * width // _PART_BYTES + 1))

    def _fill(self, side: int, parts: int, spilled: _Store) -> list[list[int]]:
        """Keep the rows of a version, and return the numbers of the batches of each part."""
        import pyarrow as pa

        places: list[list[int]] = [[] for _ in range(parts)]
        held: list[RecordBatch] = []

        def flush() -> None:
            rows = pa.Table.from_batches(held, self._columns.kept_with_part).combine_chunks()
            held.clear()
            numbers = rows["part"]
            ordered = rows.take(pc.sort_indices(numbers)) if parts > 1 else rows
            begin = 0
            for found in pc.value_counts(ordered["part"]).to_pylist():
                piece = ordered.slice(begin, found["counts"]).drop_columns(["part"])
                begin += found["counts"]
                places[found["values"]] += [spilled.add(batch) for batch in piece.to_batches()]

        scan = self._sides[side].scan(columns=self._columns.names[side])
        for batch in scan:
            if batch.num_rows:
                held.append(self._columns.reduced(batch, parts))
                if sum(one.nbytes for one in held) > _BUFFERED_BYTES:
                    flush()
        if held:
            flush()
        return places

    def _compared(self, sides: Sequence[Sequence[RecordBatch]], counts: RowCounts) -> Iterator[RecordBatch]:
        """Compare one part: yield the keys that differ, and count."""
        import pyarrow as pa

        tables = [pa.Table.from_batches(list(batches), self._columns.kept) for batches in sides]
        rows = pa.concat_tables(tables).combine_chunks()
        if not rows.num_rows:
            return
        keys = [_one(rows[f"k{place}"]) for place in range(len(self.key))]
        numbered = codes(keys, rows.num_rows)
        total = pc.max(numbered).as_py() + 1
        others = [f"v{place}" for place in range(len(self._columns.others))]
        whole = combined([_one(rows[name]) for name in others], rows.num_rows)
        summed = pa.table({"code": numbered, "whole": whole, **{name: _one(rows[name]) for name in others}})
        cut = tables[0].num_rows
        groups = [_grouped(one, others, total) for one in (summed.slice(0, cut), summed.slice(cut))]
        old, new = (group["count"] for group in groups)
        is_added, is_removed = pc.equal(old, 0), pc.equal(new, 0)
        is_both = pc.invert(pc.or_(is_added, is_removed))
        is_other = pc.or_(pc.not_equal(old, new), pc.not_equal(groups[0]["whole"], groups[1]["whole"]))
        is_changed = pc.and_(is_both, is_other)
        is_single = pc.and_(is_changed, pc.and_(pc.equal(old, 1), pc.equal(new, 1)))
        counts.added += _count(is_added)
        counts.removed += _count(is_removed)
        counts.changed += _count(is_changed)
        counts.unchanged += _count(pc.and_not(is_both, is_other))
        counts.repeated += _count(pc.or_(pc.greater(old, 1), pc.greater(new, 1)))
        differing = [pc.and_(is_single, pc.not_equal(groups[0][name], groups[1][name])) for name in others]
        for name, mask in zip(self._columns.others, differing, strict=True):
            counts.columns[name] += _count(mask)
        chosen = pc.or_(pc.or_(is_added, is_removed), is_changed)
        if pc.any(chosen).as_py():
            places = pc.filter(_first_places(numbered, total), chosen)
            change = pc.if_else(is_added, "add", pc.if_else(is_removed, "remove", "change"))
            columns = [change, old, new, self._texts(differing, is_single)]
            found = [*(pc.filter(one, chosen) for one in columns), *(pc.take(one, places) for one in keys)]
            yield pa.RecordBatch.from_arrays(found, names=[*FIXED, *self.key])

    def _texts(self, differing: Sequence[ArrowArray], is_single: ArrowArray) -> ArrowArray:
        """Return the names of the columns that differ, where there is one row on both sides, else null."""
        import pyarrow as pa

        if not differing:
            return pa.nulls(len(is_single), pa.string())
        names = (pa.scalar(f"{name},") for name in self._columns.others)
        texts = [pc.if_else(mask, name, pa.scalar("")) for name, mask in zip(names, differing, strict=True)]
        joined = pc.replace_substring_regex(pc.binary_join_element_wise(*texts, ""), ",$", "")
        return pc.if_else(is_single, joined, pa.scalar(None, pa.string()))


class _Store(Protocol):
    """Keeps batches: `SpillFile`, or memory."""

    def add(self, batch: RecordBatch) -> int: ...
    def finish(self) -> None: ...
    def read(self, number: int) -> RecordBatch: ...


class _Memory:
    def __init__(self) -> None:
        self._batches: list[RecordBatch] = []

    def add(self, batch: RecordBatch) -> int:
        self._batches.append(batch)
        return len(self._batches) - 1

    def finish(self) -> None:
        pass

    def read(self, number: int) -> RecordBatch:
        return self._batches[number]


class _Columns:
    """The columns of two schemas that are compared, and the types in which they are."""

    def __init__(self, before: StructType, after: StructType, key: Sequence[str]) -> None:
        import pyarrow as pa

        olds = {column.name: column for column in before.fields}
        common = [(olds[new.name], new) for new in after.fields if new.name in olds]
        types = {new.name: _common(old, new) for old, new in common}
        self.key = tuple(_named(name, before, after) for name in key)
        for name in self.key:
            if not isinstance(types[name], PrimitiveType) or types[name] == PrimitiveType("variant"):
                raise UsageError(f"column {name} cannot be a key: its values cannot be compared", code="usage.column")
        self.others = tuple(name for name, kind in types.items() if kind is not None and name not in self.key)
        compared = {*self.key, *self.others}
        every = dict.fromkeys(column.name for column in (*before.fields, *after.fields))
        self.not_compared = tuple(name for name in every if name not in compared)
        self.names = [[*self.key, *self.others]] * 2
        fields = [StructField(name, kind, True, {}) for name in self.names[0] if (kind := types[name]) is not None]
        self._types = [one.type for one in arrow_schema(tuple(fields))]
        names = [f"k{place}" for place in range(len(self.key))] + [f"v{place}" for place in range(len(self.others))]
        kinds = [*self._types[: len(self.key)], *[pa.uint64()] * len(self.others)]
        self.kept: pyarrow.Schema = pa.schema(list(zip(names, kinds, strict=True)))
        self.kept_with_part: pyarrow.Schema = self.kept.append(pa.field("part", pa.int64()))

    def reduced(self, batch: RecordBatch, parts: int) -> RecordBatch:
        """Return what is kept of rows, with the part of each."""
        import pyarrow as pa

        columns = [
            values if values.type == kind else pc.cast(values, kind)
            for values, kind in zip(batch.columns, self._types, strict=True)
        ]
        keys = [
            plain_floats(values) if pa.types.is_floating(values.type) else values for values in columns[: len(self.key)]
        ]
        prints = [prints_of(values, as_compared=True) for values in columns[len(self.key) :]]
        of_key = pc.shift_right(combined([prints_of(values) for values in keys], batch.num_rows), _number(33))
        quotient = pc.divide(of_key, _number(parts))
        part = pc.cast(pc.subtract(of_key, pc.multiply(quotient, _number(parts))), pa.int64())
        return pa.RecordBatch.from_arrays([*keys, *prints, part], schema=self.kept_with_part)


def _named(name: str, *schemas: StructType) -> str:
    """Return a column of both schemas as it is written there. Raises UsageError."""
    found = name
    for schema in schemas:
        index = NameIndex(column.name for column in schema.fields)
        places = index.places_of(name)
        if len(places) != 1:
            names = [column.name for column in schema.fields]
            near = nearest_name(name, names)
            facts = {"did you mean": near} if near else {"columns": ", ".join(names)}
            raise UsageError(
                f"{parameter('diff.key', name)}: a version has no such column", code="usage.column", facts=facts
            )
        found = schema.fields[places[0]].name
    return found


def _common(old: StructField, new: StructField) -> Any:  # Any: a type of Delta, or None
    """Return the type in which the values of a column are compared; None where there is none."""
    if _shape(old.data_type) == _shape(new.data_type):
        return new.data_type
    if isinstance(old.data_type, PrimitiveType) and isinstance(new.data_type, PrimitiveType):
        if is_allowed_change(old.data_type.name, new.data_type.name):
            return new.data_type
        if is_allowed_change(new.data_type.name, old.data_type.name):
            return old.data_type
    return None


def _shape(data_type: Any) -> Any:  # Any: a type of Delta, a type of Arrow
    """Return a type without what does not matter to values: nullability, comments, metadata."""
    found = arrow_schema((StructField("c", data_type, True, {}),)).field(0).type
    return str(found).replace(" not null", "")


def _grouped(rows: ArrowTable, others: Sequence[str], total: int) -> dict[str, ArrowArray]:
    """Return the number of rows, and the sums of 64 bits of each column, for each code from 0 on."""
    import pyarrow as pa

    names = ["whole", *others]
    sums = rows.group_by("code", use_threads=False).aggregate([("code", "count"), *((name, "sum") for name in names)])
    places = pc.index_in(pa.array(range(total), pa.int32()), value_set=_one(sums["code"]))
    found = {name: _filled(pc.take(_one(sums[f"{name}_sum"]), places), pa.uint64()) for name in names}
    return {**found, "count": _filled(pc.take(_one(sums["code_count"]), places), pa.int64())}


def _filled(values: ArrowArray, kind: ArrowType) -> ArrowArray:
    import pyarrow as pa

    return pc.fill_null(pc.cast(values, kind), pa.scalar(0, kind))


def _first_places(numbered: ArrowArray, total: int) -> ArrowArray:
    """Return where each code occurs first."""
    import pyarrow as pa

    rows = pa.table({"code": numbered, "place": pa.array(range(len(numbered)), pa.int64())})
    found = rows.group_by("code", use_threads=False).aggregate([("place", "min")])
    places = pc.index_in(pa.array(range(total), pa.int32()), value_set=_one(found["code"]))
    return pc.take(_one(found["place_min"]), places)


def _one(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _count(mask: ArrowArray) -> int:
    total: int | None = pc.sum(mask).as_py()
    return total or 0


def _number(value: int) -> ArrowScalar:
    import pyarrow as pa

    return pa.scalar(value, pa.uint64())
