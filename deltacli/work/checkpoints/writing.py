"""Encode the Parquet files of checkpoints and their sidecars a row group at a time, verify and publish them.

Spec: Checkpoints; Action Reconciliation; V2 Spec; Sidecar Files.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DeltacliError, FileMissing, StorageFailed, command
from deltacli.core.garbage_collection import POLL_SECONDS
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.pools import TaskTracker
from deltacli.core.typing import ArrowArray, BinaryFile, JsonObject
from deltacli.delta.checkpoint.content import (
    Columns,
    checkpoint_schema,
    counted_leaves,
    dictionary_leaves,
    parsed_columns,
    struct_of_actions,
)
from deltacli.delta.checkpoint.layout import sidecar_name, sidecar_path
from deltacli.delta.encoding.digests import RowDigest
from deltacli.delta.log.actions import Action, wrong_type
from deltacli.delta.log.file_actions import FileBatch, unexpired
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import describe_calendar
from deltacli.storage import Creation, Draft, FileStat, ReadStorage, Storage, Unknown
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.checkpoints.reading import CheckpointPiece, read_both
from deltacli.work.parquet_writing import Encoding
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

# -- encoding of row groups --------------------------------------------------------------------------------------------

ROWS_PER_GROUP = 65_536
BYTES_A_GROUP = 64 << 20
"""Maximum bytes of a row group in memory. 65,536 adds with 800 bytes of statistics each fit into one row group.

