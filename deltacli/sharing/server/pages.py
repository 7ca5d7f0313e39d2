"""Pages of files: the lines between two row numbers, and the tokens that continue them.

A token carries what it continues. It is bound to the recipient, the table and all other parameters of the request, so
that it never leads to another version than the one it was made for. Spec: EndStreamAction; Query paging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.file_lines import LineStyle
from deltacli.sharing.protocol.wire_text import json_line
from deltacli.sharing.server.logs import NAME
from deltacli.sharing.server.ports import Access, TokenSeal
from deltacli.sharing.server.signed_actions import ROWS_A_STEP, FileSource, in_chunks, sign_lines
from deltacli.sharing.signing.tokens import Bound
from deltacli.sharing.tables.single_flight import Steps

if TYPE_CHECKING:
    import pyarrow

_log = logging.getLogger(NAME)
_PAGE, _REFRESH = "page", "refresh"


@dataclass(frozen=True)
class FileGroup:
    """Files of one commit or snapshot, after lines about what changed before them. `open` yields the same `rows` files
    each time, in batches with the style of their lines. It is called only where the page has some of them. `join` is
    entered while their lines are made, in steps.
    """

    rows: int
    open: Callable[[], Iterable[tuple[LineStyle, pyarrow.RecordBatch]]]
    before: bytes = b""
    join: Callable[[], AbstractContextManager[Steps]] = lambda: nullcontext(_alone)


def _alone(_step: Hashable, work: Callable[[], bytes]) -> bytes:
    return work()


@dataclass(frozen=True)
class Page:
    """The rows from `start` on; at most `most` of them, None for all."""

    start: int = 0
    most: int | None = None

    def ends_before(self, total: int) -> bool:
        """Return True if rows follow after this page."""
        return self.most is not None and self.start + self.most < total

    def parts(self, groups: Iterable[FileGroup], total: int, source: FileSource) -> Iterator[bytes]:
        """Yield the lines of this page, of `total` files in all groups."""
        end = self.start + self.most if self.most is not None and self.ends_before(total) else total
        first = 0
        for group in groups:
            begins_here = self.start <= first and (first < end or end == total)
            if begins_here and group.before:
                yield group.before
            if max(first, self.start) < min(first + group.rows, end):
                yield from _lines_between(group, self.start - first, end - first, source)
            first += group.rows


def _lines_between(group: FileGroup, low: int, high: int, source: FileSource) -> Iterator[bytes]:
    """Yield the lines of the files of a group from one row number to another."""
    first = 0
    with group.join() as steps:
        for style, batch in group.open():
            begin, end = max(low - first, 0), min(high - first, batch.num_rows)
            for start in range(begin, end, ROWS_A_STEP):
                rows = batch.slice(start, min(ROWS_A_STEP, end - start))
                yield steps((first + start, rows.num_rows), partial(sign_lines, source, rows, style))
            first += batch.num_rows
            if first >= high and first < group.rows:
                return


@dataclass(frozen=True)
class PageTokens:
    """The tokens of one request."""

    seal: TokenSeal
    clock: Callable[[], int]
    settings: Settings
    access: Access
    table: SharedTable
    parameters: str = ""
    """A digest of everything in the request but the page."""

    def open_page(self, token: str) -> Mapping[str, Any]:
        """Return what a page token continues. Raises WireError."""
        return self.seal.open(_PAGE, token, bound=self._bound(self.parameters))

    def next_page(self, payload: Mapping[str, Any]) -> str:
        """Return the token of the next page."""
        expires_ms = self.clock() + self.settings.page_token_lifetime_seconds * 1_000
        return self.seal.seal(_PAGE, payload, bound=self._bound(self.parameters), expires_ms=expires_ms)

    def open_refresh(self, token: str) -> int:
        """Return the version that a refresh token stands for. Raises WireError."""
        opened = self.seal.open(_REFRESH, token, bound=self._bound(""))
        return int(opened["version"])

    def refresh(self, version: int) -> str:
        """Return a token that gets new URLs for the same version."""
        expires_ms = self.clock() + self.settings.refresh_token_lifetime_seconds * 1_000
        return self.seal.seal(_REFRESH, {"version": version}, bound=self._bound(""), expires_ms=expires_ms)

    def _bound(self, parameters: str) -> Bound:
        caller = self.access.caller
        return Bound(caller.name, caller.epoch, f"{self.table.full_name}/{self.table.table_id}", parameters)


def digest_of(*parameters: object) -> str:
    """Return a digest of the parameters of a request."""
    return sha256(repr(parameters).encode("utf-8", "surrogatepass")).hexdigest()


def end_line(expires_ms: int, *, refresh_token: str | None = None, next_page_token: str | None = None) -> bytes:
    """Return the last line of an answer."""
    fields = {
        "refreshToken": refresh_token,
        "nextPageToken": next_page_token,
        "minUrlExpirationTimestamp": expires_ms,
    }
    return json_line({"endStreamAction": {name: value for name, value in fields.items() if value is not None}})


def failure_line() -> bytes:
    """Return the last line of an answer that cannot be completed."""
    return json_line({"endStreamAction": {"errorMessage": "the answer is incomplete: the server failed"}})


def assemble(head: bytes, lines: Iterable[bytes], tail: bytes, *, reports_failure: bool) -> Iterator[bytes]:
    """Yield an answer in chunks. A failure after the first byte becomes the last line where the client looks for it;
    otherwise it ends the connection.
    """
    return in_chunks(_all(head, lines, tail, reports_failure=reports_failure))


def _all(head: bytes, lines: Iterable[bytes], tail: bytes, *, reports_failure: bool) -> Iterator[bytes]:
    yield head
    try:
        yield from lines
    except Exception:
        if not reports_failure:
            raise
        _log.exception("an answer could not be completed")
        yield failure_line()
        return
    if tail:
        yield tail
