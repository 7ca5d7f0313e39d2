"""The keys that presigned URLs are signed with, as plain values.

`deltacli.sharing.signing` computes the signatures. Anybody with one of these values can read the table, so their
`repr` contains no secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


class CannotSign(Exception):
    """The URLs of a store cannot be signed with its options and credentials. The message contains the reason."""


@dataclass(frozen=True)
class ObjectAddress:
    """The URL of the directory of a table.

    Attributes:
        origin: The scheme and the host, for example "https://lake.s3.eu-west-1.amazonaws.com".
        path: The percent-encoded path, with a slash at its end.
    """

    origin: str
    path: str

    @property
    def host(self) -> str:
        return self.origin.partition("://")[2]


@dataclass(frozen=True)
class HmacCredential:
    """An access key of AWS, or an HMAC key of Google Cloud Storage.

    Attributes:
        key_id: The id of the key, which is part of each URL.
        secret: The secret.
        token: The session token of temporary credentials; None for permanent ones.
        expires_ms: The expiry in epoch milliseconds; None for permanent credentials.
    """

    key_id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires_ms: int | None = None


@dataclass(frozen=True)
class S3Signing:
    """The data required to sign GET requests for the objects of a table in S3.

    Attributes:
        address: The URL of the directory.
        region: The region in the signatures.
        credential: The access key.
        extra_query: Query parameters of every URL, for example `x-amz-request-payer` for a requester-pays bucket.
    """

    address: ObjectAddress
    region: str
    credential: HmacCredential
    extra_query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class BlobSigner:
    """A service account of Google Cloud.

    Attributes:
        email: The address of the service account, which is part of each URL.
        sign: Returns the RSA signature of its argument.
        is_remote: True if `sign` sends a request to Google Cloud. False if the private key is in memory.
    """

    email: str
    sign: Callable[[bytes], bytes] = field(repr=False)
    is_remote: bool


@dataclass(frozen=True)
class GcsSigning:
    """The data required to sign GET requests for the objects of a table in Google Cloud Storage.

    Attributes:
        address: The URL of the directory.
        credential: The HMAC key or the service account.
    """

    address: ObjectAddress
    credential: HmacCredential | BlobSigner


@dataclass(frozen=True)
class DelegationKey:
    """A user delegation key of Azure.

    Attributes:
        claims: The query parameters that identify the key in a URL, for example `skoid`.
        secret: The decoded key.
        expires_ms: The expiry in epoch milliseconds.
    """

    claims: Mapping[str, str]
    secret: bytes = field(repr=False)
    expires_ms: int


@dataclass(frozen=True)
class AccountKey:
    """The key of a storage account of Azure.

    Attributes:
        secret: The decoded key.
    """

    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class AzureSigning:
    """The data required to sign GET requests for the blobs of a table in Azure.

    Attributes:
        address: The URL of the directory.
        resource: The canonical name of the directory in signatures, `/blob/ACCOUNT/CONTAINER/DIRECTORY/`, not
            percent-encoded.
        credential: The key.
    """

    address: ObjectAddress
    resource: str
    credential: AccountKey | DelegationKey


S3Source: TypeAlias = Callable[[], S3Signing]
"""Returns the current keys. Renews expired credentials. Raises StorageFailed if there are none."""

GcsSource: TypeAlias = Callable[[], GcsSigning]
"""Returns the current keys."""

AzureSource: TypeAlias = Callable[[int], AzureSigning]
"""Returns a key that is valid until a time in epoch milliseconds, or as long as Azure allows."""
