"""Credentials of Azure: how requests are authorized, and which sources were tried."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import formatdate
from threading import Lock
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from deltacli.core.errors import CredentialsMissing, parameter
from deltacli.core.typing import AzureCredential
from deltacli.storage.azure.options import AzureOptions, decode_account_key
from deltacli.storage.azure.shared_key import authorization
from deltacli.storage.grants import SOURCE
from deltacli.storage.objects.bounded_reading import make_bounded_session
from deltacli.storage.objects.http import is_reachable
from deltacli.storage.objects.http_errors import ANONYMOUS
from deltacli.storage.objects.options import (
    describe_presence,
    describe_variables,
)
from deltacli.storage.secrets import MaskedCause

VERSION = "2021-12-02"
"""Of the service: names that XML cannot hold are escaped since 2021-02-12, MD5 and large blobs are older."""
_SCOPE = "https://storage.azure.com/.default"
_SPARE_SECONDS = 120
_METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"
_METADATA_SECONDS = 1.0
_IDENTITIES = ("IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT", "AZURE_POD_IDENTITY_AUTHORITY_HOST")
"""Variables that say where a managed identity is found."""
_PROGRAMS = {
    "AzureCliCredential": ("az", "Azure CLI", "az login"),
    "AzurePowerShellCredential": ("pwsh", "Azure PowerShell", "Connect-AzAccount"),
    "AzureDeveloperCliCredential": ("azd", "Azure Developer CLI", "azd auth login"),
}
"""The logins that azure-identity tries: program, name, and how to log in again."""
_ATTEMPT = re.compile(r"^\s*(\w+Credential): (.+)$", re.MULTILINE)
_SECRET_EXPIRED = "AADSTS7000222"


def build_azure_login_hint() -> str:
    anonymous = parameter("storage_options.anon", "true")
    return f"az login, or set AZURE_STORAGE_ACCOUNT_KEY; for public data add {anonymous}"


class AzureCredentials:
    """Authorizes requests. Thread-safe. `clock` returns epoch seconds."""

    def __init__(self, options: AzureOptions, location: str, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._location = location
        self._clock = clock
        self._lock = Lock()
        self._key = decode_account_key(options.account_key) if options.account_key else b""
        self._source: AzureCredential = None
        self._token = ("", 0.0)

    @property
    def options(self) -> AzureOptions:
        return self._options

    @property
    def identity(self) -> str:
        """Return the source of the credentials, for messages."""
        if self._options.held is not None:
            return SOURCE
        key = f"key of the account {self._options.account}"
        client = self._options.client
        token = f"application {client[1]}" if all(client) else "DefaultAzureCredential of azure-identity"
        token = "token that was given (AZURE_STORAGE_TOKEN)" if self._options.token else token
        names = {"none": ANONYMOUS, "key": key, "signature": "shared access signature", "token": token}
        return names[self._options.used]

    @property
    def renewal(self) -> str:
        """Return how a shared access signature that has expired is renewed; '' for other credentials."""
        if self._options.used != "signature" or self._options.held is not None:
            return ""
        try:
            expires = datetime.fromisoformat(parse_qs(self._options.sas_token)["se"][0].replace("Z", "+00:00"))
            has_expired = expires.timestamp() <= self._clock()
        except (LookupError, ValueError, OverflowError, OSError):
            return ""
        account = self._options.account
        return f"az storage container generate-sas --account-name {account} --name CONTAINER" if has_expired else ""

    @property
    def needs_library(self) -> bool:
        return self._options.used == "token" and not self._options.token

    def authorized(
        self, method: str, url: str, headers: Mapping[str, str], *, is_part: bool = False
    ) -> tuple[str, dict[str, str]]:
        """Return URL and headers with credentials. `is_part`: of a batch, whose parts have no version of their own."""
        sent = {**headers, "x-ms-date": formatdate(self._clock(), usegmt=True)}
        sent |= {} if is_part else {"x-ms-version": VERSION}
        if self._options.used == "none":
            return url, sent
        if self._options.used == "key":
            signed = authorization(method, url, sent, self._options.account, self._key)
            return url, {**sent, "Authorization": signed}
        if self._options.used == "signature":
            return self._signed(url), sent
        return url, {**sent, "Authorization": f"Bearer {self.bearer()}"}

    def of_source(self, url: str) -> dict[str, str]:
        """Return the headers that name the source of a copy within the account, with what it is
        authorized by, where that is not the key that the request is signed with.
        """
        if self._options.used == "token":
            return {"x-ms-copy-source": url, "x-ms-copy-source-authorization": f"Bearer {self.bearer()}"}
        return {"x-ms-copy-source": self._signed(url) if self._options.used == "signature" else url}

    def _signed(self, url: str) -> str:
        held = self._options.held
        signature = self._options.sas_token if held is None else held.options()["sas_token"].removeprefix("?")
        return f"{url}{'&' if urlsplit(url).query else '?'}{signature}"

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Drop the token in refused headers unless it was replaced. False if requests have no tokens."""
        with self._lock:
            if self._token[0] and refused.get("Authorization") == f"Bearer {self._token[0]}":
                self._source = None
                self._token = ("", 0.0)  # azure-identity caches a token until it expires
        return self.needs_library

    def bearer(self) -> str:
        """Return the token that was given, or one that is renewed before it expires. Raises CredentialsMissing."""
        if self._options.token:
            return self._options.token
        with self._lock:
            token, expires = self._token
            if not token or expires - _SPARE_SECONDS < self._clock():
                access_token = self._get_token()
                token = str(access_token.token)
                self._token = (token, float(access_token.expires_on))
            return token

    def _get_token(self) -> Any:  # Any: an AccessToken of azure-core
        """Return a new token. Raises CredentialsMissing, with the state of each source that azure-identity tried."""
        from azure.core.exceptions import AzureError

        try:
            return self.source().get_token(_SCOPE)
        except (AzureError, ValueError) as fault:
            message = MaskedCause.of(fault)
            attempts = dict(_ATTEMPT.findall(str(message)))
            renewal = _renewal(str(message), attempts, self._options)
            error = CredentialsMissing(
                "the credentials of Azure have expired" if renewal else "no usable credentials of Azure",
                preamble=f"{self._location} cannot be read: ",
                facts={
                    "library says": str(message).splitlines()[0][:300],
                    **describe_azure_sources(self._options, attempts),
                },
                hint=renewal or build_azure_login_hint(),
            )
            error.__cause__ = message
            raise error from message

    def source(self) -> AzureCredential:
        """Return the credential of azure-identity, made on first use."""
        if self._source is None:
            from azure.core.pipeline.transport import RequestsTransport
            from azure.identity import ClientSecretCredential, DefaultAzureCredential

            transport = RequestsTransport(session=make_bounded_session(), session_owner=False)
            if all(self._options.client):
                self._source = ClientSecretCredential(*self._options.client, transport=transport)
            else:
                is_without = not _has_identity()
                self._source = DefaultAzureCredential(
                    exclude_managed_identity_credential=is_without, transport=transport
                )
        return self._source


