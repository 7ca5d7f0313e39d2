"""The application with all of its parts, made again when the configuration changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from deltacli.clock import Clock, system_clock
from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.server.application import Application
from deltacli.sharing.server.change_answers import ChangeAnswers
from deltacli.sharing.server.file_answers import FileAnswers
from deltacli.sharing.server.file_urls import FileUrls
from deltacli.sharing.server.guarding.guard import RequestGuard
from deltacli.sharing.server.guarding.serving_state import ServingState
from deltacli.sharing.server.lists import Lists
from deltacli.sharing.server.ports import Guard
from deltacli.sharing.server.sealing import WireSeal
from deltacli.sharing.server.table_answers import TableAnswers
from deltacli.sharing.signing.keys import Keys
from deltacli.sharing.signing.tokens import Seal
from deltacli.sharing.tables.snapshots import SharedSnapshots


def make_application(
    settings: Settings, guard: Guard, keys: Keys, snapshots: SharedSnapshots, clock: Clock = system_clock
) -> Application:
    """Return an application with these settings. `clock` is in epoch milliseconds."""
    seal = WireSeal(Seal(keys), clock)
    proxy = settings.proxy_files
    urls = FileUrls(keys, settings.base_url, clock, proxy)
    tables = TableAnswers(snapshots, urls.for_table, seal, clock, settings)
    return Application(
        guard,
        Lists(seal, clock),
        tables,
        ChangeAnswers(tables),
        FileAnswers(urls, guard, snapshots),
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
            made = make_application(settings, self.guard, self.keys, self.snapshots, self.clock)
            self._made = settings, made
        return self._made[1]


def guarded(live: LiveApplication) -> ASGIApp:
    """Return the application behind its guard."""
    return live.guard.wrap(live)
