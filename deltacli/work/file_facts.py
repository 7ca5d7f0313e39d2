"""Read facts about data files, change data files and deletion vectors for checks.

One file contains the vectors of many data files. It is opened once for all vectors that are close together.

Spec: Change Data Files; Deletion Vectors.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, FileMissing, PathExternal, StorageFailed, UsageError
from deltacli.core.typing import ArrowArray, BinaryFile
from deltacli.core.units import plural
from deltacli.delta.data_files import vector_file
from deltacli.delta.encoding.roaring import NATIVE, DeletedRows
from deltacli.delta.footers.parse import Footer, FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.delta.schema.file_columns import ZONE_UNKNOWN, FileColumns
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.rules.framework.base import UNREAD
from deltacli.rules.framework.data_file_views import MISSING, VANISHED, ChangeTypes, FileFault, VectorFacts
from deltacli.storage import ReadStorage, require_inside
from deltacli.work.rows import data_files
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.task import TableFiles, TaskContext, inner_path

# -- data files and change files ---------------------------------------------------------------------------------------

_NEAR_TAIL, _FAR_TAIL = 16 << 10, 64 << 10
"""Bytes read from the end of a file before the length of its footer is known (local, remote)."""
_MOST_FOOTER = 256 << 20
_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_AROUND = 12
"""Bytes of a file in addition to its footer: the magic at both ends, and the footer length."""
CHANGE_TYPE = "_change_type"
KINDS = ("insert", "update_preimage", "update_postimage", "delete")


class FileFacts(NamedTuple):
    """The result for one file.

    `footer` is None if it could not be read. `answers` is present if rows were requested and all of them could be read.
    """

    row: int
    footer: Footer | None
    fault: FileFault | None = None
    answers: Mapping[str, Any] = {}  # Any: the answer of each question about the file
    rows: int = 0
    """Number of rows read."""
    is_unread: bool = False
    """True if the rows cannot be read although the footer can."""

    @property
    def is_refused(self) -> bool:
        """True for a file outside the table that may not be opened."""
        return self.fault is not None and self.fault.code == PathExternal.code


class RowCheck(Protocol):
    """One question about one file.

    Batches arrive in order, in the columns and types of the table, without deleted rows. Every column may be null in
    them.
    """

    def take(self, batch: pa.RecordBatch) -> None:
        """Process a batch of rows."""

    def answer(self) -> Any:  # Any: the result of a check
        """Return the result. Called after the last batch."""


class AskingBeside:
    """A question whose batches also contain the columns of `ReadSpec.beside`, after the columns of the table."""


class OpenFileContext(NamedTuple):
    """A file whose rows are about to be read.

    `add` is its row of `action_schemas().add`. `data_file` has the partition values, in the types of the table. A
    question may read more of the `opened` file until it has given its answer.
    """

    add: Mapping[str, Any]  # Any: values of the columns
    data_file: data_files.DataFile
    footer: Footer
    stored: pa.Schema
    """The Arrow schema of the file itself."""
    opened: data_files.OpenDataFile


RowCheckFactory = Callable[[OpenFileContext], RowCheck | None]
"""Start a question for a file; None if the file cannot answer it."""


@dataclass
class FooterPool:
    """A pool of footer readers, one per thread. Each caches frequent schema shapes."""

    _free: list[FooterReader] = field(default_factory=list)

    @contextmanager
    def reader(self) -> Iterator[FooterReader]:
        """Lend a reader for the duration of a `with` block."""
        try:
            reader = self._free.pop()
        except IndexError:
            reader = FooterReader()
        try:
            yield reader
        finally:
            self._free.append(reader)


class ListedFile(NamedTuple):
    """A file by its path in the log, with its bytes by the listing of the table.

    None: it is missing, if it is a file of this table, else the store is asked. `is_literal`: the listing has it under
    its path without decoding, because some writers do not encode paths.
    """

    path: str
    size: int | None
    is_literal: bool = False


class FilesInListing:
    """Finds the files of a log in the listing of the table. `sizes`: path (not encoded) to bytes."""

    def __init__(self, files: TableFiles, sizes: Mapping[str, int]) -> None:
        self._files, self._sizes = files, sizes

    def find(self, path: str) -> ListedFile:
        """Return a file by its path in the log."""
        if "%" not in path and ":" not in path:  # then a path of the listing is the same path in the log
            size = self._sizes.get(path)
            if size is not None:
                return ListedFile(path, size)
        size = self.size_of(self._files.inside(path))
        if size is None:
            other = self.size_of(self._files.inside_as_written(path))
            return ListedFile(path, other, is_literal=other is not None)
        return ListedFile(path, size)

    def judged(self, fault: FileFault, path: str | None) -> FileFault:
        """Return the fault of a file, which is another one where the listing has the file that is missing."""
        if fault.code == MISSING and path is not None and self.find(path).size is not None:
            return fault._replace(code=VANISHED)
        return fault

    def size_of(self, inner: str | None) -> int | None:
        """Return the bytes of a file by its path below the root of the table, if it has one."""
        return None if inner is None else self._sizes.get(inner)


FooterRead = tuple[Footer | None, FileFault | None]
"""A footer, and why it could not be read. A file of this table that does not exist has neither."""


class FooterFiles:
    """Reads the footers of files by byte ranges, where a task runs."""

    def __init__(self, context: TaskContext) -> None:
        self._files, self._own = context.files, context.storage
        self._pool = context.stores.kept(FooterPool)

    def read(self, listed: Sequence[ListedFile]) -> list[FooterRead]:
        """Read the footers of some files."""
        with self._pool.reader() as reader:
            return [self._read(file, reader) for file in listed]

    def _read(self, file: ListedFile, reader: FooterReader) -> FooterRead:
        if self._files.is_refused(file.path):
            return None, REFUSED
        try:
            found = self.place(file)
            if found is None:
                return None, None
            storage, inner, size = found
            length = _NEAR_TAIL if storage.capabilities.has_cheap_requests else _FAR_TAIL
            return _read_footer(lambda offset, length: storage.read_range(inner, offset, length), size, length, reader)
        except FileMissing:
            return None, FileFault(MISSING, f"{file.path} not found", "no such file")
        except PathExternal as refusal:
            return None, refused(self._files, file.path, refusal)
        except (StorageFailed, UsageError) as fault:
            return None, unread(file.path, fault)

    def place(self, file: ListedFile) -> tuple[ReadStorage, str, int] | None:
        """Return store, path and size (bytes) of a file; None for a missing one of this table. Raises PathExternal."""
        storage, inner = self._files.locate(file.path)
        if storage is not self._own:
            return storage, inner, storage.stat(inner).size_bytes
        if file.size is not None and not file.is_literal:
            return storage, inner, file.size
        other = self._files.as_written(file.path)
        if file.size is not None and other is not None:
            return storage, other[1], file.size
        require_inside(storage, inner)
        return None


FooterPiece = tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True)
class ReadFooters:
    """Reads the footers of some files."""

    quick_seconds: ClassVar[float] = 0.0002

    def __call__(self, piece: FooterPiece, context: TaskContext) -> list[FooterRead]:
        return FooterFiles(context).read(piece)


REFUSED = FileFault(PathExternal.code, "it is outside the table")
"""The result for a file that may not be opened, without its path."""


def refused(files: TableFiles, path: str, refusal: PathExternal) -> FileFault:
    """Return the result for a file that may not be opened. No rule applies to it, and `files` records it."""
    files.refuse(path)
    return FileFault(refusal.code, refusal.message)


_IN_ARCHIVE = "it is in an archive of the store, which has to restore it first"


def unread(path: str, fault: StorageFailed | UsageError | DataUnreadable) -> FileFault:
    """Return the result for an existing file that cannot be read here, or whose store cannot be opened."""
    code = "data.unreachable" if isinstance(fault, UsageError) else UNREAD
    reason = _IN_ARCHIVE if fault.code == "storage.archived" else fault.reason
    return FileFault(code, f"{path} cannot be read: {reason}", reason)


def _read_footer(
    read: Callable[[int, int], bytes], size: int, length: int, reader: FooterReader
) -> tuple[Footer | None, FileFault | None]:
    """Read a footer, expected within the last `length` bytes. `read` gets an offset and a length."""
    tail = read(max(size - length, 0), min(length, size))
    if len(tail) < min(length, size):
        return None, FileFault("data.not-parquet", f"it has fewer than {size} bytes", "a shorter file")
    fault, footer_bytes = _measure(tail, size)
    if fault is not None:
        return None, fault
    if footer_bytes > len(tail) - 8:
        tail = read(size - 8 - footer_bytes, footer_bytes + 8)
    return parse_footer(tail, footer_bytes, reader)


def parse_footer(tail: bytes, length: int, reader: FooterReader) -> tuple[Footer | None, FileFault | None]:
    """Parse a footer of the given size from the end of a file."""
    try:
        footer = reader.read(tail[-8 - length : -8])
    except ThriftFaultError as fault:
        return None, FileFault("data.not-parquet", f"its footer cannot be read: {fault}", str(fault))
    if footer.is_encrypted:
        return footer, FileFault("data.encrypted", "columns of it are encrypted", "encrypted columns")
    return footer, None


def _measure(tail: bytes, size: int) -> tuple[FileFault | None, int]:
    """Return the length of a footer from the last bytes of a file."""
    magic = tail[-4:]
    if magic == _ENCRYPTED:
        return FileFault("data.encrypted", "its footer is encrypted", "PARE"), 0
    if magic != _MAGIC or size < _AROUND:
        return FileFault("data.not-parquet", "it does not end like a Parquet file", _shown(magic)), 0
    length = int.from_bytes(tail[-8:-4], "little")
    if not 0 < length <= min(size - _AROUND, _MOST_FOOTER):
        return FileFault("data.not-parquet", f"its footer cannot have {length:,} bytes", f"{length:,} bytes"), 0
    return None, length


def _shown(magic: bytes) -> str:
    return magic.hex(" ") if magic else "an empty file"


def read_file(
    files: TableFiles,
    wanted: data_files.ReadSpec,
    row: int,
    add: Mapping[str, Any],  # Any: values of the columns
    data_file: data_files.DataFile,
    questions: Mapping[str, RowCheckFactory],
    pool: FooterPool,
) -> FileFacts:
    """Open a file once, and read its footer and then its rows, which are passed to all questions."""
    footer, fault, rows = None, None, 0
    answers: dict[str, Any] = {}  # Any: what the questions answer
    try:
        with data_files.open_data_file(files, data_file) as opened, pool.reader() as reader:
            footer, fault = footer_of(opened.source, reader)
            if footer is not None and fault is None:
                context = OpenFileContext(add, data_file, footer, opened.schema, opened)
                begun = {name: question(context) for name, question in questions.items()}
                asked = {name: asking for name, asking in begun.items() if asking is not None}
                for batch in read_opened(files, wanted, data_file, opened):
                    rows += batch.num_rows
                    own = batch if batch.num_columns == wanted.of_table else batch.select(range(wanted.of_table))
                    for asking in asked.values():
                        asking.take(batch if isinstance(asking, AskingBeside) else own)
                answers = {name: asking.answer() for name, asking in asked.items()}
    except PathExternal as refusal:
        return FileFacts(row, None, refused(files, data_file.path, refusal))
    except StorageFailed as failed:
        return FileFacts(row, footer, fault or unread(data_file.path, failed), rows=rows, is_unread=True)
    except DataUnreadable as unreadable:
        if unreadable.code == ZONE_UNKNOWN:  # the file is sound: another machine may know the time zone
            return FileFacts(row, footer, unread(data_file.path, unreadable), rows=rows, is_unread=True)
        fault = (
            fault
            or (_measured(files, data_file.path) if footer is None else None)
            or reading_fault(data_file.path, unreadable, "pages" if footer is not None else "footer")
        )
        return FileFacts(row, footer, fault, rows=rows)
    return FileFacts(row, footer, fault, answers, rows)


def footer_of(source: BinaryFile, reader: FooterReader) -> tuple[Footer | None, FileFault | None]:
    """Return the footer of an open file, or why it cannot be read."""

    def read(offset: int, length: int) -> bytes:
        source.seek(offset)
        return bytes(source.read(length))

    source.seek(0, 2)
    return _read_footer(read, source.tell(), _NEAR_TAIL, reader)


def _measured(files: TableFiles, path: str) -> FileFault | None:
    """Return the fault in the end of an unopenable file (encrypted, truncated, not Parquet); None if it is valid."""
    storage, inner = files.locate(path)
    try:
        size = storage.stat(inner).size_bytes
        fault, _ = _measure(storage.read_range(inner, max(size - 8, 0), min(size, 8)), size)
    except (FileMissing, StorageFailed):
        return None
    return fault


def reading_fault(path: str, unreadable: DataUnreadable, part: str = "pages") -> FileFault:
    """Return the fault of a file that has a footer but whose rows cannot be read. The rules add the file name."""
    message = unreadable.message.removeprefix(f"{path}: ")  # layout: rules begin with the name of the file
    if message.startswith(f"{path} cannot be read"):
        message = f"its {part} cannot be read"
    reason = unreadable.facts.get("reason")
    return FileFault(unreadable.code, message, reason if isinstance(reason, str) else None)


class ChangeFacts(NamedTuple):
    """The result for one file. Without a footer nothing is known. `types` is None if rows were not read."""

    footer: Footer | None
    fault: FileFault | None
    types: ChangeTypes | None = None


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Reads change data files: footers only, or footers and rows."""

    with_rows: bool

    def __call__(self, piece: FooterPiece, context: TaskContext) -> list[ChangeFacts]:
        """Read the files. A missing file has neither a footer nor a fault."""
        read = FooterFiles(context).read(piece)
        return [self._rows(context.files, file.path, *found) for file, found in zip(piece, read, strict=True)]

    def _rows(self, files: TableFiles, path: str, footer: Footer | None, fault: FileFault | None) -> ChangeFacts:
        if footer is None or fault is not None or not self.with_rows:
            return ChangeFacts(footer, fault)
        try:
            return ChangeFacts(footer, None, count_types(files, path))
        except DataUnreadable as unreadable:
            if unreadable.code == "data.type-mismatch":  # not a string column: reported from the footer
                return ChangeFacts(footer, None)
            return ChangeFacts(footer, reading_fault(path, unreadable))
        except StorageFailed as failed:
            return ChangeFacts(footer, unread(path, failed))


