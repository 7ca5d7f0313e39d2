"""The store that is probed: requests that are sent once, and answers that are not hidden behind retries and guards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from deltacli.storage.objects.calls import ObjectCalls
from deltacli.storage.outcomes import Deletion

_WRITING = ("create", "replace", "delete")


class StoreCaller(Protocol):
    """The calls of a bucket or container, and their caller."""

    @property
    def kind(self) -> str: ...

    @property
    def calls(self) -> ObjectCalls: ...

    @property
    def permission_names(self) -> dict[str, str]: ...
    def identity(self) -> Identity: ...
    def permissions(self) -> dict[str, Permission]: ...


def unknown_write_permissions(why: str) -> dict[str, Permission]:
    """Return the permissions to write of a store that cannot be asked for them."""
    return {name: Permission(PermissionState.UNKNOWN, why) for name in _WRITING}


class Reply(StrEnum):
    """The answer of a store to one request."""

    DONE = "done"
    REFUSED = "refused"
    """The condition of the request does not hold."""
    ABSENT = "absent"
    DENIED = "denied"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"
    """No usable answer: the request may have been executed."""
    FAILED = "failed"


class ProbeAnswer(NamedTuple):
    """A reply, and the words of the store. `data` are the bytes of a read, `offset` where the first of them is."""

    reply: Reply
    text: str = ""
    data: bytes = b""
    offset: int = 0


@dataclass(frozen=True)
class Identity:
    """The sender of the requests, without secrets. `name` is None where the store does not tell it;
    `source` is where the credentials come from; `chain` has the sources that were tried and their
    states, in order.
    """

    name: str | None
    source: str
    details: dict[str, str] = field(default_factory=dict)
    chain: dict[str, str] = field(default_factory=dict)


class PermissionState(StrEnum):
    """The state of a permission, as far as it is known."""

    YES = "granted"
    NO = "missing"
    UNKNOWN = "unknown"


class Permission(NamedTuple):
    """The state of one permission, and the reason."""

    state: PermissionState
    reason: str


class ProbedStore(Protocol):
    """A store under a root. Names are relative to the root, and are those of scratch files.

    Errors of the network raise StorageFailed. All methods but `create` and `replace` are repeated
    after passing errors.
    """

    @property
    def kind(self) -> str:
        """The kind of the store: local, s3, gcs, azure."""

    @property
    def endpoint(self) -> str:
        """The host that requests are sent to, '' for a local directory."""

    @property
    def permission_names(self) -> dict[str, str]:
        """The names that the store has for the permissions `list`, `read`, `create`, `replace` and `delete`."""

    def identity(self) -> Identity:
        """Return who sends the requests."""

    def permissions(self) -> dict[str, Permission]:
        """Return what is known about the permissions to create, replace and delete without writing."""

    def create(self, name: str, data: bytes) -> ProbeAnswer:
        """Create a file on the condition that it is absent, in one request."""

    def tag(self, name: str) -> str:
        """Return the tag of a file, '' where the store has none."""

    def replace(self, name: str, data: bytes, tag: str | None) -> ProbeAnswer:
        """Replace a file, on the condition that it has this tag; None: without a condition."""

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> ProbeAnswer:
        """Read a file, or a range of it with both ends, as the store sends it; with a tag only if the file has it."""

    def modified_ms(self, name: str) -> int:
        """Return when the store says that a file was written."""

    def names(self, prefix: str, start: str = "") -> list[str]:
        """Return the names that begin with `prefix`, from `start` on, in the order of the store, in several pages."""

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        """Delete files as vacuum does, and return the outcome of each."""

    def has_refused_bulk_deletion(self, name: str) -> bool:
        """Return True where the store has refused to delete several files with one request."""
