"""Values of `--storage-option` for Google Cloud Storage: the names of gcsfs, and those that other Delta tools use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltacli.storage.objects.options import certificates, endpoint, known_options, truth

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
_KNOWN = ("anon", "token", "project", "requester_pays", "endpoint_url", "verify")
_ENDPOINT = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GcsOptions:
    """How a bucket is reached. `token`: '' for the application default credentials, a file or JSON of credentials.
    `payer`: the project that pays for requests, '' for the owner of the bucket.
    """

    endpoint: str
    anonymous: bool = False
    token: str = field(default="", repr=False)
    payer: str = ""
    verify: bool | str = True


def read_options(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> GcsOptions:
    """Return the options as values. Raises UsageError for an unknown name or an invalid value."""
    chosen = {name: text for name, text in options.items() if name.lower() not in _WITHOUT_EFFECT}
    given = known_options(chosen, _KNOWN, _CANONICAL, "Google Cloud Storage")
    token, emulator = given.get("token", "").strip(), environment.get("STORAGE_EMULATOR_HOST", "")
    project = given.get("project") or environment.get("GOOGLE_CLOUD_PROJECT", "")
    pays = given.get("requester_pays", "")
    named = pays if pays and pays.lower() not in ("true", "false", "1", "0", "yes", "no") else ""  # as gcsfs takes it
    return GcsOptions(
        endpoint=endpoint(given, emulator or _ENDPOINT),
        anonymous=token == "anon" or truth(given, "anon") or bool(emulator and not token and not given.get("anon")),
        token="" if token in ("anon", "google_default", "cloud") else token,
        payer=named or (project if truth({"requester_pays": pays or "false"}, "requester_pays") else ""),
        verify=certificates(given),
    )
