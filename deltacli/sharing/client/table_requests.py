"""The requests about shares, schemas and tables, and their answers.

Spec: Delta Sharing Capabilities Header; Response Body; EndStreamAction; Query Table Version; Query Table Metadata; Read
Data from a Table; Read Change Data Feed from a Table; List Shares; List Schemas in a Share; List Tables in a Schema;
List all Tables in a Share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import orjson

from deltacli.core.errors import parameter
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.sharing.client.addresses import TableName
from deltacli.sharing.client.faults import (
    CAPABILITY,
    STATUS,
    AnswerBroken,
    AnswerInvalid,
    AnswerLimits,
    NotReadyError,
    RequestRefused,
    ServerUnavailable,
    ShareAbsent,
    clean,
    invalid_answer,
    path_of,
    too_much,
    unframed,
    wait_for,
)
from deltacli.sharing.client.transport import Reply, Request, Transport
from deltacli.sharing.protocol import directories
from deltacli.sharing.protocol import parameters as wire
from deltacli.sharing.protocol.parameters import NEWEST_POINT, Point, ResponseFormat
from deltacli.storage.listing_limit import ListingLimit
from deltacli.storage.retry import BODY_ATTEMPTS
from deltacli.storage.retry_after import read_retry_after

# -- answers with lines ------------------------------------------------------------------------------------------------

VERSION_HEADER = "delta-table-version"
_END = "endStreamAction"
_LONGEST_VERSION = 19


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The version and the format of an answer, and its first two lines as they came."""

    version: int
    form: ResponseFormat
    promises_end: bool
    """The last line will be `endStreamAction`."""
    protocol: dict[str, Json] = field(default_factory=dict, repr=False)
    metadata: dict[str, Json] = field(default_factory=dict, repr=False)

    @property
    def delta_protocol(self) -> dict[str, Json]:
        """The protocol action of a log that holds these files."""
        if self.form is ResponseFormat.PARQUET:
            return {"minReaderVersion": 1, "minWriterVersion": 4}  # of tables with a change data feed
        return _object(self.protocol, "deltaProtocol")

    @property
    def delta_metadata(self) -> dict[str, Json]:
        """The metadata action of a log that holds these files."""
        if self.form is ResponseFormat.DELTA:
            return {"partitionColumns": [], "configuration": {}, **_object(self.metadata, "deltaMetadata")}
        return _metadata_of_parquet(self.metadata)


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """What the last line says."""

    next_page_token: str | None = None
    refresh_token: str | None = None
    min_expiration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ActionLine:
    """A line after the first two: an action of a file, or the protocol or metadata of a later version."""

    kind: str
    fields: dict[str, Json]


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Whole lines after the first two, as they came. `actions` parses them; use it, or read all of `text` otherwise.

    The line that ends an answer is a group of its own, which has to be parsed by `actions`.
    """

    text: bytes = field(repr=False)
    actions: Callable[[], Iterator[ActionLine]] = field(repr=False)


class LineAnswer:
    """One answer: `head`, then `groups` or `actions`, then `end`. `has_files`: False where it ends with its head."""

    def __init__(
        self, reply: Reply, what: str, limits: AnswerLimits, *, has_files: bool = True, now_ms: int = 0
    ) -> None:
        """Raises NotReadyError where the answer says that there is none yet; `now_ms` is for the time that it names."""
        self._now_ms = now_ms
        self._texts = whole_lines(reply.blocks(limits.answer_bytes, what), limits.line_bytes)
        self._unread = b""
        self._reply, self._what, self._has_files = reply, what, has_files
        self._end: AnswerEnd | None = None
        form, promises = _read_capabilities(reply)
        protocol = self._first("protocol")
        version = parse_version_header(reply)
        self.head = AnswerHead(version, form, promises, protocol, self._first("metaData"))

    def _first(self, kind: str) -> dict[str, Json]:
        try:
            found = self._first_line()
        except AnswerInvalid as fault:
            raise self._cut() if not self._reply.is_framed else fault from fault
        if found is None and not self._reply.is_framed:
            raise self._cut()
        if found is not None and found[0] == _END:
            self._take_end(found[1])
        if found is not None and found[0] == STATUS and kind == "protocol" and self._has_files:
            raise NotReadyError(found[1], read_retry_after(self._reply.headers, now=lambda: self._now_ms / 1000))
        if found is None or found[0] != kind:
            raise invalid_answer(f"{self._what} does not begin with protocol and metaData", {"expected": kind})
        return found[1]

    def _first_line(self) -> tuple[str, dict[str, Json]] | None:
        """Take the first line that is not empty from what was not read; None at the end of the body."""
        while True:
            while self._unread:
                line, _, self._unread = self._unread.partition(b"\n")
                if line and not line.isspace():
                    return _parse_line(line)
            text = next(self._texts, None)
            if text is None:
                return None
            self._unread = text

    def groups(self) -> Iterator[LineGroup]:
        """Yield the other lines. Raises AnswerInvalid, and AnswerBroken where the answer is incomplete."""
        for text in _without_ends(chain((self._unread,), self._texts)):
            if self._end is not None:
                raise self._continued()
            self._require_whole(text)
            yield LineGroup(text, partial(self._actions_of, text))
        if self._end is None and self.head.promises_end:
            raise AnswerBroken(f"{self._what} ends without endStreamAction")
        if self._end is None and self._has_files and not self._reply.is_framed:
            raise self._cut()

    def _require_whole(self, text: bytes) -> None:
        """Raise AnswerBroken for a part of a line at the end of the connection: the rest of it was not received."""
        if self._reply.is_framed or text.endswith(b"\n"):
            return
        try:
            _parse_line(text.rpartition(b"\n")[2])
        except AnswerInvalid as fault:
            raise self._cut() from fault

    def _cut(self) -> AnswerBroken:
        """Return the error for an answer that may go on behind the end of the connection."""
        return unframed(f"{self._what} may be incomplete: it ended with the connection, and not with endStreamAction")

    def actions(self) -> Iterator[ActionLine]:
        """Yield the other lines, parsed. Raises what `groups` raises."""
        return (action for group in self.groups() for action in group.actions())

    def _actions_of(self, text: bytes) -> Iterator[ActionLine]:
        for kind, fields in parse_lines(text):
            if self._end is not None:
                raise self._continued()
            if kind == _END:
                self._take_end(fields)
            else:
                yield ActionLine(kind, fields)

    def _continued(self) -> AnswerInvalid:
        return invalid_answer(f"{self._what} continues after endStreamAction")

    @property
    def end(self) -> AnswerEnd:
        """The last line, once all actions are read."""
        return self._end or AnswerEnd()

    def _take_end(self, fields: dict[str, Json]) -> None:
        if fields.get("errorMessage"):
            raise AnswerBroken(f"the server could not complete {self._what}: {clean(fields['errorMessage'])}")
        self._end = AnswerEnd(
            _token(fields, "nextPageToken"),
            _token(fields, "refreshToken"),
            _number(fields, "minUrlExpirationTimestamp"),
        )


def parse_version_header(reply: Reply) -> int:
    """Return the version in the header of an answer. Raises AnswerInvalid."""
    text = reply.headers.get(VERSION_HEADER, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_VERSION):
        raise invalid_answer(f"the header {VERSION_HEADER} is not a version", {"found": text or "no such header"})
    return int(text)


def _without_ends(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield texts that are not empty, a last line that can be the end of the answer on its own."""
    for text in texts:
        start = text.rfind(b"\n", 0, len(text) - 1) + 1
        parts = (text[:start], text[start:]) if _END.encode() in text[start:] else (text,)
        yield from (part for part in parts if part and not part.isspace())


