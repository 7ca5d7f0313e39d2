"""One request and its answer: who asked for what, and what was sent. The application adds what it finds out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from deltacli.sharing.server.ports import Caller
from deltacli.typing import Json
from deltacli.units import format_timestamp

Scope = MutableMapping[str, Any]  # Any: ASGI
Message = MutableMapping[str, Any]  # Any: ASGI
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_KEY = "deltacli.exchange"


@dataclass
class Exchange:
    """One request. `route` is the name of the endpoint, not its URL; `details` go to the audit log (share, schema,
    table, version, files, filesTotal, hints). Both are set before the answer starts.
    """

    scope: Scope
    request_id: str
    begun_at: float
    route: str = "other"
    caller: Caller | None = None
    details: dict[str, Json] = field(default_factory=dict)
    on_end: list[Callable[[], None]] = field(default_factory=list)
    status: int | None = None
    sent_bytes: int = 0
    is_stream: bool = False
    """The size of the answer was unknown when it began."""

    first_byte_at: float | None = None
    is_complete: bool = False
    is_replaced: bool = False
    is_cut: bool = False
    """The answer took too long, or the client did not read it."""

    time_limit: asyncio.Timeout | None = None

    def __post_init__(self) -> None:
        self.scope[_KEY] = self

    @property
    def name(self) -> str:
        """Return who asked for what, for the log."""
        return f"{self.route} of {self.caller.name if self.caller else 'a stranger'} ({self.request_id})"

    def limit_time(self, seconds: float) -> None:
        """Cut the answer unless it is complete in so many seconds."""
        if self.time_limit is not None:
            self.time_limit.reschedule(asyncio.get_running_loop().time() + seconds)

    def note_sent(self, message: Message) -> None:
        """Count a part of the answer that was sent."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.sent_bytes += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)

    def end(self) -> None:
        """Release what the request held."""
        while self.on_end:
            self.on_end.pop()()

    def first_entry(self, status: int, now_ms: int, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Any]:
        """Return the line of the audit log that is written before the first byte. It has no query string: page tokens
        and signatures are secrets.
        """
        client = self.scope.get("client")
        length = next((value for name, value in headers if name.lower() == b"content-length"), None)
        self.is_stream = length is None
        known = {
            "recipient": self.caller.name if self.caller else None,
            "token": self.caller.token_id if self.caller else None,
            "client": client[0] if client else None,
            "bytes": int(length) if length is not None and length.isdigit() else None,
        }
        return {
            "event": "request",
            "timeMs": now_ms,
            "time": format_timestamp(now_ms),
            "request": self.request_id,
            "method": self.scope["method"],
            "route": self.route,
            "status": status,
            **{name: value for name, value in known.items() if value is not None},
            **self.details,
        }

    def last_entry(self, now_ms: int, now_seconds: float) -> dict[str, Json]:
        """Return the line of the audit log about the end of a stream."""
        return {
            "event": "end",
            "timeMs": now_ms,
            "time": format_timestamp(now_ms),
            "request": self.request_id,
            "bytes": self.sent_bytes,
            "milliseconds": round((now_seconds - self.begun_at) * 1_000),
            "complete": self.is_complete,
        }


def note_route(
    scope: MutableMapping[str, Any], route: str | None, details: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Add what the application finds out to the exchange of a request, where there is one."""
    exchange = exchange_of(scope)
    if exchange is not None:
        exchange.route = route or exchange.route
        exchange.details |= details


def exchange_of(scope: MutableMapping[str, Any]) -> Exchange | None:
    """Return the exchange of a request; None where the guard does not wrap the application."""
    found = scope.get(_KEY)
    return found if isinstance(found, Exchange) else None
