"""Requests to ASGI applications without a server, and a served state without files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltacli.sharing.configuration.recipients import Recipients, add_recipient, add_token
from deltacli.sharing.configuration.settings import Configuration, Limits, Settings
from deltacli.sharing.model import Catalog, Grant, Share, SharedSchema, SharedTable
from deltacli.sharing.server.guard import ServingState

NOW_MS = 1_800_000_000_000
Application = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Answer:
    """What a client got."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False

    @property
    def document(self) -> Any:  # Any: JSON
        return json.loads(self.body)


class Client:
    """Sends requests to an application. `fails_after`: the connection breaks after so many parts of the answer."""

    def __init__(self, application: Application) -> None:
        self.application = application

    def get(self, path: str = "/", token: str | None = None, **others: Any) -> Answer:
        bearer = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        return self.send("GET", path, [*bearer, *others.pop("headers", ())], **others)

    def send(
        self,
        method: str,
        path: str = "/",
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: Sequence[bytes] = (b"",),
        fails_after: int | None = None,
    ) -> Answer:
        return asyncio.run(self.exchange(method, path, headers, body, fails_after))

    async def exchange(
        self,
        method: str,
        path: str = "/",
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: Sequence[bytes] = (b"",),
        fails_after: int | None = None,
    ) -> Answer:
        answer = Answer()
        parts = [{"type": "http.request", "body": part, "more_body": True} for part in body]
        if parts:
            parts[-1]["more_body"] = False
        sent = 0

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop(0)
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                return
            if fails_after is not None and sent >= fails_after:
                raise OSError("the client has gone")
            sent += 1
            answer.body += message.get("body", b"")
            answer.is_complete = not message.get("more_body", False)

        await self.application(make_scope(method, path, headers), receive, send)
        return answer


def make_scope(method: str = "GET", path: str = "/", headers: Iterable[tuple[bytes, bytes]] = ()) -> dict[str, Any]:
    """Return the scope of a request."""
    return {"type": "http", "method": method, "path": path, "headers": list(headers), "client": ("10.0.0.9", 4711)}


def catalog_of(*names: str) -> Catalog:
    """Return a catalog of tables `share.schema.table`."""
    parts = [name.split(".") for name in names]
    tables = [SharedTable(share, schema, name, "/nowhere", f"{share}{name}") for share, schema, name in parts]
    shares = []
    for share in dict.fromkeys(table.share for table in tables):
        own = [table for table in tables if table.share == share]
        schemas = dict.fromkeys(table.schema for table in own)
        shares.append(
            Share(share, tuple(SharedSchema(share, one, tuple(t for t in own if t.schema == one)) for one in schemas))
        )
    return Catalog(tuple(shares))


def make_state(
    *grants: Grant, limits: Limits | None = None, expires_ms: int | None = None, **settings: Any
) -> tuple[ServingState, str]:
    """Return a state with the recipient `acme`, and its token."""
    recipients, token = add_token(
        add_recipient(Recipients(), "acme", grants or (Grant("s"),), NOW_MS), "acme", NOW_MS, expires_ms=expires_ms
    )
    configuration = Configuration(
        Path("shares.yaml"),
        catalog_of("s.c.t", "s.c.u", "other.c.t"),
        Settings(limits=limits or Limits(requests_per_second=0), **settings),
        recipients_file=Path("recipients.json"),
    )
    return ServingState(configuration, recipients), token.text
