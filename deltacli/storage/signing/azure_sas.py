"""Temporary credentials for one directory in Azure: a shared access signature, signed with a user delegation key.

Only accounts with a hierarchical namespace have signatures for directories.
"""

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
_PERMISSIONS = "rl"


def make_delegated_source(uri: str, options: Mapping[str, str], clock: Callable[[], float] = time.time) -> AzureSource:
    """Return the source of user delegation keys for a table.

    Raises:
        CannotMint: If the credentials are not those of an identity, which a user delegation key requires.
        UsageError: If an option or the URI is invalid.
    """
    if read_azure_options(options, read_address(uri)).credential_kind != "token":
        raise CannotMint("its credentials are not those of an identity, which a user delegation key needs")
    try:
        return make_azure_source(uri, options, clock)
    except CannotSign as error:
        raise CannotMint(str(error)) from None


def mint_directory_sas(
    source: AzureSource, directory: tuple[str, str], *, expires_ms: int, now_ms: int
) -> MintedCredential:
    """Create a shared access signature that allows reading and listing below a directory.

    Args:
        source: Returns user delegation keys.
        directory: The container, as "container@host", and the path of the directory.
        expires_ms: The requested expiry in epoch milliseconds. The signature expires no later than the key.
        now_ms: The current time in epoch milliseconds.

    Raises:
        CannotMint: If Azure issues no user delegation key, or if the key has expired.
    """
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

    container_at_host, path = directory
    container, _, host = container_at_host.partition("@")
    account = host.partition(".")[0]
    resource = f"/blob/{account}/{container}/{path}"
    sas = {
        "sp": _PERMISSIONS,
        "se": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "spr": "https",
        "sr": "d",
        "sdd": str(path.count("/") + 1),
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
    """Return the string to sign. It contains the fields in a fixed order, with empty lines for unused ones.

    The depth of the directory (`sdd`) is part of the URL, but not of the string to sign.

    Args:
        resource: The canonical name of the directory.
        sas: The query parameters of the signature.
    """
    permissions_and_times = [sas["sp"], "", sas["se"]]
    # The last three are the authorized user, the unauthorized user, and the correlation id.
    identity = [*(sas[name] for name in _CLAIMS), "", "", ""]
    # The empty fields are the IP range, the snapshot time, and the encryption scope.
    restrictions = ["", sas["spr"], sas["sv"], sas["sr"], "", ""]
    response_headers = [""] * 5
    return "\n".join([*permissions_and_times, resource, *identity, *restrictions, *response_headers])


def is_hierarchical(uri: str, options: Mapping[str, str]) -> bool:
    """Return whether the account of a table has a hierarchical namespace.

    Raises:
        CannotMint: If the properties of the account cannot be read.
    """
    address = read_address(uri)
    azure_options = read_azure_options(options, address)
    calls = AzureCalls(address.container, azure_options, AzureCredentials(azure_options, uri), Retry())
    url = calls.url("", restype="account", comp="properties")
    try:
        response = calls.send(Request("GET", url, call=Call.HEAD), (200,))
    except HttpError as error:
        is_transient = error.status is None or error.status >= 500 or error.status == 429
        raise CannotMint("the account does not say whether it has directories", is_transient=is_transient) from None
    except CredentialsMissing as error:
        raise CannotMint(f"{error.message} ({error.code})") from None
    return response.headers.get("x-ms-is-hns-enabled", "").lower() == "true"