def count_types(files: TableFiles, path: str) -> ChangeTypes | None:
    """Count the change types in a file; None if it has no such column. Raises DataUnreadable."""
    column = StructField(CHANGE_TYPE, PrimitiveType("string"), True, {})
    schema = arrow_schema((column,))
    wanted = data_files.ReadSpec((column,), schema, schema, FileColumns("none", lambda field: field.name))
    file = data_files.DataFile(path, None)
    counts: Counter[str] = Counter()
    bad, example = 0, None
    with data_files.open_data_file(files, file) as opened:
        if CHANGE_TYPE not in opened.schema.names:
            return None
        for batch in read_opened(files, wanted, file, opened):
            values = batch.column(0)
            known = sum(_count(values, kind, counts) for kind in KINDS)
            if known < len(values):
                bad += len(values) - known
                example = example or _example(values)
    return ChangeTypes(counts, bad, example)


def _count(values: ArrowArray, kind: str, counts: Counter[str]) -> int:
    found: int = pc.sum(pc.equal(values, kind)).as_py() or 0
    counts[kind] += found
    return found


def _example(values: ArrowArray) -> str:
    strange = pc.filter(values, pc.invert(pc.is_in(values, value_set=pa.array(KINDS, pa.string()))))
    value = strange[0].as_py()
    return "null" if value is None else repr(value)[:100]


