"""Repeating requests that failed temporarily, within a time budget, and notes about delays.

Only idempotent requests are repeated by `Retry.call`: reads, deletions, and writes that replace.

A conditional creation must not be. If the answer to it is lost, the object may exist, and a second
request would find it and take it for another writer's:

    PUT 42.json  If-None-Match: *     the store creates it; the answer is lost
    PUT 42.json  If-None-Match: *     412: "another writer was faster", although it was us

It is repeated in `Retry.rounds`, and only after an answer that nothing was done. So are the objects
of a bulk deletion that the store was too busy for: the answer names them.

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

# HTTP statuses after which a request may be repeated, if repeating it is harmless: of stores,
# sharing servers and webhooks.
TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})

# Requests for a file whose content breaks off, before that counts as one error of the call.
BODY_ATTEMPTS = 3

# Seconds before the second round. Each further wait is twice as long.
CREATE_FIRST_WAIT = 0.1
DELETE_FIRST_WAIT = 0.2
_ROUNDS = 5

# Seconds before the second attempt of a call, and the longest wait between two attempts.
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0

# Trouble that is over sooner is not worth a note.
QUIET_SECONDS = 5.0

# A single request that takes longer is noted while it is running.
_SLOW_SECONDS = 15.0

_SECONDS_BETWEEN_NOTES = 30.0
_SECONDS_BETWEEN_LOOKS = 1.0
_LONGEST_SLEEP = 0.25

# How the causes begin by which a host asks for fewer requests.
_TOO_BUSY = ("HTTP 429", "HTTP 503")

_TRIED = "tried: "


class _RunningRequest(NamedTuple):
    host: str
    began: float


@dataclass
class Round:
    """One round of `Retry.rounds`.

    Attributes:
        number: 0 for the first round.
        retry_after_seconds: Set by the caller: how long the server wants to be left alone before
            the next round.
    """

    number: int
    retry_after_seconds: float = 0.0


class Retry:
    """The retry policy of one run, shared by all of its stores and threads.

    Attributes:
        budget_seconds: How long a call is repeated, counted from its first error.
        is_explicit: Whether the user chose the budget. It then overrides limits of attempts in the
            environment.
        tally: The requests that were sent.
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
        """Make a policy.

        Args:
            budget_seconds: How long a call is repeated.
            is_explicit: Whether the user chose the budget.
            note: Receives one line of text about a delay. Without it nothing is noted, and no
                thread is started.
            is_stopping: Returns True once the run was interrupted. Nothing is repeated from then
                on.
            clock: Returns seconds.
            pause: Waits for a number of seconds.
            is_watching: Whether a thread notes requests that take long while they are running.
        """
        self.budget_seconds = budget_seconds
        self.is_explicit = is_explicit
        self.tally = Tally()
        self._note = note
        self._is_stopping = is_stopping
        self._clock = clock
        self._wait = pause or self._wait_in_slices
        self._is_watching = is_watching and note is not None

        # Guards everything below.
        self._lock = Lock()
        self._running: dict[int, _RunningRequest] = {}
        self._request_count = 0
        self._watcher: Thread | None = None
        self._trouble_since: float | None = None
        self._last_error_at = 0.0
        self._noted_at: float | None = None
        self._rates: defaultdict[str, RequestRate] = defaultdict(RequestRate)
        self._shared: dict[Hashable, Any] = {}

    def get_shared(self, store: str, options: Mapping[str, str], make: Callable[[], Result]) -> Result:
        """Return what all tables of this run in one bucket share: the client and its connections.

        Args:
            store: The address of the bucket.
            options: Storage options. Other options make another client.
            make: Makes it on first use. Sends no request.
        """
        key = (store, *sorted(options.items()))
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            shared: Result = self._shared[key]
            return shared

    def rounds(self, first_wait: float) -> Iterator[Round]:
        """Yield a few rounds of a request whose answers the caller judges itself, waiting longer before each.

        The caller leaves the loop when the request has succeeded, or must not be repeated. Before
        the next round it says in `retry_after_seconds` for how long the server asked to be left
        alone. The rounds end early if all of these waits together are longer than the budget.
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
        """Return what `send` returns, repeating it after temporary errors.

        Args:
            send: Sends an idempotent request.
            host: The host that it is sent to.
            errors: Errors that may be temporary. Any other is raised at once.
            temporary_cause: Returns the cause of a temporary error; None for a permanent one.
            max_attempts: Limit of attempts; None: limited by the budget only.
            retry_after: Returns for how many seconds the server asks to be left alone after an
                error.

        Raises:
            Exception: The last error, once the budget or the attempts are used up. Its notes say
                how often it was tried (`describe_attempts`).
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
                wait_seconds = max(_backoff(attempts), retry_after_seconds)
                # A wait that ends after the budget is not begun.
                is_over_budget = now + wait_seconds - first_error_at > self.budget_seconds
                if attempts == max_attempts or is_over_budget or self._is_stopping():
                    # The server's wait is named only if it alone is longer than the budget.
                    refused_seconds = retry_after_seconds if retry_after_seconds > self.budget_seconds else 0.0
                    error.add_note(_format_attempts(attempts, now - first_error_at, refused_seconds))
                    raise

                self._note_error(host, cause, now)
                self._wait(wait_seconds)
                # A limit of the operation, such as the time of a permit to delete, may have been
                # reached meanwhile.
                if not may_send():
                    error.add_note(_format_attempts(attempts, self._clock() - first_error_at))
                    raise

    @contextmanager
    def track_request(self, host: str) -> Iterator[None]:
        """Wait while the host is too busy; then, while the block sends a request, note it if it takes long."""
        seconds_ahead = self._rate_of(host).wait(self._clock())
        if seconds_ahead > 0:
            self._wait(seconds_ahead)
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
        """Return the time of the policy's clock, in seconds."""
        return self._clock()

    def is_stopping(self) -> bool:
        """Return whether the run was interrupted."""
        return self._is_stopping()

    def wait(self, seconds: float) -> None:
        """Wait, or until the run is interrupted."""
        self._wait(seconds)

    def slow_down(self, host: str) -> None:
        """Send fewer requests to a host that was too busy, in all threads."""
        self._rate_of(host).slow_down(self._clock())

    def note_delay(self, text: str) -> None:
        """Write a note about a delay, unless there was one in the last half minute."""
        self._write_note(text, self._clock())

    def note_slow_request(self) -> None:
        """Write a note about the request that has been running longest, if it is slow."""
        now = self._clock()
        with self._lock:
            oldest = min(self._running.values(), key=lambda request: request.began, default=None)
        if oldest is not None and now - oldest.began >= _SLOW_SECONDS:
            self._write_note(f"a request to {oldest.host} has been running for {now - oldest.began:.0f} s", now)

    def _rate_of(self, host: str) -> RequestRate:
        with self._lock:
            return self._rates[host]

    def _note_error(self, host: str, cause: str, now: float) -> None:
        """Write a note about an error that is going to be repeated, if the trouble lasts for some time already."""
        with self._lock:
            if self._trouble_since is None or now - self._last_error_at > _SECONDS_BETWEEN_NOTES:
                self._trouble_since = now
            self._last_error_at = now
            is_lasting = now - self._trouble_since >= QUIET_SECONDS
        if is_lasting:
            self._write_note(f"{host}: {cause}; retrying each request for up to {self.budget_seconds:g} s", now)

    def _write_note(self, text: str, now: float) -> None:
        with self._lock:
            if self._noted_at is not None and now - self._noted_at < _SECONDS_BETWEEN_NOTES:
                return
            self._noted_at = now
        if self._note is not None:
            self._note(f"note: {text}")

    def _watch(self) -> None:
        """Note slow requests, in a thread of its own, until none has been running for some seconds."""
        idle_seconds = 0.0
        never = Event()
        while True:
            never.wait(_SECONDS_BETWEEN_LOOKS)
            self.note_slow_request()
            with self._lock:
                idle_seconds = 0.0 if self._running else idle_seconds + _SECONDS_BETWEEN_LOOKS
                if idle_seconds > QUIET_SECONDS:
                    self._watcher = None
                    return

    def _wait_in_slices(self, seconds: float) -> None:
        """Wait in short sleeps, because a worker thread receives no signals and has to look whether to stop."""
        end = self._clock() + seconds
        while not self._is_stopping():
            left = end - self._clock()
            if left <= 0:
                return
            time.sleep(min(left, _LONGEST_SLEEP))


