"""The values of `--storage-option` for Google Cloud Storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.grants import RenewableGrant
from deltacli.storage.objects.options import endpoint, read_flag, read_known_options, read_verify

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
    """The way to reach a bucket. `token`: '' for the application default credentials, a file or
    JSON of credentials. `access_token`: one that was issued already, which replaces them. `payer`:
    the project that pays for requests, '' for the owner of the bucket. `held`: credentials that a
    server gave, and the only ones then.
    """

    endpoint: str
    anonymous: bool = False
    token: str = field(default="", repr=False)
    payer: str = ""
    verify: bool | str = True
    access_token: str = field(default="", repr=False)
    held: RenewableGrant | None = field(default=None, repr=False)


def read_gcs_options(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> GcsOptions:
    """Return the options as values. Raises UsageError for an unknown name or an invalid value."""
    chosen = {name: text for name, text in options.items() if name.lower() not in _WITHOUT_EFFECT}
    given = read_known_options(chosen, _KNOWN, _CANONICAL, "Google Cloud Storage")
    token = given.get("token", "").strip()
    emulator = environment.get("STORAGE_EMULATOR_HOST", "")
    project = given.get("project") or environment.get("GOOGLE_CLOUD_PROJECT", "")
    pays = given.get("requester_pays", "")
    # gcsfs takes the name of a project for `requester_pays` as well as a flag.
    if pays and pays.lower() not in ("true", "false", "1", "0", "yes", "no"):
        payer = pays
    else:
        payer = project if read_flag({"requester_pays": pays or "false"}, "requester_pays") else ""
    # An emulator takes requests without credentials, unless some are given for it.
    has_credentials = token or given.get("access_token") or given.get("anon")
    is_bare_emulator = bool(emulator and not has_credentials)
    return GcsOptions(
        endpoint=endpoint(given, emulator or _ENDPOINT),
        anonymous=token == "anon" or read_flag(given, "anon") or is_bare_emulator,
        token="" if token in ("anon", "google_default", "cloud") else token,
        payer=payer,
        verify=read_verify(given),
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
