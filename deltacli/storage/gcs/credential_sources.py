"""The sources of the application default credentials of Google Cloud.

google-auth tries them in this order:

    1. the file in the variable GOOGLE_APPLICATION_CREDENTIALS
    2. the file that `gcloud auth application-default login` writes
    3. the metadata server of a virtual machine

This module describes their states for error messages. It also checks quickly whether there is any source at all,
because google-auth waits up to 40 seconds for a metadata server that does not exist.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from deltacli.core.errors import parameter
from deltacli.storage.objects.http import is_reachable

_METADATA_HOST = "169.254.169.254"
_METADATA_SECONDS = 1.0


def describe_credential_chain(metadata_state: str | None) -> dict[str, str]:
    """Return the sources and their states, without secrets.

    Args:
        metadata_state: The state of the metadata server; None to omit it.
    """
    variable_file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    variable_state = f"{variable_file} ({_describe_file(variable_file)})" if variable_file else "unset"
    login_file = _get_login_file()
    chain = {
        "environment": f"GOOGLE_APPLICATION_CREDENTIALS {variable_state}",
        "file": f"{login_file} ({_describe_file(os.path.expanduser(login_file))})",
    }
    if metadata_state:
        chain["instance metadata"] = metadata_state
    return chain


def _describe_file(path: str) -> str:
    return "there" if os.path.exists(path) else "absent"


def _get_login_file() -> str:
    """Return the path of the file that `gcloud auth application-default login` writes."""
    default_directory = "$APPDATA/gcloud" if os.name == "nt" else "~/.config/gcloud"
    directory = os.environ.get("CLOUDSDK_CONFIG", os.path.expandvars(default_directory))
    return f"{directory}/application_default_credentials.json"


def require_credential_source() -> None:
    """Require that a credentials file or a metadata server exists.

    google-auth tries three times to reach each of four addresses of the metadata server, which takes up to 40 seconds
    on a machine outside Google Cloud.

    Raises:
        DefaultCredentialsError: If there is no source of credentials.
    """
    from google.auth.exceptions import DefaultCredentialsError

    if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.exists(os.path.expanduser(_get_login_file())):
        return
    if _is_google_machine() or _has_metadata_server():
        return
    raise DefaultCredentialsError("no file of credentials, and this machine is not one of Google Cloud")


def _has_metadata_server() -> bool:
    """Return whether a metadata server responds. Reads the same environment variables as google-auth."""
    if _is_metadata_disabled():
        return False
    address = os.environ.get("GCE_METADATA_IP", _METADATA_HOST)
    timeout_text = os.environ.get("GCE_METADATA_TIMEOUT", "")
    is_number = timeout_text.isascii() and timeout_text.isdecimal()
    timeout_seconds = float(timeout_text) if is_number else _METADATA_SECONDS
    return is_reachable(f"http://{address}", timeout_seconds, {"Metadata-Flavor": "Google"})


def _is_metadata_disabled() -> bool:
    return os.environ.get("NO_GCE_CHECK") == "true"


def describe_metadata_server() -> str:
    """Return why the metadata server has provided no credentials."""
    return "disabled by NO_GCE_CHECK" if _is_metadata_disabled() else "no answer"


def _is_google_machine() -> bool:
    """Return whether the firmware identifies a machine of Google Cloud.

    google-auth performs the same check. On such a machine, wait for the metadata server even if it responds late.
    """
    with suppress(OSError):
        return Path("/sys/class/dmi/id/product_name").read_text().strip().startswith("Google")
    return False


def build_google_login_hint() -> str:
    """Return the hint for missing credentials."""
    token = parameter("storage_options.token", "@FILE")
    anonymous = parameter("storage_options.anon", "true")
    return f"gcloud auth application-default login, or {token}; for public data add {anonymous}"
