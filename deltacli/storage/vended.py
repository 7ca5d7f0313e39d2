"""Open stores with vended credentials, which a catalog or a Delta Sharing server grants for one table.

Only the granted credentials are used. Credentials of the environment, such as profiles, instance
metadata or anonymous access, are ignored: they could belong to another account.

Endpoints and regions of the environment are used for tables of a catalog, because their stores
belong to the user. For a shared table they are ignored, because its store belongs to the provider.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.grants import Renew, RenewableGrant
from deltacli.storage.local import LocalStorage
from deltacli.storage.vended_locations import Location, parse_location

if TYPE_CHECKING:
    from deltacli.storage.base import Storage
    from deltacli.storage.retry import Retry

# Storage options that describe how a store is reached. All others are, or may be, credentials.
_ALLOWED_OPTIONS = frozenset(
    {
        *("region", "aws_region", "aws_default_region", "region_name", "requester_pays", "user_project", "project"),
        *("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"),
        *("google_endpoint", "azure_endpoint", "azure_storage_endpoint"),
        *("verify", "use_ssl", "addressing_style"),
    }
)


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
    """Open a store with credentials that a server grants.

    Args:
        uri: The location of the table, percent-encoded.
        renew: Requests credentials from the server. It is called immediately, and again before they
            expire.
        options: Storage options of the user that contain no credentials, such as `region` and
            `endpoint_url`.
        retry: The retry policy of the run.
        clock: Returns the time in seconds since the epoch.
        ask_to_write: Called before the first write. Makes later calls of `renew` request credentials
            for writing.
        is_own_store: Whether endpoint and region are also read from the environment, as for tables
            that are opened by path. `options` take precedence.

    Raises:
        UsageError: If the location is not supported, or an option is a credential.
        StorageFailed: If the granted credentials cannot be used.
    """
    try:
        location = parse_location(uri)
    except ValueError as error:
        raise UsageError(f"the location of the table cannot be used: {error}", code="usage.table") from None

    require_no_credentials(options or {})
    if is_own_store:
        options = {**read_endpoint_options(location), **(options or {})}
    grant = RenewableGrant(location, renew, clock, ask_to_write)
    return open_with_grant(location, grant, options=options, retry=retry)


def read_endpoint_options(location: Location, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the endpoint and region of a store from environment variables, as storage options."""
    match location.family:
        case "s3":
            from deltacli.storage.s3.options import read_endpoint_options as read_aws_endpoint_options

            return read_aws_endpoint_options(environment)
        case "gs":
            emulator = environment.get("STORAGE_EMULATOR_HOST")
            return {"endpoint_url": emulator} if emulator else {}
        case "abfss":
            from deltacli.storage.azure.addresses import read_address
            from deltacli.storage.azure.options import read_connection_string_endpoint

            endpoint = read_connection_string_endpoint(read_address(location.uri), environment)
            return {"endpoint_url": endpoint} if endpoint else {}
    return {}


def open_with_grant(
    location: Location, grant: RenewableGrant, *, options: Mapping[str, str] | None = None, retry: Retry | None = None
) -> Storage:
    """Open a store with a grant that was already requested.

    Args:
        location: A directory that the grant covers.
        grant: The credentials.
        options: Storage options of the user that contain no credentials.
        retry: The retry policy of the run.

    Raises:
        UsageError: If an option is a credential.
    """
    store_options = dict(options or {})
    require_no_credentials(store_options)
    match location.family:
        case "s3":
            from deltacli.storage.s3.store import open_s3

            store = open_s3(location.uri, store_options, retry=retry, held=grant)
        case "gs":
            from deltacli.storage.gcs.store import open_gcs

            store = open_gcs(location.uri, store_options, retry=retry, held=grant)
        case "abfss":
            from deltacli.storage.azure.store import open_azure

            store = open_azure(location.uri, store_options, retry=retry, held=grant)
        case _:
            return LocalStorage(f"/{'/'.join(location.segments)}")
    store.grant = grant
    return store


def require_no_credentials(options: Mapping[str, str]) -> None:
    """Check that the user's storage options contain no credentials, before credentials are requested.

    Raises:
        UsageError: If an option is, or may be, a credential.
    """
    credentials = sorted(name for name in options if name.lower() not in _ALLOWED_OPTIONS)
    if credentials:
        option = parameter(f"storage_options.{credentials[0]}")
        raise UsageError(
            f"{option} cannot be used: the server of the table gives the credentials",
            code="usage.storage-option",
            facts={"allowed": "region, endpoint_url, verify, use_ssl, addressing_style, requester_pays, project"},
        )
