"""Stores that are opened with credentials that a server gave for one directory, and for a time.

No credentials of the environment are used beside them: no profile, no metadata service, no
anonymous access. Its endpoints count for tables of a catalog only, whose stores are the user's own.
A share is in the store of its provider.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.grants import HeldGrant, Renew
from deltacli.storage.local import LocalStorage
from deltacli.storage.store_locations import Location, read_location

if TYPE_CHECKING:
    from deltacli.storage.base import Storage
    from deltacli.storage.retry import Retry

_ALLOWED = frozenset(
    {
        *("region", "aws_region", "aws_default_region", "region_name", "requester_pays", "user_project", "project"),
        *("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"),
        *("google_endpoint", "azure_endpoint", "azure_storage_endpoint"),
        *("verify", "use_ssl", "addressing_style"),
    }
)
"""Options of a user that say where a store is and how it is reached, not who asks."""


def open_vended(
    uri: str,
    renew: Renew,
    *,
    options: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    clock: Callable[[], float] = time.time,
    ask_to_write: Callable[[], None] | None = None,
    is_own_store: bool = False,
) -> Storage:
    """Return the store of a percent-encoded URI with the credentials of a server.

    Args:
        uri: The location of a table.
        renew: Returns credentials. It is called at once, and again before they end.
        options: Storage options of the user that are no credentials, such as `region` and
            `endpoint_url`.
        retry: The retry policy of the run.
        clock: Returns seconds of the epoch.
        ask_to_write: Called before the first change. From then on `renew` returns credentials that
            suffice for it.
        is_own_store: Whether the environment says how the store is reached, as for tables opened by
            their paths. Options have priority.

    Raises:
        UsageError: For a URI or an option that cannot be used.
        StorageFailed: For a grant that is unfit.
    """
    try:
        location = read_location(uri)
    except ValueError as error:
        raise UsageError(f"the location of the table cannot be used: {error}", code="usage.table") from None
    require_no_credentials(options or {})
    if is_own_store:
        options = {**read_environment_options(location), **(options or {})}
    return open_held(location, HeldGrant(location, renew, clock, ask_to_write), options=options, retry=retry)


def read_environment_options(location: Location, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return endpoint and region that variables name for a store, as storage options; no credentials."""
    match location.family:
        case "s3":
            from deltacli.storage.s3.options import read_environment_options as of_aws

            return of_aws(environment)
        case "gs":
            emulator = environment.get("STORAGE_EMULATOR_HOST")
            return {"endpoint_url": emulator} if emulator else {}
        case "abfss":
            from deltacli.storage.azure.addresses import read_address
            from deltacli.storage.azure.options import read_connection_string_endpoint

            endpoint = read_connection_string_endpoint(read_address(location.uri), environment)
            return {"endpoint_url": endpoint} if endpoint else {}
    return {}


def open_held(
    location: Location, held: HeldGrant, *, options: Mapping[str, str] | None = None, retry: Retry | None = None
) -> Storage:
    """Return the store of a directory that a grant covers; options as of `open_vended`. Raises UsageError."""
    given = dict(options or {})
    require_no_credentials(given)
    match location.family:
        case "s3":
            from deltacli.storage.s3.store import open_s3

            store = open_s3(location.uri, given, retry=retry, held=held)
        case "gs":
            from deltacli.storage.gcs.store import open_gcs

            store = open_gcs(location.uri, given, retry=retry, held=held)
        case "abfss":
            from deltacli.storage.azure.store import open_azure

            store = open_azure(location.uri, given, retry=retry, held=held)
        case _:
            return LocalStorage(f"/{'/'.join(location.segments)}")
    store.grant = held
    return store


def require_no_credentials(options: Mapping[str, str]) -> None:
    """Raise UsageError for options of a user that say who asks. Meant for before a grant is asked for."""
    others = sorted(name for name in options if name.lower() not in _ALLOWED)
    if others:
        option = parameter(f"storage_options.{others[0]}")
        raise UsageError(
            f"{option} cannot be used: the server of the table gives the credentials",
            code="usage.storage-option",
            facts={"allowed": "region, endpoint_url, verify, use_ssl, addressing_style, requester_pays, project"},
        )
