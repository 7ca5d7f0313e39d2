"""Copying one file between stores, and how a quarantine, which keeps copies, is laid out.

The manifest names the files. It is written before they are copied; at the end it says that they were deleted from the
table. The file of checksums is written in between, before the first deletion.

Copies are compared with what was noted of them: their SHA-256, or the tag of the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.changing.recorded_fields import is_valid, validate_path, validate_time_ms
from deltacli.core.errors import FileMissing, Refused, StorageFailed
from deltacli.core.progress import Progress, start_weighed_step
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import format_size
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.engine.base import Engine
from deltacli.operations.recover.verify import Fault, Problem
from deltacli.storage import Created, Creation, ReadStorage, Storage
from deltacli.storage.local_copy import take_permissions
from deltacli.storage.os_errors import translate_write_errors
from deltacli.table.needed_files import NeededFiles, combine_chunks

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

# -- how a quarantine is laid out --------------------------------------------------------------------------------------

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
    return f"{directory}/{MANIFEST}"


def checksums_of(directory: str) -> str:
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
    """Return the manifest of a directory. Raises UnfitManifestError unless it is one of this table and place."""
    try:
        found = json.loads(data)
        theirs, plan_id = found["tableId"], found["planId"]
        timestamp_ms, is_complete = found["timestampMs"], found["complete"]
        paths, files = found["paths"], found["files"]
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise UnfitManifestError(f"the {MANIFEST} cannot be read") from fault
    if theirs != table_id:
        raise UnfitManifestError(f"the {MANIFEST} is one of the table {theirs}")
    kinds = [is_valid(validate_time_ms, timestamp_ms), type(is_complete), type(paths)]
    if kinds != [True, bool, list] or plan_id != directory.rpartition("/")[2] or files != len(paths):
        raise UnfitManifestError(f"the {MANIFEST} contradicts itself or its place")
    outside = next((path for path in paths if not _is_below(path)), None)
    if outside is not None:
        raise UnfitManifestError(f"the {MANIFEST} names {outside!r}, which is not a path of a file below it")
    return Manifest(str(found.get("table")), theirs, plan_id, None, timestamp_ms, is_complete, paths)


def _is_below(path: object) -> bool:
    return is_valid(validate_path, path) and path not in OWN_NAMES


def address_of(storage: ReadStorage, directory: str, table_id: str) -> str | None:
    """Return the URI of the table whose files a plan's directory has, None without a manifest. Raises StorageFailed."""
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


class CopyChecksum(NamedTuple):
    """What is noted of a copy: its bytes, and the SHA-256 of what this process sent, or the tag of the store's copy."""

    size_bytes: int
    sha256: bytes | None = None
    tag: str | None = None


def rows_of(paths: ArrowArray, checksums: Sequence[CopyChecksum | None]) -> ArrowTable:
    """Return the rows of some files, by their paths as bytes; those that were gone have none."""
    schema = _schema()
    columns = [[None if one is None else one[column] for one in checksums] for column in range(3)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, list(schema)[1:], strict=True)]
    return pa.Table.from_arrays([pc.cast(paths, pa.binary()), *arrays], schema=schema).filter(pc.is_valid(arrays[0]))


def write_checksums(storage: Storage, directory: str, parts: Sequence[ArrowTable]) -> None:
    """Write what was noted of copies, beside what an earlier run noted of others. Raises StorageFailed."""
    import pyarrow.parquet as pq

    rows = pa.concat_tables(parts or [_schema().empty_table()])
    earlier = [
        batch.filter(pc.invert(pc.is_in(batch.column("path"), value_set=rows["path"].combine_chunks())))
        for batch in _read(storage, directory)
    ]
    rows = pa.concat_tables([rows, pa.Table.from_batches(earlier, _schema())])
    path = checksums_of(directory)
    with storage.draft(path) as draft:
        with open(draft.local_path, "wb") as sink:  # pyarrow takes no path with a byte that is not UTF-8
            pq.write_table(rows, sink, _ROWS_AT_ONCE, compression="zstd", write_page_checksum=True)
        draft.publish(replace=True)


@dataclass(frozen=True)
class NotedChecksums:
    """The checksums of the directory of a plan, read when they are asked for."""

    storage: ReadStorage
    directory: str

    def of(self, paths: ArrowArray) -> ArrowTable:
        """Return `path` (as bytes), `sha256` and `tag` of files; nothing where the checksums are gone or damaged."""
        wanted = (batch.filter(pc.is_in(batch.column("path"), value_set=paths)) for batch in self._read())
        return pa.Table.from_batches(wanted, _schema())

    def _read(self) -> Iterator[ArrowTable]:
        return _read(self.storage, self.directory)


