"""Read checkpoints: small actions as values, and file actions as a stream of columns, one row group at a time.

An untrusted file may declare pages of 2 GB, or repeat one string of 100 MB a million times. Local files are measured by
their page headers (8 ms for a million adds). On a remote store that would take one request per page, so the footer is
trusted there.

Spec: Checkpoint Schema.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader, read_footer_bytes
from deltacli.core.errors import CheckpointUnreadable, CommitCorrupt, FileMissing, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowArray, BinaryFile, RecordBatch
from deltacli.delta.checkpoint.content import SMALL_ACTIONS, CheckpointColumns, RowGroup
from deltacli.delta.data_files import no_vector_ids, unique_id_column, without_empty, without_empty_vectors
from deltacli.delta.encoding.value_text import json_column
from deltacli.delta.footers.thrift import DICTIONARY_PAGE, PageHeader, ThriftFaultError, read_page_header
from deltacli.delta.log.actions import Action, read_actions, take_whole_numbers
from deltacli.delta.log.file_actions import (
    FileBatch,
    FileCounts,
    TombstoneCounts,
    TouchedFiles,
    action_schemas,
    count_batch,
    num_records_column,
    tight_column,
)
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, CheckpointInstance, LogFile
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.delta.schema.file_columns import Hybrid, hybrid_column, is_known_zone, rebased, without_old_times
from deltacli.storage import ReadStorage
from deltacli.work.task import TableStores, TaskContext, light

if TYPE_CHECKING:
    import pyarrow

# -- footers and pages, measured before Arrow reads a row group --------------------------------------------------------

ROWS_A_BATCH = 8_192
"""Statistics of so many adds fit into the cache of a processor: a fifth less time than with twice as many."""
MAX_PAGE_BYTES = 128 << 20
"""Maximum uncompressed bytes of a page; larger pages are refused. Writers produce pages of about 1 MiB."""

MAX_COLUMN_BYTES = 16 << 20
"""Maximum bytes of one column in a batch. Batches have fewer rows where values are long."""

FAR_BUFFER_BYTES = 1 << 20
"""Buffer of a column chunk where a read is a request; elsewhere it has `BUFFER_BYTES`."""
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli", "LZ4": "lz4_raw"}
"""Parquet's codec names -> Arrow's. A dictionary with any other codec counts as one value."""

_HEADER_BYTES = (512, 1 << 16, 1 << 24)


class _NoPages(io.RawIOBase):
    """A file of unlimited size, which ends where its first page would be read."""

    is_reached = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, _offset: int, _whence: int = 0, /) -> int:
        return 1 << 62

    def tell(self) -> int:
        return 1 << 62

    def read(self, _size: int = -1, /) -> bytes:
        self.is_reached = True
        return b""

    def readinto(self, _buffer: Any, /) -> int:  # Any: as in io
        self.is_reached = True
        return 0


def require_sound(metadata: Any, group: int, leaves: Sequence[int]) -> None:  # Any: pyarrow has no types
    """Raise an ArrowException or OSError if the footer is inconsistent for these leaves.

    In pyarrow 26.0.1, calling `RowGroupMetaData.column` directly crashes the process on an inconsistent footer. Reading
    toward the pages raises an exception for the same fault. Takes 0.1 ms and reads no page: it meets the end of the
    file there. An exception of Python would be formatted by Arrow, with all lines of its traceback.
    """
    import pyarrow

    pages = _NoPages()
    file = ParquetReader(pyarrow.PythonFile(pages, mode="r"), metadata=metadata, buffer_size=BUFFER_BYTES)
    try:
        for _ in file.read_leaves(1, group, leaves):
            pass
    except (pyarrow.ArrowException, OSError):
        if not pages.is_reached:
            raise


def rows_a_batch(
    source: Any, metadata: Any, group: int, leaves: Sequence[int], path: str, most: int = ROWS_A_BATCH
) -> int:  # Any: pyarrow
    """Return how many rows of these leaves can be read at a time, at `most`. Raises CheckpointUnreadable for a page
    too large.

    The footer must already have been validated for these leaves. No other ones are inspected.
    """
    row_group, rows = metadata.row_group(group), most
    for leaf in leaves:
        chunk = row_group.column(leaf)
        try:
            for start, header in _headers(source, chunk):
                if header.unpacked_bytes > MAX_PAGE_BYTES:
                    raise _too_large(path, f"a page of {chunk.path_in_schema} unpacks to {header.unpacked_bytes} bytes")
                if chunk.physical_type == "BYTE_ARRAY":
                    rows = min(rows, MAX_COLUMN_BYTES // max(_longest(source, chunk, start, header, most), 1))
        except (ThriftFaultError, struct.error) as fault:
            raise _too_large(path, f"{chunk.path_in_schema}: {fault}") from fault
    return max(rows, 1)


def longest_repeated(source: Any, chunk: Any, rows: int, most_bytes: int) -> int:  # Any: pyarrow has no types
    """Return the bytes of the longest value that the dictionary of a column chunk can repeat, 0 where `rows` of its
    largest value fit into `most_bytes`. Raises ThriftFaultError and struct.error for invalid page headers, and
    OverflowError for a page above the limit.
    """
    longest = 0
    for start, header in _headers(source, chunk):
        if header.unpacked_bytes > MAX_PAGE_BYTES:
            raise OverflowError(f"a page unpacks to {header.unpacked_bytes} bytes")
        if header.kind == DICTIONARY_PAGE and header.unpacked_bytes * rows > most_bytes:
            if chunk.physical_type != "BYTE_ARRAY":
                longest = max(longest, header.unpacked_bytes // max(header.values, 1))
                continue
            source.seek(start)
            page = source.read(header.packed_bytes)
            longest = max(longest, _longest_of_dictionary(page, chunk.compression, header))
    return longest


def _headers(source: Any, chunk: Any) -> Iterator[tuple[int, PageHeader]]:  # Any: pyarrow has no types
    """Yield the start of the data and the header of each page of a column chunk."""
    position = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < position:
        position = chunk.dictionary_page_offset
    end = position + chunk.total_compressed_size
    while position < end:
        header = None
        for length in _HEADER_BYTES:
            source.seek(position)
            header = read_page_header(source.read(min(length, end - position)))
            if header is not None:
                break
        if header is None:
            raise ThriftFaultError("a page header without an end")
        position += header.length
        yield position, header
        position += header.packed_bytes


def _longest(source: Any, chunk: Any, start: int, header: PageHeader, rows: int) -> int:  # Any: pyarrow has no types
    """Return an estimate of the value length in a page: the longest of a dictionary, otherwise the mean."""
    if header.kind != DICTIONARY_PAGE:
        return header.unpacked_bytes // max(header.values, 1)
    if header.unpacked_bytes * rows <= MAX_COLUMN_BYTES:
        return header.unpacked_bytes
    source.seek(start)
    return _longest_of_dictionary(source.read(header.packed_bytes), chunk.compression, header)


def _longest_of_dictionary(page: bytes, compression: str, header: PageHeader) -> int:
    """Return the length of the longest value in a dictionary page (plain encoding: a length before each value)."""
    import pyarrow

    if compression != "UNCOMPRESSED":
        codec = _CODECS.get(compression)
        if codec is None:
            return header.unpacked_bytes
        try:
            page = pyarrow.Codec(codec).decompress(page, header.unpacked_bytes, asbytes=True)
        except (OSError, ValueError):
            return header.unpacked_bytes  # the measurement must not refuse anything Arrow can read
    longest, position, end, length_at = 0, 0, len(page), struct.Struct("<I").unpack_from
    while position < end:
        (length,) = length_at(page, position)
        if length > longest:  # noqa: PLR1730  (calling max() for each value takes 50 % longer)
            longest = length
        position += 4 + length
    return longest


def _too_large(path: str, reason: str) -> CheckpointUnreadable:
    return CheckpointUnreadable(
        f"{path} cannot be read as a checkpoint", facts={"file": path, "reason": reason}, hint=command("history")
    )


# -- read checkpoints --------------------------------------------------------------------------------------------------

MAX_JSON_BYTES = 256 << 20
"""Most bytes of a JSON checkpoint, which takes six times its size in memory: writers put file actions into sidecars."""


class CheckpointPiece(NamedTuple):
    """One row group of one Parquet file of a checkpoint. `tag` identifies the content that it was planned from.

    `has_parsed_statistics`: the file has `add.stats_parsed`.
    """

    path: str
    group: RowGroup
    tag: str
    has_parsed_statistics: bool


class CheckpointContents(NamedTuple):
    """The contents of an opened checkpoint.

    Holds its small actions, file actions read from JSON, the row groups with file actions in its own Parquet files, and
    the sidecars with the remaining file actions.
    """

    small: list[tuple[str, Action]]
    json_actions: list[tuple[str, Action]]
    pieces: list[CheckpointPiece]
    sidecars: tuple[str, ...]

    @property
    def is_v2(self) -> bool:
        return any(kind in ("checkpointMetadata", "sidecar") for kind, _ in self.small)


@contextmanager
def checkpoint_faults(path: str) -> Iterator[None]:
    """Raise every fault in the bytes of a checkpoint file as CheckpointUnreadable, naming the file."""
    import pyarrow

    try:
        yield
    except FileMissing as fault:
        rule = "sidecar.missing" if SIDECAR_DIRECTORY in path else "checkpoint.unreadable"
        raise CheckpointUnreadable(f"{path} does not exist", code=rule, facts={"file": path}) from fault
    except (pyarrow.ArrowException, OSError, KeyError, UnicodeDecodeError, OverflowError, MemoryError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:200]
        raise CheckpointUnreadable(
            f"{path} cannot be read as a checkpoint", facts={"file": path, "reason": reason}
        ) from fault


def open_checkpoint(stores: TableStores, instance: CheckpointInstance) -> CheckpointContents:
    """Open a checkpoint without its sidecars, and read its small actions. Raises CheckpointUnreadable."""
    contents = CheckpointContents([], [], [], ())
    for file in instance.files:
        path = f"{LOG_DIRECTORY}/{file.name}"
        if file.path.is_json:
            actions = _read_json_checkpoint(stores.storage, path, file)
            contents.small.extend((kind, action) for kind, action in actions if kind in SMALL_ACTIONS)
            contents.json_actions.extend((kind, action) for kind, action in actions if kind in ("add", "remove"))
        else:
            with open_parquet(stores.storage, path) as parquet:
                contents.small.extend(small_actions(parquet))
                contents.pieces.extend(_pieces(parquet, stores))
    kinds = {kind for kind, _ in contents.small}
    for needed, rule in (("protocol", "checkpoint.no-protocol"), ("metaData", "checkpoint.no-metadata")):
        if needed not in kinds:
            first = f"{LOG_DIRECTORY}/{instance.files[0].name}"
            raise CheckpointUnreadable(f"{first} has no {needed} action", code=rule, facts={"file": first})
    return contents._replace(
        sidecars=tuple(sidecar_location(action) for kind, action in contents.small if kind == "sidecar")
    )


def _read_json_checkpoint(storage: ReadStorage, path: str, file: LogFile) -> list[tuple[str, Action]]:
    if file.size_bytes > MAX_JSON_BYTES:
        raise CheckpointUnreadable(
            f"{path} is a JSON checkpoint of more than {MAX_JSON_BYTES >> 20} MiB",
            facts={"file": path, "size": f"{file.size_bytes} bytes"},
        )
    with checkpoint_faults(path):
        try:
            return read_actions(storage.read(path), file.name)
        except CommitCorrupt as corrupt:
            raise CheckpointUnreadable(corrupt.message, facts=corrupt.facts) from corrupt


class OpenParquet(NamedTuple):
    """An open Parquet file of a checkpoint."""

    path: str
    file: ParquetReader
    source: BinaryFile
    is_near: bool
    tag: str
    columns: CheckpointColumns

    def batches(self, group: int, columns: list[str], *, rows: int = ROWS_A_BATCH) -> Iterator[RecordBatch]:
        """Yield the named columns of a row group, `rows` rows at a time, or fewer if they would not fit into memory."""
        return self.measured_batches(group, columns, self.measured(group, columns, rows))

    def measured(self, group: int, columns: list[str], most: int = ROWS_A_BATCH) -> int:
        """Return how many rows of these columns fit into memory at a time, at `most`; nothing is measured where a read
        is a request. Raises what `require_sound` raises.
        """
        if not self.is_near:
            return min(most, ROWS_A_BATCH)
        leaves = self.file.find_leaves(columns)
        require_sound(self.file.metadata, group, leaves)
        return rows_a_batch(self.source, self.file.metadata, group, leaves, self.path, most)

    def measured_batches(self, group: int, columns: list[str], rows: int) -> Iterator[RecordBatch]:
        """Yield the named columns of a row group, which have been measured, `rows` rows at a time."""
        found, expected = 0, self.file.metadata.row_group(group).num_rows
        leaves = self.file.find_leaves(columns)
        int96_paths = self.file.find_int96_paths(leaves)
        # Spark 2 and, in its mode LEGACY, later ones write parsed statistics in the calendar of their data files.
        hybrid = hybrid_column(self.file.metadata.schema, leaves, self.file.metadata.metadata)
        for batch in self.file.read_leaves(rows, group, leaves):
            found += batch.num_rows
            instants = _with_utc(batch, int96_paths)
            yield instants if hybrid is None else _rebase(instants, hybrid)
        if found != expected:  # Arrow stops where the pages end, without an error
            raise CheckpointUnreadable(
                f"{self.path} cannot be read as a checkpoint",
                facts={
                    "file": self.path,
                    "reason": f"row group {group} has {expected} rows, but its pages have {found}",
                },
            )


@contextmanager
def open_parquet(storage: ReadStorage, path: str) -> Iterator[OpenParquet]:
    """Open a Parquet file of a checkpoint; every fault while it is open is raised as CheckpointUnreadable."""
    with checkpoint_faults(path), storage.open(path) as source:
        file = ParquetReader(source, buffer_size=_buffer_bytes(storage))
        columns = CheckpointColumns(file.metadata, file.paths, read_footer_bytes(source))
        tag = storage.tag(path, source)
        yield OpenParquet(path, file, source, storage.capabilities.has_cheap_requests, tag, columns)


@contextmanager
def open_piece(stores: TableStores, piece: CheckpointPiece) -> Iterator[OpenParquet]:
    """Open the file of a row group as `open_parquet` does, with its cached footer.

    It must be the file that the piece was planned from. If another writer has replaced the same version, some rows
    would be read twice and others skipped.
    """
    storage, path = stores.storage, piece.path
    with checkpoint_faults(path), storage.open(path) as source:
        if storage.tag(path, source) != piece.tag:
            raise CheckpointUnreadable(
                f"{path} was changed while it was read",
                facts={"file": path, "next": "run the same command again"},
                hint=command("snapshot"),
            )
        file = ParquetReader(source, metadata=stores.footers.get(path, piece.tag), buffer_size=_buffer_bytes(storage))
        stores.footers.put(path, piece.tag, file.metadata)
        columns = CheckpointColumns(file.metadata, file.paths)
        yield OpenParquet(path, file, source, storage.capabilities.has_cheap_requests, piece.tag, columns)


def _buffer_bytes(storage: ReadStorage) -> int:
    return BUFFER_BYTES if storage.capabilities.has_cheap_requests else FAR_BUFFER_BYTES


def small_actions(parquet: OpenParquet, kinds: Iterable[str] = SMALL_ACTIONS) -> Iterator[tuple[str, Action]]:
    """Yield the protocol, metaData, txn, domainMetadata, sidecar and checkpointMetadata rows.

    Row groups whose footer proves that they have none are not read.
    """
    columns = parquet.columns
    for group in range(parquet.file.metadata.num_row_groups):
        held = {kind: leaf for kind in kinds if columns.holds(group, leaf := f"{kind}.{SMALL_ACTIONS[kind]}")}
        if held:
            rows = parquet.measured(group, [*held, *held.values()])
            yield from _rows_of(parquet, group, held, rows)


def _rows_of(parquet: OpenParquet, group: int, held: Mapping[str, str], rows: int) -> Iterator[tuple[str, Action]]:
    """Yield the rows of small actions in one row group whose columns have been measured, one kind after the other.

    Where the footer does not say whether there are rows, the leaves that show it are read first. Whole structs are read
    only if there are some.
    """
    absent = {kind for kind, leaf in held.items() if not parquet.columns.knows(group, leaf)}
    if absent:
        for batch in parquet.measured_batches(group, [held[kind] for kind in held if kind in absent], rows):
            absent -= {
                kind
                for kind in absent
                if _struct(batch.column(kind), parquet.path).flatten()[0].null_count < batch.num_rows
            }
    found: dict[str, list[Action]] = {kind: [] for kind in held if kind not in absent}
    if found:
        for batch in parquet.measured_batches(group, [*found], rows):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # for a duplicate key in a map, the last one counts
                for kind, actions in found.items():
                    column = _struct(batch.column(kind), parquet.path)
                    actions += pc.filter(column, pc.is_valid(column)).to_pylist(maps_as_pydicts="lossy")
    for kind, actions in found.items():
        for action in actions:
            take_whole_numbers(kind, action)
            yield kind, action


def _struct(column: Any, path: str) -> Any:  # Any: pyarrow has no types
    """Return the column if it contains actions. Raises CheckpointUnreadable."""
    import pyarrow.types

    if not pyarrow.types.is_struct(column.type):
        raise CheckpointUnreadable(
            f"{path} cannot be read as a checkpoint",
            facts={"file": path, "reason": f"an action is {str(column.type)[:80]}, expected a struct"},
        )
    return pc.cast(column, without_views(column.type)) if "_view" in str(column.type) else column


def without_views(kind: Any) -> Any:  # Any: pyarrow has no types
    """Return a type with plain strings and binaries instead of views, which few Arrow functions accept."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([field.with_type(without_views(field.type)) for field in fields])
    if pa.types.is_map(kind):
        return pa.map_(without_views(kind.key_type), without_views(kind.item_type))
    return pa.list_(without_views(kind.value_type)) if pa.types.is_list(kind) else kind


