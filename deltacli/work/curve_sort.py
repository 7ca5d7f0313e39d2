"""The order of rows along a space-filling curve through the ranges of some columns.

Rows that fit in memory are sorted there. More are written to a temporary file first, because the ranges of the columns
are known only when all rows were seen; then to buckets of successive keys, each of which is sorted in memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.clustering.sorting import Curve, hilbert, orderable_values, range_bounds, range_ids, ranks, z_order
from deltacli.delta.encoding.digests import MultisetDigest
from deltacli.work.spill import SpillFile, require_space

_HELD_BYTES = 64 << 20
"""Rows up to this size are sorted at once. They exist twice for a moment."""
_MOST_SORTED_BYTES = 160 << 20
"""A larger bucket has mostly equal keys, and is left in its order."""
_LITTLE = 8
"""The part of these sizes where little memory is used."""
_MOST_BUCKETS = 1024
_SEGMENT_BYTES = 1 << 30
"""Size of a temporary file of the rows in their first order; each is removed once its rows are in buckets."""
_TEMPORARY_SHARE = 3
"""Most bytes of temporary files per byte of data files."""
_SAMPLE = 100_000
_ROWS_A_BATCH = 32_768


@dataclass(frozen=True, slots=True)
class CurveOrder:
    """Sorts rows by a z-order of columns, or by their Hilbert curve.

    `columns` are paths of names in the rows. Temporary files are in `temp_dir`, by default in that of the system.
    """

    columns: tuple[tuple[str, ...], ...]
    is_hilbert: bool = False
    temp_dir: str | None = None
    held_bytes: int = _HELD_BYTES
    most_sorted_bytes: int = _MOST_SORTED_BYTES

    def arrange(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> Generator[pa.RecordBatch]:
        """Yield the rows in this order. Raises StorageFailed where temporary files cannot be written."""
        sample = _Sample(self.columns)
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in rows:
            held.append(batch)
            size += batch.nbytes
            if size > self.held_bytes:
                yield from self._sort_on_disk(chain(_drain(held), rows), schema)
                return
            sample.take(batch)
        if held:
            yield from _cut_into_batches(_sort_rows(held, self._keys(sample), schema))

    def use_less_memory(self) -> CurveOrder:
        """Return the same order, for which an eighth of the memory is used."""
        return replace(self, held_bytes=self.held_bytes // _LITTLE, most_sorted_bytes=self.most_sorted_bytes // _LITTLE)

    def require_space(self, size_bytes: int) -> None:
        """Raise NoSpace where there is no room for temporary files of the rows of data files of so many bytes."""
        needed = _TEMPORARY_SHARE * size_bytes
        if needed > self.held_bytes:
            require_space(self.temp_dir, needed)

    def digest(self) -> MultisetDigest:
        """Return an empty digest that does not depend on the order of rows."""
        return MultisetDigest()

    def _keys(self, sample: _Sample) -> _Keys:
        curve: Curve = hilbert if self.is_hilbert and len(self.columns) > 1 else z_order
        return _Keys(self.columns, curve, sample.bounds())

    def _sort_on_disk(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with ExitStack() as files:
            segments = _Segments(files, self.temp_dir, schema, self.columns)
            for batch in rows:
                segments.add(batch)
            keys = self._keys(segments.sample)
            count = min(max(-(-segments.size // self.held_bytes), 2), _MOST_BUCKETS)
            bounds = range_bounds(keys.compute_keys(segments.sample.values()), count)
            buckets = _Buckets(files, self.temp_dir, schema, keys, bounds)
            with closing(segments.batches()) as batches:
                buckets.fill(batches, self.held_bytes)
            yield from buckets.batches(self.most_sorted_bytes)


class _Sample:
    """A random sample of the values of columns, the same for the same rows."""

    def __init__(self, columns: Sequence[tuple[str, ...]]) -> None:
        self._columns = columns
        self._random = Random(0)
        self._share = 1.0
        self._rows = 0
        self._taken: list[list[ArrowArray]] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """Look at rows."""
        values = _select_sort_values(batch, self._columns)
        self._taken.append(self._sample_rows(values, self._share))
        self._rows += len(self._taken[-1][0])
        if self._rows > 2 * _SAMPLE:
            self._share /= 2
            self._taken = [self._sample_rows(values, 0.5) for values in [self.values()]]
            self._rows = len(self._taken[0][0])

    def values(self) -> list[ArrowArray]:
        """Return the values of each column, of the same rows."""
        return [pa.concat_arrays(parts) for parts in zip(*self._taken, strict=True)]

    def bounds(self) -> list[ArrowArray]:
        """Return the bounds of the ranges of each column."""
        return [range_bounds(column) for column in self.values()]

    def _sample_rows(self, values: list[ArrowArray], share: float) -> list[ArrowArray]:
        if share == 1:
            return values
        is_taken = pc.less(pc.random(len(values[0]), initializer=self._random.getrandbits(62)), share)
        return [pc.filter(column, is_taken) for column in values]


@dataclass(frozen=True, slots=True)
class _Keys:
    """Computes the position of rows on a curve, as numbers (int64)."""

    columns: Sequence[tuple[str, ...]]
    curve: Curve
    bounds: Sequence[ArrowArray]

    def compute_batch_keys(self, batch: pa.RecordBatch) -> ArrowArray:
        return self.compute_keys(_select_sort_values(batch, self.columns))

    def compute_keys(self, values: Sequence[ArrowArray]) -> ArrowArray:
        pairs = zip(values, self.bounds, strict=True)
        return self.curve([range_ids(column, bounds) for column, bounds in pairs])


class _Segments:
    """The rows in their first order, on disk."""

    def __init__(
        self, files: ExitStack, temp_dir: str | None, schema: pa.Schema, columns: Sequence[tuple[str, ...]]
    ) -> None:
        self._files = files
        self._temp_dir = temp_dir
        self._schema = schema
        self._segments: list[SpillFile] = []
        self.sample = _Sample(columns)
        self.size = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows and look at them."""
        if not self._segments or self._segments[-1].size_bytes >= _SEGMENT_BYTES:
            if self._segments:
                self._segments[-1].finish()
            self._segments.append(self._files.enter_context(SpillFile(self._temp_dir, self._schema)))
        self._segments[-1].add(batch)
        self.sample.take(batch)
        self.size += batch.nbytes

    def batches(self) -> Generator[pa.RecordBatch]:
        """Yield the rows, and remove each file after its last batch."""
        self._segments[-1].finish()
        for segment in self._segments:
            yield from (segment.read(number) for number in range(len(segment)))
            segment.close()


