"""The location of a store: what another process needs to open it. It is a small value that can be pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, Self

from deltacli.core.errors import UsageError
from deltacli.storage import Storage, open_storage
from deltacli.storage.allowed_prefixes import NO_PREFIXES, AllowedPrefixes
from deltacli.storage.directory_identity import DirectoryIdentity, StoreOfDirectory
from deltacli.storage.secrets import contains_secret


class StoreLocation(NamedTuple):
    """The root of a store, and everything to open it but credentials: each process takes them from its environment.

    Attributes:
        uri: The root.
        options: Storage options, sorted by name.
        allowed: Prefixes that links may lead to.
        retry_seconds: How long a request is repeated; None for the default.
        directory_identity: The directory that the root is bound to; None for whatever is at its
            path.
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
        """Return the location of a store that `open_storage` opens with the same arguments."""
        return cls(uri, tuple(sorted((options or {}).items())), allowed, retry_seconds)

    def open(self) -> Storage:
        """Open the store. Raises what `open_storage` raises, and Refused where another directory is at its path."""
        store = self.open_other(self.uri)
        return (
            store.bind_to_directory(self.directory_identity)
            if self.directory_identity is not None and isinstance(store, StoreOfDirectory)
            else store
        )

    def open_other(self, uri: str) -> Storage:
        """Open another store with the same options. Raises what `open_storage` raises."""
        from deltacli.storage.retry import Retry

        retry = None
        if "://" in uri:
            retry = Retry() if self.retry_seconds is None else Retry(self.retry_seconds, is_explicit=True)
        return open_storage(uri, dict(self.options), self.allowed, retry=retry)


_PLAIN = frozenset(
    {
        *("anon", "aws_skip_signature", "skip_signature", "profile", "aws_profile", "requester_pays"),
        *("region", "aws_region", "aws_default_region", "region_name"),
        *("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"),
        *("use_ssl", "verify", "addressing_style"),
        *(
            "user_project",
            "google_endpoint",
            "azure_endpoint",
            "azure_storage_endpoint",
            "azure_storage_account_name",
            "tenant_id",
            "client_id",
        ),
        *("use_fabric_endpoint", "azure_use_fabric_endpoint"),
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


def is_sendable(name: str, value: str) -> bool:
    """Return True if an option certainly holds no secret."""
    known = name.lower()
    if known in _INNER:
        return _fields(value) <= _INNER[known] and not contains_secret(value)
    return _PUBLIC.get(known) == value or (known in _PLAIN and not contains_secret(value))


def require_sendable(options: Mapping[str, str]) -> None:
    """Raise UsageError for an option that may hold a secret."""
    secret = next((name for name, value in options.items() if not is_sendable(name, value)), None)
    if secret is not None:
        raise UsageError(
            f"the storage option {secret} may hold a secret, and is not sent to executors",
            code="cluster.secret",
            hint=f"omit {secret}, and configure executors themselves: variables, profiles or roles of the store",
        )


def _fields(text: str) -> set[str]:
    """Return the names of the fields of a JSON object, or one that is never safe."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {""}
    return set(document) if isinstance(document, dict) else {""}
