"""Calls of a store: repeated where they failed temporarily, within a time budget, with notes about delays; counted.

Only idempotent calls are retried by `Retry.call`: reads, deletes, and writes that replace. A conditional create must
not be: the second request would find the file of the first and take it for another writer's. It is retried in `rounds`,
and only after an answer that nothing was done; so are the objects of a bulk deletion that the store was too busy for.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from threading import Event, Lock, Thread, local
from typing import Any, NamedTuple, TypeVar

from deltacli.core.errors import parameter
from deltacli.storage.base import RETRY_BUDGET


class Call(StrEnum):
    """The kinds of calls that stores charge differently, in the order of reports."""

    LIST = "list"
    GET = "get"
    HEAD = "head"
    """Properties of an object."""
    PUT = "put"
    """Also the beginning, the parts and the completion of an upload."""
    DELETE = "delete"
    """Also a bulk deletion, which is one call."""


class Prices(NamedTuple):
    """The list prices of one cloud in US dollars per 1,000 calls. Calls without a price are free."""

    source: str
    per_thousand: Mapping[Call, float]

    def of(self, calls: Mapping[Call, int]) -> float:
        """Return the price of calls in US dollars."""
        return sum(count * self.per_thousand.get(call, 0.0) for call, count in calls.items()) / 1_000


_COMMON = {Call.LIST: 0.005, Call.PUT: 0.005, Call.GET: 0.0004, Call.HEAD: 0.0004}
S3_PRICES = Prices("public list price, S3 Standard in us-east-1, 2025-06", _COMMON)
GCS_PRICES = Prices("public list price, Standard storage in a single region, 2025-06", _COMMON)
AZURE_PRICES = Prices("public list price, hot tier with LRS in East US, 2025-06", _COMMON)


class HostTally:
    """The calls to one endpoint. `prices` is None for an endpoint that is not the cloud's own. Thread-safe."""

    def __init__(self, host: str, prices: Prices | None) -> None:
        self.host, self.prices = host, prices
        self.calls: Counter[Call] = Counter()
        self.bytes_read = self.bytes_written = 0
        self._lock = Lock()

    def sent(self, call: Call, size_bytes: int) -> None:
        with self._lock:
            self.calls[call] += 1
            self.bytes_written += size_bytes

    def received(self, size_bytes: int) -> None:
        with self._lock:
            self.bytes_read += size_bytes

    @property
    def price_usd(self) -> float | None:
        """Return an estimate of the price; None where the prices are unknown."""
        return None if self.prices is None else self.prices.of(self.calls)


class Tally:
    """The calls of one run, by endpoint. Thread-safe."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostTally] = {}
        self._lock = Lock()

    def of(self, host: str, prices: Prices | None) -> HostTally:
        with self._lock:
            return self._hosts.setdefault(host, HostTally(host, prices))

    @property
    def hosts(self) -> list[HostTally]:
        with self._lock:
            return sorted((host for host in self._hosts.values() if host.calls), key=lambda host: host.host)


# -- retries -----------------------------------------------------------------------------------------------------------

Answer = TypeVar("Answer")

PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of answers after which a request that may be repeated is: of stores, sharing servers and webhooks."""
BODY_ATTEMPTS = 3
"""Requests for a file whose content breaks off, before the fault counts as one of the call."""
CREATE_FIRST_WAIT = 0.1
DELETE_FIRST_WAIT = 0.2
"""Seconds before the second round; each further wait is twice as long."""
_ROUNDS = 5
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
_QUIET_SECONDS = 5.0
"""Seconds; shorter faults are not noted."""
_SLOW_SECONDS = 15.0
"""Seconds; a longer single request is noted."""
_NOTE_INTERVAL = 30.0
_TICK = 1.0
_SLICE = 0.25
_BUSY = ("HTTP 429", "HTTP 503")
"""How the causes begin of faults by which a host asks for fewer requests."""
_REACTION_SECONDS = 1.0
"""Faults in this time after a reduction belong to requests that were sent before it."""
_LOWEST = 10.0
"""Requests per second that are always sent."""
_GROWTH = 5.0
"""Requests per second that are added each second without such faults."""
_UNLIMITED = 1_000.0
_WINDOW_SECONDS = 1.0


_sending = local()


