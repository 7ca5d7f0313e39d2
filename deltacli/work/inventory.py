"""Inventories: listings made by a store, read instead of listing the table.

Supported are S3 Inventory as delivered (`manifest.json` and its CSV, ORC or Parquet files), and any Parquet, ORC or CSV
file with a header that has columns for path, size and time.

A stale inventory only causes more files to be kept. The current log determines which files are retained, so a file
added since then is either not in the inventory, or protected. A file removed since then is deleted again, which has no
effect. Ages are computed from the times in the inventory: a file that was recent when the inventory was made is not
listed as old. Only a file that was rewritten under its old name, and that no log names, is newer than the inventory
shows. To detect such files, ask the store for the time of each file before deleting it. Such files were written after
`created_ms`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from deltacli.arrow import compute as pc
from deltacli.core.errors import Unreadable
from deltacli.core.typing import Json, RecordBatch
from deltacli.storage import PathKind, ReadStorage, Storage
from deltacli.work.inventory_files import (
    CODE,
    BelowRoots,
    InventoryColumns,
    inventory_faults,
    milliseconds,
    numbers,
    read_csv,
    read_orc,
    read_parquet,
    split_place,
    truths,
)

if TYPE_CHECKING:
    import pyarrow


_HEAD_BYTES = 4


class InventoryBatch(NamedTuple):
    """Some files of an inventory. `paths` are below the table's root, as on the store; `sizes` are bytes.

    Rows outside the root (including paths with empty or dot segments) and rows without time or size are left out and
    counted. Directories, delete markers and old versions are left out without counting.
    """

    paths: pyarrow.BinaryArray
    sizes: pyarrow.Int64Array
    modified_ms: pyarrow.Int64Array
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
    _below: BelowRoots = field(repr=False)
    newest_ms: int | None = field(default=None, init=False)

    def batches(self) -> Iterator[InventoryBatch]:
        """Yield the files.

        Each call reads the inventory again. Raises Unreadable (`vacuum.inventory`), naming the file.
        """
        for rows, columns in self._read():
            with inventory_faults(self.place):
                batch = self._judge(rows, columns)
            yield batch

    def _judge(self, rows: RecordBatch, columns: InventoryColumns) -> InventoryBatch:
        rows = _files_only(rows, columns)
        modified = milliseconds(columns.time, rows.column(columns.time))
        newest = pc.max(modified).as_py()
        if newest is not None:
            self.newest_ms = max(newest, self.newest_ms or newest)
        sizes = numbers(columns.size, rows.column(columns.size))
        paths, inside = self._below.cut(columns.paths(rows))
        whole = pc.and_(pc.is_valid(modified), pc.is_valid(sizes))
        kept = pc.and_(inside, whole)
        taken, here = pc.sum(kept).as_py() or 0, pc.sum(inside).as_py() or 0
        if taken < rows.num_rows:
            paths, sizes, modified = (pc.filter(column, kept) for column in (paths, sizes, modified))
        return InventoryBatch(paths, sizes, modified, rows.num_rows - here, here - taken)


def open_inventory(place: str, open_other: Callable[[str], Storage], roots: Sequence[str]) -> Inventory:
    """Return the inventory at a path or URI, for the table whose root has the URIs `roots`.

    Raises Unreadable (`vacuum.inventory`), and any error of the store.
    """
    directory, name = split_place(place)
    storage = open_other(directory)
    if storage.kind_of(name) is PathKind.DIRECTORY:
        raise Unreadable(f"{place} is a directory", code=CODE, facts={"expected": "a manifest.json, or one file"})
    with inventory_faults(place):
        head = storage.read_range(name, 0, _HEAD_BYTES)
        is_manifest = name.endswith(".json") or head.lstrip().startswith(b"{")
        manifest = read_manifest(storage.read(name), place) if is_manifest else None
    below = BelowRoots(roots)
    if manifest is None:
        return Inventory(place, None, lambda: _read_file(storage, name, place, head), below)
    inventory = manifest
    return Inventory(place, manifest.created_ms, lambda: _read_manifest(inventory, open_other), below)


def _read_file(storage: ReadStorage, name: str, place: str, head: bytes) -> Iterator[tuple[Any, InventoryColumns]]:
    """Yield the rows of a file, whose format is detected from its first bytes."""
    if head == b"PAR1":
        return read_parquet(storage, name, place)
    if head.startswith(b"ORC"):
        return read_orc(storage, name, place)
    return read_csv(storage, name, place, is_gzip=head.startswith(b"\x1f\x8b"))


def _read_manifest(
    manifest: S3Manifest, open_other: Callable[[str], Storage]
) -> Iterator[tuple[Any, InventoryColumns]]:
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


def _files_only(rows: RecordBatch, columns: InventoryColumns) -> RecordBatch:
    """Return the rows without directories, delete markers and versions that are not the latest.

    Rows that may be one of these are left out, too.
    """
    for name, wanted in ((columns.is_directory, False), (columns.is_marker, False), (columns.is_latest, True)):
        if name is None or not rows.num_rows:
            continue
        mask = pc.fill_null(pc.equal(truths(rows.column(name)), wanted), False)
        if not pc.all(mask).as_py():
            rows = pc.filter(rows, mask)
    return rows


_S3 = re.compile(r"s3[an]?://([^/]+)/", re.IGNORECASE)
_PIECE_BYTES = 8 << 20


class ManifestFile(NamedTuple):
    """A file of an inventory: its key in the destination bucket. `size_bytes` and `md5` are None if not given."""

    key: str
    size_bytes: int | None
    md5: str | None


@dataclass(frozen=True)
class S3Manifest:
    """The contents of a `manifest.json`. `place` is where it was read, `columns` are the columns of CSV files."""

    place: str
    bucket: str
    format: str
    columns: tuple[str, ...]
    created_ms: int | None
    files: tuple[ManifestFile, ...]

    def find(self, file: ManifestFile, open_other: Callable[[str], Storage]) -> tuple[ReadStorage, str]:
        """Return the store that has a file, and its path there. Raises Unreadable with the locations tried.

        A manifest in the destination bucket has its files there. A copy of the manifest may have copies of the files
        next to it.
        """
        tried = []
        for directory, name in self._places(file.key):
            storage = open_other(directory)
            if storage.kind_of(name) is PathKind.FILE:
                return storage, name
            tried.append(f"{directory}/{name}")
        raise Unreadable(
            f"{self.place} names a missing file",
            code=CODE,
            facts={"file": file.key, "tried": ", ".join(tried)},
            hint="copy the files of the inventory to the directory data next to that of the manifest, as on S3",
        )

    def check(self, file: ManifestFile, storage: ReadStorage, name: str) -> None:
        """Raise Unreadable unless a file matches the manifest: its size, and its MD5 if given."""
        size = storage.stat(name).size_bytes
        if file.size_bytes is not None and size != file.size_bytes:
            raise self._differs(file, f"{file.size_bytes} bytes", f"{size} bytes")
        if file.md5 is None:
            return
        digest = hashlib.md5(usedforsecurity=False)
        with storage.open(name) as source:
            while piece := source.read(_PIECE_BYTES):
                digest.update(piece)
        if digest.hexdigest() != file.md5.lower():
            raise self._differs(file, file.md5, digest.hexdigest())

    def _places(self, key: str) -> Iterator[tuple[str, str]]:
        above, _, name = key.rpartition("/")
        own = f"s3://{self.bucket}/{above}".rstrip("/")
        s3 = _S3.match(self.place)
        if s3 and s3[1] == self.bucket:
            yield own, name
            return
        directory, _ = split_place(self.place)
        yield (f"{directory.rpartition('/')[0]}/data" if s3 else f"{directory}/../data"), name
        yield f"{directory}/data", name
        yield directory, name
        if s3:
            yield own, name

    def _differs(self, file: ManifestFile, expected: str, actual: str) -> Unreadable:
        return Unreadable(
            f"a file of the inventory does not match {self.place}",
            code=CODE,
            facts={"file": file.key, "expected": expected, "found": actual},
            hint="copy it again, or use the next inventory",
        )


def read_manifest(data: bytes, place: str) -> S3Manifest:
    """Return the contents of a manifest. Raises Unreadable if it is not a manifest, or lacks a required field."""
    try:
        manifest = orjson.loads(data)
        schema = manifest.get("fileSchema") or ""
        created = manifest.get("creationTimestamp")
        return S3Manifest(
            place=place,
            bucket=str(manifest["destinationBucket"]).rpartition(":")[2],
            format=str(manifest["fileFormat"]).lower(),
            columns=tuple(name.strip() for name in schema.split(",")),
            created_ms=None if created is None else int(created),
            files=tuple(map(_file, manifest["files"])),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as fault:
        raise Unreadable(
            f"{place} is not a manifest of an S3 Inventory",
            code=CODE,
            facts={
                "reason": f"{type(fault).__name__}: {fault}"[:200],
                "expected": "fileFormat, files, destinationBucket, fileSchema",
            },
        ) from fault


def _file(entry: Json) -> ManifestFile:
    size, md5 = entry.get("size"), entry.get("MD5checksum")
    return ManifestFile(str(entry["key"]), None if size is None else int(size), str(md5) if md5 else None)
