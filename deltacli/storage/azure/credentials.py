"""Credentials of Azure: the authorization of requests, and the renewal of access tokens.

`AzureOptions.credential_kind` says which credentials are used:

    none         nothing is added to the requests
    key          each request is signed with the account key (`shared_key.py`)
    signature    the shared access signature is appended to the URL
    token        an access token of azure-identity, which is renewed before it expires
"""

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
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from deltacli.core.errors import CredentialsMissing, parameter
from deltacli.core.typing import AzureCredential
from deltacli.storage.azure.options import AzureOptions, decode_account_key
from deltacli.storage.azure.shared_key import build_authorization_header
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
"""Version of the Blob service API. Since 2021-02-12, listings escape names that XML does not allow. MD5 digests and
large blocks are older.
"""

_SCOPE = "https://storage.azure.com/.default"
_RENEWAL_MARGIN_SECONDS = 120

_METADATA_URL = "http://169.254.169.254/metadata/identity/oauth2/token"
_METADATA_SECONDS = 1.0
_IDENTITY_VARIABLES = ("IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT", "AZURE_POD_IDENTITY_AUTHORITY_HOST")
"""Environment variables with the address of a managed identity."""


class _LoginTool(NamedTuple):
    """A command-line tool whose login azure-identity can use."""

    program: str
    name: str
    login_command: str


_LOGIN_TOOLS = {
    "AzureCliCredential": _LoginTool("az", "Azure CLI", "az login"),
    "AzurePowerShellCredential": _LoginTool("pwsh", "Azure PowerShell", "Connect-AzAccount"),
    "AzureDeveloperCliCredential": _LoginTool("azd", "Azure Developer CLI", "azd auth login"),
}
"""The tools, by the names of the credential classes of azure-identity."""

_FAILED_CREDENTIAL = re.compile(r"^\s*(\w+Credential): (.+)$", re.MULTILINE)
"""A line of an error of `DefaultAzureCredential`: the credential class and the reason of its failure."""

_CLIENT_SECRET_EXPIRED = "AADSTS7000222"


def build_azure_login_hint() -> str:
    """Return the hint for missing credentials."""
    anonymous = parameter("storage_options.anon", "true")
    return f"az login, or set AZURE_STORAGE_ACCOUNT_KEY; for public data add {anonymous}"


