"""Retry failed requests within a time budget, and tell the user about delays.

`Retry.call` retries idempotent requests: reads, deletions, and unconditional writes.

A conditional write, such as the creation of a commit, must not be retried after its response was lost.
The first request may have created the object. The second request would then fail as if another writer
had created it:

    PUT 42.json  If-None-Match: *     the store creates the object, the response is lost
    PUT 42.json  If-None-Match: *     412 Precondition Failed, because the object exists

Conditional writes and bulk deletions use `Retry.rounds`. Their callers decide after each response
whether the request may be sent again. A conditional write may only be sent again if the response says
that the store did not execute it.

See docs/decisions/0009-three-outcomes-of-a-create.md and 0066-one-retry-budget-per-run.md.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, TypeVar

from deltacli.core.errors import parameter
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.repeat_condition import may_send
from deltacli.storage.request_rate import RequestRate
from deltacli.storage.tally import Tally

Result = TypeVar("Result")

# HTTP statuses of temporary errors, for stores, Delta Sharing servers and webhooks.
TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})

# If the body of a response breaks off, this many requests for it count as one failed attempt.
BODY_ATTEMPTS = 3

# The wait before the second round of a request in seconds. It doubles with each further round.
CREATE_FIRST_WAIT = 0.1
DELETE_FIRST_WAIT = 0.2
_ROUNDS = 5

# The wait before the second attempt of a call in seconds. It doubles with each further attempt, up to
# the second value.
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0

# Retries are only noted if errors occur for longer than this.
QUIET_SECONDS = 5.0

# A request without an error is noted if it takes longer than this.
_SLOW_SECONDS = 15.0

_SECONDS_BETWEEN_NOTES = 30.0
_SECONDS_BETWEEN_LOOKS = 1.0

# A waiting thread checks this often whether the run was interrupted.
_LONGEST_SLEEP = 0.25

# Causes of errors after which fewer requests are sent to the host.
_TOO_BUSY = ("HTTP 429", "HTTP 503")

# The beginning of the note on an exception that says how often the call was attempted.
_TRIED = "tried: "


class _RunningRequest(NamedTuple):
    """A request that was sent and has not finished.

    Attributes:
        host: The host that received it.
        started_at: The time of the policy's clock.
    """

    host: str
    started_at: float


@dataclass
class Round:
    """One attempt of a request, in the loop over `Retry.rounds`.

    Attributes:
        number: 0 for the first attempt.
        retry_after_seconds: How long the server asks to wait before the next attempt. The caller sets
            it before it continues the loop.
    """

    number: int
    retry_after_seconds: float = 0.0


class Retry:
    """The retry policy of a run, shared by all of its stores and threads. Thread-safe.

    Attributes:
        budget_seconds: How long a call is retried, from its first error.
        is_explicit: Whether the user has set the budget. It then takes precedence over the number of
            attempts in environment variables, such as `AWS_MAX_ATTEMPTS`.
        tally: Counts the requests of the run.
    """

    def __init__(
        self,
        budget_seconds: float = RETRY_BUDGET.total_seconds(),
        *,
        is_explicit: bool = False,
        note: Callable[[str], None] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] | None = None,
        is_watching: bool = True,
    ) -> None:
        """Create a policy.

        Args:
            budget_seconds: How long a call is retried, from its first error.
            is_explicit: Whether the user has set the budget.
            note: Receives a line of text about a delay. None: no notes, and no thread that watches
                slow requests.
            is_stopping: Returns True after the run was interrupted. Then nothing is retried.
            clock: Returns the time in seconds. Only differences count.
            pause: Waits for a number of seconds.
            is_watching: Whether a thread notes requests that take long.
        """
        self.budget_seconds = budget_seconds
        self.is_explicit = is_explicit
        self.tally = Tally()
        self._note = note
        self._is_stopping = is_stopping
        self._clock = clock
        self._wait = pause or self._wait_in_slices
        self._is_watching = is_watching and note is not None

        # Protects all attributes below.
        self._lock = Lock()
        # Running requests by their numbers.
        self._running: dict[int, _RunningRequest] = {}
        self._request_count = 0
        self._watcher: Thread | None = None
        # When the current series of errors began, over all hosts.
        self._first_error_at: float | None = None
        self._last_error_at = 0.0
        self._noted_at: float | None = None
        self._rates: defaultdict[str, RequestRate] = defaultdict(RequestRate)
        self._shared: dict[Hashable, Any] = {}

    def get_shared(self, store: str, options: Mapping[str, str], make: Callable[[], Result]) -> Result:
        """Return an object that all tables in a bucket share in this run, such as the HTTP client.

        Args:
            store: The URI of the bucket.
            options: Storage options. Tables with other options do not share the object.
            make: Creates the object at the first call. It must not send requests.
        """
        key = (store, *sorted(options.items()))
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            shared: Result = self._shared[key]
            return shared

    def rounds(self, first_wait: float) -> Iterator[Round]:
        """Yield up to five attempts of a request, and wait between them.

        The caller sends the request in the loop. It leaves the loop if the request has succeeded or
        must not be sent again. Otherwise it sets `retry_after_seconds` and continues:

            for this_round in retry.rounds(CREATE_FIRST_WAIT):
                response = send()
                if response.status != 429:
                    break
                this_round.retry_after_seconds = response.retry_after_seconds

        There are fewer attempts if the server asks for longer waits than the budget in total.

        Args:
            first_wait: Seconds before the second attempt. The wait doubles with each attempt.
        """
        total_retry_after = 0.0
        this_round = Round(0)
        yield this_round
        for number in range(1, _ROUNDS):
            retry_after = this_round.retry_after_seconds
            total_retry_after += retry_after
            if total_retry_after > self.budget_seconds:
                return
            self._wait(max(first_wait * 2 ** (number - 1), retry_after))
            this_round = Round(number)
            yield this_round

    def call(
        self,
        send: Callable[[], Result],
        *,
        host: str,
        errors: tuple[type[Exception], ...],
        temporary_cause: Callable[[Exception], str | None],
        max_attempts: int | None = None,
        retry_after: Callable[[Exception], float] = lambda _: 0.0,
    ) -> Result:
        """Send a request, and retry it after temporary errors.

        Args:
            send: Sends an idempotent request and returns its result.
            host: The host that receives the request.
            errors: Exceptions that may be temporary. All others are raised immediately.
            temporary_cause: Returns the cause of a temporary error, such as `HTTP 503`; None if the
                error is permanent.
            max_attempts: The maximum number of attempts. None: only the budget limits them.
            retry_after: Returns the seconds that the server asks to wait after an error.

        Raises:
            Exception: The last error, if it is permanent, or the budget or the attempts are used up.
                Its notes contain the number of attempts (`describe_attempts`).
        """
        attempts = 0
        first_error_at = 0.0
        while True:
            attempts += 1
            try:
                with self.track_request(host):
                    return send()
            except errors as error:
                cause = temporary_cause(error)
                now = self._clock()
                if cause is None:
                    raise
                if cause.startswith(_TOO_BUSY):
                    self.slow_down(host)
                if attempts == 1:
                    first_error_at = now

                retry_after_seconds = retry_after(error)
                wait_seconds = max(_compute_backoff(attempts), retry_after_seconds)
                # Do not start a wait that would end after the budget.
                is_over_budget = now + wait_seconds - first_error_at > self.budget_seconds
                if attempts == max_attempts or is_over_budget or self._is_stopping():
                    # Mention the wait that the server asks for if it alone exceeds the budget.
                    refused_seconds = retry_after_seconds if retry_after_seconds > self.budget_seconds else 0.0
                    error.add_note(_format_attempts(attempts, now - first_error_at, refused_seconds))
                    raise

                self._note_error(host, cause, now)
                self._wait(wait_seconds)

                # The operation may have reached its time limit during the wait.
                if not may_send():
                    error.add_note(_format_attempts(attempts, self._clock() - first_error_at))
                    raise

    @contextmanager
    def track_request(self, host: str) -> Iterator[None]:
        """Limit the rate of requests to a host, and watch the request that the block sends.

        If the host was too busy, wait before the block. If the block takes long, write a note while it
        is running.
        """
        seconds_to_wait = self._get_rate(host).wait(self._clock())
        if seconds_to_wait > 0:
            self._wait(seconds_to_wait)
        if not self._is_watching:
            yield
            return

        with self._lock:
            self._request_count += 1
            number = self._request_count
            self._running[number] = _RunningRequest(host, self._clock())
            if self._watcher is None:
                self._watcher = Thread(target=self._watch, name="deltacli-waiting", daemon=True)
                self._watcher.start()
        try:
            yield
        finally:
            with self._lock:
                del self._running[number]

    def now(self) -> float:
        """Return the time of the policy's clock in seconds."""
        return self._clock()

    def is_stopping(self) -> bool:
        """Return whether the run was interrupted."""
        return self._is_stopping()

    def wait(self, seconds: float) -> None:
        """Wait for a time, or until the run is interrupted."""
        self._wait(seconds)

    def slow_down(self, host: str) -> None:
        """Halve the rate of requests to a host, because it was too busy."""
        self._get_rate(host).slow_down(self._clock())

    def note_delay(self, text: str) -> None:
        """Write a note about a delay, unless a note was written in the last 30 seconds."""
        self._write_note(text, self._clock())

    def note_slow_request(self) -> None:
        """Write a note about the oldest running request, if it is slow."""
        now = self._clock()
        with self._lock:
            oldest = min(self._running.values(), key=lambda request: request.started_at, default=None)
        if oldest is not None and now - oldest.started_at >= _SLOW_SECONDS:
            self._write_note(f"a request to {oldest.host} has been running for {now - oldest.started_at:.0f} s", now)

    def _get_rate(self, host: str) -> RequestRate:
        with self._lock:
            return self._rates[host]

    def _note_error(self, host: str, cause: str, now: float) -> None:
        """Write a note about an error that is retried, if errors have occurred for some time.

        Errors belong to the same series if there are at most 30 seconds between them.
        """
        with self._lock:
            if self._first_error_at is None or now - self._last_error_at > _SECONDS_BETWEEN_NOTES:
                self._first_error_at = now
            self._last_error_at = now
            is_lasting = now - self._first_error_at >= QUIET_SECONDS
        if is_lasting:
            self._write_note(f"{host}: {cause}; retrying each request for up to {self.budget_seconds:g} s", now)

    def _write_note(self, text: str, now: float) -> None:
        """Write a note, unless a note was written in the last 30 seconds."""
        with self._lock:
            if self._noted_at is not None and now - self._noted_at < _SECONDS_BETWEEN_NOTES:
                return
            self._noted_at = now
        if self._note is not None:
            self._note(f"note: {text}")

    def _watch(self) -> None:
        """Note slow requests. This is the main function of a thread.

        The thread ends if no request is running for some seconds. The next request starts another one.
        """
        idle_seconds = 0.0
        timer = Event()
        while True:
            timer.wait(_SECONDS_BETWEEN_LOOKS)
            self.note_slow_request()
            with self._lock:
                idle_seconds = 0.0 if self._running else idle_seconds + _SECONDS_BETWEEN_LOOKS
                if idle_seconds > QUIET_SECONDS:
                    self._watcher = None
                    return

    def _wait_in_slices(self, seconds: float) -> None:
        """Wait in short sleeps, and stop when the run is interrupted.

        Worker threads do not receive signals, so a long sleep would delay the end of the run.
        """
        end = self._clock() + seconds
        while not self._is_stopping():
            remaining_seconds = end - self._clock()
            if remaining_seconds <= 0:
                return
            time.sleep(min(remaining_seconds, _LONGEST_SLEEP))


