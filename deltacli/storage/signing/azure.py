"""What URLs of Azure Blob Storage are signed with, and signatures for a directory, by a user delegation key."""

from __future__ import annotations

import base64
import hmac
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

from deltacli.core.errors import CredentialsMissing, StorageFailed
from deltacli.storage.azure.credentials import (
    AzureCredentials,
    AzureOptions,
    decoded_key,
    read_address,
    read_azure_options,
)
from deltacli.storage.azure.store import DIALECT, AzureCalls, open_azure
from deltacli.storage.objects.http import HttpFault, Request, translate_fault
from deltacli.storage.retry import Call, Retry
from deltacli.storage.signing.values import (
    AccountKey,
    AzureSigning,
    AzureSource,
    CannotMint,
    CannotSign,
    DelegationKey,
    Minted,
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


def azure_source(uri: str, options: Mapping[str, str], clock: Callable[[], float] = time.time) -> AzureSource:
    """Return the source of signatures for a location. Raises CannotSign, and what opening the store raises."""
    address = read_address(uri)
    read = read_azure_options(options, address)
    root = "/".join(part for part in (address.container, address.root) if part)
    parts = urlsplit(read.endpoint)
    if parts.path.strip("/"):
        raise CannotSign("its endpoint has the account in the path, as emulators do")
    place = ObjectAddress(f"{parts.scheme}://{parts.netloc}", f"/{quote(root, safe='/~')}/")
    resource = f"/blob/{read.account}/{root}/"
    if read.used in ("none", "signature"):
        raise CannotSign("its credentials are a shared access signature, or none")
    if read.used == "key":
        signing = AzureSigning(place, resource, AccountKey(decoded_key(read.account_key)))
        return lambda _expires_ms: signing
    open_azure(uri, options)  # which needs the extra
    return DelegatedSource(place, resource, _get_key(uri, read), clock)


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
    return DelegationKey({name: str(value) for name, value in claims.items()}, decoded_key(key.value),
                         int(expires.timestamp() * 1000))  # fmt: skip


def _get_key(uri: str, options: AzureOptions) -> GetKey:
    def get_key(begin: datetime, expiry: datetime) -> SimpleNamespace:
        calls = AzureCalls("", options, AzureCredentials(options, uri), Retry())
        span = "".join(f"<{name}>{moment:{_TIME}}</{name}>" for name, moment in (("Start", begin), ("Expiry", expiry)))
        try:
            return _key_of(calls.delegation_key(f"<KeyInfo>{span}</KeyInfo>".encode()))
        except HttpFault as fault:
            error = translate_fault(fault, uri, "signed for", DIALECT, calls.endpoint, calls.identity)
            raise error from error.__cause__

    return get_key


def _key_of(fields: Mapping[str, str]) -> SimpleNamespace:
    """Return a key from the elements of an answer, such as SignedOid, by the names that Python gives them."""
    return SimpleNamespace(**{_WORD.sub(r"_\g<0>", name).lower(): text for name, text in fields.items()})


# -- signatures for a directory ----------------------------------------------------------------------------------------

_VERSION = "2024-05-04"
_CLAIMS = ("skoid", "sktid", "skt", "ske", "sks", "skv")
_RIGHTS = "rl"


def delegated_source(uri: str, options: Mapping[str, str], clock: Callable[[], float] = time.time) -> AzureSource:
    """Return the source of user delegation keys for a directory. Raises CannotMint and UsageError."""
    if read_azure_options(options, read_address(uri)).used != "token":
        raise CannotMint("its credentials are not those of an identity, which a user delegation key needs")
    try:
        return azure_source(uri, options, clock)
    except CannotSign as fault:
        raise CannotMint(str(fault)) from None


def mint_directory_sas(source: AzureSource, place: tuple[str, str], *, expires_ms: int, now_ms: int) -> Minted:
    """Return a signature to read and list below a directory (`container@host`, path). Raises CannotMint."""
    try:
        signing = source(expires_ms)
    except CredentialsMissing as fault:
        raise CannotMint(f"{fault.message} ({fault.code})") from None
    except StorageFailed as fault:
        is_refused = str(fault.code) in ("storage.permission", "storage.credentials")
        raise CannotMint(f"no user delegation key: {fault.code}", is_transient=not is_refused) from None
    key = signing.credential
    assert isinstance(key, DelegationKey)
    seconds = min(expires_ms, key.expires_ms) // 1_000
    if seconds * 1_000 <= now_ms:
        raise CannotMint("the user delegation key has expired", is_transient=True)
    container, _, host = place[0].partition("@")
    resource = f"/blob/{host.partition('.')[0]}/{container}/{place[1]}"
    sas = {
        "sp": _RIGHTS,
        "se": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "spr": "https",
        "sr": "d",
        "sdd": str(place[1].count("/") + 1),
        "sv": _VERSION,
        **{name: key.claims.get(name, "") for name in _CLAIMS},
    }
    signature = hmac.digest(key.secret, text_to_sign(resource, sas).encode("utf-8", "surrogateescape"), "sha256")
    sas["sig"] = base64.b64encode(signature).decode()
    token = "&".join(f"{name}={quote(value, safe='')}" for name, value in sas.items() if value)
    return Minted("azureUserDelegationSas", {"sasToken": token}, seconds * 1_000, sas["skoid"][-4:])


def text_to_sign(resource: str, sas: Mapping[str, str]) -> str:
    """Return the text that the signature of a directory is made of, which does not have the depth of the directory."""
    who = [*(sas[name] for name in _CLAIMS), "", "", ""]  # two other users, and a correlation
    what = ["", sas["spr"], sas["sv"], sas["sr"], "", ""]  # an address, then a snapshot and an encryption scope
    return "\n".join([sas["sp"], "", sas["se"], resource, *who, *what, *[""] * 5])


def is_hierarchical(uri: str, options: Mapping[str, str]) -> bool:
    """Return whether the account of a location has directories. Raises CannotMint where it does not say so."""
    address = read_address(uri)
    read = read_azure_options(options, address)
    calls = AzureCalls(address.container, read, AzureCredentials(read, uri), Retry())
    url = calls.url("", restype="account", comp="properties")
    try:
        answer = calls.send(Request("GET", url, call=Call.HEAD), (200,))
    except HttpFault as fault:
        is_transient = fault.status is None or fault.status >= 500 or fault.status == 429
        raise CannotMint("the account does not say whether it has directories", is_transient=is_transient) from None
    except CredentialsMissing as fault:
        raise CannotMint(f"{fault.message} ({fault.code})") from None
    return answer.headers.get("x-ms-is-hns-enabled", "").lower() == "true"