# -- deletion vectors --------------------------------------------------------------------------------------------------

UNREACHABLE = "data.unreachable"
_VERSION = 1
_MOST_GAP = 64 << 10
"""Maximum bytes between two vectors that are read together."""
_MOST_TOGETHER = 8 << 20
MOST_VECTOR_BYTES = 64 << 20
"""Maximum bytes of vectors, by the log, that are held together."""
_GROUP, _PADDING = 5, 3
"""The characters of a group of the text of an inline vector, and the bytes by which its last group may differ from the
size by the log: it may be filled up, or be short and begin with `#`.
"""

Numbered = tuple[int, data_files.Descriptor]
"""The row of a view, and its descriptor."""


class VectorRead(NamedTuple):
    """The result for one vector. `is_usable`: its rows could be read.

    `refused` is the path of a file outside the table that may not be opened, as it is recorded; `missing` that of a
    file of another store that does not exist.
    """

    facts: VectorFacts
    is_usable: bool = False
    refused: str | None = None
    missing: str | None = None


class VectorPiece(NamedTuple):
    """Vectors that are read together, and the bytes of their files in the table, by path (not encoded)."""

    vectors: tuple[Numbered, ...]
    sizes: tuple[tuple[str, int], ...] = ()


class VectorCache:
    """Vectors that were read for their facts and whose rows are needed next, so that nothing is read twice.

    Thread-safe. A vector is taken out when it is used; the oldest ones make room for others.
    """

    def __init__(self, most_bytes: int = MOST_VECTOR_BYTES) -> None:
        self._rows: OrderedDict[tuple[object, ...], tuple[DeletedRows, int]] = OrderedDict()
        self._left = most_bytes
        self._lock = Lock()

    def put(self, descriptor: data_files.Descriptor, rows: DeletedRows) -> None:
        """Keep the rows of a vector, which count as its bytes by the log."""
        key, weight = _key(descriptor), max(descriptor.get("sizeInBytes") or 0, 0)
        with self._lock:
            if key in self._rows:
                return
            self._rows[key] = rows, weight
            self._left -= weight
            while self._left < 0 and len(self._rows) > 1:
                _, (_, freed) = self._rows.popitem(last=False)
                self._left += freed

    def take(self, descriptor: data_files.Descriptor) -> DeletedRows | None:
        """Return the rows of a vector and forget them; None if they are not kept."""
        with self._lock:
            rows, weight = self._rows.pop(_key(descriptor), (None, 0))
            self._left += weight
        return rows