Without this limit, 250 adds with 2 MB of statistics each took 1.2 GB.
"""
_PAGE_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20
OTHER_SIZE = "the stored size differs from the sent size"


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """The expected content of a file: the number of rows of each kind, and the digest of every row group."""

    size_bytes: int
    actions: Mapping[str, int]
    digests: tuple[tuple[int, tuple[int, ...]], ...] = field(repr=False)
    """Rows and digest of each row group."""
    checksum: int
    """CRC-32 of all bytes."""
    footer: pyarrow.parquet.FileMetaData = field(repr=False, compare=False)

    @property
    def rows(self) -> int:
        return sum(self.actions.values())


class _Sink:
    """A local file for writing that computes the CRC-32 of the bytes written."""

    def __init__(self, place: str) -> None:
        self._file = open(place, "wb", buffering=_BLOCK_BYTES)  # noqa: SIM115  (closed by `close`)
        self.checksum = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class FileEncoder:
    """Writes one Parquet file of a checkpoint. Use it in a `with` statement; `finish` returns what was written.

    `place` is the path to write to, `name` the name used in errors. Raises StorageFailed if the file cannot be written.
    """

    def __init__(
        self,
        place: str,
        schema: pyarrow.Schema,
        encoding: Encoding,
        *,
        name: str | None = None,
        rows_a_group: int = ROWS_PER_GROUP,
        bytes_a_group: int = BYTES_A_GROUP,
    ) -> None:
        import pyarrow.parquet

        self._place = place
        self._name = place if name is None else name
        self._schema = schema
        self._rows_a_group = rows_a_group
        self._bytes_a_group = bytes_a_group
        self._absent: dict[str, ArrowArray] = {}
        self._pending: dict[str, list[Any]] = {}
        self._pending_rows: dict[str, int] = {}
        self._pending_bytes: dict[str, int] = {}
        self._actions: dict[str, int] = {}
        self._digests: list[Future[tuple[int, tuple[int, ...]]]] = []
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="deltacli-encode")
        self._flights = TaskTracker(self._encode)
        self._writing: Future[None] | None = None
        self._footers: list[pyarrow.parquet.FileMetaData] = []
        with translate_write_errors(place, self._name):
            self._sink = _Sink(place)
            self._writer = pyarrow.parquet.ParquetWriter(
                self._sink,
                schema,
                compression=encoding.codec,
                data_page_version=encoding.page_version,
                version="2.4",
                use_dictionary=dictionary_leaves(schema) or False,
                write_statistics=counted_leaves(schema),
                data_page_size=_PAGE_BYTES,
                store_schema=False,
                write_page_index=False,
                metadata_collector=self._footers,
            )
            # Parsed statistics and partition values may have dates and times, whose calendar Spark has to know.
            if calendar := describe_calendar(schema):
                self._writer.add_key_value_metadata(calendar)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._flights.wait_idle()  # closing a writer while another thread writes crashes the process
        self._workers.shutdown()
        # If a row could not be written, the footer cannot be written either; without memory it cannot be encoded.
        with suppress(OSError, MemoryError, RuntimeError):
            self._writer.close()
        self._writer.is_open = (
            False  # a writer that could not be closed tries again when it is garbage-collected, and prints an error
        )
        with suppress(OSError):
            self._sink.close()

    def add_rows(self, rows: pyarrow.Table) -> None:
        """Write rows of several kinds as a separate row group."""
        for name in rows.schema.names:
            column = rows.column(name)
            self._count(name, len(column) - column.null_count)
        self._write(rows)

    def add(self, kind: str, actions: ArrowArray) -> None:
        """Collect actions of one kind. They are written once there are enough for a row group."""
        self._pending.setdefault(kind, []).append(actions)
        self._pending_rows[kind] = self._pending_rows.get(kind, 0) + len(actions)
        self._pending_bytes[kind] = self._pending_bytes.get(kind, 0) + actions.nbytes
        if self._pending_rows[kind] >= self._rows_a_group or self._pending_bytes[kind] >= self._bytes_a_group:
            self._flush(kind)

    @property
    def rows(self) -> int:
        return sum(self._actions.values()) + sum(self._pending_rows.values())

    def finish(self) -> EncodedFile:
        """Write the remaining rows and close the file."""
        for kind in list(self._pending):
            self._flush(kind)
        self._settle()
        with translate_write_errors(self._place, self._name):
            self._writer.close()
            self._sink.close()
            size = os.stat(self._place).st_size
        digests = tuple(future.result() for future in self._digests)
        (footer,) = self._footers
        return EncodedFile(size, dict(self._actions), digests, self._sink.checksum, footer)

    def _flush(self, kind: str) -> None:
        chunks, rows = self._pending.pop(kind), self._pending_rows.pop(kind)
        self._pending_bytes.pop(kind)
        if not rows:
            return
        column = pa.chunked_array(chunks)
        columns = [column if field.name == kind else self._nulls(field, rows) for field in self._schema]
        self._count(kind, rows)
        self._write(pa.Table.from_arrays(columns, schema=self._schema))

    def _nulls(self, field: Any, rows: int) -> Any:
        known = self._absent.get(field.name)
        if known is None or len(known) < rows:
            known = self._absent[field.name] = pa.nulls(rows, field.type)
        return known.slice(0, rows)

    def _write(self, rows: pyarrow.Table) -> None:
        """Write a row group after the previous one: at most two are in memory, one of them being collected."""
        self._settle()
        self._digests.append(self._workers.submit(_digest, rows))
        self._writing = self._workers.submit(self._flights.run, rows)

    def _encode(self, rows: pyarrow.Table) -> None:
        with translate_write_errors(self._place, self._name):
            self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def _settle(self) -> None:
        """Wait for writes in progress. Raises the errors that they raised."""
        running: list[Future[Any]] = [*self._digests[-1:]]
        if self._writing is not None:
            running.append(self._writing)
        while wait(running, timeout=POLL_SECONDS).not_done:  # no single long wait: it could miss a signal
            continue
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _count(self, kind: str, rows: int) -> None:
        if rows:
            self._actions[kind] = self._actions.get(kind, 0) + rows


def _digest(rows: pyarrow.Table) -> tuple[int, tuple[int, ...]]:
    digest = RowDigest(rows.schema)
    digest.take(rows)
    return rows.num_rows, digest.answer()


def why_not_proven(place: str, encoded: EncodedFile, digests: Iterable[object]) -> str | None:
    """Return how a local file differs from what was encoded; None if all bytes and values are equal.

    Comparing bytes detects disk and memory faults. Comparing values detects encoder faults.
    """
    checksum = 0
    with _read_back(place), open(place, "rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    if checksum != encoded.checksum:
        return "its bytes differ from what was written"
    for group, (digest, wanted) in enumerate(zip_longest(digests, encoded.digests)):
        if digest != wanted:
            return f"row group {group} differs from the encoded values"
    return None


def count_groups(source: BinaryFile) -> int:
    """Return the number of row groups of a file. Raises StorageFailed if it cannot be read back."""
    with _read_back(source), _opened(source) as file:
        groups: int = ParquetReader(file).metadata.num_row_groups
        return groups


def digest_group(source: BinaryFile, group: int) -> tuple[int, tuple[int, ...]]:
    """Return the rows and the digest of one row group of a file. Raises StorageFailed if it cannot be read back."""
    with _read_back(source), _opened(source) as file:
        return _digest(ParquetReader(file).read_group(group))


def holds_rows_of(source: BinaryFile, encoded: EncodedFile) -> bool:
    """Return whether another writer's file has the same columns, and the same rows in the same row groups."""
    try:
        with _read_back(source):
            file = ParquetReader(source)
            if not file.metadata.schema.equals(encoded.footer.schema):
                return False
            if file.metadata.num_row_groups != len(encoded.digests):
                return False
            groups = (file.read_group(group) for group in range(len(encoded.digests)))
            return all(_digest(rows) == wanted for rows, wanted in zip(groups, encoded.digests, strict=True))
    except StorageFailed:
        return False


