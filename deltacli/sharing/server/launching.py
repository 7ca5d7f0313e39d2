"""From a configuration to a running server: what is checked, opened and bound before the first request."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from deltacli.clock import Clock
from deltacli.errors import UsageError
from deltacli.sharing.configuration.settings import Configuration, Settings
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.sharing.configuration.starting import refusals_to_start
from deltacli.sharing.model import Catalog
from deltacli.sharing.server.assembling import LiveApplication, guarded
from deltacli.sharing.server.guarding.admin import AdminApplication
from deltacli.sharing.server.guarding.audit import AuditFile
from deltacli.sharing.server.guarding.guard import RequestGuard
from deltacli.sharing.server.guarding.metrics import Metrics
from deltacli.sharing.server.guarding.reloading import Reloader
from deltacli.sharing.server.guarding.serving_state import ServingState
from deltacli.sharing.server.serving import Port, Serving, address_of, bind
from deltacli.sharing.signing.keys import ServerKeys
from deltacli.sharing.tables.snapshots import SharedSnapshots


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
        return replace(
            configuration,
            settings=replace(
                settings,
                host=settings.host if self.host is None else self.host,
                port=settings.port if self.port is None else self.port,
                admin_port=settings.admin_port if self.admin_port is None else self.admin_port,
                behind_proxy=settings.behind_proxy or self.behind_proxy,
            ),
        )


@dataclass(frozen=True)
class Sockets:
    """The bound sockets of a server: for clients, and for operators."""

    main: socket.socket
    admin: socket.socket | None = None

    def close(self) -> None:
        """Close both."""
        self.main.close()
        if self.admin is not None:
            self.admin.close()


def checked(path: Path, overrides: Overrides) -> Configuration:
    """Return the configuration that a server would start with. Raises UsageError where it must not, StorageFailed."""
    configuration = overrides.apply(read_configuration(path))
    for refusal in refusals_to_start(configuration.settings, is_authenticated=configuration.is_authenticated):
        raise UsageError(refusal.message, code=refusal.code, hint=refusal.hint, facts={"file": str(path)})
    return configuration


def open_sockets(configuration: Configuration) -> Sockets:
    """Bind the addresses of a configuration. Raises UsageError and StorageFailed."""
    settings = configuration.settings
    main = bind(settings.host, settings.port)
    try:
        admin = None if settings.admin_port is None else bind(settings.admin_host, settings.admin_port)
    except BaseException:
        main.close()
        raise
    return Sockets(main, admin)


def inherited_sockets(descriptors: str) -> Sockets:
    """Return sockets that another process has bound, given as `MAIN` or `MAIN,ADMIN`."""
    return Sockets(*(socket.socket(fileno=int(text)) for text in descriptors.split(",")))


@contextmanager
def open_server(
    path: Path, overrides: Overrides, sockets: Sockets, clock: Clock, *, key_file: Path | None = None
) -> Iterator[Serving]:
    """Yield a server that is ready to run. `key_file` is used where the configuration names none. Raises UsageError
    and StorageFailed.
    """
    _, port = address_of(sockets.main)
    metrics = Metrics()
    reloader = Reloader(
        path,
        override=replace(overrides, port=port).apply,
        on_outcome=lambda outcome: metrics.count_reload(is_good=outcome.error is None),
    )
    settings = reloader.state.configuration.settings
    keys = _keys(settings.key_file or key_file, clock())
    audit = None if settings.audit is None else AuditFile(settings.audit)
    if audit is not None:
        audit.open()
    try:
        guard = RequestGuard(lambda: reloader.state, audit=audit, metrics=metrics, clock=clock)
        live = LiveApplication(
            lambda: reloader.state, guard, keys, SharedSnapshots(max_bytes=settings.cache_bytes), clock
        )
        serving = Serving(Port(guarded(live), sockets.main), reloader=reloader, tls=settings.tls)
        if sockets.admin is not None:
            readiness = _readiness(serving, guard)
            serving.admin = Port(AdminApplication(metrics, readiness), sockets.admin)
        yield serving
    finally:
        if audit is not None:
            audit.close()


def trial_server(catalog: Catalog, token: str, bound: socket.socket, clock: Clock) -> tuple[Serving, Configuration]:
    """Return a server of local tables with one token, and its configuration. Requests with another Host header, as
    from a page of a web site that guesses the port, are refused.
    """
    host, port = address_of(bound)
    settings = Settings(host=host, port=port, allowed_hosts=(host, "localhost"))
    configuration = Configuration(Path(os.devnull), catalog, settings, bearer_token=token)
    state = ServingState(configuration)
    guard = RequestGuard(lambda: state, clock=clock)
    live = LiveApplication(lambda: state, guard, ServerKeys.generate(clock()), SharedSnapshots(), clock)
    return Serving(Port(guarded(live), bound)), configuration


def _keys(path: Path | None, now_ms: int) -> ServerKeys:
    return ServerKeys.generate(now_ms) if path is None else ServerKeys.read_or_create(path, now_ms=now_ms)


def _readiness(serving: Serving, guard: RequestGuard) -> Callable[[], Mapping[str, str]]:
    """Return why the server should get no requests. A bad file does not count: the old state is served."""

    def problems() -> Mapping[str, str]:
        ending = {"server": "it is shutting down"} if serving.is_ending else {}
        return {**guard.problems, **ending}

    return problems