def _key(descriptor: data_files.Descriptor) -> tuple[object, ...]:
    names = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
    return tuple(descriptor.get(name) for name in names)


@dataclass(frozen=True, slots=True)
class ReadVectors:
    """Reads vectors for their facts. `keeps_rows`: their rows are needed next (`rows_of_vector`)."""

    keeps_rows: bool

    def __call__(self, piece: VectorPiece, context: TaskContext) -> list[VectorRead]:
        reader = VectorReader(context.files, context.storage, dict(piece.sizes), keeps_rows=self.keeps_rows)
        found = reader.read(piece.vectors)
        if self.keeps_rows:
            cache, descriptors = context.stores.kept(VectorCache), dict(piece.vectors)
            for read in found:
                row = read.facts.row
                if row in reader.rows:
                    cache.put(descriptors[row], reader.rows[row])
        return found


def rows_of_vector(piece: VectorPiece, context: TaskContext) -> DeletedRows | None:
    """Return the rows of the only vector of a piece, from the cache if it has them; None if it cannot be read."""
    [(row, descriptor)] = piece.vectors
    kept = context.stores.kept(VectorCache).take(descriptor)
    if kept is not None:
        return kept
    reader = VectorReader(context.files, context.storage, dict(piece.sizes), keeps_rows=True)
    reader.read(piece.vectors)
    return reader.rows.get(row)


