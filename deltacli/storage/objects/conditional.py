"""Creating and copying an object by one conditional request, and proof that a store honours the condition.

A creation is sent once. Its answer is one of four things:

    200                          Created
    412, the name exists         Existed
    "nothing was done" (429 …)   it is sent again, after a wait
    no answer, 500 …             Unknown: the caller reads the object back

Stores that are compatible with S3 may ignore the condition and overwrite. On an endpoint that is
not a cloud's own, a probe object is created twice before the first write: unless the second
creation fails, the store is read-only.

See docs/decisions/0008-conditional-create-or-read-only.md and 0009-three-outcomes-of-a-create.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from uuid import uuid4

from deltacli.core.errors import StorageFailed
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT, CopySource, ObjectCalls, call_store
from deltacli.storage.objects.dialect import CreationAnswer, classify_failed_creation
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown
from deltacli.storage.retry import CREATE_FIRST_WAIT, Retry

# How often a store is probed whose answers get lost.
_MOST_PROBES = 3
_PROBE_CONTENT = b"probe"

# Bytes of an object that are in memory at a time when it is copied through this process.
_BLOCK_BYTES = 64 << 20

# Addresses that have passed the probe in this process: of buckets and containers, and of copies
# within them.
_proven_addresses: set[str] = set()

# Results of the probe for copies, by address. Many threads begin to copy together, and one of them
# makes the probe.
_copy_probes: dict[str, bool] = {}
_probing_copies = Lock()


class ConditionUnsupported(Exception):
    """The store refuses the condition."""


def create_object(
    calls: ObjectCalls, retry: Retry, send: Callable[[], object], location: str, verb: str = "written"
) -> Creation:
    """Send a conditional request, and again only after an answer that nothing was done.

    Args:
        calls: The calls of the bucket.
        retry: The retry policy.
        send: Sends the request once.
        location: The URI of the object, for messages.
        verb: What could not be done to it, as a participle.

    Raises:
        ConditionUnsupported: If the store does not know the condition.
        StorageFailed: If nothing was created.
        UsageError: If nothing was created because of a storage option.
    """
    last_error: HttpError | None = None
    for this_round in retry.rounds(CREATE_FIRST_WAIT):
        try:
            with retry.track_request(calls.endpoint):
                send()
            return Created()
        except HttpError as error:
            last_error = error

        match classify_failed_creation(last_error, calls.dialect):
            case CreationAnswer.EXISTS:
                return Existed()
            case CreationAnswer.UNKNOWN:
                cause = calls.translate_error(last_error, location, verb).facts.get("store says", str(last_error))
                return Unknown(cause)
            case CreationAnswer.UNSUPPORTED:
                raise ConditionUnsupported from last_error
            case CreationAnswer.REFUSED:
                break
        this_round.retry_after_seconds = last_error.wait_seconds
    assert last_error is not None
    raise calls.translate_error(last_error, location, verb)


def probe_condition(
    address: str, path: str, create: Callable[[str], Creation], delete: Callable[[str], object]
) -> bool:
    """Return whether a store honours the condition that a name is absent.

    An object with a random name is created twice, and the second request must fail. A lost answer
    proves nothing; then other names are tried. The result is remembered for the process if it is
    positive.

    Args:
        address: Endpoint and bucket, as which the result is remembered.
        path: The probe is created beside it, because permissions may be limited to a directory.
        create: Creates an object on the condition that it is absent.
        delete: Deletes the probe.

    Raises:
        StorageFailed: If the answers do not show it.
    """
    if address in _proven_addresses:
        return True

    causes: list[str] = []
    for _ in range(_MOST_PROBES):
        match _create_twice(path, create, delete):
            case (Created(), Existed()):
                _proven_addresses.add(address)
                return True
            case (Created(), Created()):
                return False
            case outcomes:
                causes = [outcome.cause for outcome in outcomes if isinstance(outcome, Unknown)]
    raise StorageFailed(
        f"cannot determine whether {address} can create files atomically",
        facts={"store says": "; ".join(causes) or "the name of the probe exists"},
    )


def _create_twice(
    path: str, create: Callable[[str], Creation], delete: Callable[[str], object]
) -> tuple[Creation, Creation]:
    """Create a probe beside a path twice, delete it, and return both outcomes."""
    directory = path.rpartition("/")[0]
    probe = f"{directory}/.{uuid4().hex}.probe".removeprefix("/")
    try:
        return create(probe), create(probe)
    finally:
        delete(probe)


def copy(calls: ObjectCalls, retry: Retry, source: CopySource, key: str, location: str, condition: str) -> Creation:
    """Copy an object conditionally: by the store, or through this process if the store ignores conditions on copies.

    Args:
        calls: The calls of the bucket.
        retry: The retry policy.
        source: What to copy.
        key: The key of the copy.
        location: The URI of the copy, for messages.
        condition: ABSENT, or the tag of the object to replace.
    """
    if _honours_condition_of_copies(calls, retry, key, location):
        try:
            if calls.uploads is not None:
                outcome = calls.uploads.copy(source, key, condition)
                if outcome is not None:
                    return outcome
            return create_object(calls, retry, lambda: calls.copy(source, key, condition), location)
        except ConditionUnsupported:
            pass
    return _copy_through_process(calls, retry, source, key, location, condition)


def _honours_condition_of_copies(calls: ObjectCalls, retry: Retry, key: str, location: str) -> bool:
    """Return whether the store refuses to copy to an existing name; probed once per bucket of a foreign endpoint."""
    if calls.is_known_atomic:
        return True

    address = f"{calls.endpoint}/{location.split('/')[2]} by copies"
    with _probing_copies:
        if address not in _copy_probes:
            _copy_probes[address] = _probe_copies(calls, retry, key, location, address)
    return _copy_probes[address]


def _probe_copies(calls: ObjectCalls, retry: Retry, key: str, location: str, address: str) -> bool:
    """Copy a small object to one name twice. The second copy must fail."""
    directory = key.rpartition("/")[0]
    original = CopySource(f"{directory}/.{uuid4().hex}.probe".removeprefix("/"), "", len(_PROBE_CONTENT))

    def copy_original(probe: str) -> Creation:
        return create_object(calls, retry, lambda: calls.copy(original, probe, ABSENT), location)

    def delete(probe: str) -> None:
        with suppress(StorageFailed):
            call_store(calls, retry, lambda: calls.delete(probe), location, "deleted")

    try:
        call_store(calls, retry, lambda: calls.write(original.key, Body(_PROBE_CONTENT), None), location, "written")
        return probe_condition(address, key, copy_original, delete)
    except (ConditionUnsupported, StorageFailed):
        return False
    finally:
        delete(original.key)


def _copy_through_process(
    calls: ObjectCalls, retry: Retry, source: CopySource, key: str, location: str, condition: str
) -> Creation:
    """Read an object into a temporary file and write it under another key."""
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix="deltacli-copy-") as file:
        for start in range(0, source.size_bytes, _BLOCK_BYTES):
            end = min(start + _BLOCK_BYTES, source.size_bytes) - 1
            get_block = partial(calls.get, source.key, f"bytes={start}-{end}", source.tag, source.version_id)
            file.write(call_store(calls, retry, get_block, location, "copied").data)
        file.flush()

        body = Body(file.name)
        if condition == ABSENT and calls.uploads is not None:
            outcome = calls.uploads.create(key, body)
            if outcome is not None:
                return outcome
        return create_object(calls, retry, lambda: calls.write(key, body, condition), location)
