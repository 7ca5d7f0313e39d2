"""Unfinished downloads: files below hidden names that continue where an earlier pull was cut, and large ones in ranges
by several connections. All ranges of a file have the same strong tag, so they are of one content.

A record beside an unfinished download has the ranges that are there, so that a later pull receives only the others. It
is believed only together with a part of full length. Ranges are recorded after they are on disk. Spec: HTTP Semantics,
Range Requests; If-Range.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, TypeGuard
from uuid import uuid4

from deltacli.errors import DataUnreadable
from deltacli.sharing.client.faults import DIFFERS, AnswerBroken, ServerUnavailable, invalid, other_size
from deltacli.sharing.client.tables.downloads import CONTENT_RANGE, EXPIRED, FindUrl, find_url, not_accepted
from deltacli.sharing.pulling.verifying import WantedFile
from deltacli.storage.disk_faults import writing_faults
from deltacli.typing import Json

if TYPE_CHECKING:
    from deltacli.sharing.client.transport import Reply, Transport


CONTINUED_BYTES = 1 << 20
"""Smaller files begin anew: a request for the rest takes as long as one for the whole."""
_LONGEST_TAG = 500


class Part:
    """An unfinished download, locked by its writer. `tag` is the ETag of the bytes so far, None where unknown."""

    def __init__(self, place: str, name: str, descriptor: int) -> None:
        self.place, self.name, self._descriptor = place, name, descriptor
        self.size_bytes = os.fstat(descriptor).st_size
        self.tag = _read_tag(place) if self.size_bytes else None

    @property
    def can_continue(self) -> bool:
        """Return True where the bytes so far can be continued."""
        return self.size_bytes > 0 and self.tag is not None

    def restart(self, tag: str | None, *, is_large: bool) -> None:
        """Drop the bytes so far. A strong tag is kept, so that a later pull can continue a large file."""
        with writing_faults(self.place, self.name):
            if self.size_bytes:
                os.ftruncate(self._descriptor, 0)
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.place}.tag")
            self.size_bytes, self.tag = 0, None
            if is_large and is_strong_tag(tag):
                with open(f"{self.place}.tag", "w", encoding="utf-8") as file:
                    file.write(tag)
                self.tag = tag

    def write(self, data: bytes) -> None:
        """Append bytes. Raises NoSpace and StorageFailed."""
        with writing_faults(self.place, self.name):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, self.size_bytes)
                self.size_bytes += written
                rest = rest[written:]

    def stretch(self, size_bytes: int) -> None:
        """Give the file its full length; bytes that were not written are zero. Raises NoSpace and StorageFailed."""
        with writing_faults(self.place, self.name):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.place}.tag")  # with it, the length would be that of the bytes so far
            os.ftruncate(self._descriptor, size_bytes)
            self.size_bytes = size_bytes

    def write_at(self, data: bytes, offset: int) -> None:
        """Write bytes inside the length of the file, from any thread. Raises NoSpace and StorageFailed."""
        with writing_faults(self.place, self.name):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, offset)
                offset += written
                rest = rest[written:]

    def sync(self) -> None:
        """Write the bytes so far to disk. Raises StorageFailed."""
        with writing_faults(self.place, self.name):
            os.fsync(self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        return os.pread(self._descriptor, length, offset)

    def publish(self, target: str) -> None:
        """Sync the file and give it its name. Raises StorageFailed."""
        with writing_faults(target, self.name):
            os.fsync(self._descriptor)
            os.rename(self.place, target)
        for record in ("tag", "ranges"):
            with suppress(OSError):
                os.unlink(f"{self.place}.{record}")


@contextmanager
def open_part(directory: str, name: str) -> Iterator[Part]:
    """Open the unfinished download of a file; another one where a pull that is running has it. Raises StorageFailed."""
    place = f"{directory}/{name}.part"
    with writing_faults(place, name):
        descriptor = _open(place)
        if descriptor is None:
            place = f"{directory}/{name}.{uuid4().hex}.part"
            descriptor = _open(place)
    assert descriptor is not None  # nothing else knows its name
    try:
        yield Part(place, name, descriptor)
    finally:
        os.close(descriptor)


def _open(place: str) -> int | None:
    """Return the locked descriptor of a file; None where another process has locked it. Raises OSError."""
    descriptor = None
    while descriptor is None:  # it was published by another pull: the next one is new
        try:
            descriptor = lock_named(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
    return descriptor


def lock_named(place: str, operation: int) -> int | None:
    """Return the locked descriptor of a file, which is made if it is missing; None where another file, or none, has the
    name by then. Raises OSError.
    """
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    is_named = False
    try:
        fcntl.flock(descriptor, operation)
        with suppress(FileNotFoundError):
            is_named = os.path.samestat(os.fstat(descriptor), os.lstat(place))
    finally:
        if not is_named:
            os.close(descriptor)
    return descriptor if is_named else None


def _read_tag(place: str) -> str | None:
    try:
        with open(f"{place}.tag", encoding="utf-8") as file:
            tag = file.read(_LONGEST_TAG + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return tag if is_strong_tag(tag) else None


def is_strong_tag(tag: object) -> TypeGuard[str]:
    """Return True for an ETag that only equal bytes share."""
    if not isinstance(tag, str) or not 2 <= len(tag) <= _LONGEST_TAG:
        return False
    return tag.startswith('"') and tag.endswith('"') and tag.isascii() and tag.isprintable()


Advance = Callable[[int], None]

MOST_CUTS = 3
"""Answers in a row that end early with hardly a new byte."""
LEAST_PROGRESS_BYTES = 64 << 10


class StoppedError(Exception):
    """Another download failed, or the run was interrupted."""


def replaced(name: str) -> DataUnreadable:
    """Return the error for a file whose content keeps changing."""
    return DataUnreadable(f"{name} was replaced while it was downloaded", code=DIFFERS, facts={"file": name})


_RANGE_BYTES = 16 << 20
_MOST_BYTES = 64 << 20
LEAST_BYTES = 64 << 20
"""Smaller files are downloaded in one stream."""
PARALLEL_RANGES = 8


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
class RangedDownload:
    """Downloads one file. `require_running` raises StoppedError once the run is to end."""

    transport: Transport
    url_of: FindUrl
    wanted: WantedFile
    part: Part
    advance: Advance
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
        """Receive the ranges that are not there and return their bytes. None: the part is empty, and the file has to be
        received in one stream.
        """
        self._journal, received = read_journal(self.part, self.size_bytes), 0
        try:
            if self._journal is None:
                received = self._receive(self._range(0))
            return received + self._receive_missing(workers)
        except _OneStreamError:
            self.advance(-sum(piece.position - piece.start for piece in self._begun))
            drop_journal(self.part)
            self.part.restart(None, is_large=False)
            return None

    def _receive_missing(self, workers: Executor) -> int:
        """Receive all other ranges in parallel. Raises the first error after all ranges have ended."""
        assert self._journal is not None
        rest, received = iter(self._journal.missing), 0
        running: set[Future[int]] = set()
        try:
            while True:
                wanted = islice(rest, PARALLEL_RANGES - len(running))
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
                cuts = 0 if piece.position - before >= LEAST_PROGRESS_BYTES else cuts + 1
                if cuts >= MOST_CUTS:
                    raise fault
        assert self._journal is not None
        self._journal.add(piece.number)
        return piece.end - piece.start

    def _require_running(self) -> None:
        self.require_running()
        if self._is_failed:
            raise _OneStreamError

    def _ask(self, piece: _Range, url: str) -> tuple[int, AnswerBroken | None]:
        """Send one request for the rest of a range; return the status, and why the answer ended early."""
        headers = {"Range": f"bytes={piece.position}-{piece.end - 1}"}
        if self._journal is not None:
            headers["If-Range"] = self._journal.tag

        def read(reply: Reply) -> tuple[int, AnswerBroken | None]:
            if reply.status in EXPIRED:
                return reply.status, None
            if reply.status in (200, 416):
                raise _OneStreamError
            if reply.status != 206:
                facts = {"file": self.wanted.name}
                raise ServerUnavailable(f"a file was answered with status {reply.status}", facts=facts)
            self._require_range(reply, piece)
            self._require_content(reply)
            return 206, self._take(reply, piece)

        return self.transport.fetch(url, headers, read)

    def _require_range(self, reply: Reply, piece: _Range) -> None:
        """Raise AnswerInvalid for another range, DataUnreadable for one of a file of another size."""
        text = reply.headers.get("content-range", "").strip()
        found = CONTENT_RANGE.fullmatch(text)
        if found is not None and found[3] != "*" and int(found[3]) != self.size_bytes:
            raise other_size(self.wanted.name, self.size_bytes, int(found[3]))
        if found is None or (int(found[1]), int(found[2])) != (piece.position, piece.end - 1):
            asked = f"{piece.position}-{piece.end - 1}"
            raise invalid("a range of a file is not the one asked for", {"asked": asked, "found": text or "none"})

    def _require_content(self, reply: Reply) -> None:
        """Start the record with the tag of the first answer; others need the same."""
        tag = reply.headers.get("etag")
        if self._journal is None and is_strong_tag(tag):
            self._journal = _begin_journal(self.part, self.size_bytes, tag)
        if self._journal is None or tag != self._journal.tag:
            raise _OneStreamError

    def _take(self, reply: Reply, piece: _Range) -> AnswerBroken | None:
        try:
            for block in reply.blocks(piece.end - piece.position, self.wanted.name):
                self._require_running()
                self.part.write_at(block, piece.position)
                piece.position += len(block)
                self.advance(len(block))
        except AnswerBroken as fault:
            return fault
        return None if piece.position == piece.end else AnswerBroken(f"{self.wanted.name} broke off")


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
            with writing_faults(self._part.place, self._part.name), open(_place(self._part), "ab") as file:
                file.write(b"%d\n" % number)
            self.done.add(number)


def _begin_journal(part: Part, size_bytes: int, tag: str) -> _RangeJournal:
    """Drop the bytes of a part, give it its full length, and start a record. Raises NoSpace and StorageFailed."""
    drop_journal(part)
    part.restart(None, is_large=False)
    part.stretch(size_bytes)
    head = json.dumps({"tag": tag, "size": size_bytes, "range": _RANGE_BYTES})
    with writing_faults(part.place, part.name), open(_place(part), "wb") as file:
        file.write(f"{head}\n".encode())
    return _RangeJournal(part, size_bytes, tag, set())


def read_journal(part: Part, size_bytes: int) -> _RangeJournal | None:
    """Return the record of an unfinished download in ranges; None where there is none that fits."""
    try:
        with open(_place(part), "rb") as file:
            lines = file.read(_MOST_BYTES).split(b"\n")[:-1]  # a last line that was cut does not count
        head: dict[str, Json] = json.loads(lines[0])
        tag, numbers = head["tag"], {int(line) for line in lines[1:]}
    except (OSError, ValueError, LookupError, TypeError):
        return None
    is_same = (head.get("size"), head.get("range")) == (size_bytes, _RANGE_BYTES) and part.size_bytes == size_bytes
    return _RangeJournal(part, size_bytes, tag, numbers) if is_same and is_strong_tag(tag) else None


def drop_journal(part: Part) -> None:
    """Forget the ranges of a part."""
    with writing_faults(part.place, part.name), suppress(FileNotFoundError):
        os.unlink(_place(part))


def _place(part: Part) -> str:
    return f"{part.place}.ranges"