def file_of_vector(files: TableFiles, descriptor: data_files.Descriptor) -> str | None:
    """Return the path of the file of a vector below the root of the table; None if it has none there."""
    text = descriptor.get("pathOrInlineDv")
    if not isinstance(text, str):
        return None
    match descriptor.get("storageType"):
        case "u":
            path = vector_file(text)
            return None if path is None else inner_path(path)
        case "p":
            return files.inside(text)
    return None


def in_pieces(vectors: Iterable[Numbered], most: int) -> Iterator[list[Numbered]]:
    """Group vectors for `VectorReader.read`: up to `most` per group, with all vectors of one file together."""
    by_file: dict[object, list[Numbered]] = {}
    for row, descriptor in vectors:
        kind = descriptor.get("storageType")
        key = row if kind == "i" else (kind, descriptor.get("pathOrInlineDv"))
        by_file.setdefault(key, []).append((row, descriptor))
    piece: list[Numbered] = []
    for of_file in by_file.values():
        if piece and len(piece) + len(of_file) > most:
            yield piece
            piece = []
        piece += of_file
    if piece:
        yield piece


class VectorReader:
    """Reads vectors. `sizes` has the bytes of their files below the table, by path, not encoded.

    A vector in a file of the table that is not in `sizes` violates no rule here, because the listing reports it. With
    `keeps_rows`, the rows of valid vectors are in `rows`.
    """

    def __init__(self, files: TableFiles, own: ReadStorage, sizes: Mapping[str, int], *, keeps_rows: bool) -> None:
        self._files, self._own, self._sizes = files, own, sizes
        self._keeps_rows = keeps_rows
        self.rows: dict[int, DeletedRows] = {}

    def read(self, vectors: Sequence[Numbered]) -> list[VectorRead]:
        """Read some vectors."""
        found: list[VectorRead] = []
        by_file: dict[tuple[int, str], list[tuple[Numbered, data_files.VectorPlace]]] = {}
        for row, descriptor in vectors:
            text = descriptor.get("pathOrInlineDv")
            if descriptor.get("storageType") == "p" and isinstance(text, str) and self._files.is_refused(text):
                facts = VectorFacts(row, None, "its file is outside the table", None, None)
                found.append(VectorRead(facts, refused=text))
                continue
            try:
                place = data_files.find_vector(self._files, descriptor)
                if place is None:
                    found.append(self._inline(row, descriptor))
                else:
                    by_file.setdefault((id(place.storage), place.path), []).append(((row, descriptor), place))
            except data_files.VectorFaultError as fault:
                found.append(_faulty(row, fault))
            except PathExternal as refusal:
                facts = VectorFacts(row, None, refusal.message, None, None)
                found.append(VectorRead(facts, refused=_as_recorded(descriptor)))
            except (StorageFailed, UsageError) as fault:
                code = UNREAD if isinstance(fault, StorageFailed) else UNREACHABLE
                reason = _IN_ARCHIVE if fault.code == "storage.archived" else fault.message
                found.append(VectorRead(VectorFacts(row, code, reason, None, None)))
        for of_file in by_file.values():
            found += self._of_file(of_file)
        return found

    def _inline(self, row: int, descriptor: data_files.Descriptor) -> VectorRead:
        data, size = data_files.inline_data(descriptor), descriptor.get("sizeInBytes")
        read = self._parsed(row, descriptor, data)
        whole = len(data_files.inline_data({**descriptor, "sizeInBytes": None}))
        is_short = descriptor["pathOrInlineDv"][-_GROUP:].startswith("#")
        least = -_PADDING if is_short else 0  # some writers count the bytes that such a group lacks
        if read.facts.code is not None or (isinstance(size, int) and least <= whole - size <= _PADDING):
            return read
        reason = f"its text has {whole} bytes, but {size} by the log"
        facts = read.facts._replace(code="dv.size-mismatch", reason=reason, seen=str(size), expected=str(whole))
        return read._replace(facts=facts)

    def _of_file(self, vectors: Sequence[tuple[Numbered, data_files.VectorPlace]]) -> list[VectorRead]:
        """Return the vectors of one file. An invalid version is reported once, without the faults that follow."""
        storage, path = vectors[0][1].storage, vectors[0][1].path
        is_own = storage is self._own
        try:
            size = self._sizes.get(path) if is_own else storage.stat(path).size_bytes
            if size is None:
                return _unread(vectors, None, "its file is missing")
            version, found = self._read_file(vectors, size)
        except FileMissing:
            lost = _unread(vectors, "dv.file-missing", "its file is missing")
            return lost if is_own else [read._replace(missing=vectors[0][1].shown) for read in lost]
        except PathExternal as refusal:
            refused = vectors[0][1].shown
            self._files.refuse(refused)
            return [read._replace(refused=refused) for read in _unread(vectors, None, refusal.message)]
        except StorageFailed as fault:
            reason = _IN_ARCHIVE if fault.code == "storage.archived" else fault.message
            return _unread(vectors, UNREAD, reason)
        return found if not version or version[0] == _VERSION else _of_version(found, version[0])

    def _read_file(
        self, vectors: Sequence[tuple[Numbered, data_files.VectorPlace]], size: int
    ) -> tuple[bytes, list[VectorRead]]:
        """Return the first byte of a file of `size` bytes, and its vectors. Raises StorageFailed."""
        storage, path = vectors[0][1].storage, vectors[0][1].path
        version = None
        found: list[VectorRead] = []
        for start, end, members in _ranges(sorted(vectors, key=lambda one: one[1].offset), size):
            data = storage.read_range(path, start, min(end, size) - start) if start < size else b""
            if start == 0:
                version = data[:1]
            for (row, descriptor), place in members:
                stored = data[place.offset - start : place.end - start]
                try:
                    read = self._parsed(row, descriptor, data_files.stored_data(place, stored, size))
                except data_files.VectorFaultError as fault:
                    read = _faulty(row, fault)
                found.append(read)
        return (storage.read_range(path, 0, 1) if version is None else version), found

    def _parsed(self, row: int, descriptor: data_files.Descriptor, data: bytes) -> VectorRead:
        try:
            rows = data_files.parse_rows(data)
        except data_files.VectorFaultError as fault:
            return _faulty(row, fault)
        is_native = int.from_bytes(data[:4], "little") == NATIVE
        facts = VectorFacts(row, None, "", rows.count, rows.last, is_native=is_native)
        if rows.count != descriptor.get("cardinality"):
            return VectorRead(_with_fault(facts, data_files.cardinality_fault(descriptor, rows)))
        if self._keeps_rows:
            self.rows[row] = rows
        return VectorRead(facts, is_usable=True)


