"""Requests to an ASGI application in this process, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

HOST = "share.test"


@dataclass(frozen=True)
class Reply:
    """What the application answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # Any: JSON values
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:  # Any: JSON values
        return [json.loads(line) for line in self.body.split(b"\n") if line]


def call(
    app: ASGIApp, method: str, target: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Reply:
    """Send one request and return the whole answer."""
    return asyncio.run(_call(app, method, target, body, headers or {}))


def call_together(
    app: ASGIApp, method: str, target: str, *, count: int, body: bytes = b"", headers: Mapping[str, str]
) -> list[Reply]:
    """Send so many equal requests at once and return their answers."""

    async def send_all() -> list[Reply]:
        return await asyncio.gather(*(_call(app, method, target, body, headers) for _ in range(count)))

    return asyncio.run(send_all())


async def _call(app: ASGIApp, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Reply:
    path, _, query = target.partition("?")
    sent: list[MutableMapping[str, Any]] = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "query_string": query.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "headers": [
            (name.lower().encode(), value.encode("latin-1")) for name, value in {"Host": HOST, **headers}.items()
        ],
        "client": ("127.0.0.1", 1),
        "server": (HOST, 80),
    }
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        if pending:
            return pending.pop()
        await asyncio.sleep(3_600)
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    content = b"".join(message.get("body", b"") for message in sent[1:])
    answered = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], answered, content)
