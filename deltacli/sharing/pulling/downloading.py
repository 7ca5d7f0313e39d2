"""Downloading whole files: continued where they were cut, with renewed URLs, verified, and then given their names.

Large ones are received in ranges by several connections. All ranges of a file have the same strong tag, so they are of
one content.

A record beside an unfinished download has the ranges that are there, so that a later pull receives only the others. It
is believed only together with a part of full length. Ranges are recorded after they are on disk.

Spec: HTTP Semantics, Range Requests; If-Range.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import BoundedSemaphore, Event, Lock, local
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DataUnreadable, DeltacliError
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.footers.parse import FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError
from deltacli.sharing.client import faults
from deltacli.sharing.client.share_storage import CONTENT_RANGE, EXPIRED, FindUrl, GuardedReader, find_url, not_accepted
from deltacli.sharing.client.shared_files import FileUrl
from deltacli.sharing.client.transport import Reply, Transport
from deltacli.sharing.pulling.local_table import Part, is_strong_tag, open_part
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.rows.deletion_vectors import FRAME_BYTES, VectorFaultError, parse_vector, verify_vector_bytes
from deltacli.work.rows.row_reader import MAX_BATCH_BYTES, ROWS_A_BATCH

# -- checks of downloaded files before they become files of a table ----------------------------------------------------

_decoding = BoundedSemaphore(os.cpu_count() or 1)
Read = Callable[[int, int], bytes]
"""Gets an offset and a length; returns bytes of a file."""

_MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_TAIL_BYTES = 64 << 10
_LEAST_BYTES = 12
_MOST_FOOTER_BYTES = 512 << 20
_readers = local()


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file to download. `size_bytes`, `rows`: None where unknown. `vectors`: those needed of a file of vectors."""

    name: str
    size_bytes: int | None = None
    rows: int | None = None
    vectors: tuple[JsonObject, ...] = field(default=())

    @property
    def least_bytes(self) -> int:
        """Return how many bytes the file has at least."""
        if self.size_bytes is not None:
            return self.size_bytes
        return max((_place_of(one)[0] + _place_of(one)[1] + FRAME_BYTES for one in self.vectors), default=0)


def verify(wanted: WantedFile, size_bytes: int, read: Read) -> None:
    """Raise DataUnreadable unless the bytes are the file that the shared table has."""
    if wanted.size_bytes is not None and size_bytes != wanted.size_bytes:
        raise faults.other_size(wanted.name, wanted.size_bytes, size_bytes)
    if wanted.vectors:
        _verify_vectors(wanted, read)
    else:
        _verify_footer(wanted, size_bytes, read)