def _read(storage: ReadStorage, directory: str) -> Iterator[ArrowTable]:
    """Yield the rows in batches, as far as they can be read."""
    try:
        with storage.open(checksums_of(directory)) as source:
            reader = ParquetReader(source, verify_pages=True)
            for group in range(reader.metadata.num_row_groups):
                yield from reader.read_group(group).cast(_schema()).to_batches()
    except (FileMissing, pa.ArrowException, OSError, ValueError, LookupError):
        return  # what is not noted is not proven, and said to be so


def _schema() -> ArrowTable:
    kinds = (("path", pa.binary()), ("sizeBytes", pa.int64()), ("sha256", pa.binary()), ("tag", pa.string()))
    return pa.schema(kinds)


# -- copying one file between stores -----------------------------------------------------------------------------------

_LARGE, _AT_LEAST_STORED = 1 << 30, 32
"""A disk that compresses stores JSON in an eighth of its bytes."""
_LARGEST_IN_MEMORY = 8 << 20
_BYTES_AT_ONCE = 8 << 20
_FILES_AT_ONCE = 10_000


def copy_file(
    origin: ReadStorage,
    path: str,
    size_bytes: int,
    to: Storage,
    *,
    replace: bool = False,
    target: str | None = None,
    digest: Any = None,  # Any: as hashlib makes them
    proven: Callable[[], object] | None = None,
) -> Creation:
    """Copy a file to the same path or a `target`, with its time, and between local disks with its permissions: other
    stores keep neither. A `digest` is updated with the bytes. `proven` is called where these have the MD5 that the
    store of the file tells, as S3 does by its tag. Raises StorageFailed, also for other bytes.
    """
    import hashlib

    refuse_sparse(origin, path)
    target = path if target is None else target
    stat = origin.stat(path)
    modified_ms, md5 = stat.modified_ms, hashlib.md5(usedforsecurity=False)
    tag = stat.tag.strip('"')
    known = stat.md5 or (tag if len(tag) == 2 * md5.digest_size else "")  # that of an encrypted object is another one
    digests = [*([] if digest is None else [digest]), *([md5] if known else [])]

    def require_whole(seen: int) -> None:
        if seen != size_bytes:
            raise StorageFailed(
                f"{path} was changed while it was copied",
                facts={"source": origin.uri, "seen": f"{seen} bytes", "expected": f"{size_bytes} bytes"},
            )
        if stat.md5 and md5.hexdigest() != stat.md5:
            facts = {"source": origin.uri, "seen": md5.hexdigest(), "expected": stat.md5}
            raise StorageFailed(f"{path} was changed while it was copied, or arrived with other bytes", facts=facts)
        if known == md5.hexdigest() and proven is not None:
            proven()

    roots = [_local_root(store) for store in (origin, to)]
    is_local = None not in roots
    if size_bytes <= _LARGEST_IN_MEMORY and not is_local:
        data = origin.read(path)
        for one in digests:
            one.update(data)
        require_whole(len(data))
        if not replace:
            return to.put_if_absent(target, data, modified_ms=modified_ms)
        to.put(target, data, modified_ms=modified_ms)
        return Created()
    with to.draft(target) as draft, origin.open(path) as reader:
        with translate_write_errors(draft.local_path, path), open(draft.local_path, "wb") as writer:
            if is_local:
                take_permissions(writer.fileno(), os.stat(f"{roots[0]}/{path}"))
            while data := reader.read(_BYTES_AT_ONCE):
                writer.write(data)
                for one in digests:
                    one.update(data)
            require_whole(writer.tell())
        os.utime(draft.local_path, ns=(modified_ms * 1_000_000,) * 2)
        return draft.publish(replace=replace)


def refuse_sparse(origin: ReadStorage, path: str) -> None:
    """Raise Refused for a large file of a local disk of which hardly more than holes are there: nobody waits for
    terabytes of zeros to be read and written, and no file of a table is so. One that is missing is passed over.
    """
    if (root := _local_root(origin)) is None:
        return
    try:
        found = os.stat(f"{root}/{path}")
    except OSError:
        return
    stored = found.st_blocks * 512
    is_odd = found.st_size >= _LARGE and stored * _AT_LEAST_STORED < found.st_size
    if is_odd and _has_hole(f"{root}/{path}", found.st_size):
        raise Refused(
            f"{path} is not copied: of its {format_size(found.st_size)}, {format_size(stored)} are stored on the disk, "
            "and the rest would be zeros",
            code="repair.sparse-file",
            facts={"file": path},
            hint="move the file out of the table, then run the command again",
        )


def _has_hole(place: str, size_bytes: int) -> bool:
    """Return True where the file system knows a hole in a file. Mounts of stores may tell no stored bytes for any."""
    try:
        with open(place, "rb") as file:
            return os.lseek(file.fileno(), 0, os.SEEK_HOLE) < size_bytes
    except (OSError, AttributeError):  # AttributeError: Windows
        return False


