"""How a quarantine is laid out: `<table id>/<plan id>/<path in the table>`, and beside the files of a plan their
manifest and their checksums.

The manifest names the files. It is written before they are copied; at the end it says that they were deleted from the
table. The file of checksums is written in between, before the first deletion.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import FileMissing, Refused
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import format_timestamp
from deltacli.storage import ReadStorage, Storage

MANIFEST = "manifest.json"
CHECKSUMS = "manifest.checksums.parquet"
OWN_NAMES = (CHECKSUMS, MANIFEST)
"""Files of the quarantine itself, in the order in which they are deleted."""
_ROWS_AT_ONCE = 100_000


class UnfitManifestError(Exception):
    """Why a directory of a quarantine is not touched."""


class Manifest(NamedTuple):
    """What the directory of a plan has: the files of which table, by their paths in it, and since when."""

    table: str
    table_id: str
    plan_id: str
    snapshot_version: int | None
    timestamp_ms: int
    is_complete: bool
    paths: Sequence[str]
    size_bytes: int = 0

    @property
    def directory(self) -> str:
        """The directory of the files, below the quarantine."""
        return f"{self.table_id}/{self.plan_id}"

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        content = {
            "table": self.table,
            "tableId": self.table_id,
            "planId": self.plan_id,
            "snapshotVersion": self.snapshot_version,
            "files": len(self.paths),
            "sizeBytes": self.size_bytes,
            "timestampMs": self.timestamp_ms,
            "timestamp": format_timestamp(self.timestamp_ms),
            "complete": self.is_complete,
            "paths": list(self.paths),
        }
        return json.dumps(content, indent=2).encode() + b"\n"


def manifest_of(directory: str) -> str:
    """Return the path of the manifest of a directory."""
    return f"{directory}/{MANIFEST}"


def checksums_of(directory: str) -> str:
    """Return the path of the checksums of a directory."""
    return f"{directory}/{CHECKSUMS}"


def require_name(table_id: str) -> None:
    """Raise Refused for the id of a table that cannot name a directory."""
    if "/" in table_id or table_id in ("", ".", ".."):
        raise Refused(f"the table id {table_id!r} cannot name a directory", code="vacuum.quarantine-name")


def plan_directories(storage: ReadStorage, table_id: str) -> list[str]:
    """Return the directories of the plans of a table, in no particular order."""
    try:
        return [f"{table_id}/{plan}" for plan in storage.list_directories(table_id)]
    except FileMissing:
        return []


def read_manifest(data: bytes, directory: str, table_id: str) -> Manifest:
    """Return what the manifest of a directory says. Raises UnfitManifestError where it is not plainly one of this
    table and this place.
    """
    try:
        found = json.loads(data)
        theirs, plan_id = found["tableId"], found["planId"]
        timestamp_ms, is_complete = found["timestampMs"], found["complete"]
        paths, files = found["paths"], found["files"]
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise UnfitManifestError(f"the {MANIFEST} cannot be read") from fault
    if theirs != table_id:
        raise UnfitManifestError(f"the {MANIFEST} is one of the table {theirs}")
    kinds = [type(timestamp_ms), type(is_complete), type(paths)]
    if kinds != [int, bool, list] or plan_id != directory.rpartition("/")[2] or files != len(paths):
        raise UnfitManifestError(f"the {MANIFEST} contradicts itself or its place")
    outside = next((path for path in paths if not _is_below(path)), None)
    if outside is not None:
        raise UnfitManifestError(f"the {MANIFEST} names {outside!r}, which is not a path of a file below it")
    return Manifest(str(found.get("table")), theirs, plan_id, None, timestamp_ms, is_complete, paths)


def _is_below(path: object) -> bool:
    return isinstance(path, str) and path not in OWN_NAMES and {"", ".", ".."}.isdisjoint(path.split("/"))


def address_of(storage: ReadStorage, directory: str, table_id: str) -> str | None:
    """Return the URI of the table whose files the directory of a plan has, None where no manifest has one. Raises
    StorageFailed.
    """
    try:
        found = read_manifest(storage.read(manifest_of(directory)), directory, table_id).table
    except (FileMissing, UnfitManifestError):
        return None
    return found if "://" in found else None


def newest_first(storage: ReadStorage, table_id: str) -> list[str]:
    """Return the directories of the plans of a table by the times of their manifests, the newest first. Those without a
    manifest, or with one that cannot be trusted, come last. Raises StorageFailed.
    """

    def order(directory: str) -> tuple[int, str]:
        try:
            found = read_manifest(storage.read(manifest_of(directory)), directory, table_id)
        except (FileMissing, UnfitManifestError):
            return -1, directory
        return found.timestamp_ms, directory

    return sorted(plan_directories(storage, table_id), key=order, reverse=True)


class Checksum(NamedTuple):
    """What is noted of a copy: its bytes; the SHA-256 of what passed through this process, or the tag that the store
    gave the copy that it made by itself.
    """

    size_bytes: int
    sha256: bytes | None = None
    tag: str | None = None


def rows_of(paths: ArrowArray, checksums: Sequence[Checksum | None]) -> ArrowTable:
    """Return the rows of some files, by their paths as bytes; those that were gone have none."""
    import pyarrow as pa

    schema = _schema()
    columns = [[None if one is None else one[column] for one in checksums] for column in range(3)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, list(schema)[1:], strict=True)]
    return pa.Table.from_arrays([pc.cast(paths, pa.binary()), *arrays], schema=schema).filter(pc.is_valid(arrays[0]))


def write_checksums(storage: Storage, directory: str, parts: Sequence[ArrowTable]) -> None:
    """Write what was noted of copies, beside what an earlier run noted of others. Raises StorageFailed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.concat_tables(parts or [_schema().empty_table()])
    earlier = [
        batch.filter(pc.invert(pc.is_in(batch.column("path"), value_set=rows["path"].combine_chunks())))
        for batch in _read(storage, directory)
    ]
    rows = pa.concat_tables([rows, pa.Table.from_batches(earlier, _schema())])
    path = checksums_of(directory)
    with storage.draft(path) as draft:
        with open(draft.place, "wb") as sink:  # pyarrow takes no path with a byte that is not UTF-8
            pq.write_table(rows, sink, _ROWS_AT_ONCE, compression="zstd", write_page_checksum=True)
        draft.publish(replace=True)