class AzureCredentials:
    """Authorizes the requests to an account. Thread-safe."""

    def __init__(self, options: AzureOptions, location: str, clock: Callable[[], float] = time.time) -> None:
        """Create the credentials. No token is requested before the first request needs it.

        Args:
            options: The options of the store.
            location: The URI of the container, for error messages.
            clock: Returns the time in epoch seconds.

        Raises:
            CredentialsMissing: If the account key is not valid base64.
        """
        self._options = options
        self._location = location
        self._clock = clock
        self._lock = Lock()
        self._key = decode_account_key(options.account_key) if options.account_key else b""
        self._credential: AzureCredential = None
        self._token = ""
        self._token_expires_at = 0.0

    @property
    def options(self) -> AzureOptions:
        return self._options

    @property
    def identity(self) -> str:
        """The source of the credentials, for messages."""
        if self._options.held is not None:
            return SOURCE
        match self._options.credential_kind:
            case "none":
                return ANONYMOUS
            case "key":
                return f"key of the account {self._options.account}"
            case "signature":
                return "shared access signature"
        if self._options.token:
            return "token that was given (AZURE_STORAGE_TOKEN)"
        if all(self._options.client):
            return f"application {self._options.client.client_id}"
        return "DefaultAzureCredential of azure-identity"

    @property
    def renewal_command(self) -> str:
        """The command that creates a new shared access signature if the current one has expired; otherwise ''."""
        if self._options.credential_kind != "signature" or self._options.held is not None:
            return ""
        try:
            # The parameter `se` (signed expiry) is a time such as 2026-12-01T10:00:00Z.
            signed_expiry = parse_qs(self._options.sas_token)["se"][0]
            expires_at = datetime.fromisoformat(signed_expiry.replace("Z", "+00:00")).timestamp()
        except (LookupError, ValueError, OverflowError, OSError):
            return ""
        if expires_at > self._clock():
            return ""
        return f"az storage container generate-sas --account-name {self._options.account} --name CONTAINER"

    @property
    def needs_library(self) -> bool:
        """Whether azure-identity is needed to obtain a token."""
        return self._options.credential_kind == "token" and not self._options.token

    def authorize(
        self, method: str, url: str, headers: Mapping[str, str], *, is_batch_part: bool = False
    ) -> tuple[str, dict[str, str]]:
        """Return the URL and the headers of a request with credentials.

        Args:
            method: The HTTP method.
            url: The URL of the request.
            headers: The headers of the request.
            is_batch_part: True for a request within a batch, which must not contain the version of the API.

        Raises:
            CredentialsMissing: If no token can be obtained.
        """
        all_headers = {**headers, "x-ms-date": formatdate(self._clock(), usegmt=True)}
        if not is_batch_part:
            all_headers["x-ms-version"] = VERSION

        match self._options.credential_kind:
            case "none":
                return url, all_headers
            case "signature":
                return self._append_signature(url), all_headers
            case "key":
                authorization = build_authorization_header(method, url, all_headers, self._options.account, self._key)
            case "token":
                authorization = f"Bearer {self.get_token()}"
        return url, {**all_headers, "Authorization": authorization}

    def build_copy_source_headers(self, url: str) -> dict[str, str]:
        """Return the headers that identify and authorize the source of a copy within the account.

        With an account key, the signature of the request authorizes the source as well.
        """
        match self._options.credential_kind:
            case "token":
                return {"x-ms-copy-source": url, "x-ms-copy-source-authorization": f"Bearer {self.get_token()}"}
            case "signature":
                return {"x-ms-copy-source": self._append_signature(url)}
        return {"x-ms-copy-source": url}

    def _append_signature(self, url: str) -> str:
        """Append the shared access signature to a URL."""
        held = self._options.held
        signature = self._options.sas_token if held is None else held.options()["sas_token"].removeprefix("?")
        separator = "&" if urlsplit(url).query else "?"
        return f"{url}{separator}{signature}"

    def renew(self, refused_headers: Mapping[str, str]) -> bool:
        """Forget the token that the store refused, so that the next request obtains a new one.

        If another thread has obtained a new token already, that token is kept.

        Args:
            refused_headers: The headers of the refused request.

        Returns:
            True if it makes sense to repeat the request: its token comes from azure-identity.
        """
        with self._lock:
            if self._token and refused_headers.get("Authorization") == f"Bearer {self._token}":
                # azure-identity caches a token until it expires, so replace its credential, too.
                self._credential = None
                self._token = ""
                self._token_expires_at = 0.0
        return self.needs_library

    def get_token(self) -> str:
        """Return the access token: the one in the options, or one of azure-identity.

        Raises:
            CredentialsMissing: If azure-identity finds no usable credentials.
        """
        if self._options.token:
            return self._options.token
        with self._lock:
            expires_soon = self._token_expires_at - _RENEWAL_MARGIN_SECONDS < self._clock()
            if not self._token or expires_soon:
                access_token = self._request_token()
                self._token = str(access_token.token)
                self._token_expires_at = float(access_token.expires_on)
            return self._token

    def _request_token(self) -> Any:  # Any: an AccessToken of azure-core
        """Request a token from azure-identity.

        Raises:
            CredentialsMissing: If there are no usable credentials. The error contains the state of each source that
                azure-identity tried.
        """
        from azure.core.exceptions import AzureError

        try:
            return self.get_credential().get_token(_SCOPE)
        except (AzureError, ValueError) as azure_error:
            masked_cause = MaskedCause.of(azure_error)
            message = str(masked_cause)
            failures = dict(_FAILED_CREDENTIAL.findall(message))
            renewal_command = _find_renewal_command(message, failures, self._options)
            error = CredentialsMissing(
                "the credentials of Azure have expired" if renewal_command else "no usable credentials of Azure",
                preamble=f"{self._location} cannot be read: ",
                facts={
                    "library says": message.splitlines()[0][:300],
                    **describe_azure_sources(self._options, failures),
                },
                hint=renewal_command or build_azure_login_hint(),
            )
            error.__cause__ = masked_cause
            raise error from masked_cause

    def get_credential(self) -> AzureCredential:
        """Return the credential of azure-identity, which is created on first use."""
        if self._credential is None:
            from azure.core.pipeline.transport import RequestsTransport
            from azure.identity import ClientSecretCredential, DefaultAzureCredential

            transport = RequestsTransport(session=make_bounded_session(), session_owner=False)
            if all(self._options.client):
                self._credential = ClientSecretCredential(*self._options.client, transport=transport)
            else:
                self._credential = DefaultAzureCredential(
                    exclude_managed_identity_credential=not _has_managed_identity(), transport=transport
                )
        return self._credential


