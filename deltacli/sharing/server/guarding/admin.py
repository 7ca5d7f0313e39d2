"""The port for operators: `/metrics`, `/healthz` and `/readyz`. It has no authentication, so it binds loopback."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from deltacli.sharing.server.guarding.metrics import CONTENT_TYPE, Metrics
from deltacli.typing import JsonObject

Scope = MutableMapping[str, Any]  # Any: ASGI
Message = MutableMapping[str, Any]  # Any: ASGI
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Readiness = Callable[[], Mapping[str, str]]
"""Returns why the server is not ready, by subject; empty if it is."""


class AdminApplication:
    """An ASGI application of its own. `/healthz` is 200 while the process answers, `/readyz` while it should get
    requests: it is configured, can write its audit log, and is not shutting down.
    """

    def __init__(self, metrics: Metrics, readiness: Readiness) -> None:
        self._metrics = metrics
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            return
        status, content_type, body = self._answer(scope["method"], scope["path"])
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        if method not in ("GET", "HEAD"):
            return 405, "application/json", _json({"message": "only GET and HEAD are allowed"})
        match path:
            case "/metrics":
                return 200, CONTENT_TYPE, self._metrics.text()
            case "/healthz":
                return 200, "application/json", _json({"status": "ok"})
            case "/readyz":
                reasons = self._readiness()
                status = {"status": "ready"} if not reasons else {"status": "not ready", "reasons": dict(reasons)}
                return (503 if reasons else 200), "application/json", _json(status)
        return 404, "application/json", _json({"message": "expected: /metrics, /healthz, /readyz"})


def _json(value: JsonObject) -> bytes:
    return json.dumps(value).encode() + b"\n"


async def _live(receive: Receive, send: Send) -> None:
    """Confirm the start and the end of the server. ASGI: Lifespan Protocol."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
