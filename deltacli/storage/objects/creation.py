"""Creating an object by one conditional request, and whether an endpoint that is no cloud does so atomically."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from deltacli.errors import StorageFailed
from deltacli.storage.objects.calls import ObjectCalls
from deltacli.storage.objects.faults import Sent, fate_of_create
from deltacli.storage.objects.http import HttpFault
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown
from deltacli.storage.retry import CREATE_FIRST_WAIT, Retry


class ConditionUnsupported(Exception):
    """The store refuses the condition."""


def create(calls: ObjectCalls, retry: Retry, send: Callable[[], object], place: str, what: str = "written") -> Creation:
    """Send one conditional request; repeat it only after an answer that nothing was done. Raises ConditionUnsupported,
    and the error of deltacli for a refusal.
    """
    fault: HttpFault | None = None
    for _ in retry.rounds(CREATE_FIRST_WAIT):
        try:
            with retry.watched(calls.endpoint):
                send()
            return Created()
        except HttpFault as caught:
            fault = caught
        match fate_of_create(fault, calls.dialect):
            case Sent.EXISTS:
                return Existed()
            case Sent.UNKNOWN:
                return Unknown(calls.translated(fault, place, what).facts.get("store says", str(fault)))
            case Sent.UNSUPPORTED:
                raise ConditionUnsupported from fault
            case Sent.REFUSED:
                break
    assert fault is not None
    raise calls.translated(fault, place, what)


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
