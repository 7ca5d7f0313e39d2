"""Our server behind a proxy that plants one deviation. Sound answers are remembered, so that each is made once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from deltacli.sharing.client.faults import require_reach
from deltacli.sharing.conformance.lists import Scope
from deltacli.sharing.conformance.run import ConformanceRun
from deltacli.sharing.conformance.versions import OpenStore
from deltacli.sharing.conformance.wire import Budget, Suite, Wire
from deltacli.storage.vended import open_vended
from tests.sharing.asgi import HOST, Reply, call
from tests.sharing.served import NOW_MS, PREFIX, TOKEN, Served

ENDPOINT = f"http://{HOST}{PREFIX}"


@dataclass(frozen=True)
class Call:
    """A request. `path` is below the endpoint; `number` counts the requests of the run."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]  # Any: JSON values
    number: int
    raw: bytes | None = None

    @property
    def table(self) -> str:
        """The name of the table, empty where there is none."""
        parts = self.path.split("/")
        return parts[5] if len(parts) > 5 and parts[4] == "tables" else ""

    @property
    def rest(self) -> str:
        """The part behind the table."""
        return "/".join(self.path.split("/")[6:]) if self.table else ""

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def wants_delta(self) -> bool:
        return "responseformat=delta" in self.headers.get("delta-sharing-capabilities", "").lower()


Change = Callable[[Call, Reply], Reply]


class Response:
    """What the wire reads of a response of urllib3."""

    closed = True

    def __init__(self, reply: Reply) -> None:
        self.status, self.headers, self._body = reply.status, reply.headers, reply.body

    def read1(self, amount: int, *, decode_content: bool) -> bytes:
        assert decode_content
        data, self._body = self._body[:amount], self._body[amount:]
        return data

    def release_conn(self) -> None:
        """Nothing is held."""


@dataclass
class Proxy:
    """Stands in for the pool of connections."""

    served: Served
    change: Change | None = None
    sent: int = 0
    known: dict[Any, Reply] = field(default_factory=dict)  # Any: the parts of a request

    def request(self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str], **_: Any) -> Response:
        """Answer a request, with the deviation."""
        self.sent += 1
        parts = urlsplit(url)
        if parts.hostname not in (HOST, "127.0.0.1"):
            require_reach(parts.hostname or "", "10.0.0.7", frozenset())
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        sent = {name: value for name, value in headers.items() if name != "User-Agent"}
        lowered = {name.lower(): value for name, value in sent.items()}
        content = {"damaged": True} if body in (b"{", b"[]") else json.loads(body) if body else {}
        path = parts.path.removeprefix(f"{PREFIX}/")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        asked = Call(method, path, query, lowered, content, self.sent, body)
        reply = self.answer(asked, target, sent)
        if self.change is not None:
            reply = self.change(asked, reply)
        return Response(reply)

    def answer(self, asked: Call, target: str, headers: Mapping[str, str]) -> Reply:
        """Return the sound answer to a request."""
        key = (asked.method, target, tuple(sorted(headers.items())), asked.raw)
        if key not in self.known:
            body = asked.raw or b""
            self.known[key] = call(self.served.app, asked.method, target, body=body, headers=headers)
        return self.known[key]

    def clear(self) -> None:
        """Nothing is held."""

    def test(
        self,
        level: str = "footers",
        tables: int = 10,
        requests: int = 10_000,
        open_store: OpenStore = open_vended,
        **scope: Any,  # Any: what else is tested
    ) -> Sequence[Suite]:
        """Return the suites of a run."""
        wire = Wire(
            ENDPOINT, lambda: f"Bearer {TOKEN}", Budget(requests), sleep=lambda _: None, clock=lambda: 0.0, pool=self
        )
        chosen = Scope(level=level, most_tables=tables, **scope)
        run = ConformanceRun(wire, chosen, NOW_MS, lambda _: True, open_store=open_store)
        return list(run.suites())


def reported(suites: Sequence[Suite]) -> set[str]:
    """Return the rules that reported."""
    return {finding.rule.id for suite in suites for finding in suite.findings}
