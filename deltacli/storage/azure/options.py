"""Options of Azure stores, from storage options, environment variables and connection strings.

An account may be reachable with several credentials at the same time. `AzureOptions.credential_kind` decides which of
them authorize the requests. Credentials in storage options replace all credentials in environment variables.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from deltacli.core.errors import CredentialsMissing, UsageError
from deltacli.storage.azure.addresses import FABRIC_SUFFIX, Address, is_fabric_host
from deltacli.storage.grants import RenewableGrant
from deltacli.storage.objects.options import (
    read_endpoint,
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
_IGNORED_NAMES = ("location_mode", "use_emulator", "azure_storage_use_emulator", "timeout")
"""Options of other tools that have no effect. They are accepted because earlier versions accepted them."""

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

_CREDENTIAL_NAMES = ("account_key", "sas_token", "connection_string", "client_secret", "token", "anon")

_CONNECTION_STRING_NAMES: Mapping[str, str] = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_token",
    "blobendpoint": "endpoint_url",
    "endpointsuffix": "suffix",
}
"""Fields of a connection string in lower case, and the storage options that they are equivalent to."""

_DEFAULT_SUFFIX = "core.windows.net"


class AzureApplication(NamedTuple):
    """The service principal of an application. All fields are '' if none is configured."""

    tenant_id: str = ""
    client_id: str = ""
    client_secret: str = ""


@dataclass(frozen=True)
class AzureOptions:
    """The parsed options of an Azure store.

    Attributes:
        endpoint: The URL of the blob service.
        account: The name of the storage account.
        suffix: The domain of the service, for example "core.windows.net".
        anonymous: True to send requests without credentials.
        account_key: The key of the account, base64-encoded; '' without one.
        sas_token: A shared access signature, without a leading "?"; '' without one.
        client: The service principal of an application.
        token: An access token that the user obtained elsewhere; '' without one.
        verify: Whether to verify TLS certificates, or the path of a file of trusted certificates.
        held: A shared access signature that a server has vended for the table. No other credentials are used with it.
    """

    endpoint: str
    account: str
    suffix: str
    anonymous: bool = False
    account_key: str = field(default="", repr=False)
    sas_token: str = field(default="", repr=False)
    client: AzureApplication = field(default=AzureApplication(), repr=False)
    token: str = field(default="", repr=False)
    verify: bool | str = True
    held: RenewableGrant | None = field(default=None, repr=False)

    @property
    def credential_kind(self) -> Literal["none", "key", "signature", "token"]:
        """The credentials that authorize requests. The precedence is none, key, signature, token."""
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
    """Combine storage options, environment variables, a connection string and the parts of the URI.

    Args:
        options: The storage options.
        address: The parts of the URI.
        environment: The environment variables.

    Raises:
        UsageError: If a name is unknown, if a value is invalid, if the URI and the options contradict each other, or if
            the account is unknown.
    """
    effective_options = {name: text for name, text in options.items() if name.lower() not in _IGNORED_NAMES}
    explicit = read_known_options(effective_options, tuple(_NAMES), _CANONICAL, "Azure")
    values = {**_select_environment_values(environment, explicit, address), **explicit}
    # Fields of a connection string have the lowest precedence.
    values = {**_parse_connection_string(values.get("connection_string", "")), **values}
    remember_secrets(values)
    _require_complete_connection_string(values, address)

    suffix = _select_suffix(values, address)
    account = address.account or values.get("account_name", "").strip()
    if "account_name" in options and address.account and values["account_name"].lower() != address.account:
        raise UsageError(
            f"{address.uri} is in the account {address.account}, not {values['account_name']}",
            code="usage.storage-option",
        )
    if not account:
        example = f"abfss://{address.container}@ACCOUNT.dfs.{_DEFAULT_SUFFIX}/{address.root}"
        raise UsageError(
            f"{address.uri} does not name the storage account",
            code="usage.table",
            hint=f"{example}, or set AZURE_STORAGE_ACCOUNT_NAME",
        )

    host = values.get("account_host") or f"{account}.blob.{suffix}"
    return AzureOptions(
        endpoint=read_endpoint(values, f"https://{host}"),
        account=account,
        suffix=suffix,
        anonymous=read_flag(values, "anon"),
        account_key=values.get("account_key", "").strip(),
        sas_token=values.get("sas_token", "").strip().removeprefix("?"),
        client=AzureApplication(
            tenant_id=values.get("tenant_id", "").strip(),
            client_id=values.get("client_id", "").strip(),
            client_secret=values.get("client_secret", "").strip(),
        ),
        token=values.get("token", "").strip(),
        verify=read_verify(values),
    )


def _read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that are set, with canonical names of options."""
    return {name: environment[variable] for name, variable in _FROM_ENVIRONMENT.items() if environment.get(variable)}