@contextmanager
def sending_while(is_allowed: Callable[[], bool]) -> Iterator[None]:
    """Repeat failed calls of this thread only while a condition holds."""
    before = getattr(_sending, "is_allowed", None)
    _sending.is_allowed = is_allowed
    try:
        yield
    finally:
        _sending.is_allowed = before


def may_send() -> bool:
    """Return False where this thread may not send another request (`sending_while`)."""
    is_allowed: Callable[[], bool] | None = getattr(_sending, "is_allowed", None)
    return is_allowed is None or is_allowed()


def permission() -> Callable[[], bool]:
    """Return the condition of this thread, for the threads that it starts."""
    is_allowed: Callable[[], bool] | None = getattr(_sending, "is_allowed", None)
    return is_allowed or (lambda: True)


class Pace:
    """The rate of requests to a host, which all threads of a run share: no limit until the host is too busy. Then it is
    halved, and rises slowly. Thread-safe.

    Times are seconds of one clock.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._base: float | None = None
        """The rate after the last reduction."""
        self._slowed = 0.0
        self._next = 0.0
        self._window, self._sent, self._before = 0.0, 0, 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent, and count it."""
        with self._lock:
            rate = self._rate(now)
            turn = now if rate is None else max(now, self._next)
            if rate is not None:
                self._next = turn + 1 / rate
            elapsed = turn - self._window  # the rate is that of the last whole window
            if elapsed >= _WINDOW_SECONDS:
                self._before = self._sent / elapsed
                self._window, self._sent = turn, 0
            self._sent += 1
            return turn - now

    def slow_down(self, now: float) -> None:
        """Halve the rate because the host was too busy."""
        with self._lock:
            if self._base is not None and now - self._slowed < _REACTION_SECONDS:
                return
            current = self._rate(now) or max(self._before, self._sent / _WINDOW_SECONDS)
            self._base, self._slowed = max(_LOWEST, current / 2), now

    def _rate(self, now: float) -> float | None:
        if self._base is None:
            return None
        rate = self._base + _GROWTH * max(0.0, now - self._slowed)
        if rate >= _UNLIMITED:
            self._base = None
        return None if self._base is None else rate


class _Flight(NamedTuple):
    """A running request: its host, and when it was sent."""

    host: str
    began: float


