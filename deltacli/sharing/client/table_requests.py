"""The requests about one table. Spec: Query Table Version; Query Table Metadata; Read Data from a Table; Read Change
Data Feed from a Table.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from deltacli.core.typing import Json
from deltacli.core.units import format_timestamp
from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.sharing.client.addresses import TableName
from deltacli.sharing.client.answers import ActionLine, AnswerEnd, AnswerHead, LineAnswer, LineGroup, read_version
from deltacli.sharing.client.faults import AnswerBroken, invalid, too_much
from deltacli.sharing.client.transport import Reply, Request, Transport
from deltacli.sharing.protocol import capabilities as wire
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.sharing.protocol.parameters import NEWEST_POINT, Point
from deltacli.storage.retry import BODY_ATTEMPTS

Result = TypeVar("Result")

BOTH_FORMATS = (ResponseFormat.DELTA, ResponseFormat.PARQUET)


@dataclass(frozen=True, slots=True)
class Query:
    """What to ask for. Hints and the limit let the server leave out files without a matching row.

    `starting_version` asks for the files added and removed since then, up to `ending_version`. `max_files`: files per
    page; None: what the server sends.
    """

    point: Point = NEWEST_POINT
    formats: tuple[ResponseFormat, ...] = BOTH_FORMATS
    json_hint: str | None = None
    limit: int | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    max_files: int | None = None
    refresh_token: str | None = None

    def body(self) -> dict[str, Json]:
        """Return the body of the request, without a page token."""
        found: dict[str, Any] = dict(self.point.fields())
        optional = {
            "jsonPredicateHints": self.json_hint,
            "limitHint": self.limit,
            "startingVersion": self.starting_version,
            "endingVersion": self.ending_version,
            "maxFiles": self.max_files,
            "refreshToken": self.refresh_token,
        }
        if self.point.is_newest and self.starting_version is None:
            found["includeRefreshToken"] = True
        return found | {name: value for name, value in optional.items() if value is not None}


NEWEST = Query()


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """A range of versions of a change data feed, both ends included; without an end up to the newest version."""

    start: Point
    end: Point = NEWEST_POINT
    formats: tuple[ResponseFormat, ...] = BOTH_FORMATS
    max_files: int | None = None

    def parameters(self) -> dict[str, str | int]:
        """Return the parameters of the request, without a page token."""
        found = self.start.fields("startingVersion", "startingTimestamp")
        found |= self.end.fields("endingVersion", "endingTimestamp")
        if self.max_files is not None:
            found["maxFiles"] = self.max_files
        return found | {"includeHistoricalMetadata": "true"}


class Pages:
    """All pages of an answer as one: `head`, then `groups` or `actions`, then `end`, in this order."""

    def __init__(self, head: AnswerHead, groups: Iterator[LineGroup], ends: list[AnswerEnd]) -> None:
        self.head, self.groups, self._ends = head, groups, ends

    @property
    def actions(self) -> Iterator[ActionLine]:
        """The lines of all pages, parsed."""
        return (action for group in self.groups for action in group.actions())

    def close(self) -> None:
        """Release the connection of an answer that was not read to its end."""
        if isinstance(self.groups, Generator):
            self.groups.close()

    @property
    def end(self) -> AnswerEnd:
        """What the last lines said, once all actions are read."""
        tokens = [end.refresh_token for end in self._ends if end.refresh_token]
        times = [end.min_expiration_ms for end in self._ends if end.min_expiration_ms is not None]
        return AnswerEnd(None, tokens[-1] if tokens else None, min(times, default=None))


class TableRequests:
    """Sends the requests about one table."""

    def __init__(self, transport: Transport, name: TableName) -> None:
        self.transport, self.name = transport, name
        parts = (quote(part, safe="") for part in (name.share, name.schema, name.table))
        self._path = "/shares/{}/schemas/{}/tables/{}".format(*parts)

    def version(self, *, starting_ms: int | None = None) -> int:
        """Return the newest version, or the first one committed at or after a time."""
        query = {} if starting_ms is None else {"startingTimestamp": format_timestamp(starting_ms)}
        return self.transport.ask(Request("GET", f"{self._path}/version", query), read_version)

    def metadata(self, point: Point = NEWEST_POINT, formats: tuple[ResponseFormat, ...] = BOTH_FORMATS) -> AnswerHead:
        """Return protocol and metadata of a version."""

        def read(reply: Reply) -> AnswerHead:
            answer = LineAnswer(reply, "the metadata", self.transport.limits, has_files=False)
            if (line := next(answer.actions(), None)) is not None:
                raise invalid("the metadata has more than two lines", {"found": line.kind})
            return answer.head

        headers = {wire.HEADER: capabilities(formats, ends=False)}
        return self.transport.ask(Request("GET", f"{self._path}/metadata", point.fields(), headers=headers), read)

    def query(self, query: Query, read: Callable[[Pages], Result]) -> Result:
        """Return what `read` makes of the files of a version. It is called again after an answer that broke off."""
        path, body, headers = f"{self._path}/query", query.body(), {wire.HEADER: capabilities(query.formats)}
        return self._read_pages(
            lambda page: Request("POST", path, body=body | page, headers=headers), read, "the list of files"
        )

    def changes(self, query: ChangeQuery, read: Callable[[Pages], Result]) -> Result:
        """Return what `read` makes of the files of a change data feed. It is called again after an answer that broke
        off.
        """
        path, asked = f"{self._path}/changes", query.parameters()
        headers = {wire.HEADER: capabilities(query.formats)}
        return self._read_pages(
            lambda page: Request("GET", path, asked | page, headers=headers), read, "the change data feed"
        )

    def _read_pages(
        self, request: Callable[[dict[str, str]], Request], read: Callable[[Pages], Result], what: str
    ) -> Result:
        """Return what `read` makes of all pages. Each page is streamed, and asked for when it is needed."""
        for attempt in range(1, BODY_ATTEMPTS + 1):
            pages: Pages | None = None
            try:
                pages = _open_pages(self.transport, request, what)
                return read(pages)
            except AnswerBroken:
                if attempt == BODY_ATTEMPTS:
                    raise
            finally:
                if pages is not None:
                    pages.close()
        raise AssertionError


def _open_pages(transport: Transport, request: Callable[[dict[str, str]], Request], what: str) -> Pages:
    """Return the first page, and the others as they are needed. Raises AnswerInvalid where a token comes again."""
    limits, ends = transport.limits, list[AnswerEnd]()

    def answer(token: str | None) -> tuple[Reply, LineAnswer]:
        reply = transport.open_reply(request({} if token is None else {"pageToken": token}))
        try:
            return reply, LineAnswer(reply, what, limits)
        except BaseException:
            reply.close()
            raise

    first_reply, first = answer(None)

    def groups() -> Iterator[LineGroup]:
        reply, page, seen = first_reply, first, set[str]()
        while True:
            try:
                yield from page.groups()
            finally:
                reply.close()
            ends.append(page.end)
            token = page.end.next_page_token
            if token is None:
                return
            if token in seen:
                raise invalid(f"{what} repeats a page token", {"pages": len(ends)})
            seen.add(token)
            if len(seen) >= limits.pages:
                raise too_much(what, f"{limits.pages:,} pages")
            reply, page = answer(token)
            require_same_head(first.head, page.head, what)

    return Pages(first.head, groups(), ends)


def require_same_head(first: AnswerHead, other: AnswerHead, what: str) -> None:
    """Raise AnswerInvalid where pages have another version, format, protocol or schema than the first one."""
    if replace(first, promises_end=False) != replace(other, promises_end=False):
        raise invalid(f"the pages of {what} differ in their version, format, protocol or metadata")


def capabilities(formats: tuple[ResponseFormat, ...], *, ends: bool = True) -> str:
    """Return the header that says what this client reads."""
    features = ",".join(reader_features())
    suffix = ";includeendstreamaction=true" if ends else ""
    return f"responseformat={','.join(formats)};readerfeatures={features}{suffix}"


def reader_features() -> list[str]:
    """Return the reader features that the core reads, in lower case."""
    readable: Mapping[str, bool] = {
        name: feature.is_readable for name, feature in FEATURES.items() if feature.kind is FeatureKind.READER_WRITER
    }
    return sorted(name.lower() for name, is_readable in readable.items() if is_readable)
