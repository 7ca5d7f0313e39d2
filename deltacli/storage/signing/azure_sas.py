"""Shared access signatures for one directory of Azure, by a user delegation key."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from deltacli.core.errors import CredentialsMissing, StorageFailed
from deltacli.storage.azure.addresses import read_address
from deltacli.storage.azure.calls import AzureCalls
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import read_azure_options
from deltacli.storage.objects.http import Request
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.retry import Retry
from deltacli.storage.signing.azure import make_azure_source
from deltacli.storage.signing.delegation import CannotMint, MintedCredential
from deltacli.storage.signing.values import (
    AzureSource,
    CannotSign,
    DelegationKey,
)
from deltacli.storage.tally import Call

_VERSION = "2024-05-04"
_CLAIMS = ("skoid", "sktid", "skt", "ske", "sks", "skv")
_RIGHTS = "rl"


def make_delegated_source(uri: str, options: Mapping[str, str], clock: Callable[[], float] = time.time) -> AzureSource:
    """Return the source of user delegation keys for a directory. Raises CannotMint and UsageError."""
    if read_azure_options(options, read_address(uri)).credential_kind != "token":
        raise CannotMint("its credentials are not those of an identity, which a user delegation key needs")
    try:
        return make_azure_source(uri, options, clock)
    except CannotSign as error:
        raise CannotMint(str(error)) from None


def mint_directory_sas(
    source: AzureSource, directory: tuple[str, str], *, expires_ms: int, now_ms: int
) -> MintedCredential:
    """Return a signature to read and list below a directory (`container@host`, path). Raises CannotMint."""
    try:
        signing = source(expires_ms)
    except CredentialsMissing as error:
        raise CannotMint(f"{error.message} ({error.code})") from None
    except StorageFailed as error:
        is_refused = str(error.code) in ("storage.permission", "storage.credentials")
        raise CannotMint(f"no user delegation key: {error.code}", is_transient=not is_refused) from None
    key = signing.credential
    assert isinstance(key, DelegationKey)
    seconds = min(expires_ms, key.expires_ms) // 1_000
    if seconds * 1_000 <= now_ms:
        raise CannotMint("the user delegation key has expired", is_transient=True)
    container, _, host = directory[0].partition("@")
    resource = f"/blob/{host.partition('.')[0]}/{container}/{directory[1]}"
    sas = {
        "sp": _RIGHTS,
        "se": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "spr": "https",
        "sr": "d",
        "sdd": str(directory[1].count("/") + 1),
        "sv": _VERSION,
        **{name: key.claims.get(name, "") for name in _CLAIMS},
    }
    signature = hmac.digest(
        key.secret, build_string_to_sign(resource, sas).encode("utf-8", "surrogateescape"), "sha256"
    )
    sas["sig"] = base64.b64encode(signature).decode()
    token = "&".join(f"{name}={quote(value, safe='')}" for name, value in sas.items() if value)
    return MintedCredential("azureUserDelegationSas", {"sasToken": token}, seconds * 1_000, sas["skoid"][-4:])


def build_string_to_sign(resource: str, sas: Mapping[str, str]) -> str:
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
        response = calls.send(Request("GET", url, call=Call.HEAD), (200,))
    except HttpError as error:
        is_transient = error.status is None or error.status >= 500 or error.status == 429
        raise CannotMint("the account does not say whether it has directories", is_transient=is_transient) from None
    except CredentialsMissing as error:
        raise CannotMint(f"{error.message} ({error.code})") from None
    return response.headers.get("x-ms-is-hns-enabled", "").lower() == "true"
