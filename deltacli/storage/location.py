"""The address of a store in a form that can be sent to another process.

A task for a worker process or a Spark executor contains a `StoreLocation`, with which the worker
opens the store itself. Credentials are not part of it: a worker finds them in its own environment.
`require_sendable` rejects storage options that may contain a secret, because tasks are sent over the
network of the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, Self

from deltacli.core.errors import UsageError
from deltacli.storage import Storage, open_storage
from deltacli.storage.allowed_prefixes import NO_PREFIXES, AllowedPrefixes
from deltacli.storage.directory_identity import DirectoryIdentity, is_directory_store
from deltacli.storage.secrets import contains_secret

# Storage options of all back ends that never contain a secret, except for a URL with a password.
_SAFE_OPTIONS = frozenset(
    {
        *("anon", "aws_skip_signature", "skip_signature", "profile", "aws_profile", "requester_pays"),
        *("region", "aws_region", "aws_default_region", "region_name"),
        *("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"),
        *("use_ssl", "verify", "addressing_style"),
        *("user_project", "google_endpoint", "azure_endpoint", "azure_storage_endpoint"),
        *("azure_storage_account_name", "tenant_id", "client_id"),
        *("use_fabric_endpoint", "azure_use_fabric_endpoint"),
        *("account_name", "account_host", "location_mode", "project", "consistency", "default_location", "timeout"),
    }
)

# Values that are not secret, of options that usually contain a secret.
_SAFE_VALUES: Mapping[str, str] = {"token": "anon"}

# Options that are JSON objects, and those of their fields that never contain a secret.
_SAFE_FIELDS: Mapping[str, frozenset[str]] = {
    "client_kwargs": frozenset({"region_name", "endpoint_url", "use_ssl", "verify", "api_version"}),
    "config_kwargs": frozenset(
        {
            *("connect_timeout", "read_timeout", "max_pool_connections", "retries", "s3", "tcp_keepalive"),
            *("signature_version", "request_checksum_calculation", "response_checksum_validation"),
        }
    ),
}


class StoreLocation(NamedTuple):
    """The arguments of `open_storage`, without credentials. Can be pickled and compared.

    Attributes:
        uri: The root of the store.
        options: Storage options, sorted by name.
        allowed: Prefixes outside the store that its links may refer to.
        retry_seconds: The retry budget; None for the default.
        directory_identity: The directory that a local store is bound to; None if the store uses the
            directory that is at the path when it is opened.
    """

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    allowed: AllowedPrefixes = NO_PREFIXES
    retry_seconds: float | None = None
    directory_identity: DirectoryIdentity | None = None

    @classmethod
    def of(
        cls,
        uri: str,
        options: Mapping[str, str] | None = None,
        allowed: AllowedPrefixes = NO_PREFIXES,
        retry_seconds: float | None = None,
    ) -> Self:
        """Return the location of the store that `open_storage` opens with the same arguments."""
        return cls(uri, tuple(sorted((options or {}).items())), allowed, retry_seconds)

    def open(self) -> Storage:
        """Open the store.

        Raises:
            UsageError: If the store cannot be opened.
            Refused: If the store is bound to a directory, and another directory is at its path now.
        """
        store = self.open_other(self.uri)
        if self.directory_identity is None or not is_directory_store(store):
            return store
        return store.bind_to_directory(self.directory_identity)

    def open_other(self, uri: str) -> Storage:
        """Open another store with the same options.

        Raises:
            UsageError: If the store cannot be opened.
        """
        from deltacli.storage.retry import Retry

        retry = None
        if "://" in uri:
            retry = Retry() if self.retry_seconds is None else Retry(self.retry_seconds, is_explicit=True)
        return open_storage(uri, dict(self.options), self.allowed, retry=retry)


def is_sendable(name: str, value: str) -> bool:
    """Return whether a storage option certainly contains no secret.

    Args:
        name: The name of the option, in any case.
        value: Its value. It may be a JSON object.
    """
    name = name.lower()
    if _SAFE_VALUES.get(name) == value:
        return True
    if contains_secret(value):
        return False
    if name in _SAFE_FIELDS:
        fields = _list_fields(value)
        return fields is not None and fields <= _SAFE_FIELDS[name]
    return name in _SAFE_OPTIONS


def require_sendable(options: Mapping[str, str]) -> None:
    """Check that storage options contain no secret.

    Raises:
        UsageError: If an option may contain a secret.
    """
    secret = next((name for name, value in options.items() if not is_sendable(name, value)), None)
    if secret is not None:
        raise UsageError(
            f"the storage option {secret} may hold a secret, and is not sent to executors",
            code="cluster.secret",
            hint=f"omit {secret}, and configure executors themselves: variables, profiles or roles of the store",
        )


def _list_fields(text: str) -> set[str] | None:
    """Return the field names of a JSON object; None if the text is not a JSON object."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return set(document) if isinstance(document, dict) else None
