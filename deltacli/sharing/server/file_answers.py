"""Files by URLs of this server: whole, or in one range of bytes. Spec: RFC 9110, Range Requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from deltacli.sharing.protocol.wire_errors import ErrorCode, WireError
from deltacli.sharing.server.file_urls import FileUrls
from deltacli.sharing.server.guarding.refusals import url_revoked
from deltacli.sharing.server.open_files import OpenFile, http_date, open_below, open_stored
from deltacli.sharing.server.ports import Guard
from deltacli.sharing.tables.snapshots import SharedSnapshots
from deltacli.storage import LocalStorage

BLOCK_BYTES = 256 << 10
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """Return the number of bytes."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class FileAnswers:
    """Answers the URLs that `FileUrls` makes."""

    urls: FileUrls
    guard: Guard
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
        "Last-Modified": http_date(file),
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
    """Yield the bytes of a span."""
    offset = span.first
    while offset <= span.last:
        block = file.read(offset, min(BLOCK_BYTES, span.last + 1 - offset))
        if not block:
            return  # the file was truncated: the answer ends early, which the client notices by its length
        yield block
        offset += len(block)