def _opened(source: Any) -> AbstractContextManager[Any]:  # Any: a local path, or an open file, which is not closed
    return pa.OSFile(os.fsencode(source)) if isinstance(source, str) else nullcontext(source)


@contextmanager
def _read_back(source: Any) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as fault:
        raise_if_out_of_memory(fault)
        name = source if isinstance(source, str) else "the file"
        raise StorageFailed(f"{name} cannot be read back: {' '.join(str(fault).split())[:200]}") from fault


def write_lines(place: str, actions: Sequence[tuple[str, JsonObject]], *, name: str | None = None) -> bytes:
    """Write the lines of a JSON checkpoint, `name` in errors, and return them. Raises StorageFailed, CommitCorrupt."""
    try:
        data = b"".join(orjson.dumps({kind: action}) + b"\n" for kind, action in actions)
    except orjson.JSONEncodeError as fault:
        raise wrong_type("an action", str(fault), "the state") from fault
    with translate_write_errors(place, name or place), open(place, "wb") as file:
        file.write(data)
    return data


def require_lines(place: str, data: bytes) -> None:
    """Raise StorageFailed unless a local file contains exactly these bytes."""
    with _read_back(place), open(place, "rb") as file:
        if file.read() != data:
            raise StorageFailed("its bytes differ from what was written")


@contextmanager
def not_proven(path: str) -> Iterator[None]:
    """Turn a fault found while reading a draft back into the error that it is not published."""
    try:
        yield
    except StorageFailed as fault:
        raise StorageFailed(
            f"{path} was not published: {fault.message}",
            code="checkpoint.not-proven",
            facts={"next": "check disk and memory for faults, then run the command again"},
        ) from fault


def require_proven(place: str, path: str, encoded: EncodedFile) -> None:
    """Read a draft back on the machine that wrote it. Raises StorageFailed unless it has the expected content."""
    with not_proven(path):
        require_content(place, encoded, (digest_group(place, group) for group in range(count_groups(place))))


def require_content(place: str, encoded: EncodedFile, digests: Iterable[object]) -> None:
    """Raise StorageFailed unless a local file has the expected bytes, and its row groups these digests."""
    why = why_not_proven(place, encoded, digests)
    if why is not None:
        raise StorageFailed(why)


def publish_named(storage: ReadStorage, draft: Draft, path: str, size: int) -> FileStat:
    """Publish a file with a unique name. Raises StorageFailed unless it has the expected size afterwards."""
    return require_published(storage, path, size, draft.publish())


def require_published(storage: ReadStorage, path: str, size: int, outcome: Creation) -> FileStat:
    """Raise StorageFailed unless a file that was published, perhaps without an answer, has the expected size."""
    cause = outcome.cause if isinstance(outcome, Unknown) else OTHER_SIZE
    try:
        return require_size(storage, path, size, cause)
    except FileMissing as fault:
        raise not_written(path, cause) from fault


def require_size(storage: ReadStorage, path: str, size: int, cause: str) -> FileStat:
    """Raise StorageFailed with this cause unless a file has this size."""
    found = storage.stat(path)
    if found.size_bytes != size:
        raise StorageFailed(
            f"{path} has {found.size_bytes} bytes, expected {size}", facts={"why": cause}, hint=command("validate")
        )
    return found


