"""Credentials of Azure: a key, a shared access signature, or a token. azure-identity is used for tokens only."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from deltacli.errors import CredentialsMissing
from deltacli.storage.azure.options import AzureOptions
from deltacli.storage.azure.shared_key import authorization
from deltacli.storage.secrets import StoreFault, remember_secrets

VERSION = "2021-12-02"
"""Of the service: names that XML cannot hold are escaped since 2021-02-12, MD5 and large blobs are older."""
_SCOPE = "https://storage.azure.com/.default"
_SPARE_SECONDS = 120
LOGIN = "az login, or set AZURE_STORAGE_ACCOUNT_KEY; for public data add --storage-option anon=true"


class AzureCredentials:
    """Authorizes requests. Thread-safe. `clock` returns epoch seconds."""

    def __init__(self, options: AzureOptions, place: str, clock: Callable[[], float] = time.time) -> None:
        self._options, self._place, self._clock = options, place, clock
        self._lock = Lock()
        self._key = _decoded(options.account_key) if options.account_key else b""
        self._source: Any = None  # Any: a credential of azure-identity
        self._token = ("", 0.0)

    @property
    def options(self) -> AzureOptions:
        """Return the options that the credentials were chosen by."""
        return self._options

    @property
    def identity(self) -> str:
        """Return the source of the credentials, for messages."""
        if self._options.anonymous:
            return "none (anonymous)"
        if self._key:
            return f"key of the account {self._options.account}"
        if self._options.sas_token:
            return "shared access signature"
        client = self._options.client[1]
        return f"application {client}" if all(self._options.client) else "DefaultAzureCredential of azure-identity"

    @property
    def needs_library(self) -> bool:
        """Return whether tokens are needed, which azure-identity gets."""
        return not (self._options.anonymous or self._key or self._options.sas_token)

    def authorized(
        self, method: str, url: str, headers: Mapping[str, str], *, is_part: bool = False
    ) -> tuple[str, dict[str, str]]:
        """Return URL and headers with credentials. `is_part`: of a batch, whose parts have no version of their own."""
        sent = {**headers, "x-ms-date": formatdate(self._clock(), usegmt=True)}
        sent |= {} if is_part else {"x-ms-version": VERSION}
        if self._options.anonymous:
            return url, sent
        if self._key:
            signed = authorization(method, url, sent, self._options.account, self._key)
            return url, {**sent, "Authorization": signed}
        if self._options.sas_token:
            return f"{url}{'&' if urlsplit(url).query else '?'}{self._options.sas_token}", sent
        return url, {**sent, "Authorization": f"Bearer {self.bearer()}"}

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Drop the token in refused headers, unless another thread has replaced it. Return False if requests are not
        authorized by tokens.
        """
        with self._lock:
            if self._token[0] and refused.get("Authorization") == f"Bearer {self._token[0]}":
                self._source, self._token = None, ("", 0.0)  # azure-identity caches a token until it expires
        return self.needs_library

    def bearer(self) -> str:
        """Return a token, renewed before it expires. Raises CredentialsMissing."""
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
            error = CredentialsMissing(
                f"{self._place} cannot be read: no usable credentials of Azure",
                facts={"library says": str(said).splitlines()[0][:300], "options": _state(self._options)},
                hint=LOGIN,
            )
            error.__cause__ = said
            raise error from said

    def source(self) -> Any:  # Any: a credential of azure-identity
        """Return the credential of azure-identity, made on first use."""
        if self._source is None:
            from azure.identity import ClientSecretCredential, DefaultAzureCredential

            if all(self._options.client):
                self._source = ClientSecretCredential(*self._options.client)
            else:
                self._source = DefaultAzureCredential()
        return self._source


def _state(options: AzureOptions) -> str:
    tenant, client, secret = ("set" if text else "unset" for text in options.client)
    return f"account_key unset, sas_token unset, tenant_id {tenant}, client_id {client}, client_secret {secret}"


def _decoded(key: str) -> bytes:
    remember_secrets({"account_key": key})
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsMissing("the account key of Azure is not base64") from None