@dataclass(frozen=True)
class NotedChecksums:
    """The checksums of the directory of a plan, read when they are asked for."""

    storage: ReadStorage
    directory: str

    def of(self, paths: ArrowArray) -> ArrowTable:
        """Return `path` (as bytes), `sha256` and `tag` of some files; nothing where the file of checksums is gone
        or damaged.
        """
        import pyarrow as pa

        wanted = (batch.filter(pc.is_in(batch.column("path"), value_set=paths)) for batch in self._read())
        return pa.Table.from_batches(wanted, _schema())

    def _read(self) -> Iterator[ArrowTable]:
        return _read(self.storage, self.directory)


def _read(storage: ReadStorage, directory: str) -> Iterator[ArrowTable]:
    """Yield the rows in batches, as far as they can be read."""
    import pyarrow as pa

    try:
        with storage.open(checksums_of(directory)) as source:
            reader = ParquetReader(source, verify_pages=True)
            for group in range(reader.metadata.num_row_groups):
                yield from reader.read_group(group).cast(_schema()).to_batches()
    except (FileMissing, pa.ArrowException, OSError, ValueError, LookupError):
        return  # what is not noted is not proven, and said to be so


def _schema() -> ArrowTable:
    import pyarrow as pa

    kinds = (("path", pa.binary()), ("sizeBytes", pa.int64()), ("sha256", pa.binary()), ("tag", pa.string()))
    return pa.schema(kinds)
