"""Addresses of containers, and values of `--storage-option` for Azure: the names of adlfs, and those that other Delta
tools use.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import unquote

from deltacli.core.errors import CredentialsMissing, UsageError
from deltacli.core.hints import parameter
from deltacli.storage.objects.options import certificates, endpoint, known_options, truth
from deltacli.storage.secrets import remember_secrets

_CONTAINER = re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9-]{1,62}|\$root")
_HOST = re.compile(r"(?P<account>[a-z0-9-]{1,63})\.(?:blob|dfs)\.(?P<suffix>[a-z0-9.-]+)", re.IGNORECASE)
_NAMES: Mapping[str, tuple[str, ...]] = {
    "account_name": ("azure_storage_account_name", "azure_account_name"),
    "account_key": ("azure_storage_account_key", "azure_storage_key", "access_key", "azure_storage_access_key"),
    "sas_token": ("azure_storage_sas_token", "azure_storage_sas_key", "sas_key"),
    "connection_string": ("azure_storage_connection_string",),
    "token": ("azure_storage_token", "bearer_token"),
    "tenant_id": ("azure_storage_tenant_id", "azure_tenant_id", "azure_storage_authority_id", "authority_id"),
    "client_id": ("azure_storage_client_id", "azure_client_id"),
    "client_secret": ("azure_storage_client_secret", "azure_client_secret"),
    "endpoint_url": ("endpoint", "azure_endpoint", "azure_storage_endpoint"),
    "account_host": (),
    "anon": ("azure_skip_signature", "skip_signature"),
    "verify": (),
}
_CANONICAL = {alias: name for name, aliases in _NAMES.items() for alias in aliases}
_WITHOUT_EFFECT = ("location_mode", "use_emulator", "azure_storage_use_emulator", "timeout")
"""Options of other tools that have no meaning here. They are accepted, because they were."""
_FROM_ENVIRONMENT = {
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "connection_string": "AZURE_STORAGE_CONNECTION_STRING",
    "token": "AZURE_STORAGE_TOKEN",
    "tenant_id": "AZURE_STORAGE_TENANT_ID",
    "client_id": "AZURE_STORAGE_CLIENT_ID",
    "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
}
_SECRETS = ("account_key", "sas_token", "connection_string", "client_secret", "token", "anon")
_SUFFIX = "core.windows.net"


class Address(NamedTuple):
    """A directory of a container. `account` and `suffix` are '' where the URI does not name them."""

    uri: str
    container: str
    root: str
    account: str = ""
    suffix: str = ""

    def aliases(self, account: str, suffix: str) -> tuple[str, ...]:
        """Return the other URIs of the directory, where these are its account and the suffix of its hosts."""
        below = f"/{self.root}" if self.root else ""
        found = [f"{scheme}://{self.container}{below}" for scheme in ("az", "abfss")]
        if account and suffix:
            for kind in ("dfs", "blob"):
                host = f"{account}.{kind}.{suffix}"
                found += [f"{scheme}://{self.container}@{host}{below}" for scheme in ("abfss", "wasbs", "az")]
                found += [f"https://{host}/{self.container}{below}"]
        return tuple(uri for uri in found if uri != self.uri)


def read_address(uri: str) -> Address:
    """Return the parts of a URI. Raises UsageError."""
    uri = uri.rstrip("/")
    scheme, _, rest = uri.partition("://")
    authority, _, root = rest.partition("/")
    if scheme.lower() == "https":
        host, (container, _, root) = authority, unquote(root).partition("/")
    else:
        container, _, host = authority.rpartition("@") if "@" in authority else (authority, "", "")
    if ":" in container or "@" in container:
        raise UsageError(
            "invalid character in the name of the container: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": "AZURE_STORAGE_ACCOUNT_KEY, or az login"},
        )
    if not _CONTAINER.fullmatch(container) and not host.endswith(".fabric.microsoft.com"):
        raise UsageError(
            f"invalid name of a container: {container!r}" if container else f"{uri} does not name a container",
            code="usage.table",
            facts={"expected": "3 to 63 lower-case letters, digits and hyphens"} if container else None,
            hint="abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    named = _HOST.fullmatch(host)
    if host and not named:
        raise UsageError(
            f"the host of {uri} is not one of Azure",
            code="usage.table",
            facts={
                "expected": "ACCOUNT.dfs.core.windows.net; for another endpoint "
                f"{parameter('storage_options.endpoint_url', 'URL')}"
            },
        )
    account, suffix = (named["account"].lower(), named["suffix"].lower()) if named else ("", "")
    if scheme.lower() == "https":
        uri = f"abfss://{container}@{account}.dfs.{suffix}/{root}".rstrip("/")
    return Address(uri, container, root, account, suffix)


def is_of_the_cloud(host: str) -> bool:
    """Return whether an endpoint is one of Azure itself."""
    return host.lower().endswith((".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net"))


@dataclass(frozen=True)
class AzureOptions:
    """How an account is reached. Several credentials may be there; `used` says which of them authorize requests."""

    endpoint: str
    account: str
    suffix: str
    anonymous: bool = False
    account_key: str = field(default="", repr=False)
    sas_token: str = field(default="", repr=False)
    client: tuple[str, str, str] = field(default=("", "", ""), repr=False)
    """Tenant, id and secret of an application."""
    token: str = field(default="", repr=False)
    """A token that was issued already."""
    verify: bool | str = True

    @property
    def used(self) -> Literal["none", "key", "signature", "token"]:
        """Return what authorizes requests: the first that is there, in this order."""
        return "none" if self.anonymous else "key" if self.account_key else "signature" if self.sas_token else "token"


def read_options(
    options: Mapping[str, str], address: Address, environment: Mapping[str, str] = os.environ
) -> AzureOptions:
    """Return the options as values. Raises UsageError for an unknown name or an invalid value.

    Credentials in options replace all of those in the environment.
    """
    chosen = {name: text for name, text in options.items() if name.lower() not in _WITHOUT_EFFECT}
    given = known_options(chosen, tuple(_NAMES), _CANONICAL, "Azure")
    named = {name: environment[variable] for name, variable in _FROM_ENVIRONMENT.items() if environment.get(variable)}
    if any(name in given for name in _SECRETS) or _is_of_another_account(named, given, address):
        named = {name: text for name, text in named.items() if name == "account_name"}
    given = {**named, **given}
    given = {**_connection(given.get("connection_string", "")), **given}
    remember_secrets(given)
    _require_complete(given, address)
    account = address.account or given.get("account_name", "").strip()
    suffix = address.suffix or given.get("suffix", _SUFFIX)
    if address.account and given.get("account_name", account).lower() != address.account and "account_name" in options:
        raise UsageError(
            f"{address.uri} is in the account {address.account}, not {given['account_name']}",
            code="usage.storage-option",
        )
    if not account:
        raise UsageError(
            f"{address.uri} does not name the storage account",
            code="usage.table",
            hint=f"abfss://{address.container}@ACCOUNT.dfs.{_SUFFIX}/{address.root}, or set AZURE_STORAGE_ACCOUNT_NAME",
        )
    host = given.get("account_host") or f"{account}.blob.{suffix}"
    return AzureOptions(
        endpoint=endpoint(given, f"https://{host}"),
        account=account,
        suffix=suffix,
        anonymous=truth(given, "anon"),
        account_key=given.get("account_key", "").strip(),
        sas_token=given.get("sas_token", "").strip().removeprefix("?"),
        client=tuple(given.get(name, "").strip() for name in ("tenant_id", "client_id", "client_secret")),  # type: ignore[arg-type]  # three of them
        token=given.get("token", "").strip(),
        verify=certificates(given),
    )


def _require_complete(given: Mapping[str, str], address: Address) -> None:
    """Raise UsageError for a connection string, cut off by a shell for example, that lacks what nothing else gives.

    One that names an endpoint may leave the credentials to a login, as in other Azure clients.
    """
    text = given.get("connection_string", "")
    others = ("account_key", "sas_token", "token", "anon", "endpoint_url")
    application = all(given.get(name) for name in ("tenant_id", "client_id", "client_secret"))
    lacks = []
    if not (address.account or given.get("account_name")):
        lacks.append("AccountName")
    if not (application or any(given.get(name) for name in others)):
        lacks.append("AccountKey (or SharedAccessSignature)")
    if text and lacks:
        parts = [part.partition("=")[0].strip()[:40] for part in text.split(";") if "=" in part]
        raise UsageError(
            f"the connection string of Azure is incomplete: {' and '.join(lacks)} missing",
            code="usage.credentials",
            facts={"it has": ", ".join(parts) or "no NAME=VALUE"},
            hint="az storage account show-connection-string --name ACCOUNT, and quote its output: it contains ;",
        )


def _is_of_another_account(named: Mapping[str, str], given: Mapping[str, str], address: Address) -> bool:
    """Return whether the environment is about another account than the one of a table."""
    wanted = address.account or given.get("account_name", "")
    its_own = _connection(named.get("connection_string", "")).get("account_name") or named.get("account_name")
    return bool(wanted and its_own and wanted.lower() != its_own.lower())


def _connection(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    found = {name.strip().lower(): value.strip() for name, _, value in pairs}
    names = {
        "accountname": "account_name",
        "accountkey": "account_key",
        "sharedaccesssignature": "sas_token",
        "blobendpoint": "endpoint_url",
        "endpointsuffix": "suffix",
    }
    return {name: found[key] for key, name in names.items() if found.get(key)}


def decoded_key(key: str) -> bytes:
    """Return an account key as bytes. Raises CredentialsMissing."""
    remember_secrets({"account_key": key})
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsMissing("the account key of Azure is not base64") from None
