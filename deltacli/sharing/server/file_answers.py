"""URLs of the files of shared tables, signed by their store or leading to this server, and files by the latter: whole,
or in one range of bytes. Spec: RFC 9110, Range Requests.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from deltacli.core.errors import FileMissing
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.parameters import ErrorCode, WireError
from deltacli.sharing.server.connections import url_revoked
from deltacli.sharing.server.exchange import Caller
from deltacli.sharing.server.guard import RequestGuard
from deltacli.sharing.signing.choose import FileAccess, Proxy, SignedUrls, UrlSigner, choose_access
from deltacli.sharing.signing.keys import FILE_KEY, Keys, LocalUrlSigner, TokenRefused, open_file_url
from deltacli.sharing.tables.snapshots import Place, SharedSnapshots, place_of
from deltacli.storage import LocalStorage, ReadStorage

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

BLOCK_BYTES = 256 << 10
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class FileAnswers:
    """Answers the URLs that `FileUrls` makes."""

    urls: FileUrls
    guard: RequestGuard
    snapshots: SharedSnapshots

    async def answer(self, request: Request, segments: list[str]) -> Response:
        """Return the file, or a range of it. Raises WireError."""
        file = await run_in_threadpool(self._open, request, segments)
        try:
            return _file_response(request, file)
        except BaseException:
            file.close()
            raise

    def _open(self, request: Request, segments: list[str]) -> OpenFile:
        claim = self.urls.verify(segments, request.scope["query_string"].decode("latin-1"))
        access = self.guard.readmit(claim.recipient, claim.token_epoch, request)
        table = access.catalog.find_table(claim.share, claim.schema, claim.table)
        if table is None or table.table_id != claim.table_id:
            raise url_revoked()
        storage = self.snapshots.handle(table).storage
        if isinstance(storage, LocalStorage):
            return open_below(storage.root, claim.path)
        return open_stored(storage, claim.path)


def _file_response(request: Request, file: OpenFile) -> Response:
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=3600",
        "Content-Type": "application/octet-stream",
        "ETag": file.tag,
        "Last-Modified": formatdate(file.modified_ms // 1_000, usegmt=True),
        "X-Content-Type-Options": "nosniff",
    }
    span = _wanted(request, file)
    if span is None:
        status, span = 200, Span(0, file.size_bytes - 1)
    else:
        status = 206
        headers["Content-Range"] = f"bytes {span.first}-{span.last}/{file.size_bytes}"
    headers["Content-Length"] = str(span.length)
    if request.method == "HEAD":
        file.close()
        return Response(status_code=status, headers=headers)
    return _FileResponse(file, span, status, headers)


class _FileResponse(StreamingResponse):
    """An answer with bytes of a file, which is closed however the answer ends: it may not even begin."""

    def __init__(self, file: OpenFile, span: Span, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(_blocks(file, span), status_code=status, headers=dict(headers))
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def _wanted(request: Request, file: OpenFile) -> Span | None:
    """Return the requested range; None for the whole file. Raises WireError (416) for a range outside the file.

    Several ranges, other units and a validator that no longer applies give the whole file.
    """
    match = _RANGE.fullmatch(request.headers.get("range", "").strip().replace(" ", ""))
    if match is None or match[0] == "bytes=-" or not _still_applies(request.headers.get("if-range"), file):
        return None
    size = file.size_bytes
    if not match[1]:
        first, last = max(0, size - int(match[2])), size - 1
    else:
        first, last = int(match[1]), min(size - 1, int(match[2] or size))
        if match[2] and int(match[2]) < first:
            return None
    if first >= size or first > last:
        raise WireError(
            416, ErrorCode.INVALID, "the range is outside the file", headers={"Content-Range": f"bytes */{size}"}
        )
    return Span(first, last)


def _still_applies(condition: str | None, file: OpenFile) -> bool:
    """Return whether `If-Range`, a tag or a date, names the content as it is now."""
    if condition is None:
        return True
    if condition.startswith(('"', "W/")):
        return condition == file.tag
    try:
        return int(parsedate_to_datetime(condition).timestamp()) == file.modified_ms // 1_000
    except (ValueError, OverflowError):
        return False


def _blocks(file: OpenFile, span: Span) -> Iterator[bytes]:
    offset = span.first
    while offset <= span.last:
        block = file.read(offset, min(BLOCK_BYTES, span.last + 1 - offset))
        if not block:
            return  # the file was truncated: the answer ends early, which the client notices by its length
        yield block
        offset += len(block)


class _FileClaim(NamedTuple):
    """What a URL of this server says. `path` is decoded, below the table's root."""

    share: str
    schema: str
    table: str
    table_id: str
    recipient: str
    token_epoch: int
    path: str


@dataclass(frozen=True)
class _TimedSigner:
    """A signer that knows the time. `clock` is in epoch milliseconds."""

    signer: UrlSigner
    clock: Callable[[], int]
    identity: Hashable
    waits: bool = False

    def sign(self, paths: Sequence[str], expires_ms: int) -> SignedUrls:
        """Return a URL for each path. They may expire before `expires_ms`."""
        return self.signer.sign(paths, expires_ms=expires_ms, now_ms=self.clock())


