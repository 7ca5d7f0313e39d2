"""Whether an endpoint that is not the cloud itself creates objects atomically."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from deltacli.errors import StorageFailed
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown

_ATTEMPTS = 3

_proven: set[str] = set()
"""Addresses of buckets and containers that this process has tested."""


def honours_condition(
    address: str, path: str, create: Callable[[str], Creation], delete: Callable[[str], object]
) -> bool:
    """Create an object with a random name next to a path twice; the second request must fail. `address` names endpoint
    and bucket, which are tested once per process. A lost answer proves nothing, so that other names are tried then.
    """
    if address in _proven:
        return True
    causes: list[str] = []
    for _ in range(_ATTEMPTS):
        match _try(path, create, delete):
            case (Created(), Existed()):
                _proven.add(address)
                return True
            case (Created(), Created()):
                return False
            case outcomes:
                causes = [outcome.cause for outcome in outcomes if isinstance(outcome, Unknown)]
    raise StorageFailed(
        f"cannot determine whether {address} can create files atomically",
        facts={"store says": "; ".join(causes) or "the name of the probe exists"},
    )


def _try(path: str, create: Callable[[str], Creation], delete: Callable[[str], object]) -> tuple[Creation, Creation]:
    directory = path.rpartition("/")[0]
    probe = f"{directory}/.{uuid4().hex}.probe" if directory else f".{uuid4().hex}.probe"
    try:
        return create(probe), create(probe)
    finally:
        delete(probe)