def same_content(origin: ReadStorage, path: str, other: ReadStorage, there: str, size_bytes: int) -> bytes | None:
    """Return the SHA-256 of two files of a size, None unless they are equal. Raises FileMissing, StorageFailed."""
    import hashlib

    digest = hashlib.sha256()
    for begin in range(0, size_bytes, _BYTES_AT_ONCE):
        data = origin.read_range(path, begin, _BYTES_AT_ONCE)
        if data != other.read_range(there, begin, _BYTES_AT_ONCE):
            return None
        digest.update(data)
    return digest.digest()


def copy_within_store(table: TableHandle, origin: Storage, to: Storage) -> Callable[[str, str], Creation] | None:
    """Return how the store that contains two places copies a file from a path in one to a path in the other, as
    `Storage.copy_within` does; None where no store contains both.
    """
    common = _common_root(origin, to)
    if common is None:
        return None
    store = table.open_other(common)
    below, above = (_below(place, common) for place in (origin, to))
    return lambda path, target: store.copy_within(below + path, above + target)


def _common_root(first: ReadStorage, second: ReadStorage) -> str | None:
    roots = [_local_root(store) for store in (first, second)]
    if roots[0] is not None and roots[1] is not None:
        return os.path.commonpath([roots[0], roots[1]])
    authorities = ["/".join(store.uri.split("/")[:3]) for store in (first, second)]
    return authorities[0] if authorities[0] == authorities[1] and roots == [None, None] else None


def _below(storage: ReadStorage, common: str) -> str:
    """Return the path of a store below a place that contains it, with a slash at its end."""
    path = (_local_root(storage) or storage.uri)[len(common) :].strip("/")
    return f"{path}/" if path else ""


def _local_root(storage: ReadStorage) -> str | None:
    """Return the path of a local store, without links: those would lead outside of what contains two stores."""
    path = storage.uri.removeprefix("file://")
    return None if path == storage.uri else os.path.realpath(os.fsdecode(unquote_to_bytes(path)))


class _Noted(NamedTuple):
    row: int
    path: str
    size_bytes: int
    sha256: bytes | None
    tag: str | None


class Compared(NamedTuple):
    """The faults by the row of a file, and the number of files for which no valid checksum was noted."""

    faults: dict[int, Fault]
    unproven: int


def compare_digests(
    digests: NotedChecksums,
    storage: ReadStorage,
    needed: NeededFiles,
    sizes: ArrowArray,
    sound: ArrowArray,
    engine: Engine,
    progress: Progress,
) -> Compared:
    """Compare the files of a mask with what was noted. `sizes` are their bytes in the store. Raises StorageFailed."""
    rows = pc.indices_nonzero(sound)
    paths = pc.take(combine_chunks(needed.files["path"]), rows)
    noted = digests.of(paths)
    found = pc.index_in(paths, value_set=combine_chunks(noted["path"]))
    sha256, tag = (pc.take(combine_chunks(noted[name]), found) for name in ("sha256", "tag"))
    columns = (rows, paths, pc.take(sizes, rows), sha256, tag)
    faults, unproven = dict[int, Fault](), 0

    def compare(file: _Noted) -> bool | None:
        return _is_same(storage, file)

    total = pc.sum(columns[2]).as_py() or 0
    with start_weighed_step(progress, "comparing checksums", unit="files", total=len(rows), weight=total) as step:
        for begin in range(0, len(rows), _FILES_AT_ONCE):
            part = zip(*(column.slice(begin, _FILES_AT_ONCE).to_pylist() for column in columns), strict=True)
            files = [_Noted(row, decode_path_bytes(path), *known) for row, path, *known in part]
            for file, same in zip(files, engine.run(compare, files), strict=True):
                if same is None:
                    unproven += 1
                elif not same:
                    faults[file.row] = (Problem.CHECKSUM, "other bytes than when it was copied")
                step.advance(weight=file.size_bytes)
    return Compared(faults, unproven)


def _is_same(storage: ReadStorage, file: _Noted) -> bool | None:
    """Return whether a file has the noted bytes. None: nothing was noted, or its tag has changed."""
    if file.sha256 is not None:
        return sha256_of(storage, file.path, file.size_bytes) == file.sha256
    if file.tag is None:
        return None
    try:
        return storage.stat(file.path).tag == file.tag or None
    except FileMissing:
        return False


def sha256_of(storage: ReadStorage, path: str, size_bytes: int) -> bytes | None:
    """Return the digest of a file, None where it is gone or has another size. Raises StorageFailed."""
    import hashlib

    digest, seen = hashlib.sha256(), 0
    try:
        for begin in range(0, max(size_bytes, 1), _BYTES_AT_ONCE):
            data = storage.read_range(path, begin, _BYTES_AT_ONCE)
            digest.update(data)
            seen += len(data)
    except FileMissing:
        return None
    return digest.digest() if seen == size_bytes else None