@dataclass(frozen=True)
class FileUrls:
    """Makes and reads URLs. `base_url` is the endpoint, without a slash at the end."""

    keys: Keys
    base_url: str
    clock: Callable[[], int]
    proxy: Proxy = Proxy.WHEN_NEEDED
    _chosen: dict[Place, FileAccess] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def for_table(self, table: SharedTable, caller: Caller) -> _TimedSigner:
        """Return the signer of a table for a recipient. Raises what looking up credentials raises."""
        access = self._access(table)
        table_id = "/".join((table.share, table.schema, table.name, table.table_id))  # names have no slash
        key = self.keys.signing(FILE_KEY, self.clock())
        identity = (place_of(table), table_id, caller.name, caller.token_epoch, caller.expires_ms, key.id)
        signer: UrlSigner = access.signer or LocalUrlSigner(
            self.keys,
            self.base_url,
            table_id=table_id,
            recipient=caller.name,
            token_epoch=caller.token_epoch,
            not_after_ms=caller.expires_ms,
        )
        return _TimedSigner(signer, self.clock, identity, access.waits)

    def verify(self, segments: Sequence[str], query: str) -> _FileClaim:
        """Return what a URL says, given the raw segments behind `_files` and the raw query. Raises WireError."""
        try:
            scope, path = segments
            found = open_file_url(self.keys, scope, path, query, now_ms=self.clock())
        except TokenRefused as refused:
            if refused.reason == "expired":
                raise WireError(403, ErrorCode.FORBIDDEN, "the URL has expired; query the table again") from None
            raise WireError(403, ErrorCode.FORBIDDEN, "the URL is not signed by this server, or was changed") from None
        except ValueError:
            raise WireError(404, ErrorCode.MISSING, "there is no file here") from None
        share, schema, table, table_id = found.table_id.split("/", 3)
        return _FileClaim(share, schema, table, table_id, found.recipient, found.token_epoch, found.path)

    def _access(self, table: SharedTable) -> FileAccess:
        place = place_of(table)
        with self._lock:
            known = self._chosen.get(place)
            if known is None:
                known = self._chosen[place] = choose_access(table.location, table.storage_options, proxy=self.proxy)
            return known


_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class OpenFile(Protocol):
    """A file that is being returned."""

    @property
    def size_bytes(self) -> int:
        """Return its size."""

    @property
    def modified_ms(self) -> int:
        """Return when it was last written, in epoch milliseconds."""

    @property
    def tag(self) -> str:
        """Return the validator of its content, in quotes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return at most `length` bytes."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True)
class DiskFile:
    """An open file of a local disk."""

    descriptor: int
    size_bytes: int
    modified_ns: int

    @property
    def modified_ms(self) -> int:
        """Return when it was last written, in epoch milliseconds."""
        return self.modified_ns // 1_000_000

    @property
    def tag(self) -> str:
        return f'"{self.modified_ns:x}-{self.size_bytes:x}"'

    def read(self, offset: int, length: int) -> bytes:
        """Return at most `length` bytes."""
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True)
class StoredFile:
    """A file of a store that cannot sign URLs, or must not."""

    storage: ReadStorage
    path: str
    size_bytes: int
    modified_ms: int

    @property
    def tag(self) -> str:
        """Return the validator of its content, in quotes. Files of tables are never overwritten."""
        return f'"{self.modified_ms:x}-{self.size_bytes:x}"'

    def read(self, offset: int, length: int) -> bytes:
        """Return at most `length` bytes."""
        return self.storage.read_range(self.path, offset, length)

    def close(self) -> None:
        """Do nothing: each range is a request of its own."""


def open_stored(storage: ReadStorage, path: str) -> StoredFile:
    """Open a file of a store. Raises WireError, and StorageFailed."""
    _require_plain(path)
    try:
        found = storage.stat(path)
    except FileMissing:
        raise no_file() from None
    return StoredFile(storage, path, found.size_bytes, found.modified_ms)


def open_below(root: str, path: str) -> DiskFile:
    """Open a regular file below a directory, one name after the other, without following links. Raises WireError."""
    names = _require_plain(path)
    try:
        above = os.open(root, _DIRECTORY & ~getattr(os, "O_NOFOLLOW", 0))
        for name in names[:-1]:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=above)
            finally:
                os.close(above)
            above = below
        try:
            descriptor = os.open(names[-1], _FILE, dir_fd=above)
        finally:
            os.close(above)
    except OSError:
        raise no_file() from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise no_file()
    return DiskFile(descriptor, status.st_size, status.st_mtime_ns)


def no_file() -> WireError:
    """Return the answer where a signed URL leads to nothing."""
    return WireError(404, ErrorCode.MISSING, "the file does not exist; query the table again")


def _require_plain(path: str) -> list[str]:
    names = path.split("/")
    if not all(name not in ("", ".", "..") and "\0" not in name for name in names):
        raise no_file()
    return names