def not_written(path: str, cause: str) -> StorageFailed:
    return StorageFailed(f"{path} cannot be written", facts={"why": cause, "next": "run the same command again"})


# -- rows of file actions ----------------------------------------------------------------------------------------------

FILE_KINDS = ("add", "remove")
SIDECARS_A_PIECE = 4
"""A piece fills as many sidecars; only its last one may be smaller than the limit.

One sidecar per piece would make many small ones, because row groups rarely add up to the limit.
"""

Prove = Callable[[str, str, EncodedFile], None]
"""Gets the place and the path of a draft, and what was encoded. Raises StorageFailed unless that is its content."""


@dataclass
class RowBatch:
    """File actions as structs of the checkpoint, and their totals."""

    actions: dict[str, ArrowArray] = field(default_factory=dict)
    add_bytes: int = 0
    expired: int = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self.actions.values()))


@dataclass(frozen=True)
class RowConverter:
    """Converts file actions to rows of a checkpoint. Tombstones with a time before `cutoff_ms` (epoch milliseconds) are
    dropped, unless they `are_young` (`unexpired`).
    """

    columns: Columns
    config: TableConfiguration
    cutoff_ms: int
    are_young: bool = False

    def __call__(self, batch: FileBatch) -> RowBatch:
        """Return live files and unexpired tombstones. Runs in the reading threads."""
        types = {field.name: field.type for field in checkpoint_schema(self.columns, kinds=FILE_KINDS)}
        found = RowBatch()
        if batch.removes is not None:
            times = batch.removes.column("deletionTimestamp")
            kept = batch.removes.filter(unexpired(times, self.cutoff_ms, are_young=self.are_young))
            found.expired = batch.removes.num_rows - kept.num_rows
            if kept.num_rows:
                found.actions["remove"] = struct_of_actions(kept, types["remove"], {})
        if batch.adds is not None and batch.adds.num_rows:
            adds = batch.adds
            extra = parsed_columns(adds, self.config, self.columns.partition_values, self.columns.stats)
            found.actions["add"] = struct_of_actions(adds, types["add"], extra)
            found.add_bytes = pc.sum(adds.column("size")).as_py() or 0
        return found


@dataclass(frozen=True, slots=True)
class WrittenSidecar:
    """A published sidecar: `actions` counts those of each kind."""

    name: str
    size_bytes: int
    modified_ms: int
    actions: Mapping[str, int]

    @property
    def path(self) -> str:
        """Below the table."""
        return sidecar_path(self.name)

    @property
    def rows(self) -> int:
        return sum(self.actions.values())

    def as_action(self) -> Action:
        """Return the action that references it."""
        return {"path": self.name, "sizeInBytes": self.size_bytes, "modificationTime": self.modified_ms}


