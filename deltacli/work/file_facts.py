"""Read facts about data files and change data files: footers only, or footers and rows of files that are opened once.
Spec: Change Data Files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from deltacli.arrow import compute as pc
from deltacli.core.errors import DataUnreadable, FileMissing, PathExternal, StorageFailed, UsageError
from deltacli.core.typing import ArrowArray, BinaryFile
from deltacli.delta.footers.parse import Footer, FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.rules.framework.base import UNREAD
from deltacli.rules.framework.data_file_views import MISSING, VANISHED, ChangeTypes, FileFault
from deltacli.storage import ReadStorage, require_inside
from deltacli.work.rows.data_files import DataFile, ReadSpec, open_data_file
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow

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

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Process a batch of rows."""

    def answer(self) -> Any:  # Any: the result of a check
        """Return the result. Called after the last batch."""


class AskingBeside:
    """A question whose batches also contain the columns of `ReadSpec.beside`, after the columns of the table."""


class OpenFileContext(NamedTuple):
    """A file whose rows are about to be read.

    `add` is its row of `action_schemas().add`. `data_file` has the partition values, in the types of the table.
    """

    add: Mapping[str, Any]  # Any: values of the columns
    data_file: DataFile
    footer: Footer
    stored: pyarrow.Schema
    """The Arrow schema of the file itself."""


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
    """Finds the files of a log in the listing of the table. `sizes` maps the path of every file below the table, not
    encoded, to bytes.
    """

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
            return read_footer(storage, inner, size, reader)
        except FileMissing:
            return None, FileFault(MISSING, f"{file.path} not found", "no such file")
        except PathExternal as refusal:
            return None, refused(self._files, file.path, refusal)
        except (StorageFailed, UsageError) as fault:
            return None, unread(file.path, fault)

    def place(self, file: ListedFile) -> tuple[ReadStorage, str, int] | None:
        """Return the store, the path in it and the size (bytes) of a file; None if a file of this table is missing.

        Raises PathExternal.
        """
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
        """Return the footers, in the order of the piece."""
        return FooterFiles(context).read(piece)


REFUSED = FileFault(PathExternal.code, "it is outside the table")
"""The result for a file that may not be opened, without its path."""


def refused(files: TableFiles, path: str, refusal: PathExternal) -> FileFault:
    """Return the result for a file that may not be opened. No rule applies to it, and `files` records it."""
    files.refuse(path)
    return FileFault(refusal.code, refusal.message)


def unread(path: str, fault: StorageFailed | UsageError) -> FileFault:
    """Return the result for an existing file that cannot be read, or whose store cannot be opened."""
    code = UNREAD if isinstance(fault, StorageFailed) else "data.unreachable"
    return FileFault(code, f"{path} cannot be read: {fault.reason}", fault.reason)


def read_footer(
    storage: ReadStorage, path: str, size: int, reader: FooterReader
) -> tuple[Footer | None, FileFault | None]:
    """Read the footer of one file by byte ranges, usually in one request. Raises StorageFailed."""
    length = _NEAR_TAIL if storage.capabilities.cheap_listing else _FAR_TAIL
    return _read_footer(lambda offset, length: storage.read_range(path, offset, length), size, length, reader)


def _read_footer(
    read: Callable[[int, int], bytes], size: int, length: int, reader: FooterReader
) -> tuple[Footer | None, FileFault | None]:
    """Read a footer, expected within the last `length` bytes. `read` gets an offset and a length."""
    tail = read(max(size - length, 0), min(length, size))
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
    wanted: ReadSpec,
    row: int,
    add: Mapping[str, Any],  # Any: values of the columns
    data_file: DataFile,
    questions: Mapping[str, RowCheckFactory],
    pool: FooterPool,
) -> FileFacts:
    """Open a file once, and read its footer and then its rows, which are passed to all questions."""
    footer, fault, rows = None, None, 0
    asked: dict[str, RowCheck] = {}
    try:
        with open_data_file(files, data_file) as opened, pool.reader() as reader:
            footer, fault = _footer_of(opened.source, reader)
            if footer is not None and fault is None:
                context = OpenFileContext(add, data_file, footer, opened.schema)
                begun = {name: question(context) for name, question in questions.items()}
                asked = {name: asking for name, asking in begun.items() if asking is not None}
                for batch in read_opened(files, wanted, data_file, opened):
                    rows += batch.num_rows
                    own = batch if batch.num_columns == wanted.of_table else batch.select(range(wanted.of_table))
                    for asking in asked.values():
                        asking.take(batch if isinstance(asking, AskingBeside) else own)
    except PathExternal as refusal:
        return FileFacts(row, None, refused(files, data_file.path, refusal))
    except StorageFailed as failed:
        return FileFacts(row, footer, fault or unread(data_file.path, failed), rows=rows, is_unread=True)
    except DataUnreadable as unreadable:
        fault = (
            fault
            or (_measured(files, data_file.path) if footer is None else None)
            or reading_fault(data_file.path, unreadable, "pages" if footer is not None else "footer")
        )
        return FileFacts(row, footer, fault, rows=rows)
    return FileFacts(row, footer, fault, {name: asking.answer() for name, asking in asked.items()}, rows)


def _footer_of(source: BinaryFile, reader: FooterReader) -> tuple[Footer | None, FileFault | None]:
    def read(offset: int, length: int) -> bytes:
        source.seek(offset)
        return bytes(source.read(length))

    source.seek(0, 2)
    return _read_footer(read, source.tell(), _NEAR_TAIL, reader)


def _measured(files: TableFiles, path: str) -> FileFault | None:
    """Return the fault shown by the end of a file that cannot be opened; None if the end is valid.

    The file may be encrypted, truncated, or not a Parquet file.
    """
    storage, inner = files.locate(path)
    try:
        size = storage.stat(inner).size_bytes
        fault, _ = _measure(storage.read_range(inner, max(size - 8, 0), min(size, 8)), size)
    except (FileMissing, StorageFailed):
        return None
    return fault


def reading_fault(path: str, unreadable: DataUnreadable, part: str = "pages") -> FileFault:
    """Return the fault of a file that has a footer but whose rows cannot be read. The rules add the file name."""
    message = unreadable.message.removeprefix(f"{path}: ")
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
    wanted = ReadSpec((column,), schema, schema, FileColumns("none", lambda field: field.name))
    file = DataFile(path, None)
    counts: Counter[str] = Counter()
    bad, example = 0, None
    with open_data_file(files, file) as opened:
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
    import pyarrow as pa

    strange = pc.filter(values, pc.invert(pc.is_in(values, value_set=pa.array(KINDS, pa.string()))))
    value = strange[0].as_py()
    return "null" if value is None else repr(value)[:100]
