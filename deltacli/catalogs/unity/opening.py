"""Tables opened by their names in a catalog: whose versions the catalog decides, or that only has their location."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deltacli.catalogs.base import Operation
from deltacli.catalogs.lockstep import require_takes_commits
from deltacli.catalogs.ratified import view_of
from deltacli.catalogs.unity.addresses import parse_pattern, parse_table
from deltacli.catalogs.unity.calls import Calls
from deltacli.catalogs.unity.profiles import profile_of
from deltacli.catalogs.unity.unity import UnityCatalog
from deltacli.core.clock import MACHINE, Machine
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.retry import Retry
from deltacli.storage.vended import open_vended

if TYPE_CHECKING:
    from deltacli.catalogs.base import Catalog, CatalogTable
    from deltacli.storage import Storage
    from deltacli.storage.vended import Grant


def open_catalog(
    profile: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    *,
    source: str | None = None,
    machine: Machine = MACHINE,
) -> UnityCatalog:
    """Return the catalog of a profile with the keys of `[catalog.NAME]`, else that of the environment; nothing is asked
    yet. `source`: where the keys are, for messages. Raises UsageError where none is configured, and without urllib3.
    """
    policy = retry or Retry(RETRY_BUDGET.total_seconds())
    return UnityCatalog(Calls(profile_of(profile, source=source), policy, machine.now_ms))


def open_in_catalog(
    catalog: Catalog,
    address: str,
    *,
    options: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    writes: bool = False,
    note: Callable[[str], None] | None = None,
    machine: Machine = MACHINE,
) -> Storage:
    """Return the store of a table that a catalog knows, with credentials of the catalog: to read, until it `writes`.

    Raises UsageError for another address, Refused where a catalog that decides the versions takes no commits, what the
    catalog raises, and what opening a store raises.
    """
    name = parse_table(address)
    table = catalog.load(name)
    if table.is_managed:
        view_of(table)  # raises for a contradiction before credentials are asked for
    if writes:
        require_takes_commits(table)
    access = Access(catalog, table, writes=writes)
    store = open_vended(
        table.location,
        access.renew,
        options=options,
        retry=retry,
        clock=lambda: machine.now_ms() / 1_000,
        ask_to_write=None if writes else access.ask_to_write,
    )
    if not table.is_managed:
        return store
    from deltacli.catalogs.managed_store import open_managed

    budget = RETRY_BUDGET.total_seconds() if retry is None else retry.budget_seconds
    return open_managed(store, catalog, table, machine=machine, note=note or (lambda _: None), budget_seconds=budget)


def addresses_matching(catalog: Catalog, text: str) -> list[str]:
    """Return the addresses of the Delta tables that match `uc://CATALOG.SCHEMA.PATTERN`. Raises UsageError for another
    text, and what the catalog raises.
    """
    wanted = parse_pattern(text)
    listed = catalog.tables_of(wanted.catalog, wanted.schema)
    names = [one.name for one in listed if one.data_format == "DELTA" and fnmatchcase(one.name.table, wanted.pattern)]
    return [str(name) for name in names]


class Access:
    """Asks a catalog for the credentials of a table: to read, and from the first change on to write."""

    def __init__(self, catalog: Catalog, table: CatalogTable, *, writes: bool) -> None:
        self._catalog, self._table, self._writes = catalog, table, writes

    def renew(self, _: bool) -> Grant:
        """Return new credentials; none are remembered here."""
        return self._catalog.grant(self._table, Operation.READ_WRITE if self._writes else Operation.READ)

    def ask_to_write(self) -> None:
        """Ask for credentials to write from now on. Raises Refused where the catalog takes no commits."""
        require_takes_commits(self._table)
        self._writes = True