@light
def plan_checkpoint_pieces(path: str, context: TaskContext) -> list[CheckpointPiece]:
    """Return the row groups of a file that may contain file actions. A task. Raises CheckpointUnreadable."""
    with open_parquet(context.storage, path) as parquet:
        return _pieces(parquet, context.stores)


def _pieces(parquet: OpenParquet, stores: TableStores) -> list[CheckpointPiece]:
    stores.footers.put(parquet.path, parquet.tag, parquet.file.metadata)
    groups = (group for group in parquet.columns.row_groups() if group.has_adds or group.has_removes)
    is_parsed = parquet.columns.has("add.stats_parsed")
    return [CheckpointPiece(parquet.path, group, parquet.tag, is_parsed) for group in groups]


def read_narrow(
    stores: TableStores,
    piece: CheckpointPiece,
    touched: TouchedFiles,
    *,
    with_paths: bool,
    with_records: bool = True,
    with_removes: bool = True,
) -> Iterator[FileBatch]:
    """Yield the live adds and tombstones of a row group in narrow columns, without keys decided by newer commits.

    Without `with_paths`, path columns are read only if `touched` needs them, and are null in the result. Without
    `with_records`, record counts are null. Without `with_removes`, tombstones are not read.
    """
    need_paths = with_paths or len(touched) > 0
    with open_piece(stores, piece) as parquet:
        columns = parquet.columns
        wanted = []
        if piece.group.has_adds:
            wanted += columns.narrow_add(piece.group, with_paths=need_paths, with_records=with_records)
        if piece.group.has_removes and with_removes:
            wanted += columns.narrow_remove(piece.group, with_paths=need_paths)
        for batch in parquet.batches(piece.group.index, wanted):
            yield FileBatch(
                adds=_narrow_rows(batch, "add", touched, piece.path, with_ids=with_paths),
                removes=_narrow_rows(batch, "remove", touched, piece.path, with_ids=with_paths),
            )


