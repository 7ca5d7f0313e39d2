"""Answers about one table: version, metadata, and the files of a version. Everything that can fail happens before the
first byte.

Spec: Query Table Version; Query Table Metadata; Read Data from a Table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.hints.file_selection import Hints, select_files
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol import capabilities as wire
from deltacli.sharing.protocol.capabilities import Capabilities, ResponseFormat
from deltacli.sharing.protocol.lines import IdHash, LineStyle, metadata_line, protocol_line
from deltacli.sharing.protocol.parameters import Point, QueryRequest
from deltacli.sharing.protocol.wire_errors import invalid
from deltacli.sharing.server.interfaces import Access, OpenSigner, TokenSeal
from deltacli.sharing.server.pages import (
    ROWS_A_STEP,
    FileGroup,
    FileSource,
    Page,
    PageTokens,
    assemble,
    digest_of,
    end_line,
)
from deltacli.sharing.tables.shared_snapshot import SharedSnapshot, batches_of
from deltacli.sharing.tables.single_flight import SharedSteps
from deltacli.sharing.tables.snapshots import SharedSnapshots
from deltacli.sharing.tables.versions import choose_version, commit_time_ms, first_readable_since

if TYPE_CHECKING:
    import pyarrow

_VERSION_HEADER = "Delta-Table-Version"
_NDJSON = "application/x-ndjson; charset=utf-8"
_HASH_HEADER = "fileidhash"
_HINTS_HEADER = "deltacli-hints"


@dataclass(frozen=True)
class Answer:
    """Headers and the parts of the body, and what the audit log says about it. `waits`: making the parts waits for
    other machines.
    """

    headers: Mapping[str, str]
    parts: Iterable[bytes]
    about: Mapping[str, object] = field(default_factory=dict)
    waits: bool = False


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
    hash_by = headers.get(_HASH_HEADER)
    if hash_by is not None and hash_by.strip().lower() not in list(IdHash):
        raise invalid(f"{_HASH_HEADER} {hash_by[:50]!r} is not available (expected: parquet, delta)")
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
    return headers if wishes.id_hash is None else headers | {_HASH_HEADER: wishes.id_hash.value}


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

    def version(self, table: SharedTable, starting_ms: int | None) -> dict[str, str]:
        """Return the header with the newest version, or the first one committed at or after a time."""
        if starting_ms is None:
            return {_VERSION_HEADER: str(self.snapshots.newest_version(table))}
        return {_VERSION_HEADER: str(first_readable_since(self.snapshots, table, starting_ms))}

    def metadata(self, table: SharedTable, choice: Point, wishes: Wishes) -> Answer:
        """Return protocol and metadata of a version."""
        snapshot = self.snapshots.at(table, choose_version(self.snapshots, table, choice))
        form = snapshot.needs.choose(wishes.capabilities, table.full_name)
        head = head_of(table, snapshot, form, dated=not choice.is_newest)
        wishes = replace(wishes, capabilities=replace(wishes.capabilities, end_stream_action=False))
        return Answer(headers_of(snapshot.version, form, wishes), [head], {"version": snapshot.version})

    def query(self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes) -> Answer:
        """Return the files of a version, or a page of them."""
        tokens = self._tokens(access, table, request, wishes)
        version, start = self._begin(tokens, table, request)
        snapshot = self.snapshots.at(table, version)
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
            following = tokens.next_page({"version": version, "start": start + (page.most or 0)}) if more else None
            refresh = tokens.refresh(version) if request.include_refresh_token else None
            tail = end_line(style.expires_ms, refresh_token=refresh, next_page_token=following)
        head = head_of(table, snapshot, form, dated=dated)
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

    def _tokens(self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes) -> PageTokens:
        others = replace(request, page_token=None, max_files=None, refresh_token=None, include_refresh_token=False)
        return replace(self.tokens_of(access, table), parameters=digest_of(others, wishes))

    def tokens_of(self, access: Access, table: SharedTable) -> PageTokens:
        """Return the tokens of requests about a table."""
        return PageTokens(self.seal, self.clock, self.settings, access, table)

    def _begin(self, tokens: PageTokens, table: SharedTable, request: QueryRequest) -> tuple[int, int]:
        """Return the version to answer, and the number of the first file. Raises WireError."""
        if request.refresh_token is not None and not request.choice.is_newest:
            raise invalid("refreshToken excludes version and timestamp")
        if request.page_token is not None:
            opened = tokens.open_page(request.page_token)
            return int(opened["version"]), int(opened["start"])
        if request.refresh_token is not None:
            return tokens.open_refresh(request.refresh_token), 0
        return choose_version(self.snapshots, table, request.choice), 0

    def _select(self, snapshot: SharedSnapshot, hints: Hints, *, is_paged: bool) -> tuple[pyarrow.Table, str]:
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


def head_of(table: SharedTable, snapshot: SharedSnapshot, form: ResponseFormat, *, dated: bool) -> bytes:
    """Return the lines of protocol and metadata; `dated`: with the version, which the client chose."""
    return protocol_line(form, snapshot.client_protocol) + metadata_line(
        form,
        snapshot.metadata,
        snapshot.client_metadata,
        version=snapshot.version if dated else None,
        totals=snapshot.totals,
        shows_change_data=table.history_shared,
    )
