"""How Azure Blob Storage is reached: addresses, the values of `--storage-option`, and credentials."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import formatdate
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from deltacli.core.errors import CredentialsMissing, UsageError, parameter
from deltacli.core.typing import AzureCredential
from deltacli.storage.grants import SOURCE, HeldGrant
from deltacli.storage.objects.http import ANONYMOUS, answers_within, bounded_session
from deltacli.storage.objects.options import certificates, endpoint, known_options, set_or_unset, truth, variables
from deltacli.storage.secrets import StoreFault, remember_secrets

# -- addresses of containers -------------------------------------------------------------------------------------------

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
_FABRIC_SUFFIX = "fabric.microsoft.com"


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
    if not host and _HOST.fullmatch(container):
        # In an https URL the container follows the host; in the other schemes it precedes it.
        first, _, below = root.partition("/")
        error = UsageError(f"{uri} names the account in place of the container", code="usage.table")
        raise error.suggest_as_fact(uri, f"{scheme}://{first}@{container}/{below}".rstrip("/") if first else None)
    if not _CONTAINER.fullmatch(container) and not is_of_fabric(host):
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


def is_of_fabric(host: str) -> bool:
    """Return whether a host, or the suffix of one, is of OneLake in Microsoft Fabric."""
    return f".{host.lower()}".endswith(f".{_FABRIC_SUFFIX}")


def is_of_the_cloud(host: str) -> bool:
    """Return whether an endpoint is one of Azure itself."""
    return host.lower().endswith((".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net"))


@dataclass(frozen=True)
class AzureOptions:
    """How an account is reached. Several credentials may be there; `used` says which of them authorize requests.
    `held`: a signature that a server gave, and the only credentials then.
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
    held: HeldGrant | None = field(default=None, repr=False)

    @property
    def used(self) -> Literal["none", "key", "signature", "token"]:
        """Return what authorizes requests: the first that is there, in this order."""
        if self.held is not None:
            return "signature"
        return "none" if self.anonymous else "key" if self.account_key else "signature" if self.sas_token else "token"


def read_azure_options(
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
    if truth(given, "use_fabric_endpoint"):
        # Other tools replace the host of the URI. Another account of the same name would be opened, so it is refused.
        if address.suffix and not is_of_fabric(address.suffix):
            raise UsageError(
                f"{address.uri} is not in Microsoft Fabric, as use_fabric_endpoint says",
                code="usage.storage-option",
                facts={"expected": f"{address.account}.dfs.{_FABRIC_SUFFIX}, or az://{address.container}"},
            )
        suffix = address.suffix or _FABRIC_SUFFIX
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


# -- credentials of Azure ----------------------------------------------------------------------------------------------

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


def how_to_log_in_to_azure() -> str:
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
        return self._options

    @property
    def identity(self) -> str:
        """Return the source of the credentials, for messages."""
        if self._options.held is not None:
            return SOURCE
        key, client = f"key of the account {self._options.account}", self._options.client
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
        """Return the headers that name the source of a copy within the account, with what it is authorized by, where
        that is not the key that the request is signed with.
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
                preamble=f"{self._place} cannot be read: ",
                facts={"library says": str(said).splitlines()[0][:300], **azure_sources(self._options, attempts)},
                hint=renewal or how_to_log_in_to_azure(),
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


def azure_sources(options: AzureOptions, attempts: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the sources that are tried, in order, without secrets; `attempts`: what azure-identity says of each."""
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
    """Return the Authorization header of a request by an account key. Spec: Authorize with Shared Key."""
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
