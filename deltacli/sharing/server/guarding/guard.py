"""The guard around the application: limits, authentication, the audit log and metrics of every request.

It is an ASGI application around another one, so that slots are released and requests recorded however that ends, and
nothing is sent before it is recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from deltacli.core.clock import Clock, system_clock
from deltacli.core.errors import StorageFailed
from deltacli.core.typing import JsonObject
from deltacli.sharing.configuration.recipients import Recipient, TokenRecord, TokenState
from deltacli.sharing.configuration.settings import Limits
from deltacli.sharing.protocol.wire_errors import WireError
from deltacli.sharing.server.guarding.exchange import (
    Application,
    AuditTrail,
    Exchange,
    Message,
    NoAudit,
    Receive,
    Scope,
    Send,
    exchange_of,
)
from deltacli.sharing.server.guarding.metrics import Metrics
from deltacli.sharing.server.guarding.refusals import (
    encoding_refused,
    host_refused,
    not_recorded,
    token_missing,
    token_refused,
    too_large,
    too_many,
    too_slow,
    url_revoked,
)
from deltacli.sharing.server.guarding.serving_state import EVERYONE, ServingState
from deltacli.sharing.server.interfaces import Access, Caller

if TYPE_CHECKING:
    from starlette.requests import Request


_LOG = logging.getLogger("deltacli.share")
_RECORDED_REFUSALS_PER_SECOND = 20


class NotRecordedError(OSError):
    """The answer was replaced, because the request could not be recorded. Frameworks take it for a lost client."""


class RequestGuard:
    """Admits requests. `state` returns what is served at the moment."""

    def __init__(
        self,
        state: Callable[[], ServingState],
        *,
        audit: AuditTrail | None = None,
        metrics: Metrics | None = None,
        clock: Clock = system_clock,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self.audit = audit or NoAudit()
        self.metrics = metrics or Metrics()
        self.clock = clock
        self.seconds = seconds
        self._limits = RecipientLimits(seconds)
        self._audit_fault: StorageFailed | None = None

    @property
    def problems(self) -> Mapping[str, str]:
        """Return why the server is not ready, by subject."""
        return {} if self._audit_fault is None else {"audit": self._audit_fault.message}

    async def admit(self, request: Request) -> Access:
        """Return the access of the bearer of a token, and count the request. Raises WireError (401, 429)."""
        return self._entered(request.scope, _authenticate(request.scope["headers"], self._state(), self.clock()))

    def readmit(self, name: str, token_epoch: int, request: Request | None = None) -> Access:
        """Return the access of the token that a signed URL was made with, unless it was revoked since.

        With `request`, the recipient is recorded with it. Downloads do not count towards the rate of a recipient.
        Raises WireError (403).
        """
        access = _authorize_url(name, token_epoch, self._state(), self.clock())
        exchange = exchange_of(request.scope) if request is not None else None
        if exchange is not None:
            exchange.caller = access.caller
        return access

    def wrap(self, application: Application) -> GuardedApplication:
        """Return the application with the guard around it."""
        return GuardedApplication(application, self)

    @property
    def limits(self) -> Limits:
        """Return the limits at the moment."""
        return self._state().configuration.settings.limits

    def check(self, scope: Scope) -> None:
        """Check the headers of a request. Raises WireError."""
        settings = self._state().configuration.settings
        check_headers(scope["headers"], settings.limits, settings.allowed_hosts)

    def limited(self, receive: Receive) -> Receive:
        """Return a `receive` with the limits of bodies."""
        return limited_body(receive, self.limits)

    def record(self, entry: JsonObject) -> None:
        """Write a line of the audit log. Raises WireError (503) where that fails."""
        try:
            self.audit.write(entry)
        except StorageFailed as fault:
            self.metrics.audit_failures.inc()
            if self._audit_fault is None:
                _LOG.error("requests are refused: %s", fault)
            self._audit_fault = fault
            raise not_recorded() from fault
        self._audit_fault = None

    def _entered(self, scope: Scope, access: Access) -> Access:
        exchange = exchange_of(scope)
        if exchange is not None:
            exchange.caller = access.caller
            exchange.on_end.append(self._limits.enter(access.caller.name, self.limits))
        return access


class GuardedApplication:
    """The application, with the guard around it."""

    def __init__(self, application: Application, guard: RequestGuard) -> None:
        self._application = application
        self._guard = guard
        self._refused = (0.0, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        exchange = Exchange(scope, uuid.uuid4().hex, self._guard.seconds())
        guarded = self._guarded_send(exchange, send)
        with self._guard.metrics.in_flight():
            try:
                await self._run(scope, exchange, receive, guarded)
            finally:
                self._finish(exchange)

    async def _run(self, scope: Scope, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Answer within the time limit; where that ends, the server closes the connection, so the client notices."""
        try:
            async with asyncio.timeout(None) as exchange.time_limit:
                await self._answer(scope, exchange, receive, send)
        except TimeoutError:
            if exchange.time_limit is None or not exchange.time_limit.expired():
                raise
            exchange.is_cut = True
        if exchange.is_cut:
            _LOG.warning("an answer was cut because it took too long: %s", exchange.name)

    async def _answer(self, scope: Scope, exchange: Exchange, receive: Receive, send: Send) -> None:
        try:
            self._guard.check(scope)
            await self._application(scope, self._guard.limited(receive), send)
        except WireError as refusal:
            if exchange.status is not None:
                raise  # too late for an answer: the connection is closed
            await _send_refusal(refusal, send)
        except Exception:
            if not (exchange.is_replaced or exchange.is_cut):  # else the framework took that for a lost client
                raise

    def _guarded_send(self, exchange: Exchange, send: Send) -> Send:
        """Return a `send` that records the request before the first byte, or sends a refusal instead."""

        async def guarded(message: Message) -> None:
            if exchange.is_replaced:
                raise NotRecordedError("the request was not recorded")
            if message["type"] == "http.response.start":
                try:
                    self._begin(exchange, message)
                except WireError as refusal:
                    exchange.is_replaced = True
                    await _send_refusal(refusal, send)
                    exchange.status = refusal.status
                    raise NotRecordedError("the request was not recorded") from refusal
            try:
                async with asyncio.timeout(self._guard.limits.stream_idle_seconds):
                    await send(message)
            except TimeoutError:
                exchange.is_cut = True
                raise
            exchange.note_sent(message)

        return guarded

    def _begin(self, exchange: Exchange, message: Message) -> None:
        """Record a request that is about to be answered. Raises WireError."""
        status: int = message["status"]
        message["headers"] = [*message.get("headers", ()), (b"x-request-id", exchange.request_id.encode())]
        if exchange.caller is None and status >= 400 and not self._may_record_refusal():
            return
        try:
            self._guard.record(exchange.first_entry(status, self._guard.clock(), message["headers"]))
        except WireError:
            if exchange.caller is not None or status < 400:
                raise
        exchange.first_byte_at = self._guard.seconds()
        exchange.limit_time(self._guard.limits.stream_seconds)

    def _may_record_refusal(self) -> bool:
        """Return False where strangers would fill the audit log."""
        begin, count = self._refused
        now = self._guard.seconds()
        self._refused = (begin, count + 1) if now - begin < 1 else (now, 1)
        return self._refused[1] <= _RECORDED_REFUSALS_PER_SECOND

    def _finish(self, exchange: Exchange) -> None:
        exchange.end()
        metrics, now = self._guard.metrics, self._guard.seconds()
        route, name = exchange.route, exchange.caller.name if exchange.caller else ""
        status = exchange.status or 499
        metrics.requests.labels(route, str(status), name).inc()
        metrics.seconds.labels(route).observe(now - exchange.begun_at)
        if exchange.first_byte_at is not None:
            metrics.first_byte_seconds.labels(route).observe(exchange.first_byte_at - exchange.begun_at)
        metrics.sent_bytes.labels(route).inc(exchange.sent_bytes)
        if "filesTotal" in exchange.details:
            metrics.count_files(exchange.details["files"], exchange.details["filesTotal"])
        if status >= 400:
            metrics.refused.labels(str(status)).inc()
        if not exchange.is_complete:
            metrics.broken.labels(route).inc()
        if exchange.is_stream and not exchange.is_replaced:
            with suppress(WireError):  # the request itself is recorded
                self._guard.record(exchange.last_entry(self._guard.clock(), now))


