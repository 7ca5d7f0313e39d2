"""Answers about one table: version, metadata, files of a version or of a range, page by page.

A token carries what it continues. It is bound to the recipient, the table and all other parameters of the request, so
that it never leads to another version than the one it was made for.

Everything that can fail happens before the first byte.

Spec: EndStreamAction; Query paging; Query Table Version; Query Table Metadata; Read Data from a Table; Read Change Data
Feed from a Table; Read Data from a Table (startingVersion).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.core.typing import Json
from deltacli.operations.read.changes import Break
from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.hints.file_selection import Hints, select_files
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol import parameters as wire
from deltacli.sharing.protocol.lines import HASHES, IdHash, LineStyle, json_line, lines_of, metadata_line, protocol_line
from deltacli.sharing.protocol.parameters import (
    Capabilities,
    ChangesRequest,
    Point,
    QueryRequest,
    ReadingNeeds,
    ResponseFormat,
    find_needs,
    invalid_parameter,
    unsupported,
)
from deltacli.sharing.server.exchange import NAME, Access, OpenSigner, TableUrlSigner, TokenSeal
from deltacli.sharing.signing.keys import Bound
from deltacli.sharing.tables.changes import (
    Changes,
    CommitChanges,
    choose_version,
    commit_time_ms,
    first_readable_since,
    first_version_since,
    last_version_until,
    read_changes,
    require_history,
    require_in_range,
)
from deltacli.sharing.tables.snapshots import (
    Place,
    SharedSnapshot,
    SharedSnapshots,
    SharedSteps,
    Steps,
    batches_of,
    place_of,
    places_of,
    vector_place,
    vectors_of,
)
from deltacli.storage import ReadStorage

# -- pages of files as lines with URLs ---------------------------------------------------------------------------------

ROWS_A_STEP = 512
"""How many lines are made at a time: about 256 KiB, in 5 ms."""
_CHUNK_BYTES = 64 << 10


class FileSource(NamedTuple):
    """The store that files are in, and who signs their URLs."""

    storage: ReadStorage
    signer: TableUrlSigner


def sign_lines(source: FileSource, actions: pa.RecordBatch, style: LineStyle) -> bytes:
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
    source: FileSource, actions: pa.RecordBatch, expires_ms: int
) -> tuple[pa.RecordBatch, list[str | None]]:
    """Return actions whose deletion vectors are at URLs, and the ids of their files. Inline vectors are unchanged."""
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
    open: Callable[[], Iterable[tuple[LineStyle, pa.RecordBatch]]]
    before: bytes = b""
    join: Callable[[], AbstractContextManager[Steps]] = lambda: nullcontext(lambda _step, work: work())


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


def _require_same(table: SharedTable, begun: str, now: str) -> None:
    """Raise WireError for a page of a table that was replaced since its first page: files of both would be mixed."""
    if begun != now:
        raise invalid_parameter(
            f"the table {table.full_name} was replaced since the first page; begin again without the token"
        )


def digest_parameters(*parameters: object) -> str:
    """Return a digest of the parameters of a request."""
    return sha256(repr(parameters).encode("utf-8", "surrogatepass")).hexdigest()


def end_line(expires_ms: int, *, refresh_token: str | None = None, next_page_token: str | None = None) -> bytes:
    """Return the last line of an answer."""
    fields = {"refreshToken": refresh_token, "nextPageToken": next_page_token, "minUrlExpirationTimestamp": expires_ms}
    return json_line({"endStreamAction": {name: value for name, value in fields.items() if value is not None}})


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
        yield json_line({"endStreamAction": {"errorMessage": "the answer is incomplete: the server failed"}})
        return
    if tail:
        yield tail


# -- answers about one table -------------------------------------------------------------------------------------------

_VERSION_HEADER = "Delta-Table-Version"
_NDJSON = "application/x-ndjson; charset=utf-8"
HASH_HEADER = "fileidhash"
_HINTS_HEADER = "deltacli-hints"


@dataclass(frozen=True)
class Answer:
    """Headers and parts of the body, and what the audit log says of them. `waits`: they wait for other machines."""

    headers: Mapping[str, str]
    parts: Iterable[bytes]
    about: Mapping[str, object] = field(default_factory=dict)
    waits: bool = False


class Pinned(NamedTuple):
    """The version that a query has got. `query_id`: of one that is answered later, whose pages belong to it alone."""

    version: int
    query_id: str = ""


@dataclass(frozen=True)
class Wishes:
    """What the headers of a request ask for."""

    capabilities: Capabilities
    id_hash: IdHash | None = None

    def hash_for(self, form: ResponseFormat) -> IdHash:
        """Return how file ids are made."""
        return self.id_hash or IdHash(form.value)


def read_wishes(headers: Mapping[str, str]) -> Wishes:
    """Return what the headers of a request ask for. Raises WireError."""
    hash_by = headers.get(HASH_HEADER)
    if hash_by is not None and hash_by.strip().lower() not in list(IdHash):
        raise invalid_parameter(f"{HASH_HEADER} {hash_by[:50]!r} is not available (expected: parquet, delta)")
    chosen = None if hash_by is None else IdHash(hash_by.strip().lower())
    return Wishes(wire.parse_capabilities(headers.get(wire.HEADER)), chosen)


def headers_of(version: int, form: ResponseFormat, wishes: Wishes, *, note: str = "") -> dict[str, str]:
    """Return the headers of an answer with lines. `note`: what was done with hints."""
    ends = wishes.capabilities.end_stream_action
    headers = {
        "Content-Type": _NDJSON,
        _VERSION_HEADER: str(version),
        wire.HEADER: wire.answer_header(form, end_stream_action=ends),
    }
    if note:
        headers[_HINTS_HEADER] = note.encode("ascii", "replace").decode().replace("\n", " ")[:500]
    return headers if wishes.id_hash is None else headers | {HASH_HEADER: wishes.id_hash.value}


_MOST_SHARED_BYTES = 32 << 20
_EXPIRY_STEP_MS = 10_000


@dataclass(frozen=True)
class TableAnswers:
    """Makes the answers about tables. `clock` is in epoch milliseconds."""

    snapshots: SharedSnapshots
    open_signer: OpenSigner
    seal: TokenSeal
    clock: Callable[[], int]
    settings: Settings
    lines: SharedSteps = field(default_factory=lambda: SharedSteps(_MOST_SHARED_BYTES))
    """The lines that equal queries get at the same time."""
    access_members: Callable[[SharedTable], Mapping[str, Json]] = lambda _table: {}
    """How a table may be read, where its metadata say so."""

    def version(self, table: SharedTable, starting_ms: int | None) -> dict[str, str]:
        """Return the header with the newest version, or the first one committed at or after a time."""
        if starting_ms is None:
            return {_VERSION_HEADER: str(self.snapshots.newest_version(table))}
        return {_VERSION_HEADER: str(first_readable_since(self.snapshots, table, starting_ms))}

    def metadata(self, table: SharedTable, choice: Point, wishes: Wishes) -> Answer:
        """Return protocol and metadata of a version."""
        snapshot = self.snapshots.at(table, choose_version(self.snapshots, table, choice))
        form = snapshot.needs.choose(wishes.capabilities, table.full_name)
        head = self._head(table, snapshot, form, wishes, dated=not choice.is_newest)
        wishes = replace(wishes, capabilities=replace(wishes.capabilities, end_stream_action=False))
        return Answer(headers_of(snapshot.version, form, wishes), [head], {"version": snapshot.version})

    def begin(self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes) -> int:
        """Return the version that a query asks for. Raises WireError where the recipient may not read it."""
        return self._begin(self._tokens(access, table, request, wishes), table, request)[0]

    def prepare(self, table: SharedTable, version: int, wishes: Wishes) -> None:
        """Do what an answer needs before its first byte and takes long. Raises what `query` raises."""
        snapshot = self.snapshots.at(table, version)
        snapshot.needs.choose(wishes.capabilities, table.full_name)
        snapshot.require_shareable()

    def query(
        self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes, pinned: Pinned | None = None
    ) -> Answer:
        """Return the files of a version, or a page of them. `pinned`: the version was chosen before."""
        tokens = self._tokens(access, table, request, wishes, pinned.query_id if pinned else "")
        if pinned is not None and request.page_token is None:
            version, start, digest = pinned.version, 0, None
        else:
            version, start, digest = self._begin(tokens, table, request)
        snapshot = self.snapshots.at(table, version)
        if digest is not None:
            _require_same(table, digest, snapshot.digest)
        form = snapshot.needs.choose(wishes.capabilities, table.full_name)
        snapshot.require_shareable()
        source = self.source_of(access, table)
        expires_ms = self.expiry_for(access, source)
        hints = Hints(tuple(request.sql_hints), request.json_hint, request.limit)
        files, note = self._select(snapshot, hints, is_paged=request.is_paged)
        dated = not request.choice.is_newest
        style = LineStyle(
            form,
            wishes.hash_for(form),
            expires_ms,
            version=version if dated else None,
            time_ms=commit_time_ms(self.snapshots, table, snapshot) if dated else None,
        )
        page = Page(start, self.rows_of_page(request.max_files) if request.is_paged else None)
        more = page.ends_before(files.num_rows)
        tail = b""
        if wishes.capabilities.end_stream_action or request.is_paged or request.include_refresh_token:
            payload = {"version": version, "start": start + (page.most or 0)}
            following = tokens.next_page(payload | {"digest": snapshot.digest}) if more else None
            refresh = tokens.refresh(version) if request.include_refresh_token else None
            tail = end_line(style.expires_ms, refresh_token=refresh, next_page_token=following)
        head = self._head(table, snapshot, form, wishes, dated=dated)
        group = FileGroup(
            files.num_rows,
            lambda: ((style, batch) for batch in batches_of(files, ROWS_A_STEP)),
            join=partial(
                self.lines.joined, (snapshot.identity, source.signer.identity, style, hints, request.is_paged)
            ),
        )
        lines = page.parts([group], files.num_rows, source)
        parts = assemble(head, lines, tail, reports_failure=wishes.capabilities.end_stream_action)
        about: dict[str, object] = {"version": version, "files": files.num_rows, "filesTotal": snapshot.files.num_rows}
        about |= {"hints": note} if note else {}
        return Answer(headers_of(version, form, wishes, note=note), parts, about, source.signer.waits)

    def rows_of_page(self, wanted: int | None) -> int:
        """Return how many files a page has."""
        return min(wanted or self.settings.page_size, self.settings.page_size)

    def source_of(self, access: Access, table: SharedTable) -> FileSource:
        """Return the store of a table and the signer for a caller. Raises WireError."""
        storage = self.snapshots.handle(table).storage
        return FileSource(storage, self.open_signer(table, access.caller))

    def expiry_for(self, access: Access, source: FileSource) -> int:
        """Return when URLs for a caller expire: never after its token, nor after the credential that signs them. Their
        lifetime is rounded down by at most 1 %, so that equal queries at the same time get the same URLs.
        """
        lifetime_ms = self.settings.url_lifetime_seconds * 1_000
        until = self.clock() + lifetime_ms
        until -= until % min(_EXPIRY_STEP_MS, lifetime_ms // 100)
        until = until if access.caller.expires_ms is None else min(until, access.caller.expires_ms)
        return source.signer.sign([], until).expires_ms

    def _tokens(
        self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes, query_id: str = ""
    ) -> PageTokens:
        others = replace(request, page_token=None, max_files=None, refresh_token=None, include_refresh_token=False)
        parameters = digest_parameters(others, wishes, *([query_id] if query_id else []))
        return replace(self.tokens_of(access, table), parameters=parameters)

    def tokens_of(self, access: Access, table: SharedTable) -> PageTokens:
        """Return the tokens of requests about a table."""
        return PageTokens(self.seal, self.clock, self.settings, access, table)

    def _begin(self, tokens: PageTokens, table: SharedTable, request: QueryRequest) -> tuple[int, int, str | None]:
        """Return the version to answer, the number of the first file, and the digest of what was begun, None at the
        begin. Raises WireError.
        """
        if request.refresh_token is not None and not request.choice.is_newest:
            raise invalid_parameter("refreshToken excludes version and timestamp")
        if request.page_token is not None:
            opened = tokens.open_page(request.page_token)
            return int(opened["version"]), int(opened["start"]), str(opened.get("digest"))
        if request.refresh_token is not None:
            return tokens.open_refresh(request.refresh_token), 0, None
        return choose_version(self.snapshots, table, request.choice), 0, None

    def _head(
        self, table: SharedTable, snapshot: SharedSnapshot, form: ResponseFormat, wishes: Wishes, *, dated: bool
    ) -> bytes:
        """Return the lines of protocol and metadata; `dated`: with the version, which the client chose."""
        protocol = snapshot.client_protocol(snapshot.needs.features_for(wishes.capabilities))
        return protocol_line(form, protocol) + metadata_line(
            form,
            snapshot.metadata,
            snapshot.client_metadata(protocol),
            version=snapshot.version if dated else None,
            totals=snapshot.totals,
            shows_change_data=table.history_shared,
            access=self.access_members(table),
        )

    def _select(self, snapshot: SharedSnapshot, hints: Hints, *, is_paged: bool) -> tuple[pa.Table, str]:
        """Return the files that hints keep, and a note on the hints. Pages have them in an order of their own."""
        files = snapshot.files.take(snapshot.canonical_order) if is_paged else snapshot.files
        if hints == Hints():
            return files, ""
        sql = hints.sql if self.settings.evaluate_sql_hints else ()
        json = hints.json if self.settings.evaluate_json_hints else None
        is_whole = (sql, json) == (hints.sql, hints.json)  # a limit means rows that match all of them
        found = select_files(files, snapshot.config, Hints(sql, json, hints.limit if is_whole else None))
        note = found.reason if is_whole else f"{found.reason}; hints are not evaluated by configuration"
        return files if found.kept is None else files.filter(found.kept), note


# -- answers about a range of versions ---------------------------------------------------------------------------------

_MOST_RANGES = 8
_MOST_COMMITS = 10_000
"""Per range. A commit takes some hundred bytes."""


class RecentRanges:
    """Keeps ranges without their files, which are read again for each page. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Place, int, int, bool], Changes] = OrderedDict()
        self._lock = Lock()

    def read(self, snapshots: SharedSnapshots, table: SharedTable, first: int, last: int, *, is_feed: bool) -> Changes:
        """Return changes of a range, as `read_changes` does; commits that were checked before are not read again."""
        key = (place_of(table), first, last, is_feed)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            commits = snapshots.whole_log(table).listing.commits
            if all(commits.get(commit.version) == commit.files.file for commit in known.commits):
                return known
        found = read_changes(snapshots, table, first, last, is_feed=is_feed)
        if len(found.commits) <= _MOST_COMMITS:
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[Place, int, int, bool], changes: Changes) -> None:
        commits = tuple(replace(commit, held=None) for commit in changes.commits)
        with self._lock:
            self._known[key] = replace(changes, commits=commits)
            self._known.move_to_end(key)
            while len(self._known) > _MOST_RANGES:
                self._known.popitem(last=False)


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A range of versions. `is_feed`: its change data feed. `adds_metadata`, `adds_protocol`: with the metadata and the
    protocols of the versions in between.
    """

    first: int
    last: int
    is_feed: bool
    adds_metadata: bool
    adds_protocol: bool
    max_files: int | None = None
    page_token: str | None = None
    is_paged: bool = False


@dataclass(frozen=True)
class ChangeAnswers:
    """Makes the answers about ranges."""

    tables: TableAnswers
    recent: RecentRanges = field(default_factory=RecentRanges)

    def changes(self, access: Access, table: SharedTable, request: ChangesRequest, wishes: Wishes) -> Answer:
        """Return the change data feed of a range, or a page of it."""
        require_history(table, "a change data feed")
        tokens = self._tokens(access, table, replace(request, max_files=None, page_token=None), wishes)
        first, last = self._ends_of_feed(table, request)
        wanted = RangeRequest(
            first,
            last,
            True,
            request.include_historical_metadata,
            request.include_historical_protocol,
            request.max_files,
            request.page_token,
            request.is_paged,
        )
        return self._answer(access, table, wanted, wishes, tokens)

    def files_since(self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes) -> Answer:
        """Return the added and removed files of a query with `startingVersion`, or a page of them."""
        require_history(table, "listing versions")
        tokens = self._tokens(access, table, replace(request, max_files=None, page_token=None), wishes)
        newest = self.tables.snapshots.newest_version(table)
        first = request.starting_version or 0
        last = newest if request.ending_version is None else request.ending_version
        require_in_range(table, first, newest, "startingVersion")
        require_in_range(table, last, newest, "endingVersion")
        protocol = request.include_historical_protocol
        wanted = RangeRequest(
            first, last, False, True, protocol, request.max_files, request.page_token, request.is_paged
        )
        return self._answer(access, table, wanted, wishes, tokens)

    def _ends_of_feed(self, table: SharedTable, request: ChangesRequest) -> tuple[int, int]:
        """Return the first and the last version of a feed. A version after the newest one ends it there."""
        snapshots = self.tables.snapshots
        newest, first, last = snapshots.newest_version(table), request.start.version, request.end.version
        if first is None:
            first = first_version_since(snapshots, table, request.start.timestamp_ms or 0)
        require_in_range(table, first, newest, "startingVersion")
        if last is None and request.end.timestamp_ms is not None:
            last = last_version_until(snapshots, table, request.end.timestamp_ms)
        last = newest if last is None else min(last, newest)
        if last < first:
            raise invalid_parameter(f"the range ends at version {last}, before it begins, at version {first}")
        return first, last

    def _tokens(self, access: Access, table: SharedTable, request: object, wishes: Wishes) -> PageTokens:
        return replace(self.tables.tokens_of(access, table), parameters=digest_parameters(request, wishes))

    def _answer(
        self, access: Access, table: SharedTable, wanted: RangeRequest, wishes: Wishes, tokens: PageTokens
    ) -> Answer:
        start, digest = 0, None
        if wanted.page_token is not None:
            opened = tokens.open_page(wanted.page_token)
            wanted = replace(wanted, first=int(opened["first"]), last=int(opened["last"]))
            start, digest = int(opened["start"]), str(opened.get("digest"))
        read = self.recent.read if wanted.is_paged else read_changes
        changes = read(self.tables.snapshots, table, wanted.first, wanted.last, is_feed=wanted.is_feed)
        if digest is not None:
            _require_same(table, digest, changes.digest)
        needs = _needs_of(changes)
        form = needs.choose(wishes.capabilities, table.full_name)
        if form is ResponseFormat.PARQUET and changes.lacks_sizes():
            needs = replace(needs, not_in_parquet=("removed files whose sizes neither the log nor the store has",))
            form = needs.choose(wishes.capabilities, table.full_name)
        if changes.apart is not None:
            _require_together(table, changes.apart, wanted, form)
        source = self.tables.source_of(access, table)
        base = LineStyle(form, wishes.hash_for(form), self.tables.expiry_for(access, source), is_change=True)
        features = needs.features_for(wishes.capabilities)
        groups = _groups(changes, base, features, wanted, shows_change_data=table.history_shared)
        total = changes.file_count
        page = Page(start, self.tables.rows_of_page(wanted.max_files) if wanted.is_paged else None)
        tail = b""
        if wishes.capabilities.end_stream_action or wanted.is_paged:
            payload = {"first": wanted.first, "last": wanted.last, "start": start + (page.most or 0)}
            following = tokens.next_page(payload | {"digest": changes.digest}) if page.ends_before(total) else None
            tail = end_line(base.expires_ms, next_page_token=following)
        head = _head_of_range(changes, form, features, wanted, shows_change_data=table.history_shared)
        ends = wishes.capabilities.end_stream_action
        parts = assemble(head, page.parts(groups, total, source), tail, reports_failure=ends)
        about = {"version": wanted.first, "files": total}
        waits = source.signer.waits or not changes.is_held
        return Answer(headers_of(wanted.first, form, wishes), parts, about, waits)


def _require_together(table: SharedTable, apart: Break, wanted: RangeRequest, form: ResponseFormat) -> None:
    """Raise WireError for a range whose files a client would read by the names of other versions."""
    if apart.version == wanted.first:
        raise unsupported(f"the changes of {table.full_name} cannot be read from there: {apart.reason}")
    if wanted.adds_metadata and form is ResponseFormat.DELTA:
        return
    begin = apart.version if apart.is_removal else apart.version + 1
    raise unsupported(
        f"the changes of {table.full_name} cannot be read together: {apart.reason}; ask for those until version "
        f"{apart.version - 1} and for those from version {begin} on"
    )


def _states_after_commits(changes: Changes) -> Iterator[tuple[CommitChanges, SharedSnapshot]]:
    """Yield each commit of a range with the protocol and the metadata after it."""
    state = changes.start
    for commit in changes.commits:
        if commit.metadata is not None:
            state = replace(state, metadata=commit.metadata, raw_metadata=commit.raw_metadata or {})
        if commit.protocol is not None:
            state = replace(state, protocol=commit.protocol, raw_protocol=commit.raw_protocol or {})
        yield commit, state


def _states(changes: Changes) -> Iterator[SharedSnapshot]:
    """Yield protocol and metadata at the beginning of a range, and after each commit that changes them."""
    yield changes.start
    for commit, state in _states_after_commits(changes):
        if commit.metadata is not None or commit.protocol is not None:
            yield state


def _first_state(changes: Changes, wanted: RangeRequest) -> SharedSnapshot:
    """Return the state whose protocol and metadata begin an answer: that at the begin of the range where the client
    follows changes of the metadata, else that at its end, which then applies to the whole range.
    """
    if wanted.adds_metadata:
        return changes.start
    *_, last = _states(changes)
    return last


def _needs_of(changes: Changes) -> ReadingNeeds:
    """Return what clients must support to read all files of a range, each version by its own protocol."""
    features, blocking, unused = set[str](), set[str](), set[str]()
    for state in _states(changes):
        needs = find_needs(state.config, has_vectors=changes.has_vectors)
        features.update(needs.features)
        blocking.update(needs.not_in_parquet)
        unused.update(needs.unused)
    return ReadingNeeds(tuple(sorted(features)), tuple(sorted(blocking)), tuple(sorted(unused - features)))


def _head_of_range(
    changes: Changes, form: ResponseFormat, features: Set[str], wanted: RangeRequest, *, shows_change_data: bool
) -> bytes:
    """Return the lines of protocol and metadata at the top of an answer."""
    state = _first_state(changes, wanted)
    protocol = state.client_protocol(features)
    metadata = state.client_metadata(protocol)
    return protocol_line(form, protocol) + metadata_line(
        form, state.metadata, metadata, version=wanted.first, shows_change_data=shows_change_data
    )


def _groups(
    changes: Changes, base: LineStyle, features: Set[str], wanted: RangeRequest, *, shows_change_data: bool
) -> Iterator[FileGroup]:
    """Yield the changed files of each commit, after the lines about its metadata and its protocol.

    Metadata fit the last protocol that the client got, which is the one at the top unless it asked for changes of it.
    """
    form = base.form
    client_protocol = _first_state(changes, wanted).client_protocol(features)
    for commit, state in _states_after_commits(changes):
        before = b""
        # The lines about the first commit are at the top of the answer.
        is_first = commit.version == wanted.first
        if commit.protocol is not None and wanted.adds_protocol and form is ResponseFormat.DELTA and not is_first:
            client_protocol = state.client_protocol(features)
            before += protocol_line(form, client_protocol, version=commit.version)
        if commit.metadata is not None and wanted.adds_metadata and not is_first:
            metadata = state.client_metadata(client_protocol)
            before += metadata_line(
                form, commit.metadata, metadata, version=commit.version, shows_change_data=shows_change_data
            )
        yield FileGroup(commit.file_count, partial(_styled, commit, base), before)


def _styled(commit: CommitChanges, base: LineStyle) -> Iterator[tuple[LineStyle, pa.RecordBatch]]:
    style = replace(base, version=commit.version, time_ms=commit.time_ms)
    for action, batch in commit.batches():
        fills = action == "remove" and base.form is ResponseFormat.PARQUET
        yield replace(style, action=action), commit.files.with_sizes(batch) if fills else batch
