"""The guard with everything that it needs, made of a configuration file."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltacli.clock import Clock, system_clock
from deltacli.errors import UsageError
from deltacli.sharing.configuration.settings import Configuration, Settings
from deltacli.sharing.configuration.share_check import refusals_to_start
from deltacli.sharing.server.guarding.audit import open_audit
from deltacli.sharing.server.guarding.guard import RequestGuard
from deltacli.sharing.server.guarding.metrics import CONTENT_TYPE, Metrics
from deltacli.sharing.server.guarding.reloading import Reloaded, Reloader
from deltacli.sharing.server.guarding.serving_state import ServingState
from deltacli.sharing.signing.keys import KeyFile
from deltacli.typing import JsonObject

Override = Callable[[Configuration], Configuration]
"""Changes settings as options of the command line do."""


@dataclass
class Guarding:
    """The parts around an application. `is_stopping` makes `/readyz` 503, so that no new requests are sent here."""

    reloader: Reloader
    guard: RequestGuard
    metrics: Metrics
    is_stopping: bool = False
    key_file: KeyFile | None = None

    @property
    def admin(self) -> AdminApplication:
        """Return the application of the port for operators."""
        return AdminApplication(self.metrics, self.problems)

    def problems(self) -> Mapping[str, str]:
        """Return why the server is not ready, by subject."""
        stopping = {"server": "it is shutting down"} if self.is_stopping else {}
        problem = self.key_file.problem if self.key_file is not None else None
        keys = {} if problem is None else {"keys": problem}
        return {**self.reloader.problems, **self.guard.problems, **keys, **stopping}

    async def run(self) -> None:
        """Reload what changes until cancelled; then the server counts as stopping."""
        try:
            await self.reloader.run()
        finally:
            self.is_stopping = True


def make_guarding(
    path: Path,
    *,
    override: Override = lambda configuration: configuration,
    clock: Clock = system_clock,
    inherited: tuple[ServingState, Settings] | None = None,
) -> Guarding:
    """Return the parts around an application, with the audit log opened. `inherited` is what other workers serve, and
    the settings that the server began with.

    Raises UsageError for a bad configuration, bad recipients, and settings that the server does not start with;
    StorageFailed for an audit log that cannot be written, and for wildcards that cannot be listed.
    """
    metrics = Metrics()

    def note(outcome: Reloaded) -> None:
        metrics.count_reload(is_good=outcome.error is None)

    state, started = inherited or (None, None)
    reloader = Reloader(path, override=override, on_outcome=note, inherited=state)
    if started is None:
        require_startable(reloader.state.configuration)
        audit = open_audit(reloader.state.configuration.settings.audit)
    else:
        audit = open_audit(started.audit, must_open=False)
    guard = RequestGuard(lambda: reloader.state, audit=audit, metrics=metrics, clock=clock)
    return Guarding(reloader, guard, metrics)


def require_startable(configuration: Configuration) -> None:
    """Raise UsageError for settings that the server does not start with."""
    refusals = refusals_to_start(configuration.settings, is_authenticated=configuration.is_authenticated)
    if refusals:
        first, *others = refusals
        facts = {other.code: other.message for other in others}
        raise UsageError(f"the server does not start: {first.message}", code=first.code, facts=facts, hint=first.hint)


_Scope = MutableMapping[str, Any]  # Any: ASGI
_Message = MutableMapping[str, Any]  # Any: ASGI
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

_Readiness = Callable[[], Mapping[str, str]]
"""Returns why the server is not ready, by subject; empty if it is."""


class AdminApplication:
    """An ASGI application of its own. `/healthz` is 200 while the process answers, `/readyz` while it should get
    requests: it is configured, can write its audit log, and is not shutting down.
    """

    def __init__(self, metrics: Metrics, readiness: _Readiness) -> None:
        self._metrics = metrics
        self._readiness = readiness

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
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


async def _live(receive: _Receive, send: _Send) -> None:
    """Confirm the start and the end of the server. ASGI: Lifespan Protocol."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