class ThrottledRetry(Retry):
    """A policy that sends requests to a host at least a fixed time apart, over all threads and stores that share it."""

    def __init__(self, budget_seconds: float, calls_per_second: float, **options: Any) -> None:  # Any: those of Retry
        super().__init__(budget_seconds, **options)
        self._seconds_apart = 1 / calls_per_second
        self._next_turn: dict[str, float] = {}
        self._queue = Lock()

    @contextmanager
    def track_request(self, host: str) -> Iterator[None]:
        """Wait for the turn of a request, then do what `Retry` does."""
        with self._queue:
            now = self._clock()
            turn = max(now, self._next_turn.get(host, now))
            self._next_turn[host] = turn + self._seconds_apart
        if turn > now:
            self._wait(turn - now)
        with super().track_request(host):
            yield


def describe_attempts(error: BaseException) -> dict[str, str]:
    """Return how often a call was tried that ended with this error, as facts of a message; empty for one attempt."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_TRIED)]
    return {"tried": notes[-1].removeprefix(_TRIED)} if notes else {}


def _format_attempts(attempts: int, seconds: float, refused_wait_seconds: float = 0.0) -> str:
    """Return the note for a call that is given up.

    Args:
        attempts: How often it was tried.
        seconds: How long.
        refused_wait_seconds: A wait that the server asks for and that is longer than the budget; 0
            without.
    """
    budget = parameter("open_table.retry_budget")
    times = "once" if attempts == 1 else f"{attempts} times in {seconds:.0f} s ({budget})"
    if refused_wait_seconds:
        times += (
            f"; the server asks for a wait of {refused_wait_seconds:,.0f} s, longer than the retry budget ({budget})"
        )
    return f"{_TRIED}{times}"


def _backoff(attempts: int) -> float:
    """Return a random wait that doubles with each attempt, so that many threads do not retry at the same time."""
    from random import SystemRandom

    # The exponent is limited, because a float overflows after a thousand attempts.
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempts, 20))
    return SystemRandom().uniform(longest / 2, longest)
