"""The interface of a store that is probed, and the answers of a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from deltacli.storage.objects.calls import ObjectCalls
from deltacli.storage.outcomes import Deletion

_WRITE_PERMISSIONS = ("create", "replace", "delete")


class Reply(StrEnum):
    """The answer of a store to one request.

    Attributes:
        DONE: The request succeeded.
        REFUSED: The condition of the request was not fulfilled, such as `If-None-Match: *`.
        ABSENT: The file does not exist.
        DENIED: Permission is missing.
        UNSUPPORTED: The store does not support the request.
        UNKNOWN: There was no usable answer. The store may have executed the request.
        FAILED: Any other error.
    """

    DONE = "done"
    REFUSED = "refused"
    ABSENT = "absent"
    DENIED = "denied"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"
    FAILED = "failed"


class ProbeAnswer(NamedTuple):
    """The answer to one request.

    Attributes:
        reply: The kind of answer.
        text: The error message of the store.
        data: The bytes of a read.
        offset: The offset of `data` in the file, according to the store.
    """

    reply: Reply
    text: str = ""
    data: bytes = b""
    offset: int = 0


@dataclass(frozen=True)
class Identity:
    """The identity that sends the requests. Contains no secrets.

    Attributes:
        name: The user, role or account; None if it is unknown.
        source: The origin of the credentials, such as an environment variable.
        details: More facts about the identity, by their label.
        chain: The sources of credentials in the order in which they are tried, each with its state.
    """

    name: str | None
    source: str
    details: dict[str, str] = field(default_factory=dict)
    chain: dict[str, str] = field(default_factory=dict)


class PermissionState(StrEnum):
    """Whether an identity has a permission."""

    YES = "granted"
    NO = "missing"
    UNKNOWN = "unknown"


class Permission(NamedTuple):
    """The state of one permission, and how it was determined."""

    state: PermissionState
    reason: str


class StoreCaller(Protocol):
    """Who sends the requests to a bucket or container, and which permissions that identity has."""

    @property
    def kind(self) -> str:
        """The kind of store: `s3`, `gcs` or `azure`."""

    @property
    def calls(self) -> ObjectCalls:
        """The requests of the bucket or container."""

    @property
    def permission_names(self) -> dict[str, str]:
        """The store's names of permissions (`ProbedStore.permission_names`)."""

    def identity(self) -> Identity:
        """Return the identity. Raises CredentialsMissing."""

    def permissions(self) -> dict[str, Permission]:
        """Return what is known about the write permissions without writing (`ProbedStore.permissions`)."""


def unknown_write_permissions(reason: str) -> dict[str, Permission]:
    """Return the write permissions of a store that does not report them."""
    return {name: Permission(PermissionState.UNKNOWN, reason) for name in _WRITE_PERMISSIONS}


class ProbedStore(Protocol):
    """A store that is probed with scratch files. File names are relative to the root of the store.

    `create` and `replace` send one request: a retry would change the result. All other methods retry
    temporary errors. Every method raises StorageFailed if the store cannot be reached.
    """

    @property
    def kind(self) -> str:
        """The kind of store: `local`, `s3`, `gcs` or `azure`."""

    @property
    def endpoint(self) -> str:
        """The host that receives the requests; empty for a local directory."""

    @property
    def permission_names(self) -> dict[str, str]:
        """The store's names of the permissions `list`, `read`, `create`, `replace` and `delete`.

        For S3, `list` is `s3:ListBucket`.
        """

    def identity(self) -> Identity:
        """Return who sends the requests. Raises CredentialsMissing."""

    def permissions(self) -> dict[str, Permission]:
        """Return what is known about the permissions `create`, `replace` and `delete` without writing."""

    def create(self, name: str, data: bytes) -> ProbeAnswer:
        """Create a file if it does not exist. REFUSED means that it exists."""

    def replace(self, name: str, data: bytes, tag: str | None) -> ProbeAnswer:
        """Write a file.

        Args:
            name: The file, which may exist.
            data: The new content.
            tag: Only replace a file that has this tag. None: write unconditionally.
        """

    def read_tag(self, name: str) -> str:
        """Return the tag of a file (ETag or generation); empty if the store has none."""

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> ProbeAnswer:
        """Read a file or a range of it. The data is returned exactly as the store sends it.

        Args:
            name: The file.
            first: The offset of the first byte; None for the whole file.
            last: The offset of the last byte, inclusive.
            tag: Only read a file that has this tag. Empty: read unconditionally.
        """

    def read_modified_ms(self, name: str) -> int:
        """Return the modification time of a file, by the clock of the store."""

    def list_names(self, prefix: str, start: str = "") -> list[str]:
        """Return the names of files in the order of the store. Several pages are requested.

        Args:
            prefix: The beginning of the names.
            start: The first name to return.
        """

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        """Delete files by the same requests as `vacuum`, and return the outcome of each."""

    def has_refused_bulk_deletion(self, name: str) -> bool:
        """Return whether the store has refused to delete several files with one request.

        Args:
            name: One of the files. A store may support it for some names only.
        """