def decode(wanted: WantedFile, size_bytes: int, read: Read) -> None:
    """Raise DataUnreadable unless every page of a data file can be decoded, has its checksum where it has one, and the
    columns of each row group have the rows that the footer declares; and for pages that unpack to more than is accepted
    from a share. One column of a row group is in memory at a time.
    """
    tail = min(size_bytes, _TAIL_BYTES)
    try:
        with _decoding:
            source = GuardedReader(read, size_bytes, read(size_bytes - tail, tail), wanted.name)
            reader = ParquetReader(source, verify_pages=True)
            for group in range(reader.metadata.num_row_groups):
                row_group = reader.metadata.row_group(group)
                rows = row_group.num_rows
                at_once = max(
                    min(ROWS_A_BATCH, MAX_BATCH_BYTES // max(row_group.total_byte_size // max(rows, 1), 1)), 1
                )
                for leaf in range(reader.metadata.num_columns):
                    found = sum(batch.num_rows for batch in reader.read_leaves(at_once, group, [leaf]))
                    if found != rows:
                        facts = {"row group": str(group), "declared": f"{rows} rows", "found": f"{found} rows"}
                        raise faults.invalid_file(
                            wanted.name, "a column has another number of rows than its footer", facts
                        )
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise faults.invalid_file(wanted.name, f"its data cannot be decoded: {faults.clean(fault)}") from fault


def _verify_footer(wanted: WantedFile, size_bytes: int, read: Read) -> None:
    start = max(size_bytes - _TAIL_BYTES, 0)
    tail = read(start, size_bytes - start)
    magic = tail[-4:]
    if magic == _ENCRYPTED:
        raise faults.invalid_file(wanted.name, "its footer is encrypted")
    if size_bytes < _LEAST_BYTES or magic != _MAGIC or read(0, 4) != _MAGIC:
        raise faults.invalid_file(wanted.name, "it is not a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little")
    if not 0 < length <= min(size_bytes - _LEAST_BYTES, _MOST_FOOTER_BYTES):
        raise faults.invalid_file(wanted.name, f"its footer cannot have {length:,} bytes")
    data = tail[-8 - length : -8] if length + 8 <= len(tail) else read(size_bytes - 8 - length, length)
    try:
        rows = _reader().read(data).rows
    except ThriftFaultError as fault:
        raise faults.invalid_file(wanted.name, f"its footer cannot be read: {fault}") from fault
    if wanted.rows is not None and rows != wanted.rows:
        facts = {"declared": f"{wanted.rows} rows", "found": f"{rows} rows"}
        raise faults.invalid_file(wanted.name, "it has another number of rows than the server declared", facts)


def _reader() -> FooterReader:
    """Return the reader of this thread, which remembers the shapes of footers."""
    if (found := getattr(_readers, "reader", None)) is None:
        found = _readers.reader = FooterReader()
    return found


def _verify_vectors(wanted: WantedFile, read: Read) -> None:
    for descriptor in wanted.vectors:
        offset, size = _place_of(descriptor)
        try:
            data = verify_vector_bytes(size, offset + size + FRAME_BYTES, read(offset, size + FRAME_BYTES))
            parse_vector(descriptor, data)
        except VectorFaultError as fault:
            raise faults.invalid_file(wanted.name, f"a deletion vector in it cannot be read: {fault}") from fault


def _place_of(descriptor: Mapping[str, Any]) -> tuple[int, int]:
    """Return the offset and the size of a vector. Raises DataUnreadable."""
    offset, size = descriptor.get("offset"), descriptor.get("sizeInBytes")
    offset = 1 if offset is None else offset
    if type(offset) is not int or type(size) is not int or offset < 0 or not 0 <= size <= _MOST_FOOTER_BYTES:
        raise faults.invalid_file("a deletion vector", "its descriptor has no valid place")
    return offset, size


# -- downloading whole files -------------------------------------------------------------------------------------------

PARALLEL, _PARALLEL_RANGES = 16, 8
_AHEAD = 64
"""Downloads that are submitted before one is finished."""
_CONTINUED_BYTES = 1 << 20
"""Smaller files begin anew: a request for the rest takes as long as one for the whole."""
LEAST_BYTES = 64 << 20
"""Smaller files are downloaded in one stream."""
_RANGE_BYTES = 16 << 20
_MOST_RECORD_BYTES = 64 << 20
_MOST_CUTS = 3
"""Answers in a row that end early with hardly a new byte."""
_LEAST_PROGRESS_BYTES = 64 << 10
_MOST_STALE = 3
"""Answers that have other content than the one before."""
MOST_UNSIZED_BYTES = 4 << 30
"""Of a file whose size the server does not declare: one of deletion vectors."""


class _StoppedError(Exception):
    """Another download failed, or the run was interrupted."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """The URL was not accepted."""

    status: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """The answer ended early."""

    fault: faults.AnswerBroken


@dataclass(frozen=True, slots=True)
class _Stale:
    """The rest of a file does not fit the bytes so far."""


_Answer = _Refused | _Cut | _Stale | None


class Destination(NamedTuple):
    """Where files are downloaded to: finished ones to `target`, unfinished ones to `workspace`. `advance` gets how many
    bytes arrived, negative for those that are received again. `look` is called before a file gets its name, and what it
    raises ends the run. `decodes`: all data of files is verified, not only their footers.
    """

    workspace: str
    target: str
    advance: Callable[[int], None]
    look: Callable[[], None]
    decodes: bool = False


class Downloads(ABC):
    """Downloads the files of one version."""

    def __init__(self, to: Destination) -> None:
        self._to, self._advance, self._stop = to, to.advance, Event()

    def run(self, wanted: Iterable[WantedFile]) -> Iterator[int]:
        """Download files in parallel and yield the bytes that each took from the network, as they are finished.

        Raises the first error, after the other downloads have stopped. Finished files keep their names.
        """
        pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="deltacli-pull")
        running: set[Future[int]] = set()
        rest = iter(wanted)
        try:
            while True:
                if not self._stop.is_set():
                    running |= {pool.submit(self._one, file) for file in islice(rest, _AHEAD - len(running))}
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    # The error that stopped the others may come after them.
                    if not isinstance(future.exception(), _StoppedError):
                        yield future.result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, wanted: WantedFile) -> int:
        """Download a file and return how many bytes were received. Raises DeltacliError, and _StoppedError."""
        try:
            with open_part(self._to.workspace, wanted.name) as part:
                received = self._receive(wanted, part)
                self._to.look()
                part.publish(f"{self._to.target}/{wanted.name}")
                return received
        except DeltacliError:
            self._stop.set()
            raise

    def _receive(self, wanted: WantedFile, part: Part) -> int:
        """Fill the part until it is a verified file. One that an earlier pull left and that is not valid is dropped."""
        has_ranges = _read_journal(part, wanted.size_bytes or 0) is not None
        was_left = part.can_continue or has_ranges
        if not was_left:
            part.restart(None, is_large=False)
        received = self._begin(wanted, part, has_ranges=has_ranges)
        try:
            self._verify(wanted, part)
        except DataUnreadable:
            if not was_left:
                part.restart(None, is_large=False)
                raise
            _drop_journal(part)
            part.restart(None, is_large=False)
            received += self._fill(wanted, part)
            self._verify(wanted, part)
        return received

    def _verify(self, wanted: WantedFile, part: Part) -> None:
        verify(wanted, part.size_bytes, part.read)
        if self._to.decodes and not wanted.vectors:
            decode(wanted, part.size_bytes, part.read)

    def _begin(self, wanted: WantedFile, part: Part, *, has_ranges: bool) -> int:
        """Receive a file, or the rest of it. `has_ranges`: an earlier pull received ranges of it."""
        if has_ranges:
            _drop_journal(part)
            part.restart(None, is_large=False)
        return self._fill(wanted, part)

    @abstractmethod
    def _fill(self, wanted: WantedFile, part: Part) -> int:
        """Receive the rest of a file in one stream, and return the bytes that were received."""

    def _is_large(self, wanted: WantedFile) -> bool:
        return (wanted.size_bytes or 0) >= _CONTINUED_BYTES

    def _forget(self, part: Part) -> None:
        """Take back the progress of bytes that are received again."""
        if part.size_bytes:
            self._advance(-part.size_bytes)

    def _require_running(self) -> None:
        if self._stop.is_set():
            raise _StoppedError


class UrlDownloads(Downloads):
    """Downloads files by their URLs, large ones by several connections."""

    def __init__(self, to: Destination, transport: Transport, url_of: FindUrl) -> None:
        super().__init__(to)
        self._transport, self._url_of = transport, url_of
        self._range_workers = ThreadPoolExecutor(_PARALLEL_RANGES, thread_name_prefix="deltacli-range")

    def run(self, wanted: Iterable[WantedFile]) -> Iterator[int]:
        with self._range_workers:
            yield from super().run(wanted)

    def _begin(self, wanted: WantedFile, part: Part, *, has_ranges: bool) -> int:
        received = None
        if has_ranges or ((wanted.size_bytes or 0) >= LEAST_BYTES and not part.can_continue):
            ranges = _RangedDownload(self._transport, self._url_of, wanted, part, self._advance, self._require_running)
            received = ranges.run(self._range_workers)
        return self._fill(wanted, part) if received is None else received

    def _fill(self, wanted: WantedFile, part: Part) -> int:
        """Receive the rest of a file. Raises what `Transport.fetch` raises, FileMissing and DataUnreadable."""
        received, cuts, stale, is_renewed = 0, 0, 0, False
        found = find_url(self._url_of, wanted.name, None)
        while not (part.can_continue and part.size_bytes == wanted.size_bytes):
            self._require_running()
            before = part.size_bytes
            match self._ask(wanted, part, found):
                case None:
                    return received + part.size_bytes - before
                case _Refused(status):
                    if is_renewed:
                        raise not_accepted(wanted.name, status)
                    found, is_renewed = find_url(self._url_of, wanted.name, found.url), True
                case _Stale():
                    stale += 1
                    if stale > _MOST_STALE:
                        message = f"{wanted.name} was replaced while it was downloaded"
                        raise DataUnreadable(message, code=faults.DIFFERS, facts={"file": wanted.name})
                    self._forget(part)
                    part.restart(None, is_large=False)
                case _Cut(fault):
                    more = part.size_bytes - before
                    received += max(more, 0)
                    cuts = 0 if more >= _LEAST_PROGRESS_BYTES and part.can_continue else cuts + 1
                    if cuts >= _MOST_CUTS:
                        raise fault
        return received

    def _ask(self, wanted: WantedFile, part: Part, found: FileUrl) -> _Answer:
        headers: dict[str, str] = {}
        if part.can_continue and part.tag is not None:
            headers = {"Range": f"bytes={part.size_bytes}-", "If-Range": part.tag}

        def read(reply: Reply) -> _Answer:
            if reply.status in EXPIRED:
                return _Refused(reply.status)
            if reply.status == 206 and headers:
                if not _continues(reply, part, wanted):
                    return _Stale()
            elif reply.status == 200:
                _require_size(reply, wanted)
                self._forget(part)
                part.restart(reply.headers.get("etag"), is_large=self._is_large(wanted))
            elif reply.status == 416 and headers:
                return _Stale()
            else:
                raise faults.ServerUnavailable(
                    f"a file was answered with status {reply.status}", facts={"file": wanted.name}
                )
            return self._take(reply, wanted, part)

        return self._transport.fetch(found.url, headers, read)

    def _take(self, reply: Reply, wanted: WantedFile, part: Part) -> _Answer:
        whole = MOST_UNSIZED_BYTES if wanted.size_bytes is None else wanted.size_bytes
        try:
            for block in reply.blocks(whole - part.size_bytes, wanted.name):
                # Small files are finished: they would begin anew.
                if part.tag is not None or whole - part.size_bytes > _CONTINUED_BYTES:
                    self._require_running()
                part.write(block)
                self._advance(len(block))
        except faults.AnswerBroken as fault:
            return _Cut(fault)
        except faults.AnswerInvalid as fault:
            if fault.code == "share.limit" and wanted.size_bytes is not None:
                raise faults.other_size(wanted.name, wanted.size_bytes, whole + 1) from fault
            raise
        if wanted.size_bytes is not None and part.size_bytes < wanted.size_bytes and not reply.is_framed:
            return _Cut(faults.AnswerBroken(f"{wanted.name} broke off"))
        return None


def _require_size(reply: Reply, wanted: WantedFile) -> None:
    """Raise DataUnreadable where the server announces another size than it declared."""
    text = reply.headers.get("content-length", "")
    if wanted.size_bytes is not None and text.isascii() and text.isdigit() and int(text[:19]) != wanted.size_bytes:
        raise faults.other_size(wanted.name, wanted.size_bytes, int(text[:19]))


def _continues(reply: Reply, part: Part, wanted: WantedFile) -> bool:
    """Return True for the rest of the same content. Raises AnswerInvalid for another range."""
    text = reply.headers.get("content-range", "").strip()
    found = CONTENT_RANGE.fullmatch(text)
    if found is None or int(found[1]) != part.size_bytes:
        raise faults.invalid_answer(
            "a range of a file is not the one asked for", {"asked": part.size_bytes, "found": text or "none"}
        )
    if reply.headers.get("etag") != part.tag:
        return False
    if found[3] != "*" and wanted.size_bytes is not None and int(found[3]) != wanted.size_bytes:
        raise faults.other_size(wanted.name, wanted.size_bytes, int(found[3]))
    return True


class _OneStreamError(Exception):
    """The server ignores ranges, has no strong tag, or has another content now."""


@dataclass
class _Range:
    """A range of a file. The bytes before `position` are there."""

    number: int
    start: int
    end: int
    position: int


@dataclass
class _RangedDownload:
    """Downloads one file. `require_running` raises _StoppedError once the run is to end."""

    transport: Transport
    url_of: FindUrl
    wanted: WantedFile
    part: Part
    advance: Callable[[int], None]
    require_running: Callable[[], None]
    _journal: _RangeJournal | None = field(default=None, init=False)
    _begun: list[_Range] = field(default_factory=list, init=False)
    _is_failed: bool = field(default=False, init=False)

    @property
    def size_bytes(self) -> int:
        """The declared size."""
        assert self.wanted.size_bytes is not None
        return self.wanted.size_bytes

    def run(self, workers: Executor) -> int | None:
        """Receive the missing ranges and return their bytes; None: the part is empty, and the file takes one stream."""
        self._journal, received = _read_journal(self.part, self.size_bytes), 0
        try:
            if self._journal is None:
                received = self._receive(self._range(0))
            return received + self._receive_missing(workers)
        except _OneStreamError:
            self.advance(-sum(piece.position - piece.start for piece in self._begun))
            _drop_journal(self.part)
            self.part.restart(None, is_large=False)
            return None

    def _receive_missing(self, workers: Executor) -> int:
        """Receive all other ranges in parallel. Raises the first error after all ranges have ended."""
        assert self._journal is not None
        rest, received = iter(self._journal.missing), 0
        running: set[Future[int]] = set()
        try:
            while True:
                wanted = islice(rest, _PARALLEL_RANGES - len(running))
                running |= {workers.submit(self._receive, self._range(number)) for number in wanted}
                if not running:
                    return received
                done, running = wait(running, return_when=FIRST_COMPLETED)
                received += sum(future.result() for future in done)
        finally:
            self._is_failed = bool(running)
            wait(running)

    def _range(self, number: int) -> _Range:
        start = number * _RANGE_BYTES
        piece = _Range(number, start, min(start + _RANGE_BYTES, self.size_bytes), start)
        self._begun.append(piece)
        return piece

    def _receive(self, piece: _Range) -> int:
        """Receive one range and record it. Raises what `Transport.fetch` raises, FileMissing and DataUnreadable."""
        cuts, is_renewed = 0, False
        found = find_url(self.url_of, self.wanted.name, None)
        while piece.position < piece.end:
            self._require_running()
            before = piece.position
            status, fault = self._ask(piece, found.url)
            if status in EXPIRED:
                if is_renewed:
                    raise not_accepted(self.wanted.name, status)
                found, is_renewed = find_url(self.url_of, self.wanted.name, found.url), True
            elif fault is not None:
                cuts = 0 if piece.position - before >= _LEAST_PROGRESS_BYTES else cuts + 1
                if cuts >= _MOST_CUTS:
                    raise fault
        assert self._journal is not None
        self._journal.add(piece.number)
        return piece.end - piece.start

    def _require_running(self) -> None:
        self.require_running()
        if self._is_failed:
            raise _OneStreamError

    def _ask(self, piece: _Range, url: str) -> tuple[int, faults.AnswerBroken | None]:
        """Send one request for the rest of a range; return the status, and why the answer ended early."""
        headers = {"Range": f"bytes={piece.position}-{piece.end - 1}"}
        if self._journal is not None:
            headers["If-Range"] = self._journal.tag

        def read(reply: Reply) -> tuple[int, faults.AnswerBroken | None]:
            if reply.status in EXPIRED:
                return reply.status, None
            if reply.status in (200, 416):
                raise _OneStreamError
            if reply.status != 206:
                facts = {"file": self.wanted.name}
                raise faults.ServerUnavailable(f"a file was answered with status {reply.status}", facts=facts)
            self._require_range(reply, piece)
            self._require_content(reply)
            return 206, self._take(reply, piece)

        return self.transport.fetch(url, headers, read)

    def _require_range(self, reply: Reply, piece: _Range) -> None:
        """Raise AnswerInvalid for another range, DataUnreadable for one of a file of another size."""
        text = reply.headers.get("content-range", "").strip()
        found = CONTENT_RANGE.fullmatch(text)
        if found is not None and found[3] != "*" and int(found[3]) != self.size_bytes:
            raise faults.other_size(self.wanted.name, self.size_bytes, int(found[3]))
        if found is None or (int(found[1]), int(found[2])) != (piece.position, piece.end - 1):
            asked = f"{piece.position}-{piece.end - 1}"
            raise faults.invalid_answer(
                "a range of a file is not the one asked for", {"asked": asked, "found": text or "none"}
            )

    def _require_content(self, reply: Reply) -> None:
        """Start the record with the tag of the first answer; others need the same."""
        tag = reply.headers.get("etag")
        if self._journal is None and is_strong_tag(tag):
            self._journal = _begin_journal(self.part, self.size_bytes, tag)
        if self._journal is None or tag != self._journal.tag:
            raise _OneStreamError

    def _take(self, reply: Reply, piece: _Range) -> faults.AnswerBroken | None:
        try:
            for block in reply.blocks(piece.end - piece.position, self.wanted.name):
                self._require_running()
                self.part.write_at(block, piece.position)
                piece.position += len(block)
                self.advance(len(block))
        except faults.AnswerBroken as fault:
            return fault
        return None if piece.position == piece.end else faults.AnswerBroken(f"{self.wanted.name} broke off")


class _RangeJournal:
    """The tag of the content, and the numbers of the ranges that are there."""

    def __init__(self, part: Part, size_bytes: int, tag: str, done: set[int]) -> None:
        self._part, self.size_bytes, self.tag, self.done = part, size_bytes, tag, done
        self._lock = Lock()

    @property
    def missing(self) -> list[int]:
        return [number for number in range(-(-self.size_bytes // _RANGE_BYTES)) if number not in self.done]

    def add(self, number: int) -> None:
        """Sync the part, then record a range. Raises StorageFailed."""
        self._part.sync()
        with self._lock:
            with translate_write_errors(self._part.place, self._part.name), open(_place(self._part), "ab") as file:
                file.write(b"%d\n" % number)
            self.done.add(number)


def _begin_journal(part: Part, size_bytes: int, tag: str) -> _RangeJournal:
    """Drop the bytes of a part, give it its full length, and start a record. Raises NoSpace and StorageFailed."""
    _drop_journal(part)
    part.restart(None, is_large=False)
    part.stretch(size_bytes)
    head = json.dumps({"tag": tag, "size": size_bytes, "range": _RANGE_BYTES})
    with translate_write_errors(part.place, part.name), open(_place(part), "wb") as file:
        file.write(f"{head}\n".encode())
    return _RangeJournal(part, size_bytes, tag, set())


def _read_journal(part: Part, size_bytes: int) -> _RangeJournal | None:
    """Return the record of an unfinished download in ranges; None where there is none that fits."""
    try:
        with open(_place(part), "rb") as file:
            lines = file.read(_MOST_RECORD_BYTES).split(b"\n")[:-1]  # a last line that was cut does not count
        head: dict[str, Json] = json.loads(lines[0])
        tag, numbers = head["tag"], {int(line) for line in lines[1:]}
    except (OSError, ValueError, LookupError, TypeError):
        return None
    is_same = (head.get("size"), head.get("range")) == (size_bytes, _RANGE_BYTES) and part.size_bytes == size_bytes
    return _RangeJournal(part, size_bytes, tag, numbers) if is_same and is_strong_tag(tag) else None


def _drop_journal(part: Part) -> None:
    """Forget the ranges of a part."""
    with translate_write_errors(part.place, part.name), suppress(FileNotFoundError):
        os.unlink(_place(part))


def _place(part: Part) -> str:
    return f"{part.place}.ranges"