async def _send_refusal(refusal: WireError, send: Send) -> None:
    body = refusal.body()
    headers = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body)), **refusal.headers}
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


_LONGEST_TOKEN = 4_096


def _authenticate(headers: Iterable[tuple[bytes, bytes]], state: ServingState, now_ms: int) -> Access:
    """Return the access of the bearer of a token. Raises WireError (401)."""
    if state.is_open:
        return Access(Caller(EVERYONE), state.configuration.catalog)
    token = _bearer_token(headers)
    found = state.find_token(token)
    if found is None:
        raise token_refused()
    validity = found.token.state(now_ms)
    if validity is not TokenState.ACTIVE:
        is_over = validity is TokenState.EXPIRED
        raise token_refused(validity, found.token.expires_ms if is_over else found.token.not_before_ms)
    return _access(state, found.recipient, found.token)


def _authorize_url(name: str, token_epoch: int, state: ServingState, now_ms: int) -> Access:
    """Return the access of the token that a signed URL was made with. Raises WireError (403) where the token is no
    longer valid, or its recipient was removed.
    """
    if state.is_open and name == EVERYONE:
        return Access(Caller(EVERYONE), state.configuration.catalog)
    recipient = state.find_recipient(name)
    tokens = () if recipient is None else recipient.tokens
    token = next((one for one in tokens if one.epoch == token_epoch), None)
    if recipient is None or token is None or token.state(now_ms) is not TokenState.ACTIVE:
        raise url_revoked()
    return _access(state, recipient, token)


