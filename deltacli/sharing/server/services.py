"""What a process serves: tables to try it out, or what a configuration says."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from deltacli.clock import Clock, system_clock
from deltacli.sharing.configuration.settings import Configuration, Limits, Settings
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.sharing.model import Catalog
from deltacli.sharing.server.assembling import LiveApplication, guarded
from deltacli.sharing.server.guarding.assembling import make_guarding, require_startable
from deltacli.sharing.server.guarding.connections import Connections
from deltacli.sharing.server.guarding.guard import RequestGuard
from deltacli.sharing.server.guarding.serving_state import ServingState
from deltacli.sharing.server.serving import Service, Sockets, bind
from deltacli.sharing.signing.keys import KeyFile, ServerKeys
from deltacli.sharing.tables.snapshots import SharedSnapshots


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
        """Return the endpoint of profiles."""
        return self._configuration.settings.base_url

    @property
    def _configuration(self) -> Configuration:
        limits = Limits(requests_per_second=0, concurrent_requests=0)  # all clients are the user's own
        settings = Settings(host=self.host, port=self.port, allowed_hosts=(self.host, "localhost"), limits=limits)
        return Configuration(Path(os.devnull), self.catalog, settings, bearer_token=self.token)

    def __call__(self) -> Service:
        """Return the service."""
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

    def read(self, path: Path) -> Configuration:
        """Return the configuration that a server would start with. Raises UsageError where it must not, and
        StorageFailed.
        """
        configuration = self.apply(read_configuration(path))
        require_startable(configuration)
        return configuration


@dataclass(frozen=True)
class Configured:
    """A service of what a configuration shares, kept up to date with its files. `keys` are used where the configuration
    names no key file.
    """

    path: Path
    overrides: Overrides
    keys: ServerKeys
    clock: Clock = system_clock

    def __call__(self) -> Service:
        """Return the service. Raises UsageError and StorageFailed."""
        guarding = make_guarding(self.path, override=self.overrides.apply, clock=self.clock)
        reloader, guard = guarding.reloader, guarding.guard
        settings = reloader.state.configuration.settings
        file = settings.key_file
        keys = self.keys if file is None else KeyFile(file, now_ms=self.clock())
        snapshots = SharedSnapshots(max_bytes=settings.cache_bytes)
        live = LiveApplication(lambda: reloader.state, guard, keys, snapshots, self.clock)
        guarding.key_file = keys if isinstance(keys, KeyFile) else None
        connections = Connections(lambda: reloader.state.configuration.settings, metrics=guarding.metrics)
        return Service(guarded(live), connections, guarding.admin, (guarding.run,), reloader.request, settings.tls)


def open_sockets(configuration: Configuration) -> Sockets:
    """Bind the addresses of a configuration. Raises UsageError and StorageFailed."""
    settings = configuration.settings
    main = bind(settings.host, settings.port)
    try:
        return Sockets(main, None if settings.admin_port is None else bind(settings.admin_host, settings.admin_port))
    except BaseException:
        main.close()
        raise