def _narrow_rows(
    batch: Any, kind: str, touched: TouchedFiles, source: str, *, with_ids: bool
) -> Any:  # Any: pyarrow has no types
    """Return the rows of `kind` in a batch as `narrow_add` or `narrow_remove`; None if it has no such rows."""
    actions = valid_rows(batch, kind, source)
    if actions is None:
        return None
    names = {actions.type.field(index).name for index in range(actions.type.num_fields)}

    def column(name: str, data_type: Any) -> Any:
        return pc.cast(actions.field(name), data_type) if name in names else pa.nulls(len(actions), data_type)

    need_paths = with_ids or len(touched) > 0
    vectors = without_empty(actions.field("deletionVector")) if "deletionVector" in names else None
    if vectors is not None and lacks_id(vectors):
        raise missing_field(f"{source}: a deletion vector has no id", source)
    dv_ids = unique_id_column(vectors) if vectors is not None and with_ids else no_vector_ids(len(actions))
    paths = column("path", pa.string())
    if paths.null_count and (need_paths or "path" in names):
        raise missing_field(f"{source}: {kind}.path is missing", source)
    schemas = action_schemas()
    if kind == "remove":
        rows = pa.RecordBatch.from_arrays(
            [paths, dv_ids, column("deletionTimestamp", pa.int64())], schema=schemas.narrow_remove
        )
    else:
        sizes = column("size", pa.int64())
        if sizes.null_count:
            raise missing_field(f"{source}: add.size is missing", source)
        cardinality = (
            pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64())
            if vectors is not None
            else pa.nulls(len(actions), pa.int64())
        )
        stats = pc.cast(actions.field("stats"), pa.string()) if "stats" in names else None
        rows = pa.RecordBatch.from_arrays(
            [paths, dv_ids, sizes, _records(actions, names, stats), cardinality, tight_column(stats, cardinality)],
            schema=schemas.narrow_add,
        )
    kept = touched.untouched(paths, dv_ids if vectors is None else vectors) if need_paths else None
    return rows if kept is None else pc.filter(rows, kept)