def _bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the token of a request. Raises WireError (401) where there is none, or more than one."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        raise token_missing()
    scheme, _, token = values[0].strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise token_missing()
    if len(token) > _LONGEST_TOKEN or not token.isascii() or b" " in token:
        raise token_refused()
    return token.decode("ascii")


def _access(state: ServingState, recipient: Recipient, token: TokenRecord) -> Access:
    caller = Caller(recipient.name, recipient.epoch, token.expires_ms, token.token_id, token.epoch)
    return Access(caller, state.catalog_of(recipient))


Headers = Iterable[tuple[bytes, bytes]]

_BURST_SECONDS = 2
_MOST_IDLE = 10_000


def check_headers(headers: Headers, limits: Limits, allowed_hosts: tuple[str, ...] = ()) -> None:
    """Raise WireError for headers that are too large, a compressed or announced too large body, another host."""
    found = list(headers)
    if sum(len(name) + len(value) + 4 for name, value in found) > limits.header_bytes:
        raise too_large("head", limits.header_bytes)
    hosts = [value for name, value in found if name == b"host"]
    if allowed_hosts and [_host_of(host) in allowed_hosts for host in hosts] != [True]:
        raise host_refused()
    for name, value in found:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise encoding_refused(value.decode("latin-1"))
        if name == b"content-length" and (not value.isdigit() or int(value[:19]) > limits.body_bytes):
            raise too_large("body", limits.body_bytes)


def _host_of(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def limited_body(receive: Receive, limits: Limits) -> Receive:
    """Return a `receive` that raises WireError for a body that is too large or too slow, also for a chunked one.

    The time counts from the first call, and only until the body is complete.
    """
    taken = 0
    deadline: float | None = None
    is_complete = False

    async def receive_limited() -> Message:
        nonlocal taken, deadline, is_complete
        if is_complete:
            return await receive()
        now = asyncio.get_running_loop().time()
        deadline = now + limits.body_seconds if deadline is None else deadline
        try:
            message = await asyncio.wait_for(receive(), max(deadline - now, 0))
        except TimeoutError:
            raise too_slow("body", limits.body_seconds) from None
        taken += len(message.get("body", b""))
        if taken > limits.body_bytes:
            raise too_large("body", limits.body_bytes)
        is_complete = not message.get("more_body", False)
        return message

    return receive_limited


class Allowance:
    """How much one recipient has left: requests in this moment, and requests at once."""

    __slots__ = ("at", "running", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at
        self.running = 0


class RecipientLimits:
    """Rate and concurrency of each recipient, in one process. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}

    def enter(self, name: str, limits: Limits) -> Callable[[], None]:
        """Count a request of a recipient and return a function that ends it; further calls of that do nothing.

        Raises WireError where the recipient asks too often or has too many requests running.
        """
        allowance = self._refilled(name, limits)
        if limits.concurrent_requests and allowance.running >= limits.concurrent_requests:
            raise too_many(f"{allowance.running} are running (limit: {limits.concurrent_requests})", 1)
        if limits.requests_per_second:
            if allowance.tokens < 1:
                raise too_many(f"more than {limits.requests_per_second} per second", 1)
            allowance.tokens -= 1
        allowance.running += 1
        has_ended = False

        def leave() -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                allowance.running -= 1

        return leave

    def _refilled(self, name: str, limits: Limits) -> Allowance:
        now = self._clock()
        most = float(limits.requests_per_second * _BURST_SECONDS)
        allowance = self._allowances.get(name)
        if allowance is None:
            if len(self._allowances) >= _MOST_IDLE:
                self._forget_idle()
            allowance = self._allowances[name] = Allowance(most, now)
        allowance.tokens = min(most, allowance.tokens + (now - allowance.at) * limits.requests_per_second)
        allowance.at = now
        return allowance

    def _forget_idle(self) -> None:
        for name in [name for name, one in self._allowances.items() if not one.running]:
            with suppress(KeyError):
                del self._allowances[name]
