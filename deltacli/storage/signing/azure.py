"""The keys for presigned URLs of Azure Blob Storage: account keys and user delegation keys.

An account key signs URLs as well as requests. An identity, such as an application, has no key of its own. Azure gives
it a user delegation key, which is valid for at most seven days.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

from deltacli.storage.azure.addresses import read_address
from deltacli.storage.azure.calls import DIALECT, AzureCalls
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import AzureOptions, decode_account_key, read_azure_options
from deltacli.storage.azure.store import open_azure
from deltacli.storage.objects.dialect import translate_http_error
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.retry import Retry
from deltacli.storage.signing.values import (
    AccountKey,
    AzureSigning,
    AzureSource,
    CannotSign,
    DelegationKey,
    ObjectAddress,
)

_RENEWAL_MARGIN_MS = 3_600_000
"""A key is requested for one hour longer than needed, so that a new one is requested at most once per hour."""

_MAX_VALIDITY_MS = 7 * 86_400_000 - _RENEWAL_MARGIN_MS
"""Longest validity of URLs. Azure issues keys for at most 7 days."""

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_INNER_CAPITAL = re.compile(r"(?<=[a-z])[A-Z]")

GetKey = Callable[[datetime, datetime], Any]  # Any: an object with the fields of a UserDelegationKey
"""Requests a user delegation key. The arguments are the start and the end of its validity."""


def make_azure_source(uri: str, options: Mapping[str, str], clock: Callable[[], float] = time.time) -> AzureSource:
    """Return the source of keys for a table. No request is sent.

    Args:
        uri: The URI of the directory of the table.
        options: The storage options.
        clock: Returns the time in epoch seconds.

    Raises:
        CannotSign: If the credentials cannot sign, or if the endpoint is an emulator.
        UsageError: If an option or the URI is invalid.
    """
    address = read_address(uri)
    azure_options = read_azure_options(options, address)
    root = "/".join(part for part in (address.container, address.root) if part)
    parts = urlsplit(azure_options.endpoint)
    if parts.path.strip("/"):
        raise CannotSign("its endpoint has the account in the path, as emulators do")
    directory = ObjectAddress(f"{parts.scheme}://{parts.netloc}", f"/{quote(root, safe='/~')}/")
    resource = f"/blob/{azure_options.account}/{root}/"
    if azure_options.credential_kind in ("none", "signature"):
        raise CannotSign("its credentials are a shared access signature, or none")
    if azure_options.credential_kind == "key":
        signing = AzureSigning(directory, resource, AccountKey(decode_account_key(azure_options.account_key)))
        return lambda _expires_ms: signing
    # Opening the store checks that azure-identity is installed.
    open_azure(uri, options)
    return DelegatedSource(directory, resource, make_key_getter(uri, azure_options), clock)


class DelegatedSource:
    """Returns user delegation keys for URLs of one table. A key is reused until it expires too early. Thread-safe."""

    def __init__(
        self, address: ObjectAddress, resource: str, get_key: GetKey, clock: Callable[[], float] = time.time
    ) -> None:
        self._address = address
        self._resource = resource
        self._get_key = get_key
        self._clock = clock
        self._lock = Lock()
        self._key: DelegationKey | None = None

    def __call__(self, expires_ms: int) -> AzureSigning:
        """Return a key that is valid until a time, or as long as Azure allows.

        Args:
            expires_ms: The end of the validity in epoch milliseconds.
        """
        with self._lock:
            latest_ms = int(self._clock() * 1000) + _MAX_VALIDITY_MS
            required_ms = min(expires_ms, latest_ms)
            if self._key is None or self._key.expires_ms < required_ms:
                start = datetime.fromtimestamp(self._clock(), UTC)
                end = datetime.fromtimestamp((required_ms + _RENEWAL_MARGIN_MS) // 1000, UTC)
                self._key = _convert_key(self._get_key(start, end))
            return AzureSigning(self._address, self._resource, self._key)


def _convert_key(key: Any) -> DelegationKey:  # Any: see GetKey
    """Convert a key, and name its fields like the query parameters of a shared access signature."""
    claims = {
        "skoid": key.signed_oid,
        "sktid": key.signed_tid,
        "skt": key.signed_start,
        "ske": key.signed_expiry,
        "sks": key.signed_service,
        "skv": key.signed_version,
    }
    expires = datetime.fromisoformat(str(key.signed_expiry).replace("Z", "+00:00"))
    return DelegationKey(
        {name: str(value) for name, value in claims.items()},
        decode_account_key(key.value),
        int(expires.timestamp() * 1000),
    )


def make_key_getter(uri: str, options: AzureOptions) -> GetKey:
    """Return a function that requests a user delegation key.

    The function raises StorageFailed if the request fails.

    Args:
        uri: The URI of the directory of the table, for error messages.
        options: The options of the store.
    """

    def get_key(begin: datetime, expiry: datetime) -> SimpleNamespace:
        calls = AzureCalls("", options, AzureCredentials(options, uri), Retry())
        validity = f"<Start>{begin:{_TIME_FORMAT}}</Start><Expiry>{expiry:{_TIME_FORMAT}}</Expiry>"
        try:
            return _build_key(calls.request_delegation_key(f"<KeyInfo>{validity}</KeyInfo>".encode()))
        except HttpError as http_error:
            error = translate_http_error(http_error, uri, "signed for", DIALECT, calls.endpoint, calls.identity)
            raise error from error.__cause__

    return get_key


def _build_key(elements: Mapping[str, str]) -> SimpleNamespace:
    """Return a key with an attribute for each XML element, for example `signed_oid` for SignedOid."""
    return SimpleNamespace(**{_INNER_CAPITAL.sub(r"_\g<0>", name).lower(): text for name, text in elements.items()})
