"""Inventories, which are listings made by a store: Parquet, ORC and CSV files, read instead of listing the table.

Columns are identified in any spelling, and their values converted to one form.

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

import csv
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader
from deltacli.core.errors import FileMissing, Unreadable
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.texts import summarize_names
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.paths.spelling import IS_ABSOLUTE, decode_column, spellings_of_root
from deltacli.storage import PathKind, ReadStorage, Storage

# -- batches of an inventory -------------------------------------------------------------------------------------------

CODE = "vacuum.inventory"
"""The code of the error for an inventory that cannot be read."""

_ROWS_A_BATCH = 65_536
_CSV_BYTES = 4 << 20
_HEADER_BYTES = 64 << 10
_PATHS = ("path", "key", "name")
_SIZES = ("size", "length", "sizebytes")
_TIMES = ("modificationtime", "modificationtimems", "modified", "lastmodified", "lastmodifieddate")
_SECONDS_BELOW, _MILLISECONDS_BELOW = 10**11, 10**14
"""Limits for numbers that are times. Numbers below the first are seconds, up to the year 5138.

Numbers above the second, in milliseconds, are not valid file times.
"""

_SIZES_BELOW = float(1 << 62)
_NUMBER = rb"^[0-9]{1,18}$"
_PLAIN_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z?$"
_NAMED_ZONE = "/"
_ODD = r"//|^/|/$|^$|(?:^|/)[.][.]?(?:/|$)"


class InventoryColumns(NamedTuple):
    """The names of columns as spelled in a file; None for a missing column. `is_encoded`: paths are URL-encoded."""

    path: str
    size: str
    time: str
    bucket: str | None = None
    is_directory: str | None = None
    is_latest: str | None = None
    is_marker: str | None = None
    is_encoded: bool = False

    @classmethod
    def choose(cls, names: Sequence[str], place: str, *, is_encoded: bool = False) -> Self:
        """Find columns, ignoring case and `_` between words. Raises Unreadable if path, size or time is missing."""
        known: dict[str, list[str]] = {}
        for name in names:
            known.setdefault(name.strip().replace("_", "").lower(), []).append(name)

        def find(*spellings: str) -> str | None:
            columns = next((known[spelling] for spelling in spellings if spelling in known), [])
            if len(columns) > 1:
                raise _columns_at_fault(
                    place, f"columns {' and '.join(columns)} could both be the {spellings[0]}", names
                )
            return columns[0] if columns else None

        def need(what: str, *spellings: str) -> str:
            column = find(*spellings)
            if column is None:
                raise _columns_at_fault(place, f"it has no column for the {what} of a file", names)
            return column

        bucket = find("bucket") if "key" in known else None
        path = need("path", "key") if bucket else need("path", *_PATHS)
        return cls(
            path=path,
            size=need("size", *_SIZES),
            time=need("time", *_TIMES),
            bucket=bucket,
            is_directory=find("isdir", "isdirectory"),
            is_latest=find("islatest"),
            is_marker=find("isdeletemarker"),
            is_encoded=is_encoded,
        )

    @property
    def names(self) -> list[str]:
        return [name for name in self[:-1] if isinstance(name, str)]

    def paths(self, rows: RecordBatch) -> ArrowArray:
        """Return the paths of rows. With a bucket and a key, they are S3 URIs."""
        paths = _binary(self.path, rows.column(self.path))
        if self.is_encoded:
            # The encoding is that of HTML forms, so `+` is a space.
            texts = pc.cast(pc.replace_substring(paths, pattern=b"+", replacement=b" "), pa.string())
            paths = decode_column(texts)
        if self.bucket is None:
            return paths
        buckets = _binary(self.bucket, rows.column(self.bucket))
        scheme, slash = (pa.scalar(part, pa.binary()) for part in (b"s3://", b"/"))
        return pc.binary_join_element_wise(scheme, buckets, slash, paths, pa.scalar(b"", pa.binary()))


class BelowRoots:
    """Removes the root of a table, in any of its URI forms, from paths."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._starts = tuple(dict.fromkeys(start for root in roots for start in spellings_of_root(root)))

    def cut(self, paths: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
        """Return the paths without the root, and a mask of the paths below it.

        Absolute paths of the root and all relative paths are below it. Paths with empty or dot segments do not count as
        below the root: deltacli listings never contain them, and `..` leads out of the table.
        """
        absolute = pc.match_substring_regex(paths, IS_ABSOLUTE.pattern)
        inside = pc.invert(absolute)
        if pc.any(absolute).as_py():
            for start in self._starts:
                begins = pc.and_(absolute, pc.starts_with(paths, pattern=start))
                if pc.any(begins).as_py():
                    cut = pc.replace_substring(paths, pattern=start, replacement=b"", max_replacements=1)
                    paths = pc.if_else(begins, cut, paths)
                    absolute = pc.and_(absolute, pc.invert(begins))
                    inside = pc.or_(inside, begins)
        odd = pc.match_substring_regex(paths, _ODD)
        return paths, pc.fill_null(pc.and_(inside, pc.invert(odd)), pa.scalar(False))


def milliseconds(name: str, values: ArrowArray) -> ArrowArray:
    """Return times as milliseconds since the epoch; null for missing and invalid times, and dates without a time.

    Numbers are seconds or milliseconds, depending on their magnitude. Strings without a time zone are UTC.
    """
    values = _plain(values)
    kind = values.type
    if pa.types.is_timestamp(kind):
        per_ms = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
        ticks = pc.cast(values, pa.int64())
        times = _from_numbers(ticks) if per_ms is None else pc.divide(ticks, per_ms)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        times = _from_numbers(values)
    elif _is_text(kind):
        times = _from_texts(pc.cast(values, pa.binary()))
    else:
        raise _type_at_fault(name, kind, "a timestamp, a string or a number")
    is_time = pc.and_(pc.greater(times, 0), pc.less(times, _MILLISECONDS_BELOW))
    return pc.if_else(is_time, times, pa.scalar(None, pa.int64()))


def numbers(name: str, values: ArrowArray) -> ArrowArray:
    """Return sizes in bytes; null for values that are not a size."""
    values = _plain(values)
    if pa.types.is_integer(values.type):
        numbers = pc.cast(values, pa.int64(), safe=False)
    elif pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        doubles = pc.cast(values, pa.float64())
        is_size = pc.and_(pc.greater_equal(doubles, 0), pc.less(doubles, _SIZES_BELOW))
        numbers = pc.cast(pc.if_else(is_size, doubles, pa.scalar(None, pa.float64())), pa.int64(), safe=False)
    elif _is_text(values.type):
        numbers = _whole_numbers(pc.cast(values, pa.binary()))
    else:
        raise _type_at_fault(name, values.type, "a number")
    return pc.if_else(pc.greater_equal(numbers, 0), numbers, pa.scalar(None, pa.int64()))


def truths(values: ArrowArray) -> ArrowArray:
    """Return booleans, converted from strings and numbers if necessary; null for values that are not a boolean."""
    values = _plain(values)
    if pa.types.is_boolean(values.type):
        return values
    texts = pc.cast(pc.cast(values, pa.string(), safe=False), pa.binary())
    yes = pc.match_substring_regex(texts, "(?i)^(?:true|t|1)$")
    no = pc.match_substring_regex(texts, "(?i)^(?:false|f|0)$")
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _from_numbers(values: Any) -> Any:
    kind = pa.int64() if pa.types.is_integer(values.type) else pa.float64()
    values = pc.cast(values, kind, safe=False)
    is_time = pc.and_(pc.greater(values, 0), pc.less(values, _MILLISECONDS_BELOW))
    values = pc.if_else(is_time, values, pa.scalar(None, kind))
    times = pc.if_else(pc.less(values, _SECONDS_BELOW), pc.multiply(values, pa.scalar(1_000, kind)), values)
    return pc.cast(times, pa.int64(), safe=False)


def _from_texts(values: Any) -> Any:
    """Parse numbers, then times in common formats, all at once. The remaining values are parsed one by one."""
    times = _from_numbers(_whole_numbers(values))
    plain = pc.fill_null(pc.match_substring_regex(values, _PLAIN_TIME), False)
    if pc.any(plain).as_py():
        texts = pc.if_else(plain, values, pa.scalar(None, pa.binary()))
        texts = pc.cast(pc.replace_substring(texts, pattern=b"Z", replacement=b""), pa.string())
        try:
            moments = pc.divide(pc.cast(pc.cast(texts, pa.timestamp("us")), pa.int64()), 1_000)
        except pa.ArrowInvalid:  # for example February 30
            plain = pa.repeat(pa.scalar(False), len(values))
        else:
            times = pc.coalesce(times, moments)
    rest = pc.and_(pc.is_valid(values), pc.is_null(times))
    if not pc.any(rest).as_py():
        return times
    distinct = pc.dictionary_encode(pc.filter(values, rest))
    moments = pa.array([_moment(text) for text in distinct.dictionary.to_pylist()], pa.int64())
    return pc.replace_with_mask(times, rest, pc.take(moments, distinct.indices))


def _moment(text: bytes) -> int | None:
    moment = parse_moment(text.decode("ascii", "replace").strip())
    if moment is None or moment.is_date_only or _NAMED_ZONE in text.decode("ascii", "replace"):
        return None
    return moment.microseconds // 1_000


def _whole_numbers(values: Any) -> Any:
    is_number = pc.match_substring_regex(values, _NUMBER)
    texts = pc.if_else(is_number, values, pa.scalar(None, pa.binary()))
    return pc.cast(pc.cast(texts, pa.string()), pa.int64())


def _binary(name: str, values: Any) -> Any:
    values = _plain(values)
    if not _is_text(values.type):
        raise _type_at_fault(name, values.type, "a string")
    return pc.cast(values, pa.binary())


def _plain(values: Any) -> Any:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _is_text(kind: Any) -> bool:
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view())
    return kind in kinds