def describe_azure_sources(options: AzureOptions, attempts: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the sources that are tried, in order, without secrets; `attempts`: what azure-identity says of each."""
    tenant, client, secret = options.client
    identity = describe_variables(*(name for name in _IDENTITIES if os.environ.get(name))) or "no answer"
    given = {"account_key": options.account_key, "sas_token": options.sas_token}
    return {
        "options": describe_presence({**given, "tenant_id": tenant, "client_id": client, "client_secret": secret}),
        "environment": describe_variables(
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_TOKEN",
        ),
        "application": describe_variables("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
        + _failure(attempts, "EnvironmentCredential"),
        "workload identity": describe_variables("AZURE_FEDERATED_TOKEN_FILE")
        + _failure(attempts, "WorkloadIdentityCredential"),
        "managed identity": identity + _failure(attempts, "ManagedIdentityCredential"),
        **{
            name: _first_sentence(attempts[credential]) if credential in attempts else "not tried"
            for credential, (program, name, _) in _PROGRAMS.items()
            if program == "az" or shutil.which(program)
        },
    }


def _failure(attempts: Mapping[str, str], credential: str) -> str:
    """Return what a source that is set up failed by, '' if it is not set up."""
    message = attempts.get(credential, "")
    return f": {_first_sentence(message)}" if message and "unavailable" not in message else ""


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0][:200]


def _renewal(message: str, attempts: Mapping[str, str], options: AzureOptions) -> str:
    """Return how to renew credentials that azure-identity reports as expired; '' for another failure."""
    if _SECRET_EXPIRED in message:
        application = options.client[1] or os.environ.get("AZURE_CLIENT_ID") or "CLIENT_ID"
        return f"az ad app credential reset --id {application}"
    expired = [name for name, text in attempts.items() if "expired" in text.lower() and name in _PROGRAMS]
    if expired:
        return _PROGRAMS[expired[0]][2]
    return "az login" if "expired" in message.lower() else ""


def _has_identity() -> bool:
    """Return whether a managed identity may be found: a variable says where, or the machine's
    metadata server answers.

    azure-identity waits five minutes for one that accepts connections and is silent.
    """
    if any(os.environ.get(name) for name in (*_IDENTITIES, "AZURE_TOKEN_CREDENTIALS")):
        return True
    return is_reachable(_METADATA, _METADATA_SECONDS, {})