def describe_azure_sources(options: AzureOptions, failures: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the sources of credentials in the order in which they are tried, with their states, without secrets.

    Args:
        options: The options of the store.
        failures: The reason of the failure, for each credential class that azure-identity tried.
    """
    configured = {
        "account_key": options.account_key,
        "sas_token": options.sas_token,
        "tenant_id": options.client.tenant_id,
        "client_id": options.client.client_id,
        "client_secret": options.client.client_secret,
    }
    application = describe_variables("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    workload_identity = describe_variables("AZURE_FEDERATED_TOKEN_FILE")
    identity_variables = [name for name in _IDENTITY_VARIABLES if os.environ.get(name)]
    managed_identity = describe_variables(*identity_variables) or "no answer"
    sources = {
        "options": describe_presence(configured),
        "environment": describe_variables(
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_TOKEN",
        ),
        "application": application + _describe_failure(failures, "EnvironmentCredential"),
        "workload identity": workload_identity + _describe_failure(failures, "WorkloadIdentityCredential"),
        "managed identity": managed_identity + _describe_failure(failures, "ManagedIdentityCredential"),
    }

    # The Azure CLI is always listed, because it is what most users log in with.
    for credential_class, tool in _LOGIN_TOOLS.items():
        if tool.program == "az" or shutil.which(tool.program):
            failure = failures.get(credential_class)
            sources[tool.name] = "not tried" if failure is None else _get_first_sentence(failure)
    return sources


def _describe_failure(failures: Mapping[str, str], credential_class: str) -> str:
    """Return ": " and the reason why a configured source failed; '' if the source is not configured."""
    message = failures.get(credential_class, "")
    is_configured = bool(message) and "unavailable" not in message
    return f": {_get_first_sentence(message)}" if is_configured else ""


def _get_first_sentence(text: str) -> str:
    return text.partition(". ")[0][:200]


def _find_renewal_command(message: str, failures: Mapping[str, str], options: AzureOptions) -> str:
    """Return the command that renews expired credentials; '' if azure-identity failed for another reason.

    Args:
        message: The message of azure-identity.
        failures: The reason of the failure, for each credential class that azure-identity tried.
        options: The options of the store.
    """
    if _CLIENT_SECRET_EXPIRED in message:
        application = options.client.client_id or os.environ.get("AZURE_CLIENT_ID") or "CLIENT_ID"
        return f"az ad app credential reset --id {application}"
    for credential_class, failure in failures.items():
        if credential_class in _LOGIN_TOOLS and "expired" in failure.lower():
            return _LOGIN_TOOLS[credential_class].login_command
    return "az login" if "expired" in message.lower() else ""


def _has_managed_identity() -> bool:
    """Return whether the machine may have a managed identity.

    That is so if an environment variable contains its address, or if the metadata server of a virtual machine
    responds. Without this check, azure-identity waits five minutes for a metadata server that accepts connections
    and sends nothing.
    """
    if any(os.environ.get(name) for name in (*_IDENTITY_VARIABLES, "AZURE_TOKEN_CREDENTIALS")):
        return True
    return is_reachable(_METADATA_URL, _METADATA_SECONDS, {})