def _read_capabilities(reply: Reply) -> tuple[ResponseFormat, bool]:
    """Return the format of an answer (parquet without the header), and whether it promises `endStreamAction`."""
    values = {}
    for part in reply.headers.get(wire.HEADER, "").split(";"):
        name, _, value = part.partition("=")
        values[name.strip().lower()] = value.strip().lower()
    form = values.get("responseformat") or ResponseFormat.PARQUET
    if form not in list(ResponseFormat):
        raise invalid_answer("the format of the answer is unknown", {"responseformat": form})
    return ResponseFormat(form), values.get("includeendstreamaction") == "true"


def _object(fields: dict[str, Json], name: str) -> dict[str, Json]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise invalid_answer(f"{name} is missing")
    return value


def _metadata_of_parquet(fields: dict[str, Json]) -> dict[str, Json]:
    given = fields.get("configuration")
    feed = isinstance(given, dict) and str(given.get("enableChangeDataFeed")).lower() == "true"
    action = {
        "id": fields.get("id"),
        "name": fields.get("name"),
        "description": fields.get("description"),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": fields.get("schemaString"),
        "partitionColumns": fields.get("partitionColumns") or [],
        "configuration": {"delta.enableChangeDataFeed": "true"} if feed else {},
    }
    return {name: value for name, value in action.items() if value is not None}


