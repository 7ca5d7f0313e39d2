"""Credentials of Google Cloud, which google-auth obtains.

google-auth sends its requests for tokens with the library requests. Without that library, google-auth neither reads
the metadata server nor signs for impersonated service accounts. The requests to Google Cloud Storage itself are sent
by `calls.py`.
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
    build_google_login_hint,
    describe_credential_chain,
    describe_metadata_server,
    require_credential_source,
)
from deltacli.storage.gcs.options import GcsOptions
from deltacli.storage.grants import SOURCE
from deltacli.storage.objects.bounded_reading import make_bounded_session
from deltacli.storage.objects.http_errors import ANONYMOUS
from deltacli.storage.secrets import MaskedCause

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_EXPIRED_PHRASES = ("expired", "reauthentication is needed", "invalid_rapt")
"""Parts of google-auth's messages, in lower case, that mean that the user has to log in again."""


class GcsCredentials:
    """The access tokens of one store, which are refreshed before they expire. Thread-safe."""

    def __init__(self, options: GcsOptions, location: str, scope: str = _SCOPE) -> None:
        """Create the credentials. Nothing is read or requested before the first request needs a token.

        Args:
            options: The options of the store.
            location: The URI of the bucket, for error messages.
            scope: The OAuth scope of the tokens.
        """
        self._options = options
        self._location = location
        self._scope = scope
        self._lock = Lock()
        self._google_credentials: GoogleAuth = None

    @property
    def options(self) -> GcsOptions:
        return self._options

    @property
    def identity(self) -> str:
        """The account, or the source of the credentials, for messages."""
        if self._options.held is not None:
            return SOURCE
        if self._options.anonymous:
            return ANONYMOUS
        if self._options.access_token:
            return parameter("storage_options.access_token")
        account = getattr(self._google_credentials, "service_account_email", None)
        source = parameter("storage_options.token") if self._options.token else "application default credentials"
        return f"{account} ({source})" if account and "@" in account else source

    def build_headers(self) -> Mapping[str, str]:
        """Return the headers that authorize a request.

        Raises:
            CredentialsMissing: If google-auth finds no usable credentials.
            StorageFailed: If vended credentials have expired and cannot be renewed.
        """
        if self._options.anonymous:
            return {}
        held = self._options.held
        token = self._options.access_token if held is None else held.options()["access_token"]
        if token:
            return {"Authorization": f"Bearer {token}"}

        from google.auth.exceptions import GoogleAuthError

        with self._lock:
            try:
                credentials = self.load_credentials()
                if not credentials.valid:
                    credentials.refresh(make_auth_request())
                return {"Authorization": f"Bearer {credentials.token}"}
            except GoogleAuthError as error:
                raise build_credentials_error(error, self._location) from None

    def renew(self, refused_headers: Mapping[str, str]) -> bool:
        """Forget the token that the store refused, so that the next request obtains a new one.

        If another thread has obtained a new token already, that token is kept.

        Args:
            refused_headers: The headers of the refused request.

        Returns:
            True if it makes sense to repeat the request. False if no other token can be obtained.
        """
        if self._options.held is not None:
            refused_token = refused_headers["Authorization"].split()[-1]
            return self._options.held.replace_refused({"access_token": refused_token})
        if self._options.access_token:
            return False
        with self._lock:
            credentials = self._google_credentials
            if credentials is not None and refused_headers.get("Authorization") == f"Bearer {credentials.token}":
                self._google_credentials = None
        return not self._options.anonymous

    def load_credentials(self) -> GoogleAuth:
        """Return the credentials of google-auth, which are loaded on first use.

        Raises:
            GoogleAuthError: If there are no credentials, or if they are invalid.
            UsageError: If the option `token` is neither a file nor the content of one.
        """
        if self._google_credentials is None:
            import google.auth
            from google.oauth2.credentials import Credentials

            if self._options.access_token:
                self._google_credentials = Credentials(self._options.access_token)
            elif self._options.token:
                self._google_credentials = _load_from_option(self._options.token, self._scope)
            else:
                require_credential_source()
                self._google_credentials, _ = google.auth.default(scopes=[self._scope], request=make_auth_request())
        return self._google_credentials


def build_credentials_error(google_error: BaseException, location: str) -> CredentialsMissing:
    """Return the error that the user sees for an error of google-auth. It contains no secrets.

    Args:
        google_error: The error of google-auth.
        location: The URI of the store.
    """
    masked_cause = MaskedCause.of(google_error)
    message = str(masked_cause)
    has_expired = any(phrase in message.lower() for phrase in _EXPIRED_PHRASES)
    if has_expired:
        reason = "the credentials of Google Cloud have expired"
        hint = "gcloud auth application-default login"
    else:
        reason = "no usable credentials of Google Cloud"
        hint = build_google_login_hint()
    error = CredentialsMissing(
        reason,
        preamble=f"{location} cannot be read: ",
        facts={"library says": message.splitlines()[0], **describe_credential_chain(describe_metadata_server())},
        hint=hint,
    )
    error.__cause__ = masked_cause
    return error


def make_auth_request() -> GoogleAuth:
    """Return the transport with which google-auth requests tokens. Its responses have a size limit."""
    from google.auth.transport.requests import Request

    return Request(make_bounded_session())


def _load_from_option(token: str, scope: str) -> GoogleAuth:
    """Load credentials from the option `token`: the path of a JSON file, or the content of one.

    Raises:
        UsageError: If the file does not exist, or if the content is not JSON.
    """
    import google.auth

    with warnings.catch_warnings():
        # google-auth warns about credentials that contain URLs of other hosts, because the file may come from an
        # attacker. Here the user has selected the file.
        warnings.simplefilter("ignore", DeprecationWarning)

        if token.startswith("{"):
            return google.auth.load_credentials_from_dict(_parse_json(token), scopes=[scope])[0]

        path = os.path.expanduser(token)
        if not os.path.isfile(path):
            raise UsageError(
                f"{parameter('storage_options.token')} is neither a file of credentials nor anon, google_default or "
                "cloud",
                code="usage.credentials",
                hint=build_google_login_hint(),
            )
        return google.auth.load_credentials_from_file(path, scopes=[scope])[0]


def _parse_json(token: str) -> dict[str, Json]:
    """Return the JSON object in the option `token`.

    Raises:
        UsageError: If the value is not a JSON object.
    """
    try:
        fields = json.loads(token)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"{parameter('storage_options.token')} is not valid JSON", code="usage.credentials")
    return fields
