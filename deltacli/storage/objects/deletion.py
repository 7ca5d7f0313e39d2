"""Deletion of many objects, in bulk requests where possible.

Some keys cannot be part of a bulk request, for example keys with control characters in the XML of S3. Some stores
support no bulk requests at all. Such objects are deleted one by one, in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.core.pools import ThreadPool
from deltacli.storage.objects.calls import ObjectCalls, call_store
from deltacli.storage.objects.http_errors import HttpError, find_temporary_cause
from deltacli.storage.outcomes import Deleted, Deletion, Failed, Missing
from deltacli.storage.repeat_condition import get_repeat_condition, may_send, repeat_only_while
from deltacli.storage.retry import DELETE_FIRST_WAIT, Retry

# Number of concurrent requests. It matters for stores whose bulk requests contain few objects.
_PARALLEL_REQUESTS = 16

# Number of paths that are read from the caller and deleted before the outcomes are yielded.
_BATCH_PATHS = 1_000

_NOT_SENT = Failed("the time limit for sending it was reached")


class _BulkOutcome(NamedTuple):
    """The result of one bulk request.

    Attributes:
        outcomes: The outcome of each path. If the store refuses bulk requests, there are none, and the objects are
            deleted one by one.
        busy: The paths to send again, because the store was overloaded.
        wait_seconds: The seconds to wait before they are sent again, as requested by the store.
    """

    outcomes: dict[str, Deletion]
    busy: Sequence[str] = ()
    wait_seconds: float = 0.0


class Deleter:
    """Deletes objects below a prefix.

    Repeating a deletion is safe: an object that is deleted already counts as deleted. So a bulk request is repeated
    completely after a temporary error. If the store reports temporary errors of single objects, only these are sent
    again.
    """

    def __init__(
        self, calls: ObjectCalls, retry: Retry, get_key: Callable[[str], str], get_uri: Callable[[str], str]
    ) -> None:
        """Create a deleter.

        Args:
            calls: The calls of the bucket.
            retry: The retry policy.
            get_key: Returns the key of a path.
            get_uri: Returns the URI of a path, for messages.
        """
        self._calls = calls
        self._retry = retry
        self._get_key = get_key
        self._get_uri = get_uri

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete objects, and yield the outcome of each path in the order of `paths`, which is read lazily."""
        path_iterator = iter(paths)
        with ThreadPool(_PARALLEL_REQUESTS, thread_name_prefix="deltacli-delete") as pool:
            while batch := list(islice(path_iterator, _BATCH_PATHS)):
                outcomes = self._delete_batch(pool, list(dict.fromkeys(batch)))
                yield from ((path, outcomes.get(path, _NOT_SENT)) for path in batch)

    def delete_one(self, path: str) -> Deletion:
        """Delete one object."""
        try:
            call_store(
                self._calls,
                self._retry,
                lambda: self._calls.delete(self._get_key(path)),
                self._get_uri(path),
                "deleted",
            )
        except FileMissing:
            return Missing()
        except (StorageFailed, UsageError) as error:
            return _build_failure(error)
        return Deleted()

    def _delete_batch(self, pool: ThreadPool, paths: list[str]) -> dict[str, Deletion]:
        """Delete objects with bulk requests, and then the remaining ones one by one.

        Returns:
            The outcome of each path. A path without an outcome was not sent, because the time limit for sending
            requests was reached.
        """
        may_repeat = get_repeat_condition()

        def send_bulk(part: list[str]) -> _BulkOutcome:
            with repeat_only_while(may_repeat):
                return self._delete_in_bulk(part)

        def delete_single(path: str) -> Deletion:
            with repeat_only_while(may_repeat):
                return self.delete_one(path) if may_send() else _NOT_SENT

        # A log may contain paths that are invalid as keys. Such objects cannot exist.
        outcomes: dict[str, Deletion] = {
            path: Missing() for path in paths if not self._calls.is_valid_key(self._get_key(path))
        }
        valid_paths = [path for path in paths if path not in outcomes]
        remaining = [path for path in valid_paths if self._can_delete_in_bulk(path)]
        size = self._calls.max_bulk_deletes
        for this_round in self._retry.rounds(DELETE_FIRST_WAIT):
            if not remaining or (this_round.number and not may_send()):
                break
            parts = [remaining[start : start + size] for start in range(0, len(remaining), size)]
            remaining = []
            for bulk in pool.map(send_bulk, parts):
                outcomes |= bulk.outcomes
                remaining += bulk.busy
                this_round.retry_after_seconds = max(this_round.retry_after_seconds, bulk.wait_seconds)
            # Stop here, because the next round would begin with a wait.
            if not remaining:
                break

        # The store may have refused a bulk request by now, which changes the result of `_can_delete_in_bulk`.
        single_paths = [path for path in valid_paths if path not in outcomes and not self._can_delete_in_bulk(path)]
        return outcomes | dict(zip(single_paths, pool.map(delete_single, single_paths), strict=True))

    def _delete_in_bulk(self, paths: list[str]) -> _BulkOutcome:
        """Send one bulk request. Report the outcome of each path, and the paths to send again."""
        paths_by_key = {self._get_key(path): path for path in paths}
        try:
            errors = call_store(
                self._calls,
                self._retry,
                lambda: self._calls.delete_in_bulk(list(paths_by_key)),
                self._get_uri(paths[0]),
                "deleted",
            )
        except StorageFailed as error:
            # If the store has just refused bulk requests, `_can_delete_in_bulk` is False now. Then these objects get no
            # outcome, and `_delete_batch` deletes them one by one.
            return _BulkOutcome({path: _build_failure(error) for path in paths if self._can_delete_in_bulk(path)})

        outcomes: dict[str, Deletion] = dict.fromkeys(paths, Failed("the store did not report its outcome"))
        busy: list[str] = []
        wait_seconds = 0.0
        for key, http_error in errors.items():
            path = paths_by_key[key]
            outcomes[path] = self._build_outcome(path, http_error)
            if http_error is not None and find_temporary_cause(http_error):
                busy.append(path)
                wait_seconds = max(wait_seconds, http_error.wait_seconds)
        if busy:
            self._retry.slow_down(self._calls.endpoint)
        return _BulkOutcome(outcomes, busy, wait_seconds)

    def _build_outcome(self, path: str, http_error: HttpError | None) -> Deletion:
        """Return the outcome of one object in a bulk request."""
        if http_error is None:
            return Deleted()
        error = self._calls.translate_error(http_error, self._get_uri(path), "deleted")
        return Missing() if isinstance(error, FileMissing) else _build_failure(error)

    def _can_delete_in_bulk(self, path: str) -> bool:
        return self._calls.can_delete_in_bulk(self._get_key(path))


def _build_failure(error: StorageFailed | UsageError) -> Failed:
    """Return the outcome for an error. Its reason is the message of the store if there is one."""
    reason = error.facts.get("store says") or error.facts.get("seen", error.message)
    return Failed(reason, error if isinstance(error, PermissionRefused) else None)
