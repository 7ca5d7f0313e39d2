"""What URLs of Azure Blob Storage are signed with, by the credentials that adlfs finds."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit

from deltacli.errors import CredentialsMissing
from deltacli.storage.remote import RemoteStorage
from deltacli.storage.remote_faults import translate
from deltacli.storage.secrets import remember_secrets
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

GetKey = Callable[[datetime, datetime], Any]  # Any: a UserDelegationKey of azure-storage-blob
"""Returns a user delegation key that is valid from one time to another."""


def azure_source(uri: str, options: Mapping[str, str]) -> AzureSource:
    """Return the source of signatures for a location.

    Raises CannotSign for credentials that cannot sign, and what opening the store raises.
    """
    file_system, root = RemoteStorage(uri, options).opened()
    connection = _connection(getattr(file_system, "connection_string", None) or "")
    account = file_system.account_name or connection.get("accountname", "")
    address = ObjectAddress(_origin(file_system, account, connection), f"{quote(root.rstrip('/'), safe='/~')}/")
    address = ObjectAddress(address.origin, "/" + address.path.lstrip("/"))
    resource = f"/blob/{account}/{root.strip('/')}/"
    key = file_system.account_key or connection.get("accountkey")
    if key:
        signing = AzureSigning(address, resource, AccountKey(_decoded(key)))
        return lambda _expires_ms: signing
    credential = getattr(file_system, "sync_credential", None)
    if credential is None:
        raise CannotSign("its credentials are a shared access signature, or none")
    return DelegatedSource(address, resource, _get_key(uri, address.origin, credential))


class DelegatedSource:
    """Signs with a user delegation key, which is asked for again before it expires."""

    def __init__(
        self, address: ObjectAddress, resource: str, get_key: GetKey, clock: Callable[[], float] = time.time
    ) -> None:
        self._address, self._resource = address, resource
        self._get_key, self._clock = get_key, clock
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
    return DelegationKey({name: str(value) for name, value in claims.items()}, _decoded(key.value),
                         int(expires.timestamp() * 1000))  # fmt: skip


def _get_key(uri: str, origin: str, credential: Any) -> GetKey:
    """Return how a user delegation key is asked for."""

    def get_key(begin: datetime, expiry: datetime) -> Any:
        from azure.core.exceptions import AzureError
        from azure.storage.blob import BlobServiceClient

        try:
            client = BlobServiceClient(origin, credential=credential)
            return client.get_user_delegation_key(begin, expiry)
        except AzureError as fault:
            raise translate(fault, uri, "azure") from None

    return get_key


def _origin(file_system: Any, account: str, connection: Mapping[str, str]) -> str:
    """Return scheme and host of the account."""
    if host := getattr(file_system, "account_host", None):
        return f"https://{host}"
    if endpoint := connection.get("blobendpoint"):
        parts = urlsplit(endpoint)
        if parts.path.strip("/"):
            raise CannotSign("its endpoint has the account in the path, as emulators do")
        return f"{parts.scheme}://{parts.netloc}"
    suffix = connection.get("endpointsuffix") or "core.windows.net"
    return f"https://{account}.blob.{suffix}"


def _connection(text: str) -> dict[str, str]:
    """Return the parts of a connection string, with names in lower case."""
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _decoded(key: str) -> bytes:
    remember_secrets({"account_key": key})
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsMissing("the account key of Azure is not base64") from None