def _ranges(
    vectors: Sequence[tuple[Numbered, data_files.VectorPlace]], size: int
) -> Iterator[tuple[int, int, list[tuple[Numbered, data_files.VectorPlace]]]]:
    """Yield each range that is read at once: start, end, and its vectors, which are in offset order."""
    start, end = 0, 1
    members: list[tuple[Numbered, data_files.VectorPlace]] = []
    for vector in vectors:
        place = vector[1]
        stop = min(place.end, size)
        is_near = place.offset - end <= _MOST_GAP and max(end, stop) - start <= _MOST_TOGETHER
        if not is_near:
            if members:
                yield start, end, members
            start, end, members = place.offset, stop, []
        members.append(vector)
        end = max(end, stop)
    if members:
        yield start, end, members


def _faulty(row: int, fault: data_files.VectorFaultError) -> VectorRead:
    return VectorRead(_with_fault(VectorFacts(row, None, "", None, None), fault))


def _with_fault(facts: VectorFacts, fault: data_files.VectorFaultError) -> VectorFacts:
    seen, expected = (None if value is None else str(value) for value in (fault.seen, fault.expected))
    return facts._replace(code=fault.code, reason=str(fault), seen=seen, expected=expected)


def _unread(
    vectors: Sequence[tuple[Numbered, data_files.VectorPlace]], code: str | None, reason: str
) -> list[VectorRead]:
    return [VectorRead(VectorFacts(row, code, reason, None, None)) for (row, _), _ in vectors]


