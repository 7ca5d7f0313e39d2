"""What URLs of a store are signed with, and credentials for a directory, as plain values.

The signatures themselves are made elsewhere. Whoever has one of these values can read the table, so their `repr` shows
no secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deltacli.core.typing import Json


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
    """How GET requests for objects of a table are signed."""

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
    """How GET requests for objects of a table are signed."""

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
    """How GET requests for blobs of a table are signed. `resource`: `/blob/ACCOUNT/CONTAINER/DIRECTORY/`, decoded."""

    address: ObjectAddress
    resource: str
    credential: AccountKey | DelegationKey


S3Source: TypeAlias = Callable[[], S3Signing]
"""Returns what to sign with now; refreshes credentials where needed. Raises StorageFailed."""
GcsSource: TypeAlias = Callable[[], GcsSigning]
AzureSource: TypeAlias = Callable[[int], AzureSigning]
"""The same for URLs that are valid until a time in milliseconds, if possible."""


# -- what a credential for a directory may do --------------------------------------------------------------------------

LONGEST_POLICY = 2_048
"""Characters of a session policy. STS has another limit for its packed form, which only STS can compute."""
LONGEST_EXPRESSION = 2_048
"""Characters of the condition of a boundary."""
_ROLE = re.compile(r"arn:(aws[a-z-]*):iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}")
_PLACEHOLDER = re.compile(r"[$*?]")


def partition_of(role_arn: str) -> str | None:
    """Return the partition of AWS that a role belongs to, None for what is not the ARN of a role."""
    match = _ROLE.fullmatch(role_arn)
    return match[1] if match else None


def session_policy(bucket: str, directory: str, *, partition: str = "aws", uses_kms: bool = False) -> str:
    """Return the policy to read and list below a directory of a bucket: no older versions, nothing beside it."""
    inside = f"{_PLACEHOLDER.sub(lambda found: f'${{{found[0]}}}', directory)}/*"
    store = f"arn:{partition}:s3:::{bucket}"
    statements: list[Json] = [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{store}/{inside}"]},
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": store,
            "Condition": {"StringLike": {"s3:prefix": [inside]}},
        },
    ]
    if uses_kms:
        context = {"kms:EncryptionContext:aws:s3:arn": [store, f"{store}/{inside}"]}
        condition = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com", **context}}
        statements.append({"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*", "Condition": condition})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def boundary_expression(bucket: str, directory: str) -> str:
    """Return the condition on objects and listings below a directory, in CEL, whose texts are written as in JSON."""
    name = json.dumps(f"projects/_/buckets/{bucket}/objects/{directory}/", ensure_ascii=False)
    prefix = json.dumps(f"{directory}/", ensure_ascii=False)
    listed = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
    return f"resource.name.startsWith({name}) || {listed}.startsWith({prefix})"


def access_boundary(bucket: str, directory: str) -> Json:
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
        "availabilityCondition": {"expression": boundary_expression(bucket, directory)},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}


# -- credentials for a directory ---------------------------------------------------------------------------------------

LEAST_SECONDS = 900
"""AWS gives no session for less."""


class CannotMint(Exception):
    """Why no credential was made, for operators. `is_transient`: the cloud may give one later."""

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.is_transient = is_transient


@dataclass(frozen=True)
class Delegation:
    """By what a cloud gives credentials for a directory. `role_arn`, `external_id` and `uses_kms` are of AWS,
    `sts_endpoint` is the URL of its token service or of Google's, '' for the usual one.
    """

    role_arn: str = ""
    external_id: str = field(default="", repr=False)
    sts_endpoint: str = ""
    uses_kms: bool = False


@dataclass(frozen=True)
class Minted:
    """A credential. `member` and `fields` are those of the protocol's answer; `expires_ms` is the end that the cloud
    says; `key_end` is the end of the name of its key, for the audit log, '' where it has none.
    """

    member: str
    fields: Mapping[str, str] = field(repr=False)
    expires_ms: int
    key_end: str = ""