class ThrottledRetry(Retry):
    """A retry policy that also limits the number of requests per second to each host.

    The limit applies to all stores and threads that share the policy.
    """

    def __init__(self, budget_seconds: float, calls_per_second: float, **options: Any) -> None:  # Any: those of Retry
        """Create a policy.

        Args:
            budget_seconds: How long a call is retried, from its first error.
            calls_per_second: The maximum rate of requests to one host.
            **options: Other arguments of `Retry`.
        """
        super().__init__(budget_seconds, **options)
        self._seconds_apart = 1 / calls_per_second
        # The earliest time of the next request to each host.
        self._next_request_at: dict[str, float] = {}
        self._throttle_lock = Lock()

    @contextmanager
    def track_request(self, host: str) -> Iterator[None]:
        """Wait until the request may be sent, then do the same as `Retry.track_request`."""
        with self._throttle_lock:
            now = self._clock()
            send_at = max(now, self._next_request_at.get(host, now))
            self._next_request_at[host] = send_at + self._seconds_apart
        if send_at > now:
            self._wait(send_at - now)
        with super().track_request(host):
            yield


def describe_attempts(error: BaseException) -> dict[str, str]:
    """Return the number of attempts of the call that raised an error, as facts of an error message.

    An example is `{"tried": "4 times in 12 s (--retry-budget)"}`. Empty if the call was not retried.
    """
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_TRIED)]
    return {"tried": notes[-1].removeprefix(_TRIED)} if notes else {}


def _format_attempts(attempts: int, seconds: float, refused_wait_seconds: float = 0.0) -> str:
    """Return the note for an exception after the last attempt.

    Args:
        attempts: The number of attempts.
        seconds: The time from the first error to the last one.
        refused_wait_seconds: The wait that the server asks for, if it exceeds the budget; 0 otherwise.
    """
    budget = parameter("open_table.retry_budget")
    times = "once" if attempts == 1 else f"{attempts} times in {seconds:.0f} s ({budget})"
    if refused_wait_seconds:
        times += (
            f"; the server asks for a wait of {refused_wait_seconds:,.0f} s, longer than the retry budget ({budget})"
        )
    return f"{_TRIED}{times}"


def _compute_backoff(attempts: int) -> float:
    """Return the seconds to wait before the next attempt.

    The time doubles with each attempt. It is random, so that many threads do not retry at the same
    time.
    """
    from random import SystemRandom

    # Limit the exponent: a float overflows after about 1,000 attempts.
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempts, 20))
    return SystemRandom().uniform(longest / 2, longest)
