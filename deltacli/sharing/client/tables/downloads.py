"""Bytes of shared files by their URLs: ranges, checked against the size that the server declared."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from deltacli.errors import DataUnreadable, FileMissing
from deltacli.sharing.client.faults import (
    ASK_PROVIDER,
    DIFFERS,
    AccessRefused,
    AnswerBroken,
    ServerUnavailable,
    invalid,
)
from deltacli.sharing.client.tables.file_urls import FileUrl
from deltacli.sharing.client.tables.shared_version import HiddenFile
from deltacli.sharing.client.tables.synthetic_log import hidden_file
from deltacli.sharing.client.transport import Reply, Transport
from deltacli.storage.disk_faults import writing_faults

FindUrl = Callable[[str, str | None], FileUrl | None]
"""Gets the name of a file and a URL that was not accepted, or None; returns its URL, None for an unknown name."""

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
_EXPIRED = frozenset({400, 401, 403, 404, 410})
_MOST_KEPT = 4


class _Part(NamedTuple):
    """A range of a file as a server sent it; `whole` where it sent the whole file instead."""

    status: int
    data: bytes = b""
    total: int | None = None
    tag: str | None = None
    whole: HiddenFile | None = None


class RangeReader:
    """Reads ranges of files, from any thread. URLs that are not accepted are renewed once."""

    def __init__(self, transport: Transport, find_url: FindUrl) -> None:
        self._transport, self._find_url = transport, find_url
        self._tags: dict[str, str] = {}
        self._whole: OrderedDict[str, HiddenFile] = OrderedDict()
        self._lock = Lock()

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return bytes of a file, fewer only where it ends. Raises FileMissing for an unknown name, DataUnreadable
        where the file is not what the server declared.
        """
        with self._lock:
            kept = self._whole.get(name)
        if kept is not None:
            return kept.read(offset, length)
        found = self._url(name, None)
        if found.size_bytes is not None:
            length = min(length, found.size_bytes - offset)
        if length <= 0:
            return b""
        part = self._ask(found, offset, length)
        if part.status in _EXPIRED:
            found = self._url(name, found.url)
            part = self._ask(found, offset, length)
        return self._checked(name, found, part, offset, length)

    def size_of(self, name: str) -> int:
        """Return the bytes of a file as its own store says. Raises what `read` raises."""
        found = self._url(name, None)
        part = self._ask(found, 0, 1)
        if part.status in _EXPIRED:
            found = self._url(name, found.url)
            part = self._ask(found, 0, 1)
        if part.status == 416:
            return 0
        self._checked(name, found._replace(size_bytes=None), part, 0, 1)
        size = part.whole.size_bytes if part.whole is not None else part.total
        if size is None:
            raise invalid("the range of a file has no total size", {"file": name})
        return size

    def _url(self, name: str, not_this: str | None) -> FileUrl:
        found = self._find_url(name, not_this)
        if found is None:
            raise FileMissing(f"{name} is not a file of this version")
        return found

    def _ask(self, file: FileUrl, offset: int, length: int) -> _Part:
        """Send one request for a range."""
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}

        def read(reply: Reply) -> _Part:
            if reply.status == 200:
                return _Part(200, tag=reply.headers.get("etag"), whole=self._spill(reply, file))
            if reply.status != 206:
                return _Part(reply.status)
            data = reply.whole(length, "a range of a file")
            if len(data) < length and file.size_bytes is not None and not reply.is_framed:
                raise AnswerBroken("a range of a file broke off")
            return _Part(206, data, _require_range(reply, offset, len(data)), reply.headers.get("etag"))

        return self._transport.fetch(file.url, headers, read)

    def _spill(self, reply: Reply, file: FileUrl) -> HiddenFile:
        """Write a whole file, sent instead of a range, to a file without a name."""
        most = self._transport.limits.answer_bytes if file.size_bytes is None else file.size_bytes
        size = 0
        with hidden_file() as (place, opened), writing_faults(place, "a temporary file"), open(place, "wb") as target:
            for block in reply.blocks(most, "a file"):
                size += target.write(block)
        return HiddenFile(opened[0], size)

    def _checked(self, name: str, file: FileUrl, part: _Part, offset: int, length: int) -> bytes:
        """Return the bytes of a part. Raises for every status and size that is not as expected."""
        if part.status in (404, 410):
            raise FileMissing(f"{name} does not exist at the URL that the server sent")
        if part.status in _EXPIRED:
            raise AccessRefused("the URL of a file is not accepted", facts={"file": name, "status": str(part.status)})
        if part.status == 416:
            raise _other_size(name, file.size_bytes, f"at most {offset}")
        if part.status not in (200, 206):
            raise ServerUnavailable(f"a file was answered with status {part.status}", facts={"file": name})
        total = part.total if part.whole is None else part.whole.size_bytes
        if file.size_bytes is not None and total not in (None, file.size_bytes):
            raise _other_size(name, file.size_bytes, str(total))
        self._require_same(name, part.tag)
        if part.whole is not None:
            self._keep(name, part.whole)
            return part.whole.read(offset, length)
        if len(part.data) != length and (file.size_bytes is not None or total is None or offset + length <= total):
            raise _other_size(name, file.size_bytes, str(offset + len(part.data)))
        return part.data

    def _require_same(self, name: str, tag: str | None) -> None:
        """Raise DataUnreadable where the content of a file changed between two ranges."""
        if tag is None or tag.startswith("W/"):
            return
        with self._lock:
            if self._tags.setdefault(name, tag) != tag:
                raise DataUnreadable(
                    f"{name} was replaced while it was read", code="share.file-differs", facts={"file": name}
                )

    def _keep(self, name: str, whole: HiddenFile) -> None:
        with self._lock:
            self._whole[name] = whole
            while len(self._whole) > _MOST_KEPT:
                self._whole.popitem(last=False)


def _require_range(reply: Reply, offset: int, length: int) -> int | None:
    """Return the total size of a file from the header of a range. Raises AnswerInvalid for another range."""
    found = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
    if found is None or int(found[1]) != offset or int(found[2]) != offset + length - 1:
        raise invalid(
            "a range of a file is not the one asked for",
            {"asked": offset, "found": reply.headers.get("content-range", "no content-range"), "bytes": length},
        )
    return None if found[3] == "*" else int(found[3])


def _other_size(name: str, declared: int | None, found: str) -> DataUnreadable:
    return DataUnreadable(
        "a shared file has another size than the server declared",
        code=DIFFERS,
        facts={"file": name, "declared": f"{declared} bytes", "found": f"{found} bytes"},
        hint=ASK_PROVIDER,
    )
