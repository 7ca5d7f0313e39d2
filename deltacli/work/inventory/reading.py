"""Read an inventory instead of listing the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable
from deltacli.core.typing import RecordBatch
from deltacli.storage import PathKind, ReadStorage, Storage
from deltacli.work.inventory.columns import (
    CODE,
    InventoryColumns,
    RootRemover,
    parse_booleans,
    parse_sizes,
    parse_times,
)
from deltacli.work.inventory.files import inventory_faults, read_csv, read_orc, read_parquet, split_location
from deltacli.work.inventory.manifest import S3Manifest, read_manifest

_HEAD_BYTES = 4


class InventoryBatch(NamedTuple):
    """Some files of an inventory. `paths` are below the table's root, as on the store; `sizes` are bytes.

    Rows outside the root (including paths with empty or dot segments) and rows without time or size are left out and
    counted. Directories, delete markers and old versions are left out without counting.
    """

    paths: pa.BinaryArray
    sizes: pa.Int64Array
    modified_ms: pa.Int64Array
    outside: int = 0
    without_time: int = 0


@dataclass
class Inventory:
    """A listing made by a store, read at `place`. `created_ms` is None if the listing does not contain its start time.

    `newest_ms` is the newest time of the rows read so far, including rows outside the table; None before the first row.
    """

    place: str
    created_ms: int | None
    _read: Callable[[], Iterator[tuple[RecordBatch, InventoryColumns]]] = field(repr=False)
    _below: RootRemover = field(repr=False)
    newest_ms: int | None = field(default=None, init=False)

    def batches(self) -> Iterator[InventoryBatch]:
        """Yield the files; each call reads the inventory again. Raises Unreadable (`vacuum.inventory`)."""
        for rows, columns in self._read():
            with inventory_faults(self.place):
                batch = self._parse_rows(rows, columns)
            yield batch

    def _parse_rows(self, rows: RecordBatch, columns: InventoryColumns) -> InventoryBatch:
        """Return the files of some rows, without those that are outside the table or lack a size or a time."""
        rows = _select_current_files(rows, columns)
        modified = parse_times(columns.time, rows.column(columns.time))
        newest = pc.max(modified).as_py()
        if newest is not None:
            self.newest_ms = max(newest, self.newest_ms or newest)
        sizes = parse_sizes(columns.size, rows.column(columns.size))
        paths, inside = self._below.remove_roots(columns.paths(rows))
        has_values = pc.and_(pc.is_valid(modified), pc.is_valid(sizes))
        is_usable = pc.and_(inside, has_values)
        taken = pc.sum(is_usable).as_py() or 0
        here = pc.sum(inside).as_py() or 0
        if taken < rows.num_rows:
            paths, sizes, modified = (pc.filter(column, is_usable) for column in (paths, sizes, modified))
        return InventoryBatch(paths, sizes, modified, rows.num_rows - here, here - taken)


def open_inventory(location: str, open_other: Callable[[str], Storage], roots: Sequence[str]) -> Inventory:
    """Return the inventory of the table whose root has the URIs `roots`. Raises Unreadable (`vacuum.inventory`)."""
    directory, name = split_location(location)
    storage = open_other(directory)
    if storage.kind_of(name) is PathKind.DIRECTORY:
        raise Unreadable(f"{location} is a directory", code=CODE, facts={"expected": "a manifest.json, or one file"})
    # The name of a file says little: the first bytes tell a manifest and the formats of files apart.
    with inventory_faults(location):
        head = storage.read_range(name, 0, _HEAD_BYTES)
        is_manifest = name.endswith(".json") or head.lstrip().startswith(b"{")
        manifest = read_manifest(storage.read(name), location) if is_manifest else None
    below = RootRemover(roots)
    if manifest is None:
        return Inventory(location, None, lambda: _read_file(storage, name, location, head), below)
    inventory = manifest
    return Inventory(location, manifest.created_ms, lambda: _read_manifest(inventory, open_other), below)


def _read_file(storage: ReadStorage, name: str, location: str, head: bytes) -> Iterator[tuple[Any, InventoryColumns]]:
    """Yield the rows of a file, whose format is detected from its first bytes."""
    if head == b"PAR1":
        return read_parquet(storage, name, location)
    if head.startswith(b"ORC"):
        return read_orc(storage, name, location)
    return read_csv(storage, name, location, is_gzip=head.startswith(b"\x1f\x8b"))


def _read_manifest(
    manifest: S3Manifest, open_other: Callable[[str], Storage]
) -> Iterator[tuple[Any, InventoryColumns]]:
    """Yield the rows of all files of a manifest, after each was compared with it."""
    for file in manifest.files:
        storage, name = manifest.find(file, open_other)
        with inventory_faults(file.key):
            manifest.check(file, storage, name)
        match manifest.format:
            case "parquet":
                yield from read_parquet(storage, name, file.key)
            case "orc":
                yield from read_orc(storage, name, file.key)
            case "csv":
                yield from read_csv(storage, name, file.key, is_gzip=True, names=manifest.columns, is_encoded=True)
            case other:
                raise Unreadable(
                    f"{manifest.place} is an inventory in the format {other}",
                    code=CODE,
                    facts={"expected": "CSV, ORC or Parquet"},
                )


def _select_current_files(rows: RecordBatch, columns: InventoryColumns) -> RecordBatch:
    """Return the rows that are certainly current files: no directories, delete markers or older versions."""
    for name, wanted in ((columns.is_directory, False), (columns.is_marker, False), (columns.is_latest, True)):
        if name is None or not rows.num_rows:
            continue
        mask = pc.fill_null(pc.equal(parse_booleans(rows.column(name)), wanted), False)
        if not pc.all(mask).as_py():
            rows = pc.filter(rows, mask)
    return rows
