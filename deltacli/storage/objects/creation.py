"""Creating an object by one conditional request."""

from __future__ import annotations

from collections.abc import Callable

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
