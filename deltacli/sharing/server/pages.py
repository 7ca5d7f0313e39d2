"""Pages of files as lines with URLs: the lines between two row numbers, and the tokens that continue them.

A token carries what it continues. It is bound to the recipient, the table and all other parameters of the request, so
that it never leads to another version than the one it was made for. Spec: EndStreamAction; Query paging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.lines import HASHES, IdHash, LineStyle, json_line, lines_of
from deltacli.sharing.server.interfaces import Access, TableUrlSigner, TokenSeal
from deltacli.sharing.server.stderr_log import NAME
from deltacli.sharing.signing.tokens import Bound
from deltacli.sharing.tables.shared_snapshot import places_of, vector_place, vectors_of
from deltacli.sharing.tables.single_flight import Steps
from deltacli.storage import ReadStorage

if TYPE_CHECKING:
    import pyarrow

ROWS_A_STEP = 512
"""How many lines are made at a time: about 256 KiB, in 5 ms."""
_CHUNK_BYTES = 64 << 10


class FileSource(NamedTuple):
    """The store that files are in, and who signs their URLs."""

    storage: ReadStorage
    signer: TableUrlSigner


def sign_lines(source: FileSource, actions: pyarrow.RecordBatch, style: LineStyle) -> bytes:
    """Return the lines of file actions with URLs. Raises PathExternal for a file outside the table."""
    places = places_of(actions, source.storage)
    urls, expires_ms = source.signer.sign(places, style.expires_ms)
    if expires_ms != style.expires_ms:  # the credential was replaced by one that ends earlier
        style = replace(style, expires_ms=expires_ms)
    vectors = vectors_of(actions)
    if not vectors:
        return lines_of(style, actions, urls)
    changed, ids = _with_vector_urls(source, actions, style.expires_ms)
    return lines_of(style, changed, urls, ids)


def _with_vector_urls(
    source: FileSource, actions: pyarrow.RecordBatch, expires_ms: int
) -> tuple[pyarrow.RecordBatch, list[str | None]]:
    """Return actions whose deletion vectors are at URLs, and the ids of their files. Inline vectors are unchanged."""
    import pyarrow as pa

    vectors = vectors_of(actions)
    ids: list[str | None] = [None] * len(vectors)
    stored = [(row, found) for row, found in enumerate(vectors) if found is not None and found["storageType"] != "i"]
    places = [vector_place(descriptor, source.storage.uri) for _, descriptor in stored]
    urls = source.signer.sign(places, expires_ms).urls
    for (row, descriptor), place, url in zip(stored, places, urls, strict=True):
        vectors[row] = {**descriptor, "storageType": "p", "pathOrInlineDv": url}
        ids[row] = HASHES[IdHash.DELTA](place.encode("utf-8", "surrogateescape"))
    index = actions.schema.get_field_index("deletionVector")
    field = actions.schema.field(index)
    return actions.set_column(index, field, pa.array(vectors, field.type)), ids


def _in_chunks(parts: Iterator[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for part in parts:
        held += part
        end = len(held) - len(held) % _CHUNK_BYTES
        for start in range(0, end, _CHUNK_BYTES):
            yield bytes(held[start : start + _CHUNK_BYTES])
        del held[:end]
    if held:
        yield bytes(held)


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
    return _in_chunks(_all(head, lines, tail, reports_failure=reports_failure))


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
