"""`open_table`, and `Table`: a Delta table with every operation as a method."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

from deltacli.api.catalog import CatalogMethods
from deltacli.api.copies import CopyMethods
from deltacli.api.data_files import DataFileMethods
from deltacli.api.log_maintenance import LogMethods
from deltacli.api.reading import ReadingMethods
from deltacli.api.recovery import RecoveryMethods
from deltacli.api.schema_changes import SchemaChangeMethods
from deltacli.api.versions import VersionMethods
from deltacli.core.errors import UsageError
from deltacli.core.machine import Clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, ReadStorage, Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.optional_interfaces import is_bound_to_this_process
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_arguments import require_path_text
from deltacli.table.api_errors import name_table
from deltacli.work.table_files import parse_allowed_prefixes

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.storage.location import StoreLocation
    from deltacli.storage.retry import Retry

CATALOG_SCHEME = "uc://"


def open_table(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    retry_budget: timedelta = RETRY_BUDGET,
    allow_external: Sequence[str] = (),
    access: Literal["auto", "url", "dir"] = "auto",
    catalog_profile: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    clock: Clock = system_clock,
    progress: Progress = SILENT,
) -> Table:
    """Return the Delta table at a path or URI. Nothing is read before a method is called.

    A table of a catalog, `uc://CATALOG.SCHEMA.TABLE`, is looked up in the catalog at once, and a shared table,
    `PROFILE#SHARE.SCHEMA.TABLE`, at its server.

    Args:
        uri: The table. Hints of errors name it as it is given here.
        storage_options: Options of the store, such as credentials. None: the environment has them.
        retry_budget: How long a request to a store is retried. Zero: never.
        allow_external: Paths and URIs below which files outside the table may be opened, as needed for a shallow
            clone. Other files outside raise PathExternal.
        access: How a shared table is read: by URLs of its files (`url`), in its directory with temporary credentials
            (`dir`), or as its server says (`auto`).
        catalog_profile: Where the catalog is, with the keys of `[catalog.NAME]` of the configuration: `endpoint`,
            `token`, `oauth-uri`, `client-id`, `client-secret`. None: the environment says it.
        engine: Runs the units of work of operations. None: threads of this process.
        clock: Returns the time in epoch milliseconds.
        progress: Receives the progress of operations.

    Raises:
        UsageError: If a scheme is not supported, an extra is not installed, a prefix has no directory, host or bucket,
            or a catalog or name is not known.
        CatalogDenied: If the catalog refuses access.
        CatalogUnavailable: If the catalog does not answer.
        CatalogAnswerInvalid: If the answer of the catalog cannot be used.
        DeltacliError: For a shared table, whatever a request to its server raises.
    """
    name = require_path_text(uri)
    shown_name = mask_secrets(name)
    try:
        allowed = _read_allowed_prefixes(allow_external)
        retry = retry_policy(name, retry_budget)
        open_other = partial(open_storage, options=storage_options, allowed=allowed, retry=retry)
        if name[: len(CATALOG_SCHEME)].lower() == CATALOG_SCHEME:
            storage = _open_in_catalog(name, catalog_profile, storage_options, retry)
        elif "#" in name:
            shared = _open_share(name, retry_budget, access, storage_options or {})
            storage = shared or open_other(name)
        else:
            storage = open_other(name)
    except UsageError as error:
        name_table(error, shown_name)
        raise

    explicit_budget_seconds = None if retry_budget == RETRY_BUDGET else retry_budget.total_seconds()
    return Table(
        storage,
        engine=engine,
        clock=clock,
        progress=progress,
        open_other=open_other,
        allowed=allowed,
        name=shown_name,
        location=_find_location(storage, storage_options, allowed, explicit_budget_seconds),
    )


class Table(
    ReadingMethods,
    VersionMethods,
    LogMethods,
    SchemaChangeMethods,
    DataFileMethods,
    CatalogMethods,
    CopyMethods,
    RecoveryMethods,
):
    """A Delta table in one directory of a store, with every operation as a method.

    Methods that change the table act at once and never ask. With `dry_run=True` they change nothing. In two steps:
    `plan_vacuum()` returns a plan, `execute_vacuum(plan)` carries it out, and so on. Methods named `prepare_…` are what
    the others, and commands, are made of.
    """

    def __repr__(self) -> str:
        """Return the path, and the newest version that was read if there is one. Nothing is read."""
        newest_seen = "" if self.newest_seen is None else f", newest_seen={self.newest_seen}"
        return f"Table({mask_secrets(self.uri)!r}{newest_seen})"


def retry_policy(uri: str, budget: timedelta) -> Retry | None:
    """Return how requests to the store of a table are retried; None for a local path."""
    if "://" not in uri:
        return None
    from deltacli.storage.retry import Retry

    return Retry(budget.total_seconds(), is_explicit=budget != RETRY_BUDGET)


def _open_in_catalog(
    name: str, profile: Mapping[str, str] | None, options: Mapping[str, str] | None, retry: Retry | None
) -> Storage:
    """Return the store of a table that a catalog knows by its name. The catalog is asked for it."""
    from deltacli.catalogs.unity.addresses import parse_table
    from deltacli.catalogs.unity.unity import open_catalog, open_in_catalog

    # A wrong name is reported before a profile that is missing.
    parse_table(name)
    return open_in_catalog(open_catalog(profile, retry), name, options=options, retry=retry)


def _open_share(name: str, retry_budget: timedelta, access: str, options: Mapping[str, str]) -> Storage | None:
    """Return the store of a shared table; None for a path that only contains `#`. Raises UsageError."""
    from deltacli.sharing.client.share_storage import open_share
    from deltacli.storage.retry import Retry

    retry = Retry(retry_budget.total_seconds(), is_explicit=True)
    return open_share(name, access=access, options=options, retry=retry)


def _find_location(
    storage: ReadStorage,
    options: Mapping[str, str] | None,
    allowed: AllowedPrefixes,
    explicit_budget_seconds: float | None,
) -> StoreLocation | None:
    """Return where other processes, such as executors, find the store of a table.

    Returns:
        The location; None for a store that a server or a catalog has given to this process.
    """
    from deltacli.storage.location import StoreLocation

    if is_bound_to_this_process(storage):
        return None
    return StoreLocation.of(storage.uri, options, allowed, explicit_budget_seconds)


def _read_allowed_prefixes(allow_external: Sequence[str]) -> AllowedPrefixes:
    """Return the prefixes below which files outside the table may be opened. Raises UsageError."""
    return parse_allowed_prefixes(allow_external) if allow_external else NO_PREFIXES
