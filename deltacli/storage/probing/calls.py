"""What a cloud adds to its calls for `doctor`: who calls, and which permissions are known without writing."""

from __future__ import annotations

from typing import Protocol

from deltacli.storage.objects.calls import ObjectCalls
from deltacli.storage.probing.subject import Granted, Identity, Permit

WRITING = ("create", "replace", "delete")


class ProbedCalls(Protocol):
    """The calls of a bucket or container, and their caller."""

    @property
    def kind(self) -> str: ...

    @property
    def calls(self) -> ObjectCalls: ...

    @property
    def names_of_permissions(self) -> dict[str, str]: ...

    def identity(self) -> Identity: ...

    def permits(self) -> dict[str, Permit]: ...


def unknown_without_writing(why: str) -> dict[str, Permit]:
    """Return the permissions to write of a store that cannot be asked for them."""
    return {name: Permit(Granted.UNKNOWN, why) for name in WRITING}