def missing_field(message: str, source: str) -> CheckpointUnreadable:
    """Return the error about an action that lacks a field."""
    return CheckpointUnreadable(message, code="action.missing-required", facts={"file": source})


def lacks_id(vectors: ArrowArray) -> bool:
    """Return whether a vector lacks its storage type or its location."""

    parts = ("storageType", "pathOrInlineDv")
    return any(pc.struct_field(vectors, [part]).null_count != vectors.null_count for part in parts)


def _records(actions: Any, names: set[str], stats: Any) -> Any:  # Any: pyarrow has no types
    """Return `numRecords` of every add from the parsed statistics if present, otherwise from the JSON text."""
    parsed = (
        pc.cast(pc.struct_field(actions, ["stats_parsed", "numRecords"]), pa.int64())
        if "stats_parsed" in names
        else None
    )
    if stats is None or (parsed is not None and parsed.null_count == 0):
        return parsed if parsed is not None else pa.nulls(len(actions), pa.int64())
    from_text = num_records_column(stats)
    return from_text if parsed is None else pc.coalesce(parsed, from_text)


def valid_rows(batch: Any, kind: str, source: str) -> Any:  # Any: pyarrow has no types
    """Return the struct array of one action kind without the rows of other kinds; None if there are no rows."""
    index = batch.schema.get_field_index(kind)
    if index < 0:
        return None
    column = _struct(batch.column(index), source)
    if column.null_count == len(column):
        return None
    return pc.filter(column, pc.is_valid(column)) if column.null_count else column


