"""The keys that URLs of Azure Blob Storage are signed with."""

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

_LONGEST_MS = 7 * 86_400_000 - 3_600_000
"""A user delegation key is valid for 7 days at the most."""
_SPARE_MS = 3_600_000
"""A key is asked for an hour longer than needed, and so once per hour."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_WORD = re.compile(r"(?<=[a-z])[A-Z]")
GetKey = Callable[[datetime, datetime], Any]  # Any: an object with the fields of a UserDelegationKey
"""Returns a user delegation key that is valid from one time to another."""


def make_azure_source(uri: str, options: Mapping[str, str], clock: Callable[[], float] = time.time) -> AzureSource:
    """Return the source of signatures for a location. Raises CannotSign, and what opening the store raises."""
    address = read_address(uri)
    read = read_azure_options(options, address)
    root = "/".join(part for part in (address.container, address.root) if part)
    parts = urlsplit(read.endpoint)
    if parts.path.strip("/"):
        raise CannotSign("its endpoint has the account in the path, as emulators do")
    directory = ObjectAddress(f"{parts.scheme}://{parts.netloc}", f"/{quote(root, safe='/~')}/")
    resource = f"/blob/{read.account}/{root}/"
    if read.credential_kind in ("none", "signature"):
        raise CannotSign("its credentials are a shared access signature, or none")
    if read.credential_kind == "key":
        signing = AzureSigning(directory, resource, AccountKey(decode_account_key(read.account_key)))
        return lambda _expires_ms: signing
    open_azure(uri, options)  # which needs the extra
    return DelegatedSource(directory, resource, _get_key(uri, read), clock)


class DelegatedSource:
    """Signs with a user delegation key, which is asked for again before it expires."""

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
        """Return what to sign with until a time, or until the latest time that a key may have."""
        with self._lock:
            latest_ms = int(self._clock() * 1000) + _LONGEST_MS
            if self._key is None or self._key.expires_ms < min(expires_ms, latest_ms):
                wanted_ms = min(expires_ms, latest_ms) + _SPARE_MS
                begin = datetime.fromtimestamp(self._clock(), UTC)
                self._key = _delegation_key(self._get_key(begin, datetime.fromtimestamp(wanted_ms // 1000, UTC)))
            return AzureSigning(self._address, self._resource, self._key)


def _delegation_key(key: Any) -> DelegationKey:
    claims = {
        "skoid": key.signed_oid,
        "sktid": key.signed_tid,
        "skt": key.signed_start,
        "ske": key.signed_expiry,
        "sks": key.signed_service,
        "skv": key.signed_version,
    }
    expires = datetime.fromisoformat(str(key.signed_expiry).replace("Z", "+00:00"))
    return DelegationKey({name: str(value) for name, value in claims.items()}, decode_account_key(key.value),
                         int(expires.timestamp() * 1000))  # fmt: skip


def _get_key(uri: str, options: AzureOptions) -> GetKey:
    def get_key(begin: datetime, expiry: datetime) -> SimpleNamespace:
        calls = AzureCalls("", options, AzureCredentials(options, uri), Retry())
        span = "".join(f"<{name}>{moment:{_TIME}}</{name}>" for name, moment in (("Start", begin), ("Expiry", expiry)))
        try:
            return _key_of(calls.delegation_key(f"<KeyInfo>{span}</KeyInfo>".encode()))
        except HttpError as fault:
            error = translate_http_error(fault, uri, "signed for", DIALECT, calls.endpoint, calls.identity)
            raise error from error.__cause__

    return get_key


def _key_of(fields: Mapping[str, str]) -> SimpleNamespace:
    """Return a key from the elements of an answer, such as SignedOid, by the names that Python gives them."""
    return SimpleNamespace(**{_WORD.sub(r"_\g<0>", name).lower(): text for name, text in fields.items()})
