"""The values of `--storage-option` for Azure Blob Storage, and which of several credentials is used."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from deltacli.core.errors import CredentialsMissing, UsageError
from deltacli.storage.azure.addresses import FABRIC_SUFFIX, Address, is_of_fabric
from deltacli.storage.grants import RenewableGrant
from deltacli.storage.objects.options import (
    endpoint,
    read_flag,
    read_known_options,
    read_verify,
)
from deltacli.storage.secrets import remember_secrets

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
    "use_fabric_endpoint": ("azure_use_fabric_endpoint",),
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


@dataclass(frozen=True)
class AzureOptions:
    """The ways to reach an account. Several credentials may be there; `used` says which of them
    authorize requests. `held`: a signature that a server gave, and the only credentials then.
    """

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
    held: RenewableGrant | None = field(default=None, repr=False)

    @property
    def used(self) -> Literal["none", "key", "signature", "token"]:
        """Return what authorizes requests: the first that is there, in this order."""
        if self.held is not None:
            return "signature"
        if self.anonymous:
            return "none"
        if self.account_key:
            return "key"
        return "signature" if self.sas_token else "token"


def read_azure_options(
    options: Mapping[str, str], address: Address, environment: Mapping[str, str] = os.environ
) -> AzureOptions:
    """Return the options as values. Raises UsageError for an unknown name or an invalid value.

    Credentials in options replace all of those in the environment.
    """
    chosen = {name: text for name, text in options.items() if name.lower() not in _WITHOUT_EFFECT}
    given = read_known_options(chosen, tuple(_NAMES), _CANONICAL, "Azure")
    named = {name: environment[variable] for name, variable in _FROM_ENVIRONMENT.items() if environment.get(variable)}
    if any(name in given for name in _SECRETS) or _is_of_another_account(named, given, address):
        named = {name: text for name, text in named.items() if name == "account_name"}
    given = {**named, **given}
    given = {**_connection(given.get("connection_string", "")), **given}
    remember_secrets(given)
    _require_complete(given, address)
    account = address.account or given.get("account_name", "").strip()
    suffix = address.suffix or given.get("suffix", _SUFFIX)
    if read_flag(given, "use_fabric_endpoint"):
        # Other tools replace the host of the URI. Another account of the same name would be opened,
        # so it is refused.
        if address.suffix and not is_of_fabric(address.suffix):
            raise UsageError(
                f"{address.uri} is not in Microsoft Fabric, as use_fabric_endpoint says",
                code="usage.storage-option",
                facts={"expected": f"{address.account}.dfs.{FABRIC_SUFFIX}, or az://{address.container}"},
            )
        suffix = address.suffix or FABRIC_SUFFIX
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
        anonymous=read_flag(given, "anon"),
        account_key=given.get("account_key", "").strip(),
        sas_token=given.get("sas_token", "").strip().removeprefix("?"),
        client=tuple(given.get(name, "").strip() for name in ("tenant_id", "client_id", "client_secret")),  # type: ignore[arg-type]  # three of them
        token=given.get("token", "").strip(),
        verify=read_verify(given),
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


def endpoint_of_connection_string(address: Address, environment: Mapping[str, str]) -> str:
    """Return the endpoint that a connection string in the environment names for an account; '' without one.

    The credentials of the string are not used.
    """
    named = {name: environment[variable] for name, variable in _FROM_ENVIRONMENT.items() if environment.get(variable)}
    if _is_of_another_account(named, {}, address):
        return ""
    return _connection(named.get("connection_string", "")).get("endpoint_url", "")


def _connection(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    names = {
        "accountname": "account_name",
        "accountkey": "account_key",
        "sharedaccesssignature": "sas_token",
        "blobendpoint": "endpoint_url",
        "endpointsuffix": "suffix",
    }
    return {name: fields[key] for key, name in names.items() if fields.get(key)}


def decoded_key(key: str) -> bytes:
    """Return an account key as bytes. Raises CredentialsMissing."""
    remember_secrets({"account_key": key})
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsMissing("the account key of Azure is not base64") from None