_Path = tuple[str, ...]


def _with_utc(batch: pyarrow.RecordBatch, int96_paths: Collection[_Path]) -> pyarrow.RecordBatch:
    """Return a batch whose INT96 columns at these paths, in structs, are UTC timestamps. No value is copied."""
    if not int96_paths:
        return batch
    columns = [
        _instants(column, _below(int96_paths, field.name))
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _rebase(batch: pyarrow.RecordBatch, hybrid: Hybrid) -> pyarrow.RecordBatch:
    """Return a batch with its dates and times in the calendar of today.

    Statistics lack the bounds that cannot be rebased, because the time zone of a session is not known here: readers
    would skip rows by them. Parsed partition values stay as they are, of which nothing but the nulls is examined.
    """
    columns = batch.columns
    if hybrid.times and not is_known_zone(hybrid.zone):
        hybrid = hybrid._replace(times=False)
        columns = [_without_old_bounds(column, name) for column, name in zip(columns, batch.schema.names, strict=True)]
    return pa.RecordBatch.from_arrays([rebased(column, hybrid) for column in columns], names=batch.schema.names)


def _without_old_bounds(column: ArrowArray, name: str) -> ArrowArray:
    """Return the actions of a kind with null instead of each time before 1900 in their statistics."""
    place = column.type.get_field_index("stats_parsed") if name == "add" and pa.types.is_struct(column.type) else -1
    if place < 0:
        return column
    parts = [column.field(index) for index in range(column.type.num_fields)]
    parts[place] = without_old_times(parts[place])
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=mask)


