"""Credentials of Azure: a key, a shared access signature, or a token. azure-identity is used for tokens only."""

from __future__ import annotations

import base64
import hashlib
import hmac
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
from urllib.parse import parse_qs, parse_qsl, urlsplit

from deltacli.core.errors import CredentialsMissing
from deltacli.core.hints import parameter
from deltacli.core.typing import AzureCredential
from deltacli.storage.azure.options import AzureOptions, decoded_key
from deltacli.storage.objects.faults import ANONYMOUS
from deltacli.storage.objects.http import answers_within, bounded_session
from deltacli.storage.objects.options import set_or_unset, variables
from deltacli.storage.secrets import StoreFault

VERSION = "2021-12-02"
"""Of the service: names that XML cannot hold are escaped since 2021-02-12, MD5 and large blobs are older."""
_SCOPE = "https://storage.azure.com/.default"
_SPARE_SECONDS = 120
_METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"
_METADATA_SECONDS = 1.0
_IDENTITIES = ("IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT", "AZURE_POD_IDENTITY_AUTHORITY_HOST")
"""Variables that say where a managed identity is found."""
_SIGNED = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip
_PROGRAMS = {
    "AzureCliCredential": ("az", "Azure CLI", "az login"),
    "AzurePowerShellCredential": ("pwsh", "Azure PowerShell", "Connect-AzAccount"),
    "AzureDeveloperCliCredential": ("azd", "Azure Developer CLI", "azd auth login"),
}
"""The logins that azure-identity tries: program, name, and how to log in again."""
_ATTEMPT = re.compile(r"^\s*(\w+Credential): (.+)$", re.MULTILINE)
_SECRET_EXPIRED = "AADSTS7000222"


def how_to_log_in() -> str:
    """Return the hint where no credentials are found."""
    anonymous = parameter("storage_options.anon", "true")
    return f"az login, or set AZURE_STORAGE_ACCOUNT_KEY; for public data add {anonymous}"


class AzureCredentials:
    """Authorizes requests. Thread-safe. `clock` returns epoch seconds."""

    def __init__(self, options: AzureOptions, place: str, clock: Callable[[], float] = time.time) -> None:
        self._options, self._place, self._clock = options, place, clock
        self._lock = Lock()
        self._key = decoded_key(options.account_key) if options.account_key else b""
        self._source: AzureCredential = None
        self._token = ("", 0.0)

    @property
    def options(self) -> AzureOptions:
        """Return the options that the credentials were chosen by."""
        return self._options

    @property
    def identity(self) -> str:
        """Return the source of the credentials, for messages."""
        key, client = f"key of the account {self._options.account}", self._options.client
        token = f"application {client[1]}" if all(client) else "DefaultAzureCredential of azure-identity"
        token = "token that was given (AZURE_STORAGE_TOKEN)" if self._options.token else token
        names = {"none": ANONYMOUS, "key": key, "signature": "shared access signature", "token": token}
        return names[self._options.used]

    @property
    def renewal(self) -> str:
        """Return how a shared access signature that has expired is renewed; '' for other credentials."""
        if self._options.used != "signature":
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
        """Return whether tokens are needed, which azure-identity gets."""
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
        """Return the headers that name the source of a copy within the account, with what it is authorized by, where
        that is not the key that the request is signed with.
        """
        if self._options.used == "token":
            return {"x-ms-copy-source": url, "x-ms-copy-source-authorization": f"Bearer {self.bearer()}"}
        return {"x-ms-copy-source": self._signed(url) if self._options.used == "signature" else url}

    def _signed(self, url: str) -> str:
        return f"{url}{'&' if urlsplit(url).query else '?'}{self._options.sas_token}"

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Drop the token in refused headers, unless another thread has replaced it. Return False if requests are not
        authorized by tokens.
        """
        with self._lock:
            if self._token[0] and refused.get("Authorization") == f"Bearer {self._token[0]}":
                self._source, self._token = None, ("", 0.0)  # azure-identity caches a token until it expires
        return self.needs_library

    def bearer(self) -> str:
        """Return the token that was given, or one that is renewed before it expires. Raises CredentialsMissing."""
        if self._options.token:
            return self._options.token
        with self._lock:
            token, expires = self._token
            if not token or expires - _SPARE_SECONDS < self._clock():
                found = self._get_token()
                token, expires = self._token = (str(found.token), float(found.expires_on))
            return token

    def _get_token(self) -> Any:  # Any: an AccessToken of azure-core
        from azure.core.exceptions import AzureError

        try:
            return self.source().get_token(_SCOPE)
        except (AzureError, ValueError) as fault:
            said = StoreFault.of(fault)
            attempts = dict(_ATTEMPT.findall(str(said)))
            renewal = _renewal(str(said), attempts, self._options)
            error = CredentialsMissing(
                "the credentials of Azure have expired" if renewal else "no usable credentials of Azure",
                said_first=f"{self._place} cannot be read: ",
                facts={"library says": str(said).splitlines()[0][:300], **chain(self._options, attempts)},
                hint=renewal or how_to_log_in(),
            )
            error.__cause__ = said
            raise error from said

    def source(self) -> AzureCredential:
        """Return the credential of azure-identity, made on first use."""
        if self._source is None:
            from azure.core.pipeline.transport import RequestsTransport
            from azure.identity import ClientSecretCredential, DefaultAzureCredential

            transport = RequestsTransport(session=bounded_session(), session_owner=False)
            if all(self._options.client):
                self._source = ClientSecretCredential(*self._options.client, transport=transport)
            else:
                is_without = not _has_identity()
                self._source = DefaultAzureCredential(
                    exclude_managed_identity_credential=is_without, transport=transport
                )
        return self._source


def chain(options: AzureOptions, attempts: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the sources that are tried, in their order, without values that could be secret. `attempts`: what
    azure-identity says of each of its credentials.
    """
    tenant, client, secret = options.client
    identity = variables(*(name for name in _IDENTITIES if os.environ.get(name))) or "no answer"
    given = {"account_key": options.account_key, "sas_token": options.sas_token}
    return {
        "options": set_or_unset({**given, "tenant_id": tenant, "client_id": client, "client_secret": secret}),
        "environment": variables(
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_TOKEN",
        ),
        "application": variables("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
        + _failure(attempts, "EnvironmentCredential"),
        "workload identity": variables("AZURE_FEDERATED_TOKEN_FILE") + _failure(attempts, "WorkloadIdentityCredential"),
        "managed identity": identity + _failure(attempts, "ManagedIdentityCredential"),
        **{
            name: _first_sentence(attempts[credential]) if credential in attempts else "not tried"
            for credential, (program, name, _) in _PROGRAMS.items()
            if program == "az" or shutil.which(program)
        },
    }


def _failure(attempts: Mapping[str, str], credential: str) -> str:
    """Return what a source that is set up failed by, '' if it is not set up."""
    said = attempts.get(credential, "")
    return f": {_first_sentence(said)}" if said and "unavailable" not in said else ""


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0][:200]


