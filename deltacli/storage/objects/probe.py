"""Whether an endpoint that is not the cloud itself creates objects atomically."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from deltacli.errors import StorageFailed
from deltacli.storage.base import Created, Creation, Deletion, Existed, Unknown


def honours_condition(
    uri: str, path: str, create: Callable[[str], Creation], delete: Callable[[str], Deletion]
) -> bool:
    """Create an object with a random name next to a path twice; the second request must fail."""
    directory = path.rpartition("/")[0]
    probe = f"{directory}/.{uuid4().hex}.probe" if directory else f".{uuid4().hex}.probe"
    try:
        outcomes = (create(probe), create(probe))
    finally:
        delete(probe)
    match outcomes:
        case (Created(), Existed()):
            return True
        case (Created(), Created()):
            return False
        case (first, second):
            causes = [outcome.cause for outcome in (first, second) if isinstance(outcome, Unknown)]
            raise StorageFailed(
                f"cannot determine whether {uri} can create files atomically",
                facts={"store says": "; ".join(causes) or "the name of the probe exists"},
            )