def _below(paths: Collection[_Path], name: str) -> list[_Path]:
    return [path[1:] for path in paths if path[0] == name]


def _instants(column: ArrowArray, paths: Collection[_Path]) -> ArrowArray:
    kind = column.type
    if () in paths and pa.types.is_timestamp(kind) and kind.tz is None:
        return column.view(pa.timestamp(kind.unit, "UTC"))
    below = [path for path in paths if path]
    if not below or not pa.types.is_struct(kind):
        return column
    names = [kind.field(index).name for index in range(kind.num_fields)]
    fields = [_instants(column.field(index), _below(below, name)) for index, name in enumerate(names)]
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(fields, names=names, mask=mask)


class CountPiece:
    """Counts the file actions of a row group that newer commits have not decided (shared `touched`).

    Tombstones with a time before `cutoff_ms` (epoch milliseconds) count as expired.
    """

    unit_seconds = 4e-7

    def __init__(self, cutoff_ms: int) -> None:
        self.cutoff_ms = cutoff_ms

    def __call__(self, piece: CheckpointPiece, context: TaskContext) -> tuple[FileCounts, TombstoneCounts]:
        """Return the counts. Raises CheckpointUnreadable."""
        files, tombstones = FileCounts(), TombstoneCounts()
        for batch in read_narrow(context.stores, piece, context.shared("touched"), with_paths=False):
            files, tombstones = count_batch(batch, self.cutoff_ms, files, tombstones)
        return files, tombstones


