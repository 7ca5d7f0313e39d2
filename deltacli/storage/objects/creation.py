"""Creating and copying an object by one conditional request, and whether an endpoint that is no cloud honours the
condition.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4

from deltacli.core.errors import StorageFailed
from deltacli.storage.objects.calls import ABSENT, ObjectCalls, Source, ask
from deltacli.storage.objects.contents import Body
from deltacli.storage.objects.faults import Sent, fate_of_create
from deltacli.storage.objects.http import HttpFault
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown
from deltacli.storage.retry import CREATE_FIRST_WAIT, Retry

_ATTEMPTS = 3
_BLOCK_BYTES = 64 << 20
_PROBE = b"probe"

_proven: set[str] = set()
"""Addresses of buckets and containers, and of copies within them, that have passed the test in this process."""
_tested: dict[str, bool] = {}
"""The same for copies, with the result of the test."""


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


def copy(calls: ObjectCalls, retry: Retry, source: Source, key: str, place: str, condition: str) -> Creation:
    """Copy an object on the condition of `ObjectCalls.copy`: by the store, or where it ignores conditions on copies,
    through this process.
    """
    if _honours_condition(calls, retry, key, place):
        try:
            uploads = calls.uploads
            if uploads is not None and (outcome := uploads.copy(source, key, condition)) is not None:
                return outcome
            return create(calls, retry, lambda: calls.copy(source, key, condition), place)
        except ConditionUnsupported:
            pass
    return _through_here(calls, retry, source, key, place, condition)


def _honours_condition(calls: ObjectCalls, retry: Retry, key: str, place: str) -> bool:
    """Return whether the store refuses to copy to a name that exists; tested once per bucket of an endpoint that is
    not the cloud itself.
    """
    if calls.is_known_atomic:
        return True
    address = f"{calls.endpoint}/{place.split('/')[2]} by copies"
    if address not in _tested:
        _tested[address] = _passes_test(calls, retry, key, place, address)
    return _tested[address]


def _passes_test(calls: ObjectCalls, retry: Retry, key: str, place: str, address: str) -> bool:
    directory = key.rpartition("/")[0]
    origin = Source(f"{directory}/.{uuid4().hex}.probe".removeprefix("/"), "", len(_PROBE))

    def make(probe: str) -> Creation:
        return create(calls, retry, lambda: calls.copy(origin, probe, ABSENT), place)

    def delete(probe: str) -> None:
        with suppress(StorageFailed):
            ask(calls, retry, lambda: calls.delete(probe), place, "deleted")

    try:
        ask(calls, retry, lambda: calls.write(origin.key, Body(_PROBE), None), place, "written")
        return honours_condition(address, key, make, delete)
    except (ConditionUnsupported, StorageFailed):
        return False
    finally:
        delete(origin.key)


def _through_here(calls: ObjectCalls, retry: Retry, source: Source, key: str, place: str, condition: str) -> Creation:
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix="deltacli-copy-") as file:
        for start in range(0, source.size_bytes, _BLOCK_BYTES):
            end = min(start + _BLOCK_BYTES, source.size_bytes) - 1
            get = partial(calls.get, source.key, f"bytes={start}-{end}", source.tag, source.version_id)
            file.write(ask(calls, retry, get, place, "copied").data)
        file.flush()
        body, uploads = Body(file.name), calls.uploads
        if condition == ABSENT and uploads is not None and (outcome := uploads.create(key, body)) is not None:
            return outcome
        return create(calls, retry, lambda: calls.write(key, body, condition), place)
