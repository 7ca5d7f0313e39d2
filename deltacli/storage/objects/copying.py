"""Copying an object within its store on a condition."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Lock
from uuid import uuid4

from deltacli.errors import StorageFailed
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT, ObjectCalls, Source, ask
from deltacli.storage.objects.creation import ConditionUnsupported, create, honours_condition
from deltacli.storage.outcomes import Creation
from deltacli.storage.retry import Retry

_BLOCK_BYTES = 64 << 20
_PROBE = b"probe"
_testing = Lock()
_tested: dict[str, bool] = {}
"""Addresses of buckets and containers that this process has tested."""


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
    with _testing:
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