def _columns_at_fault(place: str, reason: str, names: Sequence[str]) -> Unreadable:
    return Unreadable(
        f"{place} cannot be used as an inventory: {reason}",
        code=CODE,
        facts={
            "columns": summarize_names(names, 20)[:400] or "none",
            "needed": "path, size and time; as S3 Inventory: Bucket, Key, Size, LastModifiedDate",
        },
    )


def _type_at_fault(name: str, kind: Any, expected: str) -> Unreadable:
    return Unreadable(
        f"column {name} of the inventory is of type {kind}", code=CODE, facts={"column": name, "expected": expected}
    )


Rows = Iterator[tuple[RecordBatch, InventoryColumns]]


@contextmanager
def inventory_faults(place: str) -> Iterator[None]:
    """Raise every fault in the bytes of an inventory as Unreadable, naming the file."""
    try:
        yield
    except FileMissing as fault:
        raise Unreadable(f"no inventory found at {place}", code=CODE, facts={"file": place}) from fault
    except (pa.ArrowException, OSError, KeyError, ValueError, OverflowError, MemoryError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:200]
        raise Unreadable(
            f"{place} cannot be read as an inventory", code=CODE, facts={"file": place, "reason": reason}
        ) from fault


def split_place(place: str) -> tuple[str, str]:
    """Return the directory and the file name of a path or URI, both in the form that a store accepts."""
    directory, slash, name = place.rpartition("/")
    if place.lower().startswith("file:"):
        name = unquote(name, errors="surrogateescape")
    if directory.endswith(":"):
        directory += "/"
    return directory or ("/" if slash else "."), name