class _Buckets:
    """The rows by ranges of keys, on disk, with their keys as the last column."""

    def __init__(
        self, files: ExitStack, temp_dir: str | None, schema: pa.Schema, keys: _Keys, bounds: ArrowArray
    ) -> None:
        self._schema = schema
        self._keys = keys
        self._bounds = bounds
        self._file = files.enter_context(SpillFile(temp_dir, schema.append(pa.field("key", pa.int64()))))
        self._numbers: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
        self._sizes = [0] * (len(bounds) + 1)

    def fill(self, batches: Iterator[pa.RecordBatch], held_bytes: int) -> None:
        """Take all rows, so many bytes at a time."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= held_bytes:
                self._write(_sort_rows(held, self._keys, self._schema, with_keys=True))
                held = []
                size = 0
        if held:
            self._write(_sort_rows(held, self._keys, self._schema, with_keys=True))
        self._file.finish()

    def batches(self, most_sorted_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order."""
        for numbers, size in zip(self._numbers, self._sizes, strict=True):
            # Nearly all keys of such a bucket are equal, so sorting it would change little.
            if size > most_sorted_bytes:
                for number in numbers:
                    yield from _cut_into_batches(_remove_keys(self._file.read(number), self._schema))
            elif numbers:
                whole = _concat_batches([self._file.read(number) for number in numbers])
                ordered = pc.take(whole, pc.sort_indices(whole.column(whole.num_columns - 1)))
                del whole
                yield from _cut_into_batches(_remove_keys(ordered, self._schema))

    def _write(self, rows: pa.RecordBatch) -> None:
        """Write sorted rows, a batch for each bucket."""
        first = 0
        counts = pc.value_counts(ranks(rows.column(rows.num_columns - 1), self._bounds))
        for bucket, count in zip(*(part.to_pylist() for part in counts.flatten()), strict=True):
            part = rows.slice(first, count)
            self._numbers[bucket].append(self._file.add(part))
            self._sizes[bucket] += part.nbytes
            first += count


def _select_sort_values(batch: pa.RecordBatch, columns: Sequence[tuple[str, ...]]) -> list[ArrowArray]:
    """Return the values of the columns at paths of names, as they are compared."""
    sort_values = []
    for first, *below in columns:
        column = batch.column(batch.schema.names.index(first))
        sort_values.append(orderable_values(pc.struct_field(column, below) if below else column))
    return sort_values


def _drain(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, none of which is kept."""
    held.reverse()
    while held:
        yield held.pop()


def _concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _sort_rows(
    held: list[pa.RecordBatch], keys: _Keys, schema: pa.Schema, *, with_keys: bool = False
) -> pa.RecordBatch:
    """Return rows by their keys, and empty the list of them. `with_keys` adds the keys as the last column."""
    whole = _concat_batches(list(_drain(held)))
    of_rows = keys.compute_batch_keys(whole)
    places = pc.sort_indices(of_rows)
    ordered = pc.take(whole, places)
    if not with_keys:
        return ordered
    key = pa.field("key", pa.int64())
    return pa.RecordBatch.from_arrays([*ordered.columns, pc.take(of_rows, places)], schema=schema.append(key))


def _remove_keys(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)


def _cut_into_batches(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from (rows.slice(first, _ROWS_A_BATCH) for first in range(0, rows.num_rows, _ROWS_A_BATCH))