# -- whole file actions ------------------------------------------------------------------------------------------------

_WHOLE_ROWS_A_BATCH = 8_192
"""All fields of 8,192 adds take about 3 MB, which fits into the processor cache while they are read and encoded."""
_FEW_FIELDS_ROWS_A_BATCH = 16_384
"""Of adds without their statistics: a quarter less time than half as many, and 10 MB more."""

_FEW_DROPPED = 4
_NEEDED = ("path", "size", "deletionVector")


def read_whole(
    stores: TableStores, piece: CheckpointPiece, touched: TouchedFiles, kind: str, fields: Sequence[str] | None = None
) -> Iterator[RecordBatch]:
    """Yield the live adds (`kind` "add") or tombstones ("remove") of a row group with all their fields.

    If `fields` is given, all other fields are null, except those that make up a key.
    """
    if not (piece.group.has_adds if kind == "add" else piece.group.has_removes):
        return
    schema = action_schemas().add if kind == "add" else action_schemas().remove
    with open_piece(stores, piece) as parquet:
        columns = parquet.columns
        names = [name for name in schema.names if fields is None or name in fields or name in _NEEDED]
        wanted = columns.whole(kind, names)
        if kind == "add" and piece.group.needs_parsed_stats and "stats" in names:
            wanted.append("add.stats_parsed")
        at_once = _WHOLE_ROWS_A_BATCH if "stats" in names else _FEW_FIELDS_ROWS_A_BATCH
        for batch in parquet.batches(piece.group.index, wanted, rows=at_once):
            rows = whole_rows(batch, kind, schema, piece.path)
            if rows is not None:
                rows.validate(full=True)  # invalid UTF-8 would reach the output
                rows = without_empty_vectors(rows)
                _require_whole(rows, kind, piece.path)
                if len(touched):
                    kept = touched.untouched(rows.column("path"), rows.column("deletionVector"))
                    yield from _kept_runs(rows, kept)
                else:
                    yield rows