def _renewal(said: str, attempts: Mapping[str, str], options: AzureOptions) -> str:
    """Return how to renew credentials that azure-identity reports as expired; '' for another failure."""
    if _SECRET_EXPIRED in said:
        application = options.client[1] or os.environ.get("AZURE_CLIENT_ID") or "CLIENT_ID"
        return f"az ad app credential reset --id {application}"
    expired = [name for name, text in attempts.items() if "expired" in text.lower() and name in _PROGRAMS]
    if expired:
        return _PROGRAMS[expired[0]][2]
    return "az login" if "expired" in said.lower() else ""


def _has_identity() -> bool:
    """Return whether a managed identity may be found: a variable says where, or the machine's metadata server answers.

    azure-identity waits five minutes for one that accepts connections and is silent.
    """
    if any(os.environ.get(name) for name in (*_IDENTITIES, "AZURE_TOKEN_CREDENTIALS")):
        return True
    return answers_within(_METADATA, _METADATA_SECONDS, {})


def authorization(method: str, url: str, headers: Mapping[str, str], account: str, key: bytes) -> str:
    """Return the Authorization header of a request with these headers, among them x-ms-date, by the key of an account.

    Spec: Authorize with Shared Key, version 2015-02-21 and later.
    """
    found = {name.lower(): " ".join(text.split()) for name, text in headers.items()}
    if found.get("content-length") == "0":
        found["content-length"] = ""
    lines = [method, *(found.get(name, "") for name in _SIGNED)]
    lines += [f"{name}:{text}" for name, text in sorted(found.items()) if name.startswith("x-ms-")]
    text = "\n".join(lines) + f"\n{_resource(url, account)}"
    digest = hmac.new(key, text.encode(), hashlib.sha256).digest()
    return f"SharedKey {account}:{base64.b64encode(digest).decode()}"


def _resource(url: str, account: str) -> str:
    """Return the account, the path as it is sent, and the decoded parameters by their names."""
    parts = urlsplit(url)
    parameters: dict[str, list[str]] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        parameters.setdefault(name.lower(), []).append(text)
    lines = [f"{name}:{','.join(sorted(texts))}" for name, texts in sorted(parameters.items())]
    return "\n".join([f"/{account}{parts.path or '/'}", *lines])
