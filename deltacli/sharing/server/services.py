"""What a process serves: tables to try it out, or what a configuration says."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import UsageError
from deltacli.core.machine import Clock, system_clock
from deltacli.core.typing import JsonObject
from deltacli.sharing.configuration.settings import Configuration, Limits, Settings
from deltacli.sharing.configuration.share_check import refusals_to_start
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.sharing.model import Catalog
from deltacli.sharing.server.application import Application, Lists
from deltacli.sharing.server.connections import CONTENT_TYPE, Connections, Metrics
from deltacli.sharing.server.exchange import NAME, AuditFile, TokenSeal, open_audit
from deltacli.sharing.server.file_answers import FileAnswers, FileUrls
from deltacli.sharing.server.guard import POLL_SECONDS, Reloaded, Reloader, RequestGuard, ServingState
from deltacli.sharing.server.later import LaterQueries
from deltacli.sharing.server.serving import Certificate, Service, Sockets, bind, read_certificate
from deltacli.sharing.server.table_answers import ChangeAnswers, TableAnswers
from deltacli.sharing.server.vending import DirectoryAnswers, Vault
from deltacli.sharing.signing.keys import KeyFile, Keys, Seal, ServerKeys
from deltacli.sharing.tables.snapshots import SharedSnapshots

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOG = logging.getLogger(NAME)


@dataclass(frozen=True)
class TryOut:
    """A service of local tables with one token, on loopback. Requests with another Host header, as from a page of a web
    site that guesses the port, are refused.
    """

    catalog: Catalog
    host: str
    port: int
    token: str
    keys: ServerKeys

    @property
    def endpoint(self) -> str:
        return self._configuration.settings.base_url

    @property
    def _configuration(self) -> Configuration:
        limits = Limits(requests_per_second=0, concurrent_requests=0)  # all clients are the user's own
        settings = Settings(host=self.host, port=self.port, allowed_hosts=(self.host, "localhost"), limits=limits)
        return Configuration(Path(os.devnull), self.catalog, settings, bearer_token=self.token)

    def __call__(self) -> Service:
        state = ServingState(self._configuration)
        guard = RequestGuard(lambda: state)
        live = LiveApplication(lambda: state, guard, self.keys, SharedSnapshots())
        return Service(guarded(live), Connections(lambda: state.configuration.settings))


@dataclass(frozen=True)
class Overrides:
    """What the command line says instead of the configuration; None: what the configuration says."""

    host: str | None = None
    port: int | None = None
    admin_port: int | None = None
    behind_proxy: bool = False

    def apply(self, configuration: Configuration) -> Configuration:
        """Return the configuration with these settings."""
        settings = configuration.settings
        given: dict[str, Any] = {"host": self.host, "port": self.port, "admin_port": self.admin_port}
        changed = {name: value for name, value in given.items() if value is not None}
        is_behind = settings.behind_proxy or self.behind_proxy
        return replace(configuration, settings=replace(settings, **changed, behind_proxy=is_behind))

    def read(self, path: Path) -> Configuration:
        """Return the configuration a server would start with. Raises UsageError if it must not, and StorageFailed."""
        configuration = self.apply(read_configuration(path))
        require_startable(configuration)
        return configuration


@dataclass(frozen=True)
class Configured:
    """A service of what a configuration shares, updated with its files. `keys`: used where it names no key file."""

    path: Path
    overrides: Overrides
    keys: ServerKeys
    clock: Clock = system_clock
    inherited: Inherited | None = None

    def __call__(self) -> Service:
        """Return the service. Raises UsageError and StorageFailed, but not where it inherits what is served."""
        origin = self.inherited
        given = None if origin is None else (origin.state, origin.started)
        guarding = make_guarding(self.path, override=self.overrides.apply, clock=self.clock, inherited=given)
        reloader, guard = guarding.reloader, guarding.guard
        settings = reloader.state.configuration.settings if origin is None else origin.started
        known = None if origin is None else origin.keys
        keys = _keys_of(settings, self.keys, self.clock, known)
        certificate = read_certificate(settings.tls) if origin is None else origin.certificate
        snapshots = SharedSnapshots(max_bytes=settings.cache_bytes)
        live = LiveApplication(lambda: reloader.state, guard, keys, snapshots, self.clock)
        guarding.key_file = keys if isinstance(keys, KeyFile) else None
        connections = Connections(lambda: reloader.state.configuration.settings, metrics=guarding.metrics)
        return Service(guarded(live), connections, guarding.admin, (guarding.run,), reloader.request, certificate)


def _keys_of(settings: Settings, keys: ServerKeys, clock: Clock, known: ServerKeys | None = None) -> Keys:
    file = settings.key_file
    return keys if file is None else KeyFile(file, now_ms=clock(), inherited=known)


@dataclass(frozen=True)
class Inherited:
    """What a server uses when a worker begins: what is served, what only its start reads, and the keys of its file."""

    state: ServingState
    started: Settings
    keys: ServerKeys | None
    certificate: Certificate | None = field(repr=False)


class Inheritance:
    """What the workers of a server use, kept in their parent process, so that one which begins later depends on no file
    that has become bad. Raises what the start of a server raises.
    """

    def __init__(self, service: Configured) -> None:
        self._service = service
        self._reloader = Reloader(service.path, override=service.overrides.apply)
        configuration = self._reloader.state.configuration
        require_startable(configuration)
        self._started = configuration.settings
        if self._started.audit is not None:
            with closing(AuditFile(self._started.audit)) as audit:
                audit.open()
        self._keys = _keys_of(self._started, service.keys, service.clock)
        self._certificate = read_certificate(self._started.tls)

    def service(self) -> Configured:
        """Return the service of a worker that begins now."""
        keys = self._keys.current(self._service.clock()) if isinstance(self._keys, KeyFile) else None
        origin = Inherited(self._reloader.state, self._started, keys, self._certificate)
        return replace(self._service, inherited=origin)

    def watch(self) -> None:
        """Follow the files, as the workers do, in a thread of its own."""
        Thread(target=self._follow, name="share-inheritance", daemon=True).start()

    def _follow(self) -> None:
        while True:
            sleep(POLL_SECONDS)
            try:
                self._reloader.look(now_seconds=monotonic())
            except Exception:  # noqa: BLE001  (else workers would begin with what was served long ago)
                _LOG.exception("the configuration could not be checked for changes; the check is repeated")


def open_sockets(configuration: Configuration) -> Sockets:
    """Bind the addresses of a configuration. Raises UsageError and StorageFailed."""
    settings = configuration.settings
    main = bind(settings.host, settings.port)
    try:
        return Sockets(main, None if settings.admin_port is None else bind(settings.admin_host, settings.admin_port))
    except BaseException:
        main.close()
        raise


def _make_application(
    settings: Settings,
    guard: RequestGuard,
    keys: Keys,
    snapshots: SharedSnapshots,
    vault: Vault,
    clock: Clock = system_clock,
) -> Application:
    """Return an application with these settings. `clock` is in epoch milliseconds."""
    seal = TokenSeal(Seal(keys), clock)
    proxy = settings.proxy_files
    urls = FileUrls(keys, settings.base_url, clock, proxy)
    directories = DirectoryAnswers(snapshots, clock, settings, guard.metrics, vault)
    tables = TableAnswers(snapshots, urls.for_table, seal, clock, settings, access_members=directories.members)
    return Application(
        guard,
        Lists(seal, clock, directories),
        tables,
        ChangeAnswers(tables),
        FileAnswers(urls, guard, snapshots),
        LaterQueries.of(tables, settings.async_queries),
        directories,
        settings.endpoint,
    )


@dataclass
class LiveApplication:
    """The application for the settings of the moment. A request is answered by one application to its end."""

    state: Callable[[], ServingState]
    guard: RequestGuard
    keys: Keys
    snapshots: SharedSnapshots
    clock: Clock = system_clock
    vault: Vault = field(default_factory=Vault)
    _made: tuple[Settings, Application] | None = field(default=None, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.current()(scope, receive, send)
        use = self.snapshots.use
        self.guard.metrics.note_cache(use.hits, use.rebuilt + use.refreshed, use.size_bytes)

    def current(self) -> Application:
        """Return the application for what is served now."""
        settings = self.state().configuration.settings
        if self._made is None or self._made[0] is not settings:
            self.snapshots.limit(settings.cache_bytes)
            made = _make_application(settings, self.guard, self.keys, self.snapshots, self.vault, self.clock)
            self._made = settings, made
        return self._made[1]


def guarded(live: LiveApplication) -> ASGIApp:
    """Return the application behind its guard."""
    return live.guard.wrap(live)


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


_Readiness = Callable[[], Mapping[str, str]]
"""Returns why the server is not ready, by subject; empty if it is."""


class AdminApplication:
    """An ASGI application of its own. `/healthz` is 200 while the process answers, `/readyz` while it should get
    requests: it is configured, can write its audit log, and is not shutting down.
    """

    def __init__(self, metrics: Metrics, readiness: _Readiness) -> None:
        self._metrics = metrics
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
