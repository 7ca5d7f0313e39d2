"""Read the footers of data files by byte ranges, and say why one cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from deltacli.core.errors import DataUnreadable, FileMissing, PathExternal, StorageFailed, UsageError
from deltacli.core.typing import BinaryFile
from deltacli.delta.footers.parse import Footer, FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.rules.framework.base import UNREAD
from deltacli.rules.framework.data_file_views import MISSING, VANISHED, FileFault
from deltacli.storage import ReadStorage, require_inside
from deltacli.work.table_files import TableFiles
from deltacli.work.task import TaskContext

NEAR_TAIL_BYTES = 16 << 10
FAR_TAIL_BYTES = 64 << 10
"""Bytes read from the end of a file before the length of its footer is known (local, remote)."""
_MOST_FOOTER = 256 << 20
_MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_AROUND = 12
"""Bytes of a file in addition to its footer: the magic at both ends, and the footer length."""


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
        self._files = files
        self._sizes = sizes

    def find(self, path: str) -> ListedFile:
        """Return a file by its path in the log."""
        # Nearly all paths are the same in the listing and in the log.
        if "%" not in path and ":" not in path:
            size = self._sizes.get(path)
            if size is not None:
                return ListedFile(path, size)
        size = self.size_of(self._files.find_path_in_table(path))
        if size is None:
            other = self.size_of(self._files.find_undecoded_path_in_table(path))
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
        self._files = context.files
        self._own = context.storage
        self._pool = context.stores.get_shared_instance(FooterPool)

    def read(self, listed: Sequence[ListedFile]) -> list[FooterRead]:
        """Read the footers of some files."""
        with self._pool.reader() as reader:
            return [self._read(file, reader) for file in listed]

    def _read(self, file: ListedFile, reader: FooterReader) -> FooterRead:
        """Read the footer of one file. Whatever prevents it is returned as a fault."""
        if self._files.is_refused(file.path):
            return None, REFUSED
        try:
            location = self.place(file)
            if location is None:
                return None, None
            storage, inner, size = location
            length = NEAR_TAIL_BYTES if storage.capabilities.has_cheap_requests else FAR_TAIL_BYTES
            return _read_footer_by_ranges(
                lambda offset, length: storage.read_range(inner, offset, length), size, length, reader
            )
        except FileMissing:
            return None, FileFault(MISSING, f"{file.path} not found", "no such file")
        except PathExternal as refusal:
            return None, make_refused_fault(self._files, file.path, refusal)
        except (StorageFailed, UsageError) as fault:
            return None, make_unreadable_fault(file.path, fault)

    def place(self, file: ListedFile) -> tuple[ReadStorage, str, int] | None:
        """Return store, path and size (bytes) of a file; None for a missing one of this table. Raises PathExternal."""
        storage, inner = self._files.locate(file.path)
        if storage is not self._own:
            return storage, inner, storage.stat(inner).size_bytes
        if file.size is not None and not file.is_literal:
            return storage, inner, file.size
        other = self._files.locate_undecoded(file.path)
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


def make_refused_fault(files: TableFiles, path: str, refusal: PathExternal) -> FileFault:
    """Return the result for a file that may not be opened. No rule applies to it, and `files` records it."""
    files.record_refusal(path)
    return FileFault(refusal.code, refusal.message)


IN_ARCHIVE = "it is in an archive of the store, which has to restore it first"


def make_unreadable_fault(path: str, fault: StorageFailed | UsageError | DataUnreadable) -> FileFault:
    """Return the result for an existing file that cannot be read here, or whose store cannot be opened."""
    code = "data.unreachable" if isinstance(fault, UsageError) else UNREAD
    reason = IN_ARCHIVE if fault.code == "storage.archived" else fault.reason
    return FileFault(code, f"{path} cannot be read: {reason}", reason)


def _read_footer_by_ranges(
    read: Callable[[int, int], bytes], size: int, length: int, reader: FooterReader
) -> tuple[Footer | None, FileFault | None]:
    """Read a footer, expected within the last `length` bytes. `read` gets an offset and a length."""
    tail = read(max(size - length, 0), min(length, size))
    if len(tail) < min(length, size):
        return None, FileFault("data.not-parquet", f"it has fewer than {size} bytes", "a shorter file")
    fault, footer_bytes = measure_footer(tail, size)
    if fault is not None:
        return None, fault
    # Most footers are in the bytes that were read already. A larger one takes a second request.
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


def measure_footer(tail: bytes, size: int) -> tuple[FileFault | None, int]:
    """Return the length of a footer from the last bytes of a file."""
    magic = tail[-4:]
    if magic == _ENCRYPTED:
        return FileFault("data.encrypted", "its footer is encrypted", "PARE"), 0
    if magic != _MAGIC or size < _AROUND:
        return FileFault("data.not-parquet", "it does not end like a Parquet file", _format_magic(magic)), 0
    length = int.from_bytes(tail[-8:-4], "little")
    if not 0 < length <= min(size - _AROUND, _MOST_FOOTER):
        return FileFault("data.not-parquet", f"its footer cannot have {length:,} bytes", f"{length:,} bytes"), 0
    return None, length


def _format_magic(magic: bytes) -> str:
    return magic.hex(" ") if magic else "an empty file"


def read_footer(source: BinaryFile, reader: FooterReader) -> tuple[Footer | None, FileFault | None]:
    """Return the footer of an open file, or why it cannot be read."""

    def read(offset: int, length: int) -> bytes:
        source.seek(offset)
        return bytes(source.read(length))

    source.seek(0, 2)
    return _read_footer_by_ranges(read, source.tell(), NEAR_TAIL_BYTES, reader)


def make_reading_fault(path: str, unreadable: DataUnreadable, part: str = "pages") -> FileFault:
    """Return the fault of a file that has a footer but whose rows cannot be read. The rules add the file name."""
    message = unreadable.message.removeprefix(f"{path}: ")  # layout: rules begin with the name of the file
    if message.startswith(f"{path} cannot be read"):
        message = f"its {part} cannot be read"
    reason = unreadable.facts.get("reason")
    return FileFault(unreadable.code, message, reason if isinstance(reason, str) else None)
