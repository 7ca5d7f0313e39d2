"""The guard around the application: limits, authentication, audit log, metrics, and what is served at a moment.

A changed file takes effect within a second, as a whole; a bad one leaves the old state in use.

Each worker watches the files itself, so a revoked token is refused by all of them without a message between processes.

It is an ASGI application around another one, so that slots are released and requests recorded however that ends, and
nothing is sent before it is recorded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deltacli.core.errors import DeltacliError, StorageFailed, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import Clock, system_clock
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural
from deltacli.sharing.configuration.recipients import (
    Identity,
    Recipient,
    Recipients,
    TokenRecord,
    TokenState,
    read_recipients,
)
from deltacli.sharing.configuration.secrets import digest_token
from deltacli.sharing.configuration.settings import Configuration, Limits
from deltacli.sharing.configuration.shares_yaml import read_configuration, remember_secrets_of
from deltacli.sharing.model import Catalog, Grant
from deltacli.sharing.protocol.parameters import WireError
from deltacli.sharing.server import connections
from deltacli.sharing.server.exchange import (
    Access,
    Application,
    AuditTrail,
    Caller,
    Exchange,
    Message,
    NoAudit,
    Receive,
    Scope,
    Send,
    exchange_of,
)

if TYPE_CHECKING:
    from starlette.requests import Request

EVERYONE = "anonymous"
"""The name of the recipient where requests need no token."""

OF_CONFIGURATION = "bearerToken"
"""The name of the recipient with the token of `authorization`."""


@dataclass(frozen=True)
class ServingState:
    """A configuration and its recipients. `generation` counts the reloads."""

    configuration: Configuration
    recipients: Recipients = field(default_factory=Recipients)
    generation: int = 0

    @property
    def is_open(self) -> bool:
        """Return True if requests need no token."""
        return not self.configuration.is_authenticated

    def find_token(self, token: str) -> Identity | None:
        """Return whose token this is, valid or not. Takes the same time for every wrong token."""
        found = self.recipients.find_token(token)
        of_all = self._of_configuration.find_token(token)
        return found or of_all

    def find_recipient(self, name: str) -> Recipient | None:
        return self._of_configuration.find(name) or self.recipients.find(name)

    def catalog_of(self, recipient: Recipient) -> Catalog:
        """Return what a recipient may read."""
        if recipient.name == OF_CONFIGURATION:
            return self.configuration.catalog
        found = self._catalogs.get(recipient.name)
        if found is None:
            found = self._catalogs[recipient.name] = self.configuration.catalog.granted(recipient.grants)
        return found

    @cached_property
    def _catalogs(self) -> dict[str, Catalog]:
        return {}

    @cached_property
    def _of_configuration(self) -> Recipients:
        """The recipient of the configuration's token. Its epoch is the token's, so another one ends page tokens too."""
        token = self.configuration.bearer_token
        if token is None:
            return Recipients()
        record = TokenRecord("config", digest_token(token), 0)
        grants = tuple(Grant(share.name) for share in self.configuration.catalog.shares)
        return Recipients((Recipient(OF_CONFIGURATION, (record,), grants, record.epoch),))


def visible_names(state: ServingState) -> Mapping[str, int]:
    """Return how many shares, tables and recipients there are, for the log and for metrics."""
    shares = state.configuration.catalog.shares
    tables = sum(len(schema.tables) for share in shares for schema in share.schemas)
    return {"shares": len(shares), "tables": tables, "recipients": len(state.recipients.items)}


_LOG = logging.getLogger("deltacli.share")

POLL_SECONDS = 0.4
"""Between two looks at the files. Two looks and the reading of the recipients take less than a second."""

RETRY_SECONDS = 5.0
"""Between two attempts to read a configuration that is bad."""

Signature = tuple[tuple[int, ...] | None, ...]
ReadConfiguration = Callable[[Path], Configuration]


@dataclass(frozen=True)
class Reloaded:
    """The outcome of a look at the files. `error` is None unless a file is bad."""

    what: str
    error: DeltacliError | None = None


Loaded = tuple[Configuration | None, Recipients | None]
"""What was loaded; None: it stays as it is."""

Outcome = Loaded | Reloaded | None
"""What was loaded, why it was not, or that nothing changed."""


class Reloader:
    """Holds what is served, and replaces it when files change. `override` changes settings as the command line does.

    `inherited` is what the other workers serve. It stays in use where the files have become bad meanwhile.
    """

    def __init__(
        self,
        path: Path,
        *,
        read: ReadConfiguration = read_configuration,
        override: Callable[[Configuration], Configuration] = lambda configuration: configuration,
        on_outcome: Callable[[Reloaded], None] = lambda _: None,
        inherited: ServingState | None = None,
    ) -> None:
        self._path = path
        self._read = read
        self._override = override
        self._on_outcome = on_outcome
        self._wanted_configuration = asyncio.Event()
        self._wanted_recipients = asyncio.Event()
        self._last_seconds = 0.0
        self._failed: dict[str, DeltacliError] = {}
        self._threads = ThreadPoolExecutor(2, "share-reload")  # its own: those of the application may all be reading
        self._seen: Signature = ()
        self._seen_recipients: Signature = ()
        if inherited is None:
            configuration = self._load_configuration()
            self._state = ServingState(configuration, self._load_recipients(configuration))
            return
        self._state = inherited
        self._watched = inherited.configuration.files or (path,)
        remember_secrets_of(inherited.configuration)
        if (found := self._look_at_recipients(0.0, True)) is not None:
            self._report(self._take(found), None)
        self._wanted_configuration.set()  # not here: it may have to list wildcards

    @property
    def state(self) -> ServingState:
        """Return what is served now. A request takes it once, so that it never sees two states."""
        return self._state

    @property
    def problems(self) -> Mapping[str, str]:
        """Return which files are bad, and why; the state from before they were is in use."""
        return {what: error.message for what, error in self._failed.items()}

    def request(self) -> None:
        """Reload everything at the next opportunity, such as after SIGHUP. May be called from a signal handler."""
        self._wanted_configuration.set()
        self._wanted_recipients.set()

    async def run(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Look at the files until cancelled. Recipients have a loop of their own: listing the tables of wildcards may
        take longer than a revocation is allowed to.
        """
        self._last_seconds = asyncio.get_running_loop().time()
        await asyncio.gather(
            self._watch(self._wanted_configuration, self._look_at_configuration, poll_seconds),
            self._watch(self._wanted_recipients, self._look_at_recipients, poll_seconds),
        )

    async def _watch(self, wanted: asyncio.Event, look: Callable[[float, bool], Outcome], poll_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_seconds):
                    await wanted.wait()
            is_forced = wanted.is_set()
            wanted.clear()
            try:
                outcome = await loop.run_in_executor(self._threads, look, loop.time(), is_forced)
            except Exception:  # noqa: BLE001  (a watcher that has ended would never see a revocation)
                _LOG.exception("the configuration could not be checked for changes; the check is repeated")
                continue
            if outcome is not None:
                known = self._failed.get(outcome.what) if isinstance(outcome, Reloaded) else None
                self._report(self._take(outcome), known)

    def look(self, *, is_forced: bool = False, now_seconds: float = 0.0) -> list[Reloaded]:
        """Reload what changed since the last look, or everything, and return the outcomes."""
        looks = (self._look_at_recipients, self._look_at_configuration)
        return [self._take(found) for look in looks if (found := look(now_seconds, is_forced)) is not None]

    def _look_at_configuration(self, now_seconds: float, is_forced: bool) -> Outcome:
        current = self._state.configuration
        is_due = self._is_due(current, now_seconds)
        if not is_forced and not is_due and _signature(self._watched) == self._seen:
            return None
        self._last_seconds = now_seconds
        try:
            configuration = self._load_configuration()
            _require_same_guard(current, configuration)
            is_moved = configuration.recipients_file != current.recipients_file
            return configuration, self._load_recipients(configuration) if is_moved else None
        except DeltacliError as error:
            return Reloaded("configuration", error)

    def _look_at_recipients(self, _now_seconds: float, is_forced: bool) -> Outcome:
        file = self._state.configuration.recipients_file
        if file is None or (not is_forced and _signature([file]) == self._seen_recipients):
            return None
        try:
            return None, self._load_recipients(self._state.configuration)
        except DeltacliError as error:
            return Reloaded("recipients", error)

    def _take(self, outcome: Loaded | Reloaded) -> Reloaded:
        """Replace the state by what was loaded. Called by one thread only, so no change is lost."""
        if isinstance(outcome, Reloaded):
            assert outcome.error is not None
            self._failed[outcome.what] = outcome.error
            return outcome
        configuration, recipients = outcome
        self._state = ServingState(
            configuration or self._state.configuration,
            self._state.recipients if recipients is None else recipients,
            self._state.generation + 1,
        )
        what = "recipients" if configuration is None else "configuration"
        self._failed.pop(what, None)
        return Reloaded(what)

    def _is_due(self, current: Configuration, now_seconds: float) -> bool:
        """Return True where the files may be unchanged, but not what they refer to: the directories that a wildcard
        matches, or what kept the configuration from being read.
        """
        age = now_seconds - self._last_seconds
        is_failing = "configuration" in self._failed
        return (current.has_wildcards and age >= current.settings.wildcard_refresh_seconds) or (
            is_failing and age >= RETRY_SECONDS
        )

    def _load_configuration(self) -> Configuration:
        # The signature is taken before the file is read: a change in between is seen at the next look.
        known: Iterable[Path] = getattr(self, "_watched", (self._path,))
        self._seen = _signature(known)
        configuration = self._override(self._read(self._path))
        self._watched = configuration.files or (self._path,)
        if tuple(self._watched) != tuple(known):
            self._seen = _signature(self._watched)
        return configuration

    def _load_recipients(self, configuration: Configuration) -> Recipients:
        file = configuration.recipients_file
        if file is None:
            return Recipients()
        self._seen_recipients = _signature([file])
        return read_recipients(file)

    def _report(self, outcome: Reloaded, known: DeltacliError | None) -> None:
        """Log an outcome; an error that is `known` is not repeated."""
        if outcome.error is not None and known is not None and known.message == outcome.error.message:
            return
        if outcome.error is None:
            counts = ", ".join(plural(count, name[:-1]) for name, count in visible_names(self._state).items())
            _LOG.info("reloaded the %s: %s", outcome.what, counts)
        else:
            _LOG.error("the %s was not reloaded, the old one is in use: %s", outcome.what, outcome.error)
        self._on_outcome(outcome)


