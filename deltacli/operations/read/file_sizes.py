"""The layout of the live files of a version: their sizes in classes, and the bytes of each partition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

MOST_FILES = 500_000
"""Number of files above which sizes are not examined, because they take a second pass over the files."""

CLASS_LIMITS = tuple(1 << power for power in range(10, 37, 2))
"""The limits of the classes of sizes, in bytes."""
_PAIR, _VALUE = "\x1f", "\x1e"
"""Separators of partition values, and of a value from its column, in the text of a partition."""


@dataclass(slots=True)
class FileLayout:
    """Live files by size, and partitions by bytes. Classes are (lower limit in bytes, upper limit or None)."""

    files_by_class: Counter[int] = field(default_factory=Counter)
    small_files: int = 0
    small_bytes: int = 0
    partition_files: Counter[str] = field(default_factory=Counter)
    partition_bytes: Counter[str] = field(default_factory=Counter)

    def add(self, other: FileLayout) -> None:
        """Add the sizes of another batch."""
        self.files_by_class.update(other.files_by_class)
        self.small_files += other.small_files
        self.small_bytes += other.small_bytes

    def classes(self) -> list[tuple[int, int | None, int]]:
        """Return (lower limit, upper limit, files) from the smallest class in use to the largest."""
        if not self.files_by_class:
            return []
        limits = (0, *CLASS_LIMITS)
        used = range(min(self.files_by_class), max(self.files_by_class) + 1)
        return [
            (limits[place], limits[place + 1] if place + 1 < len(limits) else None, self.files_by_class[place])
            for place in used
        ]

    def largest_partitions(self, count: int) -> list[tuple[str, int, int]]:
        """Return (`column=value/…`, files, bytes) of the partitions with the most bytes, the largest first."""
        chosen = nlargest(count, self.partition_bytes.items(), key=lambda item: (item[1], item[0]))
        return [(name, self.partition_files[name], size) for name, size in chosen]


def file_sizes(snapshot: Snapshot) -> FileLayout:
    """Return the layout of the live files by their sizes and partition values. Raises CheckpointUnreadable."""
    physical = snapshot.physical_partition_columns
    names = dict(zip(physical, snapshot.metadata.partition_columns, strict=True))
    file_layout, texts = FileLayout(), list[ArrowTable]()
    fields = ("size", "partitionValues") if names else ("size",)
    work = partial(_layout_of, is_partitioned=bool(names))
    for part, partitions in snapshot.file_actions.map_actions("add", work, fields=fields):
        file_layout.add(part)
        texts += partitions
    if texts:
        sums = [("size_count", "sum"), ("size_sum", "sum")]
        for one in aggregate_rows(pa.concat_tables(texts), ["text"], sums).to_pylist():
            name = partition_name(names, one["text"])
            file_layout.partition_files[name] += one["size_count_sum"]
            file_layout.partition_bytes[name] += one["size_sum_sum"]
    return file_layout


def _layout_of(adds: pa.RecordBatch, *, is_partitioned: bool) -> tuple[FileLayout, list[ArrowTable]]:
    """Return the layout of a batch of adds, and files and bytes of each text of partition values."""
    sizes = pc.fill_null(adds.column("size"), 0)
    extremes, rows = pc.min_max(sizes).as_py(), adds.num_rows
    least, most = extremes["min"] or 0, extremes["max"] or 0
    inner = (
        pc.less(sizes, limit).true_count if least < limit <= most else rows * (limit > most) for limit in CLASS_LIMITS
    )
    below = [0, *inner, rows]
    small = pc.less(sizes, SMALL_FILE_BYTES)
    layout = FileLayout(
        files_by_class=Counter(
            {place: count for place in range(len(below) - 1) if (count := below[place + 1] - below[place])}
        ),
        small_files=small.true_count,
        small_bytes=pc.sum(pc.if_else(small, sizes, 0)).as_py() or 0,
    )
    if not (is_partitioned and rows):
        return layout, []
    values = adds.column("partitionValues")
    keys, items, offsets = _entries(values)
    lengths = pc.min_max(pc.subtract(offsets.slice(1), offsets.slice(0, rows))).as_py()
    is_one_column = not values.null_count and {*lengths.values()} == {1} and len(pc.unique(keys)) == 1
    files = pa.table([items if is_one_column else partition_texts(values), sizes], ["text", "size"])
    groups = aggregate_rows(files, ["text"], [("size", "count"), ("size", "sum")])
    if is_one_column:
        texts = pc.binary_join_element_wise(keys[0], pc.fill_null(groups.column("text"), "null"), _VALUE)
        groups = groups.set_column(groups.column_names.index("text"), "text", texts)
    return layout, [groups]


def partition_texts(values: pa.MapArray) -> pa.Array:
    """Return the partition values of each file as one text."""
    keys, items, offsets = _entries(values)
    pairs = pc.binary_join_element_wise(keys, pc.fill_null(items, "null"), _VALUE)
    return pc.fill_null(pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), _PAIR), "")


def _entries(values: pa.MapArray) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
    """Return the keys and the values of all rows, and the places where those of each row begin."""
    first = values.offsets[0].as_py()
    length = values.offsets[-1].as_py() - first
    return values.keys.slice(first, length), values.items.slice(first, length), pc.subtract(values.offsets, first)


def partition_name(names: dict[str, str], text: str) -> str:
    """Return `column=value/…` in the order of the partition columns."""
    pairs = dict(pair.split(_VALUE, 1) for pair in text.split(_PAIR) if _VALUE in pair)
    return "/".join(f"{name}={pairs.get(physical, 'null')}" for physical, name in names.items())
