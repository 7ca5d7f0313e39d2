"""The ASGI application: routes by the raw path, and the lists of shares, schemas and tables.

Names have the spelling of the configuration.

Spec: List Shares; Get Share; List Schemas in a Share; List Tables in a Schema; List all Tables in a Share.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from deltacli.core.errors import DeltacliError
from deltacli.core.typing import Json
from deltacli.sharing.model import URL_ONLY, AccessMode, Share, SharedSchema, SharedTable
from deltacli.sharing.protocol.lines import json_line
from deltacli.sharing.protocol.parameters import (
    ErrorCode,
    ListRequest,
    WireError,
    internal,
    missing,
    not_allowed,
    of_fault,
    parse_changes,
    parse_choice,
    parse_idempotency_key,
    parse_list,
    parse_location,
    parse_poll,
    parse_query,
    parse_timestamp,
    require_short_name,
    single_values,
    split_path,
    unsupported,
)
from deltacli.sharing.server.exchange import NAME, Access, TokenSeal, note_route
from deltacli.sharing.server.file_answers import FileAnswers
from deltacli.sharing.server.guard import RequestGuard
from deltacli.sharing.server.later import LaterQueries
from deltacli.sharing.server.table_answers import Answer, ChangeAnswers, Pinned, TableAnswers, read_wishes
from deltacli.sharing.server.vending import DirectoryAnswers, NotGiven
from deltacli.sharing.signing.keys import SEGMENT, Bound

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PAGE_LIFETIME_MS = 24 * 3_600_000
_KIND = "list"

Item = TypeVar("Item")
Document = dict[str, Json]


@dataclass(frozen=True)
class Lists:
    """Answers lists; page tokens name the last item seen, so that changes between pages lose or repeat nothing else."""

    seal: TokenSeal
    clock: Callable[[], int]
    directories: DirectoryAnswers

    def shares(self, access: Access, request: ListRequest) -> Document:
        """Return a page of the shares."""
        return self._page(access, "", access.catalog.shares, request, lambda share: share.name, _each(_share_item))

    def share(self, access: Access, name: str) -> Document:
        return {"share": _share_item(find_share(access, name))}

    def schemas(self, access: Access, share: str, request: ListRequest) -> Document:
        """Return a page of the schemas of a share."""
        found = find_share(access, share)
        return self._page(
            access,
            found.name,
            found.schemas,
            request,
            lambda schema: schema.name,
            _each(lambda schema: {"name": schema.name, "share": schema.share}),
        )

    def tables(self, access: Access, share: str, schema: str, request: ListRequest) -> Document:
        """Return a page of the tables of a schema."""
        found, within = find_share(access, share), find_schema(access, share, schema)
        return self._tables(access, f"{found.name}/{within.name}", within.tables, request, found)

    def all_tables(self, access: Access, share: str, request: ListRequest) -> Document:
        """Return a page of all tables of a share."""
        found = find_share(access, share)
        tables = [table for schema in found.schemas for table in schema.tables]
        return self._tables(access, f"{found.name}/*", tables, request, found)

    def _tables(
        self, access: Access, scope: str, tables: Sequence[SharedTable], request: ListRequest, share: Share
    ) -> Document:
        def show(shown: Sequence[SharedTable]) -> list[Document]:
            members = self.directories.members_of(shown)
            given = zip(shown, members, strict=True)
            return [_table_item(table, share) | dict(more) for table, more in given if more is not None]

        return self._page(access, scope, tables, request, lambda table: f"{table.schema}/{table.name}", show)

    def _page(
        self,
        access: Access,
        scope: str,
        items: Sequence[Item],
        request: ListRequest,
        name_of: Callable[[Item], str],
        show: Callable[[Sequence[Item]], list[Document]],
    ) -> Document:
        bound = Bound(access.caller.name, access.caller.epoch, parameters=scope)
        ordered = sorted(items, key=lambda item: name_of(item).casefold())
        if request.page_token is not None:
            opened = self.seal.open(_KIND, request.page_token, bound=bound)
            ordered = [item for item in ordered if name_of(item).casefold() > opened["after"]]
            before = str(opened["after"])
        else:
            before = ""
        shown = ordered[: request.max_results]
        document: Document = {"items": show(shown)}
        if len(ordered) > len(shown):
            after = name_of(shown[-1]).casefold() if shown else before
            expires_ms = self.clock() + PAGE_LIFETIME_MS
            document["nextPageToken"] = self.seal.seal(_KIND, {"after": after}, bound=bound, expires_ms=expires_ms)
        return document


def _each(show: Callable[[Item], Document]) -> Callable[[Sequence[Item]], list[Document]]:
    return lambda items: [show(item) for item in items]


def find_share(access: Access, name: str) -> Share:
    """Return a share that the caller may see. Raises WireError."""
    found = access.catalog.find_share(require_short_name(name))
    if found is None:
        raise missing("share", name)
    return found


def find_schema(access: Access, share: str, name: str) -> SharedSchema:
    """Return a schema that the caller may see. Raises WireError."""
    found = find_share(access, share).find_schema(require_short_name(name))
    if found is None:
        raise missing("schema", f"{share}.{name}")
    return found


def find_table(access: Access, share: str, schema: str, name: str) -> SharedTable:
    """Return a table that the caller may read. Raises WireError."""
    found = find_schema(access, share, schema).find_table(require_short_name(name))
    if found is None:
        raise missing("table", f"{share}.{schema}.{name}")
    return found


def _share_item(share: Share) -> Document:
    return {"name": share.name} | ({} if share.share_id is None else {"id": share.share_id}) | dict(share.about)


def _table_item(table: SharedTable, share: Share) -> Document:
    item = {"name": table.name, "schema": table.schema, "share": table.share, "id": table.table_id}
    return item | ({} if share.share_id is None else {"shareId": share.share_id})


# -- the ASGI application ----------------------------------------------------------------------------------------------

THREADS, WAITING_THREADS = 2, 20
"""How many answers make lines at a time: those that take processor time only, and those that wait for other machines.
Every further thread of the first kind delays requests for the version: with ten, the slowest 1 % of them took 105 ms
instead of 50 ms while 200 clients asked."""


VENDING_THREADS = 8
"""How many requests wait for credentials at a time: clouds may be slow, and other requests must not wait for them."""


class _LineStream:
    """Makes the bodies of answers, in a limited number of threads."""

    def __init__(self) -> None:
        self._busy, self._waiting = CapacityLimiter(THREADS), CapacityLimiter(WAITING_THREADS)

    def response(self, answer: Answer) -> StreamingResponse:
        limiter = self._waiting if answer.waits else self._busy
        return StreamingResponse(_made(iter(answer.parts), limiter), headers=dict(answer.headers))


async def _made(parts: Iterator[bytes], limiter: CapacityLimiter) -> AsyncIterator[bytes]:
    following = partial(next, parts, None)
    while (part := await to_thread.run_sync(following, limiter=limiter)) is not None:
        yield part


_JSON = "application/json; charset=utf-8"
_log = logging.getLogger(NAME)

Parameters = Mapping[str, str]


@dataclass(frozen=True)
class Application:
    """Answers requests below `prefix`."""

    guard: RequestGuard
    lists: Lists
    tables: TableAnswers
    ranges: ChangeAnswers
    files: FileAnswers
    later: LaterQueries
    directories: DirectoryAnswers
    prefix: str
    streams: _LineStream = field(default_factory=_LineStream)
    vending: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(VENDING_THREADS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._route(request)
        except WireError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:  # noqa: BLE001  (one request must not end the server)
            _log.exception("a request failed")
            return error_response(internal())

    async def _route(self, request: Request) -> Response:
        segments = split_path(request.scope.get("raw_path") or request.scope["path"].encode(), self.prefix)
        if segments is None:
            raise WireError(404, ErrorCode.MISSING, f"there is nothing here; the endpoint is {self.prefix}")
        if segments[:1] == [SEGMENT]:
            _require_method(request, "GET", "HEAD")
            note_route(request.scope, "file")
            return await self.files.answer(request, segments[1:])
        access = await self.guard.admit(request)
        if not segments:
            raise WireError(404, ErrorCode.MISSING, f"this is the endpoint; its lists begin at {self.prefix}/shares")
        return await self._shared(request, access, segments)

    async def _shared(self, request: Request, access: Access, segments: list[str]) -> Response:
        parameters = single_values(request.query_params.multi_items())
        match segments:
            case ["shares"]:
                note_route(request.scope, "shares")
                _require_method(request, "GET")
                return _document(self.lists.shares(access, parse_list(parameters)))
            case ["shares", share]:
                note_route(request.scope, "share", share=share)
                _require_method(request, "GET")
                return _document(self.lists.share(access, share))
            case ["shares", share, "schemas"]:
                note_route(request.scope, "schemas", share=share)
                _require_method(request, "GET")
                return _document(self.lists.schemas(access, share, parse_list(parameters)))
            case ["shares", share, "schemas", schema, "tables"]:
                note_route(request.scope, "tables", share=share, schema=schema)
                _require_method(request, "GET")
                wanted = parse_list(parameters)
                return await self._tables(access, share, lambda: self.lists.tables(access, share, schema, wanted))
            case ["shares", share, "all-tables"]:
                note_route(request.scope, "all-tables", share=share)
                _require_method(request, "GET")
                wanted = parse_list(parameters)
                return await self._tables(access, share, lambda: self.lists.all_tables(access, share, wanted))
            case ["shares", share, "schemas", schema, "tables", name, "queries", query_id]:
                _require_method(request, "POST")
                table = _noted(request, access, "queries", (share, schema, name))
                return await _poll(self, request, access, table, query_id)
            case ["shares", share, "schemas", schema, "tables", name, *rest] if len(rest) <= 1:
                action = _TABLE_ACTIONS.get(rest[0] if rest else "")
                if action is None:
                    raise _no_route(segments)
                _require_method(request, *action.methods)
                route = rest[0] if rest else "version" if request.method == "HEAD" else "table"
                table = _noted(request, access, route, (share, schema, name))
                return await action.run(self, request, access, table, parameters)
        raise _no_route(segments)

    @staticmethod
    async def _tables(access: Access, share: str, page: Callable[[], Document]) -> Response:
        """Return a page of tables. Those that may be given by directory are looked at, which takes requests."""
        schemas = find_share(access, share).schemas
        is_known = all(table.access_modes == URL_ONLY for schema in schemas for table in schema.tables)
        return _document(page() if is_known else await run_in_threadpool(page))


def _noted(request: Request, access: Access, route: str, names: tuple[str, str, str]) -> SharedTable:
    """Return the table of a request, which is noted with it. Raises WireError."""
    share, schema, name = names
    note_route(request.scope, route, share=share, schema=schema, table=name)
    table = find_table(access, share, schema, name)
    note_route(request.scope, route, share=table.share, schema=table.schema, table=table.name)
    return table


async def _table(
    app: Application, request: Request, access: Access, table: SharedTable, parameters: Parameters
) -> Response:
    """Answer `GET` with what the table is, `HEAD` with its version. Spec: Get Table (OpenSharing)."""
    if request.method == "HEAD":
        return await _version(app, request, access, table, parameters)
    headers = await _in_thread(table, lambda: app.tables.version(table, None))
    item = _table_item(table, find_share(access, table.share)) | {"format": "delta"}
    return _document(item, headers)


async def _version(
    app: Application, _request: Request, _access: Access, table: SharedTable, parameters: Parameters
) -> Response:
    text = parameters.get("startingTimestamp")
    starting = None if text is None else parse_timestamp(text, "startingTimestamp")
    known = app.tables.snapshots.known_newest_version(table) if starting is None else None
    if known is not None:
        return Response(headers=app.tables.version(table, None))
    return Response(headers=await _in_thread(table, lambda: app.tables.version(table, starting)))


async def _metadata(
    app: Application, request: Request, _access: Access, table: SharedTable, parameters: Parameters
) -> Response:
    choice, wishes = parse_choice(parameters), read_wishes(request.headers)
    return _streamed(app, request, await _in_thread(table, lambda: app.tables.metadata(table, choice, wishes)))


async def _query(
    app: Application, request: Request, access: Access, table: SharedTable, _parameters: Parameters
) -> Response:
    wishes, body = read_wishes(request.headers), await request.body()
    levels = app.tables.settings.limits.json_depth
    query = parse_query(body, levels)
    _require_mode(table, AccessMode.URL)
    if query.starting_version is not None:
        changed = await _in_thread(table, lambda: app.ranges.files_since(access, table, query, wishes))
        return _streamed(app, request, changed)
    standing: Answer | Pinned | None = None
    key = parse_idempotency_key(body, levels) if wishes.capabilities.takes_later else None
    if key is not None and query.page_token is None:
        with _table_faults(table):
            standing = await app.later.submit(access, table, body, request.headers, key)
    if isinstance(standing, Answer):
        return _streamed(app, request, standing)
    pinned = standing
    return _streamed(
        app, request, await _in_thread(table, lambda: app.tables.query(access, table, query, wishes, pinned))
    )


async def _poll(app: Application, request: Request, access: Access, table: SharedTable, query_id: str) -> Response:
    page = parse_poll(await request.body(), app.tables.settings.limits.json_depth)
    _require_mode(table, AccessMode.URL)
    with _table_faults(table):
        return _streamed(app, request, await app.later.poll(access, table, query_id, page, request.headers))


async def _credentials(
    app: Application, request: Request, access: Access, table: SharedTable, _parameters: Parameters
) -> Response:
    location = parse_location(await request.body(), app.tables.settings.limits.json_depth)
    try:
        with _table_faults(table):
            vended = await to_thread.run_sync(app.directories.credentials, access, table, location, limiter=app.vending)
    except NotGiven as refusal:
        note_route(request.scope, None, refusal=refusal.reason)
        raise
    now = find_table(app.guard.look_again(request), table.share, table.schema, table.name)  # the cloud may be slow
    if now != table:
        message = f"the table {table.full_name} was shared in another way meanwhile; ask again"
        raise WireError(503, ErrorCode.UNAVAILABLE, message, headers={"Retry-After": "1"})
    note_route(request.scope, None, **vended.about)
    return _document(vended.document, {"Cache-Control": "no-store"})


async def _changes(
    app: Application, request: Request, access: Access, table: SharedTable, parameters: Parameters
) -> Response:
    wishes, wanted = read_wishes(request.headers), parse_changes(parameters)
    _require_mode(table, AccessMode.URL)
    return _streamed(app, request, await _in_thread(table, lambda: app.ranges.changes(access, table, wanted, wishes)))


@dataclass(frozen=True)
class _TableAction:
    methods: tuple[str, ...]
    run: Callable[[Application, Request, Access, SharedTable, Parameters], Awaitable[Response]]


_TABLE_ACTIONS: Mapping[str, _TableAction] = {
    "": _TableAction(("GET", "HEAD"), _table),
    "version": _TableAction(("GET", "HEAD"), _version),
    "metadata": _TableAction(("GET",), _metadata),
    "query": _TableAction(("POST",), _query),
    "changes": _TableAction(("GET",), _changes),
    "temporary-table-credentials": _TableAction(("POST",), _credentials),
}


async def _in_thread(table: SharedTable, work: Callable[[], Any]) -> Any:  # Any: the result of the work
    with _table_faults(table):
        return await run_in_threadpool(work)


@contextmanager
def _table_faults(table: SharedTable) -> Iterator[None]:
    """Translate faults of a table into answers without its location."""
    try:
        yield
    except DeltacliError as fault:
        error = of_fault(fault, table.full_name)
        _log.warning("%s: %s: %s", table.full_name, fault.code, fault.message)
        raise error from fault


def _no_route(segments: Sequence[str]) -> WireError:
    return WireError(404, ErrorCode.MISSING, f"there is nothing at /{'/'.join(segments)[:300]}")


def _require_method(request: Request, *allowed: str) -> None:
    if request.method not in allowed:
        raise not_allowed(request.method, ", ".join(allowed))


def _require_mode(table: SharedTable, mode: AccessMode) -> None:
    """Raise WireError for a table that is not given in this way."""
    if mode not in table.access_modes:
        raise unsupported(f"the table {table.full_name} is shared by its directory only; ask for credentials for it")


def _document(content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_line(content).rstrip(b"\n"), media_type=_JSON, headers=dict(headers or {}))


def _streamed(app: Application, request: Request, answer: Answer) -> Response:
    note_route(request.scope, None, **answer.about)
    return app.streams.response(answer)


def error_response(error: WireError) -> Response:
    headers = dict(error.headers)
    return Response(error.body(), status_code=error.status, headers=headers, media_type="application/json")
