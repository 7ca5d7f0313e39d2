"""Options of Google Cloud Storage, from storage options and environment variables.

The names of the options are those of gcsfs. The names that delta-rs uses are accepted as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.grants import RenewableGrant
from deltacli.storage.objects.options import read_endpoint, read_flag, read_known_options, read_verify

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
_IGNORED_NAMES = ("access", "consistency", "default_location", "timeout")
"""Options of gcsfs that have no effect. They are accepted because earlier versions accepted them."""

_KNOWN = ("anon", "token", "access_token", "project", "requester_pays", "endpoint_url", "verify")
_DEFAULT_ENDPOINT = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GcsOptions:
    """The parsed options of a Google Cloud Storage store.

    Attributes:
        endpoint: The URL of the service.
        anonymous: True to send requests without credentials.
        token: The path of a credentials file, or its JSON content; '' for the application default credentials.
        payer: The project that pays for the requests (requester pays); '' if the owner of the bucket pays.
        verify: Whether to verify TLS certificates, or the path of a file of trusted certificates.
        access_token: An access token that the user obtained elsewhere; '' without one. It replaces `token`.
        held: An access token that a server has vended for the table. No other credentials are used with it.
    """

    endpoint: str
    anonymous: bool = False
    token: str = field(default="", repr=False)
    payer: str = ""
    verify: bool | str = True
    access_token: str = field(default="", repr=False)
    held: RenewableGrant | None = field(default=None, repr=False)


def read_gcs_options(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> GcsOptions:
    """Parse storage options. The endpoint of an emulator and the project may come from environment variables.

    Raises:
        UsageError: If a name is unknown, or if a value is invalid.
    """
    effective_options = {name: text for name, text in options.items() if name.lower() not in _IGNORED_NAMES}
    canonical = read_known_options(effective_options, _KNOWN, _CANONICAL, "Google Cloud Storage")
    token = canonical.get("token", "").strip()
    emulator = environment.get("STORAGE_EMULATOR_HOST", "")

    # Emulators accept requests without credentials. So request none, unless the options contain some.
    has_credentials = token or canonical.get("access_token") or canonical.get("anon")
    is_anonymous_emulator = bool(emulator and not has_credentials)
    payer = _read_payer(canonical, environment)
    return GcsOptions(
        endpoint=read_endpoint(canonical, emulator or _DEFAULT_ENDPOINT),
        anonymous=token == "anon" or read_flag(canonical, "anon") or is_anonymous_emulator,
        token="" if token in ("anon", "google_default", "cloud") else token,
        payer=payer,
        verify=read_verify(canonical),
        access_token=_strip_token(canonical.get("access_token", "")),
    )


def _read_payer(options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the project that pays for the requests; '' if the owner of the bucket pays.

    As in gcsfs, the value of `requester_pays` is a boolean or the name of a project.

    Raises:
        UsageError: If the value is invalid.
    """
    requester_pays = options.get("requester_pays", "") or "false"
    if requester_pays.lower() not in ("true", "false", "1", "0", "yes", "no"):
        return requester_pays
    if not read_flag({"requester_pays": requester_pays}, "requester_pays"):
        return ""
    return options.get("project") or environment.get("GOOGLE_CLOUD_PROJECT", "")


def _strip_token(token: str) -> str:
    """Return a token without leading and trailing white space.

    Raises:
        UsageError: If the token contains characters that are invalid in a header. The error does not contain the token.
    """
    stripped = token.strip()
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        raise UsageError(
            f"{parameter('storage_options.access_token')} has a space or a character that no token has",
            code="usage.credentials",
        )
    return stripped
