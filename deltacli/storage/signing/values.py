"""The keys that URLs of a store are signed with, as plain values.

The signatures themselves are made elsewhere. Whoever has one of these values can read the table, so
their `repr` shows no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


class CannotSign(Exception):
    """A store whose URLs cannot be signed with its options and credentials. The message says why."""


@dataclass(frozen=True)
class ObjectAddress:
    """The URL of the directory of a table: scheme and host, and a percent-encoded path with a slash at the end."""

    origin: str
    path: str

    @property
    def host(self) -> str:
        return self.origin.partition("://")[2]


@dataclass(frozen=True)
class HmacCredential:
    """A key pair of S3, or an HMAC key of GCS. `expires_ms`: None for one that does not expire."""

    key_id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires_ms: int | None = None


@dataclass(frozen=True)
class S3Signing:
    """Everything to sign GET requests for objects of a table with."""

    address: ObjectAddress
    region: str
    credential: HmacCredential
    extra_query: tuple[tuple[str, str], ...] = ()
    """Parameters that every URL has, such as the one for a bucket whose requester pays."""


@dataclass(frozen=True)
class BlobSigner:
    """A service account of GCS. `sign` returns the RSA signature of bytes. `is_remote`: by a request to the cloud."""

    email: str
    sign: Callable[[bytes], bytes] = field(repr=False)
    is_remote: bool


@dataclass(frozen=True)
class GcsSigning:
    """Everything to sign GET requests for objects of a table with."""

    address: ObjectAddress
    credential: HmacCredential | BlobSigner


@dataclass(frozen=True)
class DelegationKey:
    """A user delegation key of Azure. `claims`: its parameters in a URL, by name."""

    claims: Mapping[str, str]
    secret: bytes = field(repr=False)
    expires_ms: int


@dataclass(frozen=True)
class AccountKey:
    """The key of a storage account of Azure."""

    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class AzureSigning:
    """Everything to sign GET requests for blobs of a table with.

    Attributes:
        address: The URL of the directory.
        resource: `/blob/ACCOUNT/CONTAINER/DIRECTORY/`, decoded.
        credential: The key.
    """

    address: ObjectAddress
    resource: str
    credential: AccountKey | DelegationKey


S3Source: TypeAlias = Callable[[], S3Signing]
"""Returns what to sign with now; refreshes credentials where needed. Raises StorageFailed."""
GcsSource: TypeAlias = Callable[[], GcsSigning]
AzureSource: TypeAlias = Callable[[int], AzureSigning]
"""The same for URLs that are valid until a time in milliseconds, if possible."""
