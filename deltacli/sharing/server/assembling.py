"""The application with all of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltacli.clock import system_clock
from deltacli.sharing.model import Catalog
from deltacli.sharing.server.application import Application
from deltacli.sharing.server.change_answers import ChangeAnswers
from deltacli.sharing.server.lists import Lists
from deltacli.sharing.server.local_files import LocalFiles
from deltacli.sharing.server.one_token import OneToken
from deltacli.sharing.server.own_signing import HmacSeal, LocalUrls, derived
from deltacli.sharing.server.ports import Guard, SelectFiles, keep_all
from deltacli.sharing.server.serving import Service
from deltacli.sharing.server.table_answers import TableAnswers
from deltacli.sharing.tables.snapshots import SharedSnapshots

PREFIX = "/delta-sharing"


@dataclass(frozen=True)
class Site:
    """Where clients find the server: `base_url` without a path, never taken from a request."""

    base_url: str
    prefix: str = PREFIX
    hosts: frozenset[str] | None = None

    @property
    def endpoint(self) -> str:
        """Return the endpoint of profiles."""
        return f"{self.base_url}{self.prefix}"


@dataclass(frozen=True)
class TryOut:
    """A service of local tables with one token, for trying it out; made anew in every process that runs it."""

    site: Site
    catalog: Catalog
    token_sha256: bytes
    key: bytes

    def __call__(self) -> Service:
        """Return the service."""
        return Service(make_application(self.site, OneToken(self.token_sha256, self.catalog), self.key))


def make_application(
    site: Site,
    guard: Guard,
    key: bytes,
    *,
    snapshots: SharedSnapshots | None = None,
    select_files: SelectFiles = keep_all,
    clock: Callable[[], int] = system_clock,
    url_lifetime_ms: int = 3_600_000,
    page_size: int = 10_000,
) -> Application:
    """Return an application for local tables. `clock` is in epoch milliseconds."""
    known = snapshots or SharedSnapshots()
    seal, urls = HmacSeal(derived(key, "tokens")), LocalUrls(derived(key, "files"), site.endpoint)
    tables = TableAnswers(
        known, urls.for_table, seal, clock, select_files, url_lifetime_ms=url_lifetime_ms, page_size=page_size
    )
    return Application(
        guard,
        Lists(seal, clock),
        tables,
        ChangeAnswers(tables),
        LocalFiles(urls, guard, known, clock),
        site.prefix,
        site.hosts,
    )