@dataclass(frozen=True, slots=True)
class SidecarPiece:
    """Row groups whose file actions become sidecars, numbered from `first_number`."""

    first_number: int
    groups: tuple[CheckpointPiece, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows of the row groups, including those that are not written."""
        return sum(piece.group.rows for piece in self.groups)


@dataclass(frozen=True, slots=True)
class WrittenPiece:
    """The sidecars of a piece, the total size of its live files, and its expired tombstones."""

    sidecars: tuple[WrittenSidecar, ...]
    add_bytes: int
    expired: int


def sidecar_pieces(groups: Sequence[CheckpointPiece], most_rows: int) -> list[tuple[CheckpointPiece, ...]]:
    """Divide row groups, in their order, into pieces of similar size for sidecars of at most this many rows.

    Returns none where they fit into one piece: they are written together with the rows of newer commits, which would
    otherwise need a sidecar of their own.
    """
    total = max(1, sum(piece.group.rows for piece in groups))
    count = -(-total // (SIDECARS_A_PIECE * most_rows))
    found: dict[int, list[CheckpointPiece]] = {}
    before = 0
    for piece in groups:
        middle = before + piece.group.rows / 2
        found.setdefault(int(middle * count / total), []).append(piece)
        before += piece.group.rows
    return [tuple(chosen) for chosen in found.values()] if len(found) > 1 else []


@dataclass(frozen=True)
class SidecarWriter:
    """Encodes, proves and publishes sidecars of at most `most_rows` rows. `unique` makes their names unique."""

    storage: Storage
    version: int
    unique: str
    schema: pyarrow.Schema
    encoding: Encoding
    most_rows: int
    prove: Prove = require_proven

    def write(self, batches: Iterator[RowBatch], number: int) -> Iterator[WrittenSidecar]:
        """Publish and yield the sidecars of some rows, numbered from `number`. If one fails, its file is deleted."""
        rest = _Rest(_cut(batches, self.most_rows))
        while rest:
            yield self._write_one(rest, sidecar_name(self.version, number, self.unique))
            number += 1

    def _write_one(self, rest: _Rest, name: str) -> WrittenSidecar:
        path = sidecar_path(name)
        with self.storage.draft(path) as draft:
            with FileEncoder(draft.local_path, self.schema, self.encoding, name=path) as encoder:
                while rest and encoder.rows < self.most_rows:
                    encoder.add(*rest.take(self.most_rows - encoder.rows))
                encoded = encoder.finish()
            self.prove(draft.local_path, path, encoded)
            try:
                published = publish_named(self.storage, draft, path, encoded.size_bytes)
            except BaseException:
                withdraw(self.storage, [path])
                raise
        return WrittenSidecar(name, encoded.size_bytes, published.modified_ms, encoded.actions)


@dataclass(frozen=True, slots=True)
class WriteSidecars:
    """Writes the live files and unexpired tombstones of some row groups as sidecars of at most `most_rows` rows.

    Newer commits have not decided them (shared `touched`). The shared `converter` makes their rows. The names of the
    files are unique to the attempt; an attempt that fails deletes its files.
    """

    version: int
    unique: str
    encoding: Encoding
    most_rows: int

    def __call__(self, piece: SidecarPiece, context: TaskContext) -> WrittenPiece:
        """Write the sidecars. Raises CheckpointUnreadable and what writing a file raises."""
        converter: RowConverter = context.shared("converter")
        writer = SidecarWriter(
            context.storage,
            self.version,
            f"{self.unique}.{context.attempt}",
            checkpoint_schema(converter.columns, kinds=FILE_KINDS),
            self.encoding,
            self.most_rows,
        )
        totals = RowBatch()
        written: list[WrittenSidecar] = []
        try:
            for sidecar in writer.write(_rows_of(piece, context, converter, totals), piece.first_number):
                written.append(sidecar)
        except BaseException:
            withdraw(context.storage, (sidecar.path for sidecar in written))
            raise
        return WrittenPiece(tuple(written), totals.add_bytes, totals.expired)


def rows_of_sidecars(piece: SidecarPiece) -> int:
    """Return the relative cost of a piece."""
    return piece.rows


def withdraw(storage: Storage, paths: Iterable[str]) -> None:
    """Delete sidecars that no file references, as far as the store allows it."""
    with suppress(DeltacliError):
        for _ in storage.delete_many(paths):
            pass


def _rows_of(
    piece: SidecarPiece, context: TaskContext, converter: RowConverter, totals: RowBatch
) -> Iterator[RowBatch]:
    for group in piece.groups:
        for batch in read_both(context.stores, group, context.shared("touched")):
            if context.is_cancelled():
                raise CancelledError
            rows = converter(batch)
            totals.add_bytes += rows.add_bytes
            totals.expired += rows.expired
            yield rows


def _cut(batches: Iterator[RowBatch], most: int) -> Iterator[tuple[str, ArrowArray]]:
    """Yield actions of one kind, at most this many at a time."""
    for batch in batches:
        for kind, actions in batch.actions.items():
            yield from ((kind, actions.slice(start, most)) for start in range(0, len(actions), most))


class _Rest:
    """Actions of one kind, taken in pieces of any size. False when there are no more."""

    def __init__(self, pieces: Iterator[tuple[str, ArrowArray]]) -> None:
        self._rest = pieces
        self._next = next(pieces, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def take(self, most: int) -> tuple[str, Any]:
        """Take at most this many actions."""
        assert self._next is not None
        kind, actions = self._next
        left = actions.slice(most)
        self._next = (kind, left) if len(left) else next(self._rest, None)
        return kind, actions.slice(0, most)
