"""Deleting many objects of a store: in bulk requests, and alone those that no bulk request can name."""

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

# Concurrent requests, if one request takes few objects.
_PARALLEL_REQUESTS = 16

# How many paths are taken from the caller at a time.
_PATHS_AT_ONCE = 1_000

_NOT_SENT = Failed("the time limit for sending it was reached")


class _BulkOutcome(NamedTuple):
    """The answer to one bulk deletion.

    Attributes:
        outcomes: Outcome by path. An object that turned out to be deleted alone has none.
        busy: Paths to send again, because the store was too busy for them.
        wait_seconds: How long the store asks to be left alone before.
    """

    outcomes: dict[str, Deletion]
    busy: Sequence[str] = ()
    wait_seconds: float = 0.0


class Deleter:
    """Deletes objects below a prefix.

    A deletion is idempotent, so a bulk request may be repeated as a whole after a temporary error.
    If the store answers that it was too busy for some of the objects, only these are sent again.
    """

    def __init__(
        self, calls: ObjectCalls, retry: Retry, key_of: Callable[[str], str], uri_of: Callable[[str], str]
    ) -> None:
        """Make a deleter.

        Args:
            calls: The calls of the bucket.
            retry: The retry policy.
            key_of: Returns the key of a path.
            uri_of: Returns the URI of a path, for messages.
        """
        self._calls = calls
        self._retry = retry
        self._key_of = key_of
        self._uri_of = uri_of

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete objects and yield the outcome of each, in the given order. The paths are consumed lazily."""
        remaining = iter(paths)
        with ThreadPool(_PARALLEL_REQUESTS, thread_name_prefix="deltacli-delete") as pool:
            while batch := list(islice(remaining, _PATHS_AT_ONCE)):
                outcomes = self._delete_batch(pool, list(dict.fromkeys(batch)))
                yield from ((path, outcomes.get(path, _NOT_SENT)) for path in batch)

    def delete_one(self, path: str) -> Deletion:
        """Delete one object."""
        try:
            call_store(
                self._calls,
                self._retry,
                lambda: self._calls.delete(self._key_of(path)),
                self._uri_of(path),
                "deleted",
            )
        except FileMissing:
            return Missing()
        except (StorageFailed, UsageError) as error:
            return _failed(error)
        return Deleted()

    def _delete_batch(self, pool: ThreadPool, paths: list[str]) -> dict[str, Deletion]:
        """Delete objects in rounds of bulk requests, then one by one those that bulk requests cannot name.

        Returns:
            Outcome by path. A path without one was not sent, because the time limit for sending was reached.
        """
        may_repeat = get_repeat_condition()

        def send_bulk(part: list[str]) -> _BulkOutcome:
            with repeat_only_while(may_repeat):
                return self._delete_together(part)

        def send_alone(path: str) -> Deletion:
            with repeat_only_while(may_repeat):
                return self.delete_one(path) if may_send() else _NOT_SENT

        # The path of a log may be a name that the store cannot have. Such an object does not exist.
        outcomes: dict[str, Deletion] = {
            path: Missing() for path in paths if not self._calls.is_valid_key(self._key_of(path))
        }
        possible_paths = [path for path in paths if path not in outcomes]
        due = [path for path in possible_paths if self._can_delete_together(path)]
        size = self._calls.max_bulk_deletes
        for this_round in self._retry.rounds(DELETE_FIRST_WAIT):
            if not due or (this_round.number and not may_send()):
                break
            parts = [due[start : start + size] for start in range(0, len(due), size)]
            due = []
            for bulk in pool.map(send_bulk, parts):
                outcomes |= bulk.outcomes
                due += bulk.busy
                this_round.retry_after_seconds = max(this_round.retry_after_seconds, bulk.wait_seconds)
            if not due:
                break  # the next round would begin with a wait

        # Asked again, because a store may have refused bulk requests meanwhile.
        alone = [path for path in possible_paths if path not in outcomes and not self._can_delete_together(path)]
        return outcomes | dict(zip(alone, pool.map(send_alone, alone), strict=True))

    def _delete_together(self, paths: list[str]) -> _BulkOutcome:
        """Send one bulk deletion."""
        paths_by_key = {self._key_of(path): path for path in paths}
        try:
            errors = call_store(
                self._calls,
                self._retry,
                lambda: self._calls.delete_in_bulk(list(paths_by_key)),
                self._uri_of(paths[0]),
                "deleted",
            )
        except StorageFailed as error:
            # If the store refuses bulk requests, the objects have no outcome yet and are deleted
            # alone.
            return _BulkOutcome({path: _failed(error) for path in paths if self._can_delete_together(path)})

        outcomes: dict[str, Deletion] = dict.fromkeys(paths, Failed("the store did not report its outcome"))
        busy: list[str] = []
        wait_seconds = 0.0
        for key, http_error in errors.items():
            path = paths_by_key[key]
            outcomes[path] = self._outcome_of(path, http_error)
            if http_error is not None and find_temporary_cause(http_error):
                busy.append(path)
                wait_seconds = max(wait_seconds, http_error.wait_seconds)
        if busy:
            self._retry.slow_down(self._calls.endpoint)
        return _BulkOutcome(outcomes, busy, wait_seconds)

    def _outcome_of(self, path: str, http_error: HttpError | None) -> Deletion:
        """Return the outcome of one object of a bulk deletion."""
        if http_error is None:
            return Deleted()
        error = self._calls.translate_error(http_error, self._uri_of(path), "deleted")
        return Missing() if isinstance(error, FileMissing) else _failed(error)

    def _can_delete_together(self, path: str) -> bool:
        return self._calls.can_delete_in_bulk(self._key_of(path))


def _failed(error: StorageFailed | UsageError) -> Failed:
    """Return the outcome for an error: the words of the store, if there are any."""
    reason = error.facts.get("store says") or error.facts.get("seen", error.message)
    return Failed(reason, error if isinstance(error, PermissionRefused) else None)