class Retry:
    """The retry policy of one run, shared by all of its stores and threads.

    `budget_seconds` counts from the first fault of a call. `is_explicit` means that the user chose the budget; it then
    overrides the limits of attempts in the environment. `note` receives one line of text; without it nothing is noted
    and no thread is started. `is_stopping` returns True once the run was interrupted; nothing is repeated from then on.
    `clock` returns seconds, `pause` waits for a number of seconds.
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
        self.budget_seconds = budget_seconds
        self.tally = Tally()
        self.is_explicit = is_explicit
        self._note = note
        self._is_stopping = is_stopping
        self._clock = clock
        self._wait = pause or self._wait_in_slices
        self._is_watching = is_watching and note is not None
        self._lock = Lock()
        self._flights: dict[int, _Flight] = {}
        self._sent = 0
        self._watcher: Thread | None = None
        self._trouble_since: float | None = None
        self._last_fault = 0.0
        self._noted_at: float | None = None
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)
        self._made: dict[Hashable, Any] = {}

    def shared(self, store: str, options: Mapping[str, str], make: Callable[[], Answer]) -> Answer:
        """Return what all tables of this run in a bucket have in common: its calls. `make` sends no request."""
        key = store, *sorted(options.items())
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            found: Answer = self._made[key]
            return found

    def rounds(self, first_wait: float, *, asked: Callable[[], float] = lambda: 0.0) -> Iterator[int]:
        """Yield the numbers of a few rounds of a request that the caller judges itself, waiting longer after each.

        Args:
            first_wait: Seconds before the second round.
            asked: Returns the seconds for which the server wants to be left alone after the latest round. The rounds
                end early if all of these waits would last longer than the budget.
        """
        asked_in_all = 0.0
        for number in range(_ROUNDS):
            if number:
                asked_now = asked()
                asked_in_all += asked_now
                if asked_in_all > self.budget_seconds:
                    return
                self._wait(max(first_wait * 2 ** (number - 1), asked_now))
            yield number

    def call(
        self,
        send: Callable[[], Answer],
        *,
        host: str,
        faults: tuple[type[Exception], ...],
        passing: Callable[[Exception], str | None],
        max_attempts: int | None = None,
        asked: Callable[[Exception], float] = lambda _: 0.0,
    ) -> Answer:
        """Return what `send` returns; repeat it while it raises one of `faults` for which `passing` returns a cause.
        `asked` returns the seconds that the server wants to be left alone after a fault.

        Raises the last fault, with the number of attempts as its note, when the budget or the attempts are used up.
        """
        attempts, first_fault = 0, 0.0
        while True:
            attempts += 1
            try:
                with self.watched(host):
                    return send()
            except faults as fault:
                cause, now = passing(fault), self._clock()
                if cause is None:
                    raise
                if cause.startswith(_BUSY):
                    self.slow_down(host)
                first_fault = first_fault if attempts > 1 else now
                asked_seconds = asked(fault)
                wait = max(_backoff(attempts), asked_seconds)
                is_last = attempts == max_attempts or now + wait - first_fault > self.budget_seconds
                if is_last or self._is_stopping():
                    # A wait that was asked for is named only if it alone is longer than the budget.
                    fault.add_note(
                        _tried(
                            attempts, now - first_fault, asked_seconds if asked_seconds > self.budget_seconds else 0.0
                        )
                    )
                    raise
                self._note_fault(host, cause, now)
                self._wait(wait)
                if not may_send():
                    fault.add_note(_tried(attempts, self._clock() - first_fault))
                    raise

    @contextmanager
    def watched(self, host: str) -> Iterator[None]:
        """Wait while the host is too busy, then write a note about a request that takes long while it is running."""
        if (ahead := self._pace(host).wait(self._clock())) > 0:
            self._wait(ahead)
        if not self._is_watching:
            yield
            return
        with self._lock:
            self._sent += 1
            number = self._sent
            self._flights[number] = _Flight(host, self._clock())
            if self._watcher is None:
                self._watcher = Thread(target=self._keep_looking, name="deltacli-waiting", daemon=True)
                self._watcher.start()
        try:
            yield
        finally:
            with self._lock:
                del self._flights[number]

    def now(self) -> float:
        return self._clock()

    def is_stopping(self) -> bool:
        """Return True once the run was interrupted."""
        return self._is_stopping()

    def wait(self, seconds: float) -> None:
        """Wait, or until the run is interrupted."""
        self._wait(seconds)

    def say(self, text: str) -> None:
        """Write a note about a delay, unless there was one in the last half a minute."""
        self._say(text, self._clock())

    def slow_down(self, host: str) -> None:
        """Send fewer requests to a host that was too busy, in all threads."""
        self._pace(host).slow_down(self._clock())

    def _pace(self, host: str) -> Pace:
        with self._lock:
            return self._paces[host]

    def look(self) -> None:
        """Write a note about the longest running request, if it is slow."""
        now = self._clock()
        with self._lock:
            oldest = min(self._flights.values(), key=lambda flight: flight.began, default=None)
        if oldest is not None and now - oldest.began >= _SLOW_SECONDS:
            self._say(f"a request to {oldest.host} has been running for {now - oldest.began:.0f} s", now)

    def _note_fault(self, host: str, cause: str, now: float) -> None:
        with self._lock:
            if self._trouble_since is None or now - self._last_fault > _NOTE_INTERVAL:
                self._trouble_since = now
            self._last_fault = now
            is_lasting = now - self._trouble_since >= _QUIET_SECONDS
        if is_lasting:
            self._say(f"{host}: {cause}; retrying each request for up to {self.budget_seconds:g} s", now)

    def _say(self, text: str, now: float) -> None:
        with self._lock:
            if self._noted_at is not None and now - self._noted_at < _NOTE_INTERVAL:
                return
            self._noted_at = now
        if self._note is not None:
            self._note(f"note: {text}")

    def _keep_looking(self) -> None:
        idle, ticking = 0, Event()
        while True:
            ticking.wait(_TICK)
            self.look()
            with self._lock:
                idle = 0 if self._flights else idle + 1
                if idle > _QUIET_SECONDS:
                    self._watcher = None
                    return

    def _wait_in_slices(self, seconds: float) -> None:
        """Wait in short sleeps, because a worker thread does not receive signals."""
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0 and not self._is_stopping():
            time.sleep(min(left, _SLICE))


LEAST_BOUND_SECONDS = 10.0
"""Seconds that an answer, or the pages of a listing, may always take, however small the budget is."""


def bound_seconds(retry: Retry) -> float:
    """Return how long one answer, or all pages of a listing, may take: the retry budget, and at least ten seconds."""
    return max(retry.budget_seconds, LEAST_BOUND_SECONDS)


class ListingLimit:
    """Limits how long the requests for the pages of one listing take together.

    A server may send pages for ever, each with the token of another one. What is done with the pages does not count.

    Attributes:
        pages: The number of pages so far.
    """

    def __init__(self, retry: Retry, what: str) -> None:
        """`what` names the listing in notes."""
        self._retry, self._what = retry, what
        self._limit_seconds, self._spent_seconds = bound_seconds(retry), 0.0
        self.pages = 0

    @property
    def is_over(self) -> bool:
        return self._spent_seconds > self._limit_seconds

    def ask(self, request: Callable[[], Answer]) -> Answer:
        """Return the page that a request returns, and note a listing that takes long."""
        began = self._retry.now()
        answer = request()
        self._spent_seconds += self._retry.now() - began
        self.pages += 1
        if self._spent_seconds > _QUIET_SECONDS:
            self._retry.say(f"{self._what}: {self.pages:,} pages so far")
        return answer

    def facts(self) -> dict[str, str]:
        """Return what an error about a listing that does not end names."""
        limit = f"{self._limit_seconds:g} s for all pages ({parameter('open_table.retry_budget')})"
        return {"pages": f"{self.pages:,}", "limit": limit}


class ThrottledRetry(Retry):
    """A policy whose requests to a host are at least a fixed time apart, over all threads and stores that share it."""

    def __init__(self, budget_seconds: float, calls_per_second: float, **options: Any) -> None:  # Any: those of Retry
        super().__init__(budget_seconds, **options)
        self._apart = 1 / calls_per_second
        self._next: dict[str, float] = {}
        self._queue = Lock()

    @contextmanager
    def watched(self, host: str) -> Iterator[None]:
        """Wait for the turn of a request, then write a note about it if it takes long."""
        with self._queue:
            now = self._clock()
            turn = max(now, self._next.get(host, now))
            self._next[host] = turn + self._apart
        if turn > now:
            self._wait(turn - now)
        with super().watched(host):
            yield


def tried(fault: BaseException) -> dict[str, str]:
    """Return the attempts of a call with this last fault, as facts of an error; empty for a single attempt."""
    notes = [note for note in getattr(fault, "__notes__", ()) if note.startswith(_TRIED)]
    return {"tried": notes[-1].removeprefix(_TRIED)} if notes else {}


_TRIED = "tried: "


def _tried(attempts: int, seconds: float, refused_wait_seconds: float = 0.0) -> str:
    """Return the note for a call that is given up. `refused_wait_seconds`: a wait that is longer than the budget."""
    budget = parameter("open_table.retry_budget")
    times = "once" if attempts == 1 else f"{attempts} times in {seconds:.0f} s ({budget})"
    if refused_wait_seconds:
        times += (
            f"; the server asks for a wait of {refused_wait_seconds:,.0f} s, longer than the retry budget ({budget})"
        )
    return f"{_TRIED}{times}"


def asked_seconds(retry_after: str, now: float) -> float:
    """Return the seconds that the header Retry-After asks to wait; 0 if it is empty or invalid. `now`: of the epoch."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text.lstrip("0")[:9] or 0)
    moment = _http_date(text)
    return 0.0 if moment is None else max(moment - now, 0.0)


def asked_by(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float:
    """Return the seconds for which an answer asks to be left alone, with names of headers in lower case; 0 without.

    A date is compared with the date of the same answer, so that the clock of this machine does not count. `now`
    returns seconds of the epoch, for an answer without a date.
    """
    retry_after = headers.get("retry-after", "")
    if not retry_after:
        return 0.0
    sent_at = _http_date(headers.get("date", ""))
    return asked_seconds(retry_after, now() if sent_at is None else sent_at)


def _http_date(text: str) -> float | None:
    """Return the seconds of the epoch of a date in a header; None if it is invalid."""
    from calendar import timegm
    from email.utils import parsedate_to_datetime

    try:
        return float(timegm(parsedate_to_datetime(text).utctimetuple()))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _backoff(attempts: int) -> float:
    """Return a random wait that doubles with each attempt, so that many threads do not retry at the same time."""
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempts, 20))
    from random import SystemRandom

    return SystemRandom().uniform(longest / 2, longest)