def _token(fields: dict[str, Json], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid_answer(f"{name} is not a string")
    return value or None


def _number(fields: dict[str, Json], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and type(value) is not int:
        raise invalid_answer(f"{name} is not a number")
    return value


_TEXT_BYTES = 2 << 20
"""Of whole lines that are parsed at once."""


def whole_lines(blocks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the body in texts of whole lines, small ones first. Raises AnswerInvalid for one above `most_bytes`."""
    held, held_bytes, rest, rest_bytes, least = list[bytes](), 0, list[bytes](), 0, 0
    for block in blocks:
        if end := block.rfind(b"\n") + 1:
            held += [*rest, block[:end]]
            held_bytes += rest_bytes + end
            rest, rest_bytes = [block[end:]], 0
        else:
            rest.append(block)
        rest_bytes += len(block) - end
        if rest_bytes > most_bytes:
            raise too_much("a line of an answer", f"{most_bytes:,} bytes")
        if held and held_bytes >= least:
            yield _short_lines(b"".join(held), most_bytes)
            held, held_bytes, least = [], 0, _TEXT_BYTES
    if held or rest_bytes:
        yield _short_lines(b"".join([*held, *rest]), most_bytes)


def _short_lines(text: bytes, most_bytes: int) -> bytes:
    if len(text) > most_bytes and any(len(line) > most_bytes for line in text.split(b"\n")):
        raise too_much("a line of an answer", f"{most_bytes:,} bytes")
    return text


def _parse_line(line: bytes) -> tuple[str, dict[str, Json]]:
    """Return the only key of a line's object and its value. Raises AnswerInvalid."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as fault:
        raise invalid_answer("a line is not JSON", {"reason": fault}) from fault
    if not isinstance(document, dict):
        raise invalid_answer("a line is not a JSON object")
    found = [(name, value) for name, value in document.items() if value is not None]
    if len(found) != 1 or not isinstance(found[0][1], dict):
        raise invalid_answer("a line is not an object with one action", {"keys": ", ".join(map(str, document))})
    return found[0]


def parse_lines(text: bytes) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the actions of lines; empty ones are skipped."""
    return (_parse_line(line) for line in text.split(b"\n") if line and not line.isspace())


# -- the requests about one table --------------------------------------------------------------------------------------

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
    may_wait: bool = False
    """The server may answer later: it is asked again until it does."""

    def body(self) -> dict[str, Json]:
        """Return the body of the request, without a page token."""
        found: dict[str, Any] = dict(self.point.fields())
        optional = {
            "jsonPredicateHints": self.json_hint,
            "limitHint": self.limit if self.limit is None or self.limit < 1 << 31 else None,  # an int32 on the wire
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

    def __init__(
        self, head: AnswerHead, groups: Iterator[LineGroup], ends: list[AnswerEnd], *, was_waited_for: bool = False
    ) -> None:
        self.head, self.groups, self._ends = head, groups, ends
        self.was_waited_for = was_waited_for

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


PageRequest = Callable[[dict[str, str], str | None], Request]
"""Returns the request for a page: with its token if it is not the first, and the id of a query that was waited for."""


class TableRequests:
    """Sends the requests about one table."""

    def __init__(self, transport: Transport, name: TableName) -> None:
        self.transport, self.name = transport, name
        parts = (quote(part, safe="") for part in (name.share, name.schema, name.table))
        self._path = "/shares/{}/schemas/{}/tables/{}".format(*parts)

    def version(self, *, starting_ms: int | None = None) -> int:
        """Return the newest version, or the first one committed at or after a time."""
        query = {} if starting_ms is None else {"startingTimestamp": format_timestamp(starting_ms)}
        return self.transport.ask(Request("GET", f"{self._path}/version", query), parse_version_header)

    def metadata(self, point: Point = NEWEST_POINT, formats: tuple[ResponseFormat, ...] = BOTH_FORMATS) -> AnswerHead:
        """Return protocol and metadata of a version."""

        def read(reply: Reply) -> AnswerHead:
            answer = LineAnswer(reply, "the metadata", self.transport.limits, has_files=False)
            if (line := next(answer.actions(), None)) is not None:
                raise invalid_answer("the metadata has more than two lines", {"found": line.kind})
            return answer.head

        headers = {wire.HEADER: capabilities(formats, ends=False)}
        return self.transport.ask(Request("GET", f"{self._path}/metadata", point.fields(), headers=headers), read)

    def credentials(self, location: str | None = None) -> tuple[bytes, str]:
        """Return the answer with temporary credentials for a location, None: the main one; and when it was sent, as the
        header `Date` has it. Not followed where it is redirected.
        """
        request = Request(
            "POST",
            f"{self._path}/{directories.CREDENTIALS_PATH}",
            body=None if location is None else {"location": location},
            headers={"Accept": "application/json, application/x-ndjson"},
            may_redirect=False,
        )

        def read(reply: Reply) -> tuple[bytes, str]:
            return reply.whole(directories.MOST_CREDENTIAL_BYTES, "the temporary credentials"), reply.headers.get(
                "date", ""
            )

        return self.transport.ask(request, read)

    def query(self, query: Query, read: Callable[[Pages], Result]) -> Result:
        """Return what `read` makes of the files of a version. It is called again after an answer that broke off.

        A query that may wait is sent with a key, the same one each time; where the server refuses that, or answers with
        another version, without one.
        """
        body, headers, what = query.body(), {wire.HEADER: capabilities(query.formats)}, "the list of files"

        def at_once(page: Mapping[str, str], query_id: str | None) -> Request:
            return self._query_request({**body, **page}, page, headers, query_id)

        if not query.may_wait or query.point.timestamp_ms is not None or query.starting_version is not None:
            return self._read_pages(at_once, read, what)
        key, ids = str(uuid4()), set[str | None]()
        submitted = body | {"idempotencyKey": key, "idempotency_key": key}
        waiting = {wire.HEADER: f"{headers[wire.HEADER]};{CAPABILITY}"}

        def later(page: Mapping[str, str], query_id: str | None) -> Request:
            ids.add(query_id)
            return self._query_request({**submitted, **page}, page, waiting, query_id)

        def read_version(pages: Pages) -> Result:
            if pages.was_waited_for and query.point.version not in (None, pages.head.version):
                raise _OtherVersionError
            return read(pages)

        try:
            return self._read_pages(later, read_version, what)
        except RequestRefused as fault:
            if (fault.status, fault.code) != (400, RequestRefused.code) or ids != {None}:
                raise
        except _OtherVersionError:
            pass
        return self._read_pages(at_once, read, what)

    def _query_request(
        self, body: JsonObject, page: Mapping[str, str], headers: Mapping[str, str], query_id: str | None
    ) -> Request:
        """Return the request for a page of a query, or of the result of one that the server works on."""
        if query_id is None:
            return Request("POST", f"{self._path}/query", body=body, headers=headers)
        more = {name: body[name] for name in ("maxFiles",) if name in body}
        return Request("POST", f"{self._path}{path_of(query_id)}", body={**more, **page}, headers=headers)

    def changes(self, query: ChangeQuery, read: Callable[[Pages], Result]) -> Result:
        """Return what `read` makes of a change data feed. It is called again after an answer that broke off."""
        path, asked = f"{self._path}/changes", query.parameters()
        headers = {wire.HEADER: capabilities(query.formats)}

        def at_once(page: Mapping[str, str], query_id: str | None) -> Request:
            if query_id is not None:
                raise invalid_answer("the change data feed is to be answered later, which was not asked for")
            return Request("GET", path, {**asked, **page}, headers=headers)

        return self._read_pages(at_once, read, "the change data feed")

    def _read_pages(self, request: PageRequest, read: Callable[[Pages], Result], what: str) -> Result:
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


def _open_pages(transport: Transport, request: PageRequest, what: str) -> Pages:
    """Return the first page, and the others as they are needed. Raises AnswerInvalid where a token comes again."""
    limits, ends = transport.limits, list[AnswerEnd]()

    def answer(token: str | None, query_id: str | None) -> tuple[Reply, LineAnswer]:
        reply = transport.open_reply(request({} if token is None else {"pageToken": token}, query_id))
        try:
            return reply, LineAnswer(reply, what, limits, now_ms=transport.clock())
        except BaseException:
            reply.close()
            raise

    found, query_id = wait_for(partial(answer, None), transport.retry, limits.query_seconds, what)
    first_reply, first = found

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
                raise invalid_answer(f"{what} repeats a page token", {"pages": len(ends)})
            seen.add(token)
            if len(seen) >= limits.pages:
                raise too_much(what, f"{limits.pages:,} pages")
            try:
                reply, page = answer(token, query_id)
            except NotReadyError:
                raise invalid_answer(f"a page of {what} is not ready, but the first one was") from None
            if replace(first.head, promises_end=False) != replace(page.head, promises_end=False):
                raise invalid_answer(f"the pages of {what} differ in their version, format, protocol or metadata")

    return Pages(first.head, groups(), ends, was_waited_for=query_id is not None)


class _OtherVersionError(Exception):
    """The result of a query is that of another version."""


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


# -- lists of shares, schemas and tables, page by page -----------------------------------------------------------------

_A_PAGE = 500


@dataclass(frozen=True, slots=True)
class ListedShare:
    """A share, its id where the server has one, and what people are shown of it."""

    name: str
    id: str | None = None
    about: directories.ShareMetadata = directories.NOTHING_SHOWN


@dataclass(frozen=True, slots=True)
class ListedSchema:
    """A schema of a share."""

    share: str
    name: str


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table, and the ids of it and of its share where the server has some. `access` is how it can be read: by URLs,
    which is meant where no mode is stated, or in its directory with temporary credentials.
    """

    share: str
    schema: str
    name: str
    id: str | None = None
    share_id: str | None = None
    access: directories.TableAccess = directories.NOT_STATED
    faults: directories.Faults = field(default=(), repr=False)
    """What is wrong with what the server says of access."""

    @property
    def access_modes(self) -> tuple[str, ...]:
        """The access modes that are stated, in lower case; empty where none are."""
        return self.access.names

    @property
    def full_name(self) -> TableName:
        return TableName(self.share, self.schema, self.name)


def list_shares(transport: Transport) -> Iterator[ListedShare]:
    """Yield the shares that the recipient may read."""
    for item in _items(transport, "/shares"):
        yield ListedShare(_name(item, "name"), _optional(item, "id"), directories.read_share_metadata(item)[0])


def list_schemas(transport: Transport, share: str) -> Iterator[ListedSchema]:
    for item in _items(transport, f"/shares/{quote(share, safe='')}/schemas"):
        yield ListedSchema(share, _name(item, "name"))


def list_tables(transport: Transport, share: str, schema: str | None = None) -> Iterator[ListedTable]:
    """Yield the tables of a share, or of a schema. Servers without `all-tables` are asked schema by schema."""
    below = f"/shares/{quote(share, safe='')}"
    if schema is not None:
        path = f"{below}/schemas/{quote(schema, safe='')}/tables"
        yield from (_table(item, share, schema) for item in _items(transport, path))
        return
    try:
        yield from (_table(item, share, None) for item in _items(transport, f"{below}/all-tables"))
    except ShareAbsent:
        for found in list(list_schemas(transport, share)):
            yield from list_tables(transport, share, found.name)


def _items(transport: Transport, path: str) -> Iterator[dict[str, Json]]:
    """Yield the items of all pages.

    Raises AnswerInvalid where a page token comes again, ServerUnavailable where the pages take too long.
    """
    limits, seen, count = transport.limits, set[str](), 0
    time_limit = ListingLimit(transport.retry, f"the list {path}")
    token: str | None = None
    while True:
        query: dict[str, str | int] = {"maxResults": _A_PAGE}
        request = Request("GET", path, query if token is None else query | {"pageToken": token})
        _, document = time_limit.request_page(partial(transport.document, request))
        items = document.get("items") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(items or [], list):
            raise invalid_answer("a list is not an object with items", {"path": path})
        for item in items or []:
            if not isinstance(item, dict):
                raise invalid_answer("an item of a list is not an object", {"path": path})
            count += 1
            if count > limits.items:
                raise too_much("a list", f"{limits.items:,} items")
            yield item
        token = document.get("nextPageToken") or None
        if token is None:
            return
        if not isinstance(token, str) or token in seen:
            raise invalid_answer("a list repeats a page token", {"path": path, "pages": len(seen) + 1})
        seen.add(token)
        if len(seen) >= limits.pages:
            raise too_much("a list", f"{limits.pages:,} pages")
        if time_limit.is_over:
            raise ServerUnavailable(
                f"the list {path} cannot be read: the server sends one page after the other",
                facts=time_limit.facts(),
                hint=f"if so many are there, add {parameter('open_table.retry_budget', '10m')}",
            )


def _table(item: dict[str, Json], share: str, schema: str | None) -> ListedTable:
    found = _optional(item, "schema") or schema
    if found is None:
        raise invalid_answer("a table of a list has no schema")
    access, faults = directories.read_access(item)
    if form := next((fault for fault in faults if fault.is_fatal and fault.rule == "access-modes-form"), None):
        raise invalid_answer(f"{form.message}, of a table of a list", {"table": _name(item, "name")})
    share_id = _optional(item, "shareId")
    own = _optional(item, "share") or share
    return ListedTable(own, found, _name(item, "name"), _optional(item, "id"), share_id, access, faults)


def _name(item: dict[str, Json], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise invalid_answer(f"an item of a list has no {name}")
    return clean(value)


def _optional(item: dict[str, Json], name: str) -> str | None:
    value = item.get(name)
    return clean(value) if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """A table; or a schema without tables, or a share without schemas, whose other names are None."""

    share: str
    schema: str | None = None
    table: str | None = None
    id: str | None = None
    share_id: str | None = None
    access: directories.TableAccess = directories.NOT_STATED
    about: directories.ShareMetadata = directories.NOTHING_SHOWN
    """Of the share."""

    @property
    def access_modes(self) -> tuple[str, ...]:
        """The access modes that are stated, in lower case; empty where none are."""
        return self.access.names

    @property
    def is_readable(self) -> bool:
        """Return whether this client can read the table: by URLs of its files or in its directory."""
        return self.table is not None and (self.access.has_urls or self.access.has_directory)

    @property
    def full_name(self) -> str:
        return ".".join(name for name in (self.share, self.schema, self.table) if name is not None)


def list_entries(transport: Transport, names: str | None = None) -> list[ListedEntry]:
    """Return everything that a profile gives access to, or what is below a share or a schema: `SHARE[.SCHEMA]`.

    The name of a share may contain dots. Raises ShareAbsent.
    """
    shares = list(list_shares(transport))
    if names is None:
        return [entry for share in shares for entry in _entries_of(transport, share, None)]
    whole = _find(shares, names)
    if whole is not None:
        return _entries_of(transport, whole, None)
    name, dot, schema = names.rpartition(".")
    share = _find(shares, name) if dot else None
    if share is None:
        facts = {"shares": ", ".join(one.name for one in shares[:_FEW])} if shares else {}
        raise ShareAbsent(f"no share of the profile is named {clean(names)}", facts=facts)
    return _entries_of(transport, share, schema)


_FEW = 20


def _find(shares: list[ListedShare], name: str) -> ListedShare | None:
    return next((share for share in shares if share.name.casefold() == name.casefold()), None)


def _entries_of(transport: Transport, share: ListedShare, schema: str | None) -> list[ListedEntry]:
    tables = list(list_tables(transport, share.name, schema))
    known = {table.schema.casefold() for table in tables}
    found = [
        ListedEntry(share.name, one.schema, one.name, one.id, one.share_id or share.id, one.access, share.about)
        for one in tables
    ]
    if schema is not None:
        return found or [ListedEntry(share.name, schema, share_id=share.id, about=share.about)]
    schemas = [one.name for one in list_schemas(transport, share.name) if one.name.casefold() not in known]
    found += [ListedEntry(share.name, name, share_id=share.id, about=share.about) for name in schemas]
    return found or [ListedEntry(share.name, share_id=share.id, about=share.about)]
