"""The places where google-auth looks for credentials: their states, and a quick search before its own slow one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from deltacli.core.errors import parameter
from deltacli.storage.objects.http import is_reachable

_METADATA = "169.254.169.254"
_METADATA_SECONDS = 1.0


def describe_credential_chain(metadata: str | None) -> dict[str, str]:
    """Return the sources that are tried, without values that could be secret. `metadata`: the state of the last one."""
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    state = f"{file} ({_presence(file)})" if file else "unset"
    known_file = _known_file()
    chain = {
        "environment": f"GOOGLE_APPLICATION_CREDENTIALS {state}",
        "file": f"{known_file} ({_presence(os.path.expanduser(known_file))})",
    }
    if metadata:
        chain["instance metadata"] = metadata
    return chain


def _presence(path: str) -> str:
    return "there" if os.path.exists(path) else "absent"


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
    return is_reachable(f"http://{address}", seconds, {"Metadata-Flavor": "Google"})


def _metadata_state() -> str:
    return "disabled by NO_GCE_CHECK" if os.environ.get("NO_GCE_CHECK") == "true" else "no answer"


def _is_googles_machine() -> bool:
    """Return whether the firmware says so, as google-auth asks it: its metadata server may answer late."""
    with suppress(OSError):
        return Path("/sys/class/dmi/id/product_name").read_text().strip().startswith("Google")
    return False


def _how_to_log_in() -> str:
    token = parameter("storage_options.token", "@FILE")
    anonymous = parameter("storage_options.anon", "true")
    return f"gcloud auth application-default login, or {token}; for public data add {anonymous}"
