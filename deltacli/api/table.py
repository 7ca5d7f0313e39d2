"""The Python API for Delta tables: the function `open_table` and the class `Table`."""

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
    """Open a Delta table. Files are read when a method is called, not before.

    Only a table of a catalog and a shared table are looked up immediately:

        open_table("s3://lake/orders")
        open_table("uc://prod.sales.orders")           # asks Unity Catalog for the location
        open_table("profile.share#retail.eu.orders")   # asks the sharing server of the profile

    Args:
        uri: The path or URI of the table, such as `s3://lake/orders`. Error messages contain it unchanged.
        storage_options: Options of the store, such as credentials. None reads them from the environment.
        retry_budget: The maximum time for retries of a request to the store. Zero disables retries.
        allow_external: Directories outside the table whose files may be read, as paths or URIs. A shallow clone,
            for example, references files of its source. Access to other files outside the table raises
            PathExternal.
        access: How the files of a shared table are read: by presigned URLs (`url`), from its directory with
            temporary credentials (`dir`), or as the server prefers (`auto`).
        catalog_profile: The settings of the catalog, with the keys of `[catalog.NAME]` in the configuration:
            `endpoint`, `token`, `oauth-uri`, `client-id` and `client-secret`. None reads them from the environment.
        engine: Runs the parallel parts of operations. None uses threads of this process.
        clock: Returns the current time in epoch milliseconds.
        progress: The listener for the progress of operations.

    Raises:
        UsageError: If the scheme of the URI is not supported, its extra is not installed, or an argument is
            invalid.
        CatalogDenied: If the catalog refuses access.
        CatalogUnavailable: If the catalog does not answer.
        CatalogAnswerInvalid: If the answer of the catalog is invalid.
        DeltacliError: For a shared table: if the request to its server fails.
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
    """A Delta table. Each operation is a method.

    Methods that change the table do not ask for confirmation. With `dry_run=True` they return the plan and change
    nothing. There are four methods for each change:

        table.vacuum()             # plan and execute
        table.plan_vacuum()        # return the plan
        table.execute_vacuum(plan) # execute a plan
        table.prepare_vacuum()     # return a PreparedChange, on which the other three and the command line are built
    """

    def __repr__(self) -> str:
        """Return the path, and the newest version if it was read before, without reading the table."""
        newest_seen = "" if self.newest_seen is None else f", newest_seen={self.newest_seen}"
        return f"Table({mask_secrets(self.uri)!r}{newest_seen})"


def retry_policy(uri: str, budget: timedelta) -> Retry | None:
    """Return the retry policy for the store of a table; None for a local path."""
    if "://" not in uri:
        return None
    from deltacli.storage.retry import Retry

    return Retry(budget.total_seconds(), is_explicit=budget != RETRY_BUDGET)


def _open_in_catalog(
    name: str, profile: Mapping[str, str] | None, options: Mapping[str, str] | None, retry: Retry | None
) -> Storage:
    """Look up a table in its catalog, and return its store."""
    from deltacli.catalogs.unity.addresses import parse_table
    from deltacli.catalogs.unity.unity import open_catalog, open_in_catalog

    # A wrong name is reported before a profile that is missing.
    parse_table(name)
    return open_in_catalog(open_catalog(profile, retry), name, options=options, retry=retry)


def _open_share(name: str, retry_budget: timedelta, access: str, options: Mapping[str, str]) -> Storage | None:
    """Return the store of a shared table; None if the name is a path that contains `#`. Raises UsageError."""
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
    """Return the location from which other processes, such as Spark executors, can open the table.

    Returns:
        The location. None if the store needs credentials that a server or a catalog has issued for this process.
    """
    from deltacli.storage.location import StoreLocation

    if is_bound_to_this_process(storage):
        return None
    return StoreLocation.of(storage.uri, options, allowed, explicit_budget_seconds)


def _read_allowed_prefixes(allow_external: Sequence[str]) -> AllowedPrefixes:
    """Parse the argument `allow_external` of `open_table`. Raises UsageError."""
    return parse_allowed_prefixes(allow_external) if allow_external else NO_PREFIXES
