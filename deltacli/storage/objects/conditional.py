"""Conditional creation and conditional copies, and the proof that a store supports them.

A commit must be created by exactly one of several writers. So the request that creates it carries a condition, for
example `If-None-Match: *`, and the store refuses it if the key exists. The request is not repeated automatically:

    writer                            store
    PUT 7.json, if absent      --->   creates 7.json
                                x--   200, the response is lost
    PUT 7.json, if absent      --->   412: the key exists

After the second request, the writer would take its own commit for the commit of another writer, and add the same data
once more as version 8. Instead, each response leads to one of four actions:

    200                                     return Created
    412, or another code for "exists"       return Existed: this request, which was sent once, created nothing
    429, or "not executed" of the cloud     wait, and send the request again
    no response, 500, …                     return Unknown: the caller reads the object back

Existed is reliable because all earlier attempts of `create_object` were certainly not executed: none of them can have
created the existing object. After Unknown, `deltacli.changing.commit_sender` reads the commit file. The `txnId` in its
commitInfo shows which writer created it.

S3-compatible stores may ignore the condition and overwrite the object. So before the first write to an endpoint that
does not belong to a cloud provider, a probe object is created twice. If the second creation does not fail, the store
is read-only.

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

# Number of probes if their responses are lost.
_MAX_PROBES = 3
_PROBE_CONTENT = b"probe"

# Bytes per request if an object is copied through this process.
_BLOCK_BYTES = 64 << 20

# Addresses that have passed a probe in this process. An address is the endpoint and the bucket, followed by the kind
# of the request if it is not a simple write.
_proven_addresses: set[str] = set()

# Whether a store supports conditional copies, by address. Several threads start copying at the same time. The lock lets
# one of them send the probe, while the others wait for its result.
_copy_support: dict[str, bool] = {}
_copy_support_lock = Lock()


class ConditionUnsupported(Exception):
    """The store does not support the condition of a request, and has not executed it."""


def create_object(
    calls: ObjectCalls, retry: Retry, send: Callable[[], object], location: str, verb: str = "written"
) -> Creation:
    """Send a conditional request. Repeat it only if the store certainly has not executed it.

    Args:
        calls: The calls of the bucket.
        retry: The retry policy.
        send: Sends the request exactly once.
        location: The URI of the object, for error messages.
        verb: A participle for error messages, such as "written".

    Returns:
        Created, Existed or Unknown. Unknown means that the object may exist: the caller must read it back.

    Raises:
        ConditionUnsupported: If the store does not support the condition.
        StorageFailed: If the store refused the request. Nothing was created.
        UsageError: If a storage option is wrong. Nothing was created.
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

        # CreationAnswer.NOT_DONE: the next round sends the request again.
        this_round.retry_after_seconds = last_error.wait_seconds
    assert last_error is not None
    raise calls.translate_error(last_error, location, verb)


def probe_condition(
    address: str, path: str, create: Callable[[str], Creation], delete: Callable[[str], object]
) -> bool:
    """Determine by an experiment whether a store supports conditional creation.

    An object with a random name is created twice. The second request must fail. If a response is lost, the experiment
    proves nothing and is repeated with another name.

    Args:
        address: The endpoint and the bucket. A positive result is cached under this address.
        path: A path in the directory of the probe object. Permissions may be limited to this directory.
        create: Creates an object at a path if there is none.
        delete: Deletes the probe object.

    Returns:
        True if the second creation failed; False if it overwrote the object.

    Raises:
        StorageFailed: If every experiment was inconclusive.
    """
    if address in _proven_addresses:
        return True

    causes: list[str] = []
    for _ in range(_MAX_PROBES):
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
    """Create a probe object twice in the directory of a path, delete it, and return both outcomes."""
    directory = path.rpartition("/")[0]
    probe = f"{directory}/.{uuid4().hex}.probe".removeprefix("/")
    try:
        return create(probe), create(probe)
    finally:
        delete(probe)


def copy(calls: ObjectCalls, retry: Retry, source: CopySource, key: str, location: str, condition: str) -> Creation:
    """Copy an object conditionally.

    The store copies the object by itself if it supports conditions on copies. Otherwise this process reads the object
    and writes it again.

    Args:
        calls: The calls of the bucket.
        retry: The retry policy.
        source: The object to copy.
        key: The key of the copy.
        location: The URI of the copy, for error messages.
        condition: ABSENT, or the tag of the object to replace.
    """
    if _supports_conditional_copies(calls, retry, key, location):
        try:
            if calls.uploads is not None:
                outcome = calls.uploads.copy(source, key, condition)
                if outcome is not None:
                    return outcome
            return create_object(calls, retry, lambda: calls.copy(source, key, condition), location)
        except ConditionUnsupported:
            # Nothing was copied, so copy through this process.
            pass
    return _copy_through_process(calls, retry, source, key, location, condition)


def _supports_conditional_copies(calls: ObjectCalls, retry: Retry, key: str, location: str) -> bool:
    """Return whether the store refuses to copy an object to an existing key.

    The cloud providers do. Each bucket of another endpoint is probed once per process.
    """
    if calls.is_known_atomic:
        return True

    address = f"{calls.endpoint}/{location.split('/')[2]} by copies"
    with _copy_support_lock:
        if address not in _copy_support:
            _copy_support[address] = _probe_copies(calls, retry, key, location, address)
    return _copy_support[address]


def _probe_copies(calls: ObjectCalls, retry: Retry, key: str, location: str, address: str) -> bool:
    """Copy a small object to the same key twice. Return whether the second copy fails."""
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
    """Download an object to a temporary file, and create the copy from this file.

    Each block is requested with the tag of the source, so that the copy cannot consist of two different contents.
    """
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
