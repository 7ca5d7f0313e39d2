"""Downloading whole files: continued where they were cut, with renewed URLs, verified, and then given their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING

from deltacli.errors import DataUnreadable, DeltacliError
from deltacli.sharing.client.faults import AnswerBroken, AnswerInvalid, ServerUnavailable, invalid, other_size
from deltacli.sharing.client.tables.downloads import CONTENT_RANGE, EXPIRED, FindUrl, find_url, not_accepted
from deltacli.sharing.pulling.unfinished_downloads import (
    CONTINUED_BYTES,
    LEAST_BYTES,
    LEAST_PROGRESS_BYTES,
    MOST_CUTS,
    PARALLEL_RANGES,
    Advance,
    Part,
    RangedDownload,
    StoppedError,
    drop_journal,
    open_part,
    read_journal,
    replaced,
)
from deltacli.sharing.pulling.verifying import WantedFile, decode, verify

if TYPE_CHECKING:
    from deltacli.sharing.client.tables.shared_files import FileUrl
    from deltacli.sharing.client.transport import Reply, Transport

PARALLEL = 16
_AHEAD = 64
"""Downloads that are submitted before one is finished."""
_MOST_STALE = 3
"""Answers that have other content than the one before."""
_MOST_UNSIZED_BYTES = 4 << 30
"""Of a file whose size the server does not declare: one of deletion vectors."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """The URL was not accepted."""

    status: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """The answer ended early."""

    fault: AnswerBroken


@dataclass(frozen=True, slots=True)
class _Stale:
    """The rest of a file does not fit the bytes so far."""


_Answer = _Refused | _Cut | _Stale | None


class Downloads:
    """Downloads the files of one version to a directory, with unfinished ones in another. `decodes`: verifies all data
    of files, not only their footers.
    """

    def __init__(
        self,
        transport: Transport,
        url_of: FindUrl,
        workspace: str,
        target: str,
        advance: Advance,
        *,
        decodes: bool = False,
    ) -> None:
        self._transport, self._url_of, self._advance, self._decodes = transport, url_of, advance, decodes
        self._workspace, self._target = workspace, target
        self._stop = Event()
        self._range_workers = ThreadPoolExecutor(PARALLEL_RANGES, thread_name_prefix="deltacli-range")

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
                    if not isinstance(future.exception(), StoppedError):
                        yield future.result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._range_workers.shutdown()

    def _one(self, wanted: WantedFile) -> int:
        """Download a file and return how many bytes were received. Raises DeltacliError, and StoppedError."""
        try:
            with open_part(self._workspace, wanted.name) as part:
                received = self._receive(wanted, part)
                part.publish(f"{self._target}/{wanted.name}")
                return received
        except DeltacliError:
            self._stop.set()
            raise

    def _receive(self, wanted: WantedFile, part: Part) -> int:
        """Fill the part until it is a verified file. One that an earlier pull left and that is not valid is dropped."""
        has_ranges = read_journal(part, wanted.size_bytes or 0) is not None
        was_left = part.can_continue or has_ranges
        if not was_left:
            part.restart(None, is_large=False)
        received = self._fill_in_ranges(wanted, part) if has_ranges or self._is_ranged(wanted, part) else None
        if received is None:
            received = self._fill(wanted, part)
        try:
            self._verify(wanted, part)
        except DataUnreadable:
            if not was_left:
                part.restart(None, is_large=False)
                raise
            drop_journal(part)
            part.restart(None, is_large=False)
            received += self._fill(wanted, part)
            self._verify(wanted, part)
        return received

    def _verify(self, wanted: WantedFile, part: Part) -> None:
        verify(wanted, part.size_bytes, part.read)
        if self._decodes and not wanted.vectors:
            decode(wanted, part.size_bytes, part.read)

    def _is_ranged(self, wanted: WantedFile, part: Part) -> bool:
        """Return True for a large file without a beginning."""
        return (wanted.size_bytes or 0) >= LEAST_BYTES and not part.can_continue

    def _fill_in_ranges(self, wanted: WantedFile, part: Part) -> int | None:
        """Receive a file by several connections; None where that is not possible, with an empty part."""
        download = RangedDownload(self._transport, self._url_of, wanted, part, self._advance, self._require_running)
        return download.run(self._range_workers)

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
                        raise replaced(wanted.name)
                    self._forget(part)
                    part.restart(None, is_large=False)
                case _Cut(fault):
                    more = part.size_bytes - before
                    received += max(more, 0)
                    cuts = 0 if more >= LEAST_PROGRESS_BYTES and part.can_continue else cuts + 1
                    if cuts >= MOST_CUTS:
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
                is_large = (wanted.size_bytes or 0) >= CONTINUED_BYTES
                part.restart(reply.headers.get("etag"), is_large=is_large)
            elif reply.status == 416 and headers:
                return _Stale()
            else:
                raise ServerUnavailable(f"a file was answered with status {reply.status}", facts={"file": wanted.name})
            return self._take(reply, wanted, part)

        return self._transport.fetch(found.url, headers, read)

    def _take(self, reply: Reply, wanted: WantedFile, part: Part) -> _Answer:
        whole = _MOST_UNSIZED_BYTES if wanted.size_bytes is None else wanted.size_bytes
        try:
            for block in reply.blocks(whole - part.size_bytes, wanted.name):
                # Small files are finished: they would begin anew.
                if part.tag is not None or whole - part.size_bytes > CONTINUED_BYTES:
                    self._require_running()
                part.write(block)
                self._advance(len(block))
        except AnswerBroken as fault:
            return _Cut(fault)
        except AnswerInvalid as fault:
            if fault.code == "share.limit" and wanted.size_bytes is not None:
                raise other_size(wanted.name, wanted.size_bytes, whole + 1) from fault
            raise
        if wanted.size_bytes is not None and part.size_bytes < wanted.size_bytes and not reply.is_framed:
            return _Cut(AnswerBroken(f"{wanted.name} broke off"))
        return None

    def _forget(self, part: Part) -> None:
        """Take back the progress of bytes that are received again."""
        if part.size_bytes:
            self._advance(-part.size_bytes)

    def _require_running(self) -> None:
        if self._stop.is_set():
            raise StoppedError


def _require_size(reply: Reply, wanted: WantedFile) -> None:
    """Raise DataUnreadable where the server announces another size than it declared."""
    text = reply.headers.get("content-length", "")
    if wanted.size_bytes is not None and text.isascii() and text.isdigit() and int(text[:19]) != wanted.size_bytes:
        raise other_size(wanted.name, wanted.size_bytes, int(text[:19]))


def _continues(reply: Reply, part: Part, wanted: WantedFile) -> bool:
    """Return True for the rest of the same content. Raises AnswerInvalid for another range."""
    text = reply.headers.get("content-range", "").strip()
    found = CONTENT_RANGE.fullmatch(text)
    if found is None or int(found[1]) != part.size_bytes:
        raise invalid("a range of a file is not the one asked for", {"asked": part.size_bytes, "found": text or "none"})
    if reply.headers.get("etag") != part.tag:
        return False
    if found[3] != "*" and wanted.size_bytes is not None and int(found[3]) != wanted.size_bytes:
        raise other_size(wanted.name, wanted.size_bytes, int(found[3]))
    return True