def _require_same_guard(current: Configuration, changed: Configuration) -> None:
    """Raise UsageError where a reload would end authentication: that needs a restart, which checks the address."""
    if current.is_authenticated and not changed.is_authenticated:
        message = f"{changed.path} has neither authorization nor recipients any more; restart the server for that"
        raise UsageError(message, code="share.unauthenticated")


def _signature(paths: Iterable[Path]) -> Signature:
    """Return what changes when a file is written or replaced; None for one that cannot be accessed."""
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)


# -- the guard around the application ----------------------------------------------------------------------------------

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
        metrics: connections.Metrics | None = None,
        clock: Clock = system_clock,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self.audit = audit or NoAudit()
        self.metrics = metrics or connections.Metrics()
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

    def look_again(self, request: Request) -> Access:
        """Return the access of an admitted request as it is now. Raises WireError (401) where it was revoked since."""
        return _authenticate(request.scope["headers"], self._state(), self.clock())

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
            raise connections.not_recorded() from fault
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
        raise connections.token_refused()
    validity = found.token.state(now_ms)
    if validity is not TokenState.ACTIVE:
        is_over = validity is TokenState.EXPIRED
        raise connections.token_refused(validity, found.token.expires_ms if is_over else found.token.not_before_ms)
    return _access(state, found.recipient, found.token)