def read_both(stores: TableStores, piece: CheckpointPiece, touched: TouchedFiles) -> Iterator[FileBatch]:
    """Yield the tombstones of a row group, then its live files, with all fields. Raises CheckpointUnreadable."""
    yield from (FileBatch(removes=removes) for removes in read_whole(stores, piece, touched, "remove"))
    yield from (FileBatch(adds=adds) for adds in read_whole(stores, piece, touched, "add"))


def _require_whole(rows: RecordBatch, kind: str, source: str) -> None:
    """Raise CheckpointUnreadable if an action lacks a field that its key or its file needs."""
    for name in ("path", "size") if kind == "add" else ("path",):
        if rows.column(name).null_count:
            raise missing_field(f"{source}: {kind}.{name} is missing", source)
    vectors = rows.column("deletionVector")
    if vectors.null_count < len(vectors) and lacks_id(vectors):
        raise missing_field(f"{source}: a deletion vector has no id", source)


def _kept_runs(rows: Any, kept: Any) -> Iterator[Any]:  # Any: pyarrow has no types
    """Yield the rows selected by `kept` (None: all): slices if few rows are dropped, a copy if many are."""
    if kept is not None and rows.num_rows - kept.true_count > _FEW_DROPPED:
        yield pc.filter(rows, kept)
        return
    dropped = [] if kept is None else pc.indices_nonzero(pc.invert(kept)).to_pylist()
    for before, after in pairwise([-1, *dropped, rows.num_rows]):
        if after - before > 1:
            yield rows.slice(before + 1, after - before - 1)


def whole_rows(batch: Any, kind: str, schema: Any, source: str) -> Any:  # Any: pyarrow has no types
    """Return the actions of one kind in a batch, as of `schema`, with null for missing fields; None without any."""
    actions = valid_rows(batch, kind, source)
    if actions is None:
        return None
    names = {actions.type.field(index).name for index in range(actions.type.num_fields)}
    columns = []
    for wanted in schema:
        if wanted.name == "stats" and "stats_parsed" in names:
            columns.append(_statistics(actions, names, wanted.type))
        elif wanted.name in names:
            columns.append(_fit(actions.field(wanted.name), wanted.type))
        else:
            columns.append(pa.nulls(len(actions), wanted.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fit(column: Any, wanted: Any) -> Any:  # Any: pyarrow has no types
    """Cast a column of a checkpoint to the type of the checkpoint schema. Struct fields are matched by name."""
    if column.type.equals(wanted):
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    if (
        pa.types.is_map(wanted)
        and pa.types.is_map(column.type)
        and column.type.item_type.equals(wanted.item_type)
        and column.type.key_type.equals(wanted.key_type)
    ):
        # Only the names of the inner fields differ; a cast would copy every entry.
        mask = pc.is_null(column) if column.null_count else None
        return pa.MapArray.from_arrays(column.offsets, column.keys, column.items, type=wanted, mask=mask)
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        present = {column.type.field(index).name for index in range(column.type.num_fields)}
        fields = [
            _fit(pc.struct_field(column, [part.name]), part.type)
            if part.name in present
            else pa.nulls(len(column), part.type)
            for part in wanted
        ]
        mask = pc.is_null(column) if column.null_count else None  # a mask loads all of `pyarrow.compute`
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)
    return pc.cast(column, wanted)


def _statistics(actions: Any, names: set[str], wanted: Any) -> Any:  # Any: pyarrow has no types
    """Return statistics as JSON, derived from the struct where they are missing. Spec: Checkpoint Schema."""
    texts = _fit(actions.field("stats"), wanted) if "stats" in names else None
    if texts is not None and not texts.null_count:
        return texts
    from_parsed = json_column(actions.field("stats_parsed"))
    return from_parsed if texts is None else pc.coalesce(texts, pc.cast(from_parsed, wanted))
