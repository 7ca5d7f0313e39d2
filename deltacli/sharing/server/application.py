"""The ASGI application: routes by the raw path, so that an encoded slash never changes the route."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from deltacli.core.errors import DeltacliError
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.lines import json_line
from deltacli.sharing.protocol.parameters import (
    parse_changes,
    parse_choice,
    parse_list,
    parse_query,
    parse_timestamp,
    single_values,
    split_path,
)
from deltacli.sharing.protocol.wire_errors import ErrorCode, WireError, internal, not_allowed, of_fault
from deltacli.sharing.server.change_answers import ChangeAnswers
from deltacli.sharing.server.file_answers import FileAnswers
from deltacli.sharing.server.guarding.exchange import note_route
from deltacli.sharing.server.guarding.guard import RequestGuard
from deltacli.sharing.server.interfaces import Access
from deltacli.sharing.server.lists import Lists, find_table
from deltacli.sharing.server.stderr_log import NAME
from deltacli.sharing.server.table_answers import Answer, TableAnswers, read_wishes
from deltacli.sharing.signing.tokens import SEGMENT

THREADS, WAITING_THREADS = 2, 20
"""How many answers make lines at a time: those that take processor time only, and those that wait for other machines.
Every further thread of the first kind delays requests for the version: with ten, the slowest 1 % of them took 105 ms
instead of 50 ms while 200 clients asked."""


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
    prefix: str
    streams: _LineStream = field(default_factory=_LineStream)

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
                return _document(self.lists.tables(access, share, schema, parse_list(parameters)))
            case ["shares", share, "all-tables"]:
                note_route(request.scope, "all-tables", share=share)
                _require_method(request, "GET")
                return _document(self.lists.all_tables(access, share, parse_list(parameters)))
            case ["shares", share, "schemas", schema, "tables", name, *rest] if len(rest) <= 1:
                action = _TABLE_ACTIONS.get(rest[0] if rest else "")
                if action is None:
                    raise _no_route(segments)
                _require_method(request, *action.methods)
                route = rest[0] if rest else "version"
                note_route(request.scope, route, share=share, schema=schema, table=name)
                table = find_table(access, share, schema, name)
                note_route(request.scope, route, share=table.share, schema=table.schema, table=table.name)
                return await action.run(self, request, access, table, parameters)
        raise _no_route(segments)


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
    wishes = read_wishes(request.headers)
    query = parse_query(await request.body(), app.tables.settings.limits.json_depth)
    answer = app.tables.query if query.starting_version is None else app.ranges.files_since
    return _streamed(app, request, await _in_thread(table, lambda: answer(access, table, query, wishes)))


async def _changes(
    app: Application, request: Request, access: Access, table: SharedTable, parameters: Parameters
) -> Response:
    wishes, wanted = read_wishes(request.headers), parse_changes(parameters)
    return _streamed(app, request, await _in_thread(table, lambda: app.ranges.changes(access, table, wanted, wishes)))


@dataclass(frozen=True)
class _TableAction:
    methods: tuple[str, ...]
    run: Callable[[Application, Request, Access, SharedTable, Parameters], Awaitable[Response]]


_TABLE_ACTIONS: Mapping[str, _TableAction] = {
    "": _TableAction(("HEAD",), _version),
    "version": _TableAction(("GET", "HEAD"), _version),
    "metadata": _TableAction(("GET",), _metadata),
    "query": _TableAction(("POST",), _query),
    "changes": _TableAction(("GET",), _changes),
}


async def _in_thread(table: SharedTable, work: Callable[[], Any]) -> Any:  # Any: the result of the work
    """Return the result of work that reads a table. Faults of the table become answers without its location."""
    try:
        return await run_in_threadpool(work)
    except DeltacliError as fault:
        error = of_fault(fault, table.full_name)
        _log.warning("%s: %s: %s", table.full_name, fault.code, fault.message)
        raise error from fault


def _no_route(segments: Sequence[str]) -> WireError:
    return WireError(404, ErrorCode.MISSING, f"there is nothing at /{'/'.join(segments)[:300]}")


def _require_method(request: Request, *allowed: str) -> None:
    if request.method not in allowed:
        raise not_allowed(request.method, ", ".join(allowed))


def _document(content: Mapping[str, Any]) -> Response:
    return Response(json_line(content).rstrip(b"\n"), media_type=_JSON)


def _streamed(app: Application, request: Request, answer: Answer) -> Response:
    note_route(request.scope, None, **answer.about)
    return app.streams.response(answer)


def error_response(error: WireError) -> Response:
    """Return an error of the wire as a response."""
    headers = dict(error.headers)
    return Response(error.body(), status_code=error.status, headers=headers, media_type="application/json")