def read_parquet(storage: ReadStorage, name: str, place: str) -> Rows:
    """Yield the rows of a Parquet file."""
    is_near = storage.capabilities.has_cheap_requests
    with inventory_faults(place), storage.open(name) as source:
        file = ParquetReader(source, pre_buffer=not is_near, buffer_size=BUFFER_BYTES if is_near else 0)
        columns = InventoryColumns.choose(file.schema_arrow.names, place)
        for group in range(file.metadata.num_row_groups):
            yield from ((rows, columns) for rows in file.read_columns(_ROWS_A_BATCH, group, columns.names))


def read_orc(storage: ReadStorage, name: str, place: str) -> Rows:
    """Yield the rows of an ORC file."""
    try:
        from pyarrow import orc
    except ImportError as fault:
        raise Unreadable(
            f"{place} is ORC, which this build of pyarrow cannot read",
            code=CODE,
            facts={"expected": "an inventory in Parquet or CSV"},
        ) from fault
    with inventory_faults(place), storage.open(name) as source:
        file = orc.ORCFile(source)
        columns = InventoryColumns.choose(file.schema.names, place)
        for stripe in range(file.nstripes):
            rows = file.read_stripe(stripe, columns.names)
            for start in range(0, rows.num_rows, _ROWS_A_BATCH):
                yield rows.slice(start, _ROWS_A_BATCH), columns


def read_csv(
    storage: ReadStorage,
    name: str,
    place: str,
    *,
    is_gzip: bool,
    names: Sequence[str] | None = None,
    is_encoded: bool = False,
) -> Rows:
    """Yield the rows of a CSV file. The first line contains the column names unless `names` is given."""
    from pyarrow import csv as arrow_csv

    with inventory_faults(place):
        with storage.open(name) as source:
            head = _unpacked(source, is_gzip=is_gzip).read(_HEADER_BYTES)
        if not head and names is not None:
            return
        header = list(names) if names is not None else _header(head)
        columns = InventoryColumns.choose(header, place, is_encoded=is_encoded)
        with (
            storage.open(name) as source,
            arrow_csv.open_csv(
                _unpacked(source, is_gzip=is_gzip),
                arrow_csv.ReadOptions(block_size=_CSV_BYTES, column_names=header, skip_rows=0 if names else 1),
                arrow_csv.ParseOptions(newlines_in_values=names is None),
                arrow_csv.ConvertOptions(
                    include_columns=columns.names,
                    column_types={column: pa.binary() for column in columns.names},
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            ) as reader,
        ):
            yield from ((rows, columns) for rows in reader)


def _unpacked(source: Any, *, is_gzip: bool) -> Any:  # Any: as in the storage port; pyarrow has no types
    return pa.CompressedInputStream(source, "gzip") if is_gzip else pa.input_stream(source)


def _header(head: bytes) -> list[str]:
    """Return the column names in the first line."""
    lines = head.decode("utf-8-sig", "replace").splitlines()
    return next(csv.reader(lines[:1]), [])


# -- inventories -------------------------------------------------------------------------------------------------------

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
    _below: BelowRoots = field(repr=False)
    newest_ms: int | None = field(default=None, init=False)

    def batches(self) -> Iterator[InventoryBatch]:
        """Yield the files; each call reads the inventory again. Raises Unreadable (`vacuum.inventory`)."""
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
    """Return the inventory of the table whose root has the URIs `roots`. Raises Unreadable (`vacuum.inventory`)."""
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
    """Return the rows that are certainly current files: no directories, delete markers or older versions."""
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
