"""Credentials of Google Cloud, by google-auth.

google-auth is used for credentials only. Its own requests go through the library requests, which
honours the variables of proxies. Without that library it neither asks the metadata server nor signs
for impersonated accounts.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from threading import Lock

from deltacli.core.errors import CredentialsMissing, UsageError, parameter
from deltacli.core.typing import GoogleAuth, Json
from deltacli.storage.gcs.credential_sources import (
    _how_to_log_in,
    _metadata_state,
    _require_a_source,
    describe_credential_chain,
)
from deltacli.storage.gcs.options import GcsOptions
from deltacli.storage.grants import SOURCE
from deltacli.storage.objects.bounded_reading import make_bounded_session
from deltacli.storage.objects.http_errors import ANONYMOUS
from deltacli.storage.secrets import MaskedCause

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_EXPIRED = ("expired", "reauthentication is needed", "invalid_rapt")
"""What google-auth says of a login that must be repeated."""


class GcsCredentials:
    """The Authorization header of requests, refreshed before it expires. Thread-safe."""

    def __init__(self, options: GcsOptions, location: str, scope: str = _SCOPE) -> None:
        self._options = options
        self._location = location
        self._scope = scope
        self._lock = Lock()
        self._found: GoogleAuth = None

    @property
    def options(self) -> GcsOptions:
        return self._options

    @property
    def identity(self) -> str:
        """Return the account, or the source of the credentials, for messages."""
        if self._options.held is not None:
            return SOURCE
        if self._options.anonymous:
            return ANONYMOUS
        if self._options.access_token:
            return parameter("storage_options.access_token")
        account = getattr(self._found, "service_account_email", None)
        source = parameter("storage_options.token") if self._options.token else "application default credentials"
        return f"{account} ({source})" if account and "@" in account else source

    def headers(self) -> Mapping[str, str]:
        """Return the header of a request. Raises CredentialsMissing, and StorageFailed of a grant that has ended."""
        if self._options.anonymous:
            return {}
        held = self._options.held
        if token := (held.options()["access_token"] if held is not None else self._options.access_token):
            return {"Authorization": f"Bearer {token}"}
        from google.auth.exceptions import GoogleAuthError

        with self._lock:
            try:
                credentials = self.google()
                if not credentials.valid:
                    credentials.refresh(make_auth_request())
                return {"Authorization": f"Bearer {credentials.token}"}
            except GoogleAuthError as error:
                raise missing_credentials(error, self._location) from None

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Drop the credentials in refused headers unless they were replaced. False where there are no others."""
        if self._options.held is not None:
            return self._options.held.replace_refused({"access_token": refused["Authorization"].split()[-1]})
        if self._options.access_token:
            return False
        with self._lock:
            if self._found is not None and refused.get("Authorization") == f"Bearer {self._found.token}":
                self._found = None
        return not self._options.anonymous

    def google(self) -> GoogleAuth:
        """Return the credentials, found on first use. Raises GoogleAuthError and UsageError."""
        if self._found is None:
            import google.auth
            from google.oauth2.credentials import Credentials

            if self._options.access_token:
                self._found = Credentials(self._options.access_token)
            elif self._options.token:
                self._found = _given(self._options.token, self._scope)
            else:
                _require_a_source()
                self._found, _ = google.auth.default(scopes=[self._scope], request=make_auth_request())
        return self._found


def missing_credentials(fault: BaseException, location: str) -> CredentialsMissing:
    """Return the error for an error of google-auth, without secrets."""
    message = MaskedCause.of(fault)
    text = str(message).splitlines()[0]
    has_expired = any(word in str(message).lower() for word in _EXPIRED)
    if has_expired:
        reason = "the credentials of Google Cloud have expired"
        hint = "gcloud auth application-default login"
    else:
        reason = "no usable credentials of Google Cloud"
        hint = _how_to_log_in()
    error = CredentialsMissing(
        reason,
        preamble=f"{location} cannot be read: ",
        facts={"library says": text, **describe_credential_chain(_metadata_state())},
        hint=hint,
    )
    error.__cause__ = message
    return error


def make_auth_request() -> GoogleAuth:
    """Return what google-auth sends its own requests with."""
    from google.auth.transport.requests import Request

    return Request(make_bounded_session())


def _given(token: str, scope: str) -> GoogleAuth:
    """Return the credentials of a file, or of its content. Raises UsageError."""
    import google.auth

    with warnings.catch_warnings():
        # It warns of kinds of credentials that name other hosts. This is a file of the user's own
        # choice.
        warnings.simplefilter("ignore", DeprecationWarning)
        if token.startswith("{"):
            return google.auth.load_credentials_from_dict(_json(token), scopes=[scope])[0]
        location = os.path.expanduser(token)
        if not os.path.isfile(location):
            raise UsageError(
                f"{parameter('storage_options.token')} is neither a file of credentials nor anon, google_default or "
                "cloud",
                code="usage.credentials",
                hint=_how_to_log_in(),
            )
        return google.auth.load_credentials_from_file(location, scopes=[scope])[0]


def _json(token: str) -> dict[str, Json]:
    try:
        fields = json.loads(token)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"{parameter('storage_options.token')} is not valid JSON", code="usage.credentials")
    return fields