def _authorize_url(name: str, token_epoch: int, state: ServingState, now_ms: int) -> Access:
    """Return the access of a signed URL's token. Raises WireError (403) where it ended or its recipient was removed."""
    if state.is_open and name == EVERYONE:
        return Access(Caller(EVERYONE), state.configuration.catalog)
    recipient = state.find_recipient(name)
    tokens = () if recipient is None else recipient.tokens
    token = next((one for one in tokens if one.epoch == token_epoch), None)
    if recipient is None or token is None or token.state(now_ms) is not TokenState.ACTIVE:
        raise connections.url_revoked()
    return _access(state, recipient, token)


def _bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the token of a request. Raises WireError (401) where there is none, or more than one."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        raise connections.token_missing()
    scheme, _, token = values[0].strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise connections.token_missing()
    if len(token) > _LONGEST_TOKEN or not token.isascii() or b" " in token:
        raise connections.token_refused()
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
        raise connections.too_large("head", limits.header_bytes)
    hosts = [value for name, value in found if name == b"host"]
    if allowed_hosts and [_host_of(host) in allowed_hosts for host in hosts] != [True]:
        raise connections.host_refused()
    for name, value in found:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise connections.encoding_refused(value.decode("latin-1"))
        if name == b"content-length" and (not value.isdigit() or int(value[:19]) > limits.body_bytes):
            raise connections.too_large("body", limits.body_bytes)


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
            raise connections.too_slow("body", limits.body_seconds) from None
        taken += len(message.get("body", b""))
        if taken > limits.body_bytes:
            raise connections.too_large("body", limits.body_bytes)
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
            raise connections.too_many(f"{allowance.running} are running (limit: {limits.concurrent_requests})", 1)
        if limits.requests_per_second:
            if allowance.tokens < 1:
                raise connections.too_many(f"more than {limits.requests_per_second} per second", 1)
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