def _select_environment_values(
    environment: Mapping[str, str], explicit: Mapping[str, str], address: Address
) -> dict[str, str]:
    """Return the values of environment variables that may be combined with the storage options.

    Only the account name is returned if the storage options contain credentials, or if the variables belong to a
    different account than the table. Otherwise two halves of different credentials could be combined.
    """
    values = _read_environment(environment)
    has_explicit_credentials = any(name in explicit for name in _CREDENTIAL_NAMES)
    if has_explicit_credentials or _is_other_account(values, explicit, address):
        return {name: text for name, text in values.items() if name == "account_name"}
    return values


def _select_suffix(values: Mapping[str, str], address: Address) -> str:
    """Return the domain of the service: that of the URI, or of Microsoft Fabric, or of the connection string.

    Raises:
        UsageError: If `use_fabric_endpoint` is true although the URI is outside Microsoft Fabric. Other tools replace
            the host of the URI in this case, and open another account with the same name.
    """
    if not read_flag(values, "use_fabric_endpoint"):
        return address.suffix or values.get("suffix", _DEFAULT_SUFFIX)
    if address.suffix and not is_fabric_host(address.suffix):
        raise UsageError(
            f"{address.uri} is not in Microsoft Fabric, as use_fabric_endpoint says",
            code="usage.storage-option",
            facts={"expected": f"{address.account}.dfs.{FABRIC_SUFFIX}, or az://{address.container}"},
        )
    return address.suffix or FABRIC_SUFFIX


def _require_complete_connection_string(values: Mapping[str, str], address: Address) -> None:
    """Require that a connection string and the other options together contain an account and credentials.

    A connection string contains `;`. Without quotes, a shell cuts it off there.

    A connection string with an endpoint needs no credentials, as in other Azure clients: the user may be logged in.

    Raises:
        UsageError: If the account or the credentials are missing.
    """
    text = values.get("connection_string", "")
    has_application = all(values.get(name) for name in ("tenant_id", "client_id", "client_secret"))
    sufficient_names = ("account_key", "sas_token", "token", "anon", "endpoint_url")
    missing_fields = []
    if not (address.account or values.get("account_name")):
        missing_fields.append("AccountName")
    if not (has_application or any(values.get(name) for name in sufficient_names)):
        missing_fields.append("AccountKey (or SharedAccessSignature)")
    if text and missing_fields:
        present_fields = [part.partition("=")[0].strip()[:40] for part in text.split(";") if "=" in part]
        raise UsageError(
            f"the connection string of Azure is incomplete: {' and '.join(missing_fields)} missing",
            code="usage.credentials",
            facts={"it has": ", ".join(present_fields) or "no NAME=VALUE"},
            hint="az storage account show-connection-string --name ACCOUNT, and quote its output: it contains ;",
        )


def _is_other_account(environment_values: Mapping[str, str], explicit: Mapping[str, str], address: Address) -> bool:
    """Return whether the environment variables belong to a different account than the table."""
    table_account = address.account or explicit.get("account_name", "")
    connection_account = _parse_connection_string(environment_values.get("connection_string", "")).get("account_name")
    environment_account = connection_account or environment_values.get("account_name")
    if not table_account or not environment_account:
        return False
    return table_account.lower() != environment_account.lower()


def read_connection_string_endpoint(address: Address, environment: Mapping[str, str]) -> str:
    """Return the endpoint in the connection string of the environment; '' without one.

    It is used together with vended credentials, so the credentials in the connection string are ignored.
    """
    values = _read_environment(environment)
    if _is_other_account(values, {}, address):
        return ""
    return _parse_connection_string(values.get("connection_string", "")).get("endpoint_url", "")


def _parse_connection_string(text: str) -> dict[str, str]:
    """Return the fields of a connection string, with canonical names of options.

    For example, `AccountName=lake;AccountKey=a2V5` becomes `{"account_name": "lake", "account_key": "a2V5"}`.
    """
    fields: dict[str, str] = {}
    for part in text.split(";"):
        field_name, separator, value = part.partition("=")
        if separator:
            fields[field_name.strip().lower()] = value.strip()
    return {name: fields[field_name] for field_name, name in _CONNECTION_STRING_NAMES.items() if fields.get(field_name)}


def decode_account_key(key: str) -> bytes:
    """Return the bytes of an account key.

    Raises:
        CredentialsMissing: If the key is not valid base64.
    """
    remember_secrets({"account_key": key})
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsMissing("the account key of Azure is not base64") from None