def _as_recorded(descriptor: data_files.Descriptor) -> str:
    """Return the path by which a file outside the table is recorded."""
    text = str(descriptor.get("pathOrInlineDv"))
    return (vector_file(text) or text) if descriptor.get("storageType") == "u" else text


def _of_version(found: list[VectorRead], version: int) -> list[VectorRead]:
    """Return the vectors of a file with an invalid version byte. The fault is reported for the first of them."""
    first = min(read.facts.row for read in found)
    more = f", and so for {plural(len(found) - 1, 'more vector')} of it" if len(found) > 1 else ""
    reason = f"its file begins with version {version}{more}"
    silent = [read._replace(facts=read.facts._replace(code=None, reason="")) for read in found]
    return [
        read
        if read.facts.row != first
        else read._replace(
            facts=read.facts._replace(code="dv.file-version", reason=reason, seen=str(version), expected=str(_VERSION))
        )
        for read in silent
    ]


@dataclass(frozen=True, slots=True)
class ReadFootersAndVectors:
    """Reads the footers, or the vectors, of a piece for their facts."""

    quick_seconds: ClassVar[float] = ReadFooters.quick_seconds

    def __call__(self, piece: FooterPiece | VectorPiece, context: TaskContext) -> list[FooterRead] | list[VectorRead]:
        if isinstance(piece, VectorPiece):
            return ReadVectors(keeps_rows=False)(piece, context)
        return ReadFooters()(piece, context)


def weight_of_facts(piece: FooterPiece | VectorPiece) -> int:
    """Return the number of footers or vectors."""
    return len(piece.vectors) if isinstance(piece, VectorPiece) else len(piece)
