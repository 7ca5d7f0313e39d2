"""How Google Cloud Storage is reached: the values of `--storage-option`, and credentials by google-auth.

google-auth is used for credentials only. Its own requests go through the library requests, which honours the variables
of proxies. Without that library it neither asks the metadata server nor signs for impersonated accounts.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from deltacli.core.errors import CredentialsMissing, UsageError, parameter
from deltacli.core.typing import GoogleAuth, Json
from deltacli.storage.grants import SOURCE, HeldGrant
from deltacli.storage.objects.http import ANONYMOUS, answers_within, bounded_session
from deltacli.storage.objects.options import certificates, endpoint, known_options, truth
from deltacli.storage.secrets import StoreFault

# -- values of `--storage-option` for Google Cloud Storage -------------------------------------------------------------

_CANONICAL: Mapping[str, str] = {
    "endpoint": "endpoint_url",
    "google_endpoint": "endpoint_url",
    "service_account": "token",
    "google_service_account": "token",
    "google_service_account_path": "token",
    "service_account_path": "token",
    "service_account_key": "token",
    "google_service_account_key": "token",
    "google_application_credentials": "token",
    "application_credentials": "token",
    "google_skip_signature": "anon",
    "skip_signature": "anon",
    "user_project": "project",
}
_WITHOUT_EFFECT = ("access", "consistency", "default_location", "timeout")
"""Options of gcsfs that have no meaning here. They are accepted, because they were."""
_KNOWN = ("anon", "token", "access_token", "project", "requester_pays", "endpoint_url", "verify")
_ENDPOINT = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GcsOptions:
    """How a bucket is reached. `token`: '' for the application default credentials, a file or JSON of credentials.
    `access_token`: one that was issued already, which replaces them. `payer`: the project that pays for requests, ''
    for the owner of the bucket. `held`: credentials that a server gave, and the only ones then.
    """

    endpoint: str
    anonymous: bool = False
    token: str = field(default="", repr=False)
    payer: str = ""
    verify: bool | str = True
    access_token: str = field(default="", repr=False)
    held: HeldGrant | None = field(default=None, repr=False)


def read_gcs_options(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> GcsOptions:
    """Return the options as values. Raises UsageError for an unknown name or an invalid value."""
    chosen = {name: text for name, text in options.items() if name.lower() not in _WITHOUT_EFFECT}
    given = known_options(chosen, _KNOWN, _CANONICAL, "Google Cloud Storage")
    token, emulator = given.get("token", "").strip(), environment.get("STORAGE_EMULATOR_HOST", "")
    project = given.get("project") or environment.get("GOOGLE_CLOUD_PROJECT", "")
    pays = given.get("requester_pays", "")
    named = pays if pays and pays.lower() not in ("true", "false", "1", "0", "yes", "no") else ""  # as gcsfs takes it
    return GcsOptions(
        endpoint=endpoint(given, emulator or _ENDPOINT),
        anonymous=token == "anon"
        or truth(given, "anon")
        or bool(emulator and not token and not given.get("access_token") and not given.get("anon")),
        token="" if token in ("anon", "google_default", "cloud") else token,
        payer=named or (project if truth({"requester_pays": pays or "false"}, "requester_pays") else ""),
        verify=certificates(given),
        access_token=_header_value(given.get("access_token", "")),
    )


def _header_value(token: str) -> str:
    """Return a token without surrounding white space. Raises UsageError, without the value, for some inside."""
    stripped = token.strip()
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        raise UsageError(
            f"{parameter('storage_options.access_token')} has a space or a character that no token has",
            code="usage.credentials",
        )
    return stripped


# -- credentials of Google Cloud by google-auth ------------------------------------------------------------------------

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_EXPIRED = ("expired", "reauthentication is needed", "invalid_rapt")
"""What google-auth says of a login that must be repeated."""
_METADATA = "169.254.169.254"
_METADATA_SECONDS = 1.0


class GcsCredentials:
    """The Authorization header of requests, refreshed before it expires. Thread-safe."""

    def __init__(self, options: GcsOptions, place: str, scope: str = _SCOPE) -> None:
        self._options, self._place, self._scope = options, place, scope
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
                found = self.google()
                if not found.valid:
                    found.refresh(request_of())
                return {"Authorization": f"Bearer {found.token}"}
            except GoogleAuthError as fault:
                raise missing_credentials(fault, self._place) from None

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
                self._found, _ = google.auth.default(scopes=[self._scope], request=request_of())
        return self._found


def missing_credentials(fault: BaseException, place: str) -> CredentialsMissing:
    """Return the error for a fault of google-auth, without secrets."""
    said = StoreFault.of(fault)
    text = str(said).splitlines()[0]
    has_expired = any(word in str(said).lower() for word in _EXPIRED)
    error = CredentialsMissing(
        "the credentials of Google Cloud have expired" if has_expired else "no usable credentials of Google Cloud",
        preamble=f"{place} cannot be read: ",
        facts={"library says": text, **chain_of(_metadata_state())},
        hint="gcloud auth application-default login" if has_expired else _how_to_log_in(),
    )
    error.__cause__ = said
    return error


def request_of() -> GoogleAuth:
    """Return what google-auth sends its own requests with."""
    from google.auth.transport.requests import Request

    return Request(bounded_session())


def _given(token: str, scope: str) -> GoogleAuth:
    """Return the credentials of a file, or of its content. Raises UsageError."""
    import google.auth

    with warnings.catch_warnings():
        # It warns of kinds of credentials that name other hosts. This is a file of the user's own choice.
        warnings.simplefilter("ignore", DeprecationWarning)
        if token.startswith("{"):
            return google.auth.load_credentials_from_dict(_json(token), scopes=[scope])[0]
        place = os.path.expanduser(token)
        if not os.path.isfile(place):
            raise UsageError(
                f"{parameter('storage_options.token')} is neither a file of credentials nor anon, google_default or "
                "cloud",
                code="usage.credentials",
                hint=_how_to_log_in(),
            )
        return google.auth.load_credentials_from_file(place, scopes=[scope])[0]


def _json(token: str) -> dict[str, Json]:
    try:
        fields = json.loads(token)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"{parameter('storage_options.token')} is not valid JSON", code="usage.credentials")
    return fields


def chain_of(metadata: str | None) -> dict[str, str]:
    """Return the sources that are tried, without values that could be secret. `metadata`: the state of the last one."""
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    state = "unset" if not file else f"{file} ({'there' if os.path.exists(file) else 'absent'})"
    known = _known_file()
    present = "there" if os.path.exists(os.path.expanduser(known)) else "absent"
    return {
        "environment": f"GOOGLE_APPLICATION_CREDENTIALS {state}",
        "file": f"{known} ({present})",
        **({"instance metadata": metadata} if metadata else {}),
    }


def _known_file() -> str:
    """Return where `gcloud` writes the application default credentials."""
    home = "$APPDATA/gcloud" if os.name == "nt" else "~/.config/gcloud"
    return f"{os.environ.get('CLOUDSDK_CONFIG', os.path.expandvars(home))}/application_default_credentials.json"


def _require_a_source() -> None:
    """Raise DefaultCredentialsError where neither a file nor a machine of the cloud has credentials.

    google-auth itself waits for the metadata server for up to 40 seconds: three times for each of four connections.
    """
    from google.auth.exceptions import DefaultCredentialsError

    if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.exists(os.path.expanduser(_known_file())):
        return
    if _is_googles_machine() or _has_metadata():
        return
    raise DefaultCredentialsError("no file of credentials, and this machine is not one of Google Cloud")


def _has_metadata() -> bool:
    """Return whether a metadata server answers. The variables are those of google-auth."""
    if _metadata_state() != "no answer":
        return False
    address = os.environ.get("GCE_METADATA_IP", _METADATA)
    given = os.environ.get("GCE_METADATA_TIMEOUT", "")
    seconds = float(given) if given.isascii() and given.isdecimal() else _METADATA_SECONDS
    return answers_within(f"http://{address}", seconds, {"Metadata-Flavor": "Google"})


def _metadata_state() -> str:
    return "disabled by NO_GCE_CHECK" if os.environ.get("NO_GCE_CHECK") == "true" else "no answer"


def _is_googles_machine() -> bool:
    """Return whether the firmware says so, as google-auth asks it: its metadata server may answer late."""
    with suppress(OSError):
        return Path("/sys/class/dmi/id/product_name").read_text().strip().startswith("Google")
    return False


def _how_to_log_in() -> str:
    token, anonymous = parameter("storage_options.token", "@FILE"), parameter("storage_options.anon", "true")
    return f"gcloud auth application-default login, or {token}; for public data add {anonymous}"
