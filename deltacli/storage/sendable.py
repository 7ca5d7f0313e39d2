"""Which options of a store may be sent to other processes: those whose names are known not to hold secrets.

A name that is missing here is refused, not guessed: options of stores come from several libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltacli.storage.secrets import holds_secret

_PLAIN = frozenset(
    {
        *("anon", "aws_skip_signature", "skip_signature", "profile", "aws_profile", "requester_pays"),
        *("region", "aws_region", "aws_default_region", "region_name"),
        *("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"),
        *("use_ssl", "verify", "addressing_style"),
        *("user_project", "google_endpoint", "azure_endpoint", "azure_storage_account_name", "tenant_id", "client_id"),
        *("account_name", "account_host", "location_mode", "project", "consistency", "default_location", "timeout"),
    }
)
_PUBLIC: Mapping[str, str] = {"token": "anon"}
"""Values that are no secrets although the option usually holds one."""
_INNER: Mapping[str, frozenset[str]] = {
    "client_kwargs": frozenset({"region_name", "endpoint_url", "use_ssl", "verify", "api_version"}),
    "config_kwargs": frozenset(
        {
            *("connect_timeout", "read_timeout", "max_pool_connections", "retries", "s3", "tcp_keepalive"),
            *("signature_version", "request_checksum_calculation", "response_checksum_validation"),
        }
    ),
}
"""The safe fields of options that are JSON objects."""


def may_be_sent(name: str, value: str) -> bool:
    """Return True if an option certainly holds no secret."""
    known = name.lower()
    if known in _INNER:
        return _fields(value) <= _INNER[known] and not holds_secret(value)
    return _PUBLIC.get(known) == value or (known in _PLAIN and not holds_secret(value))


def _fields(text: str) -> set[str]:
    """Return the names of the fields of a JSON object, or one that is never safe."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {""}
    return set(found) if isinstance(found, dict) else {""}
