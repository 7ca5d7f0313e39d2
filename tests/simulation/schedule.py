"""One baton for all actors: a seed decides who acts next, what time it is, and what goes wrong.

An actor is a thread, and one of them runs at a time. It hands the baton on at each call of a store, at each look at the
clock, and where it waits; whoever has it decides who is next, so there is no thread that governs the others.
"""

from __future__ import annotations

import hashlib
import random
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, NoReturn

from deltacli.core.machine import Machine

START_MS = 1_780_000_000_000
LANDING = "waits for what is on its way"
"""When a history begins: later than all that was written before it."""
_REAL_SECONDS, _MOST_WAITS = 30, 4
"""An actor that makes no step for so often so long waits for a lock that another one holds over a call."""
_MOST_STEPS = 60_000
_LATE_SECONDS = 180
"""No request is on its way for longer."""
_MOST_LOOKS, _LOOKING = 500, 3
_CLOCK = "looks at the clock"
_LOOK = re.compile(r": (?:stat .*|(?:list|read) _delta_log/?)")
_LOOK_AGAIN = re.compile(r": (?:stat|list) _delta_log/?")
_ACT = re.compile(r": (?:delete |(?:create|put) _delta_log/)")
_DRAFT = re.compile(r": draft of _delta_log/\d{20}\.json")
_NEXT_VERSION = re.compile(r": create _delta_log/\d{20}\.json ")


class Crash(BaseException):
    """The actor ends here, as if its process was killed."""


class FaultKind(StrEnum):
    """What goes wrong at a call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    FAIL_BEFORE = "fail before"
    FAIL_AFTER = "fail after"
    SLOW_BEFORE = "slow before"
    SLOW_AFTER = "slow after"
    LOST = "answer lost"
    """The file is created, and its creator is not told."""
    UNSENT = "request lost"
    DELAYED = "request delayed"
    """The file is created some steps later."""
    DUPLICATED = "request sent twice"
    """The file is created, and its creator is told that it existed."""
    SILENT = "no answers for a while"
    """This request and those that follow are delayed for long."""


OF_CREATIONS = (FaultKind.LOST, FaultKind.UNSENT, FaultKind.DELAYED, FaultKind.DUPLICATED, *2 * (FaultKind.SILENT,))
_SILENT_FOR = 8
OF_CALLS = (FaultKind.CRASH_BEFORE, FaultKind.FAIL_BEFORE, FaultKind.SLOW_BEFORE, FaultKind.SLOW_AFTER)
OF_WRITES = (*OF_CALLS, FaultKind.CRASH_AFTER, FaultKind.FAIL_AFTER)


class Fault(NamedTuple):
    """What goes wrong for an actor at a call, counted from 1, of all, of those that write, or that create."""

    actor: str
    call: int
    kind: FaultKind
    is_of_writes: bool = True

    def __str__(self) -> str:
        return f"{self.actor}: {self.kind} at {self.of} {self.call}"

    @property
    def of(self) -> str:
        """What is counted."""
        return "creation" if self.kind in OF_CREATIONS else "write" if self.is_of_writes else "call"

    def kinds(self) -> dict[tuple[str, str, int], FaultKind]:
        """Actor, what is counted, and its number -> what goes wrong then."""
        count = _SILENT_FOR if self.kind is FaultKind.SILENT else 1
        return {(self.actor, self.of, self.call + more): self.kind for more in range(count)}


@dataclass(eq=False)
class Actor:
    """Somebody who acts. `offset_ms` is how far the own clock is ahead."""

    name: str
    run: Callable[[], None]
    random: random.Random
    offset_ms: int = 0
    wakes_at: float = 0.0
    waits_for: int = 0
    """A number of calls of all."""
    priority: int = 0
    calls: int = 0
    writes: int = 0
    creations: int = 0
    call: str = ""
    """The one that it is about to make, or makes."""
    since_look: int = 99
    """The number of calls that it has made since it looked at the log; it may act on that, as long as it is small."""
    is_deleting: bool = False
    """The call before, but for looks at the clock, deleted a file."""
    is_drafting: bool = False
    """It writes a commit, behind its look at the files of that."""
    is_dead: bool = False
    is_over: bool = False
    error: BaseException | None = None
    baton: threading.Lock = field(default_factory=threading.Lock)

    def note_call(self) -> None:
        """The call has been made. What deletes files does so by the look before the first of them."""
        if _LOOK.search(self.call):
            self.since_look = 0
        elif ": delete " not in self.call and not (self.is_deleting and self.call == _CLOCK):
            is_act = any(f": {what} " in self.call for what in ("create", "put", "copy"))
            self.since_look = 99 if is_act or not self.call else self.since_look + 1
        self.is_drafting = _DRAFT.search(self.call) is not None or (self.is_drafting and not _ACT.search(self.call))
        self.is_deleting = ": delete " in self.call or (self.is_deleting and self.call == _CLOCK)
        self.call = ""

    def acts_by_look(self, *, takes_next: bool, of_files: bool) -> bool:
        """Return whether it is about to act by a look of before, or may be; not where it looks at the log again, unless
        what happens is `of_files`, or, where the next version is taken (`takes_next`), is about to create that.
        """
        is_again = not of_files and _LOOK_AGAIN.search(self.call)
        if self.is_over or is_again or (takes_next and _NEXT_VERSION.search(self.call)):
            return False
        if of_files and self.is_drafting:
            return True
        return self.since_look <= _LOOKING or _ACT.search(self.call) is not None


class Step(NamedTuple):
    """A line of the trace."""

    time_ms: int
    actor: str
    what: str


class Schedule:
    """The order of everything in one history. `random` is the only source of chance."""

    def __init__(self, seed: int | str, faults: Iterable[Fault] = (), *, start_ms: int = START_MS) -> None:
        self.seed = seed
        self.random = random.Random(f"schedule {seed}")
        self.trace: list[Step] = []
        self.steps = self.calls = 0
        self._seconds = start_ms / 1_000
        self._faults = {place: kind for one in faults for place, kind in one.kinds().items()}
        self._actors: list[Actor] = []
        self._current: Actor | None = None
        self._late: list[tuple[int, float, Callable[[], object]]] = []
        self._over = threading.Event()
        self._stays = self.random.choice((0.0, 0.3, 0.6, 0.9, 0.97))
        self._has_priorities = self.random.random() < 0.5
        self._changes = {self.random.randrange(400) for _ in range(self.random.randint(2, 8))}
        self._pace = self.random.choice((0.002, 0.01, 0.05, 0.5))

    # Actors

    def add(self, name: str, run: Callable[[], None], *, offset_ms: int = 0) -> None:
        """Let somebody act."""
        chance = random.Random(f"{name} {self.seed}")
        self._actors.append(Actor(name, run, chance, offset_ms, priority=self.random.randrange(1_000)))

    def run(self) -> None:
        """Let all act until they are done."""
        if not self._actors:
            return
        threads = []
        for actor in self._actors:
            actor.baton.acquire()
            threads.append(threading.Thread(target=self._act, args=(actor,), name=actor.name, daemon=True))
            threads[-1].start()
        self._hand_on(None)
        waits, steps = 0, -1
        while not self._over.wait(_REAL_SECONDS):
            waits, steps = waits + 1 if steps == self.steps else 0, self.steps
            if waits == _MOST_WAITS:
                raise RuntimeError(f"{self.seed}: {self.current} waits for what another one holds")
        for thread in threads:  # a process that ends while one releases what Arrow holds is aborted
            thread.join()
        for actor in self._actors:
            if actor.error is not None:
                raise actor.error
        self._deliver(everything=True)
        self._current = None

    def _act(self, actor: Actor) -> None:
        actor.baton.acquire()
        try:
            actor.run()
        except Crash:
            pass
        except BaseException as fault:  # noqa: BLE001  (of the simulation: raised in its thread)
            actor.error = fault
        actor.is_over = True
        self._hand_on(None)

    @property
    def current(self) -> str:
        """The name of the actor that has the baton; '' where nobody acts yet or any more."""
        return "" if self._current is None else self._current.name

    def revive(self) -> None:
        """Let the current actor begin anew after a crash."""
        if self._current is not None:
            self._current.is_dead = False

    def move_clock(self, name: str, by_ms: int) -> None:
        """Let the clock of an actor go wrong."""
        for actor in self._actors:
            if actor.name == name:
                actor.offset_ms += by_ms

    def let_look(self, may_happen: Callable[[], bool], *, takes_next: bool = False, of_files: bool = False) -> None:
        """Let others act until nobody stands between a look at the log and the act that follows from it.

        No store closes that gap, so what happens from outside must not happen there; but the creation of a version
        fails where what happens takes it (`takes_next`). What happens to data files (`of_files`) is seen at them alone.
        """
        for _ in range(_MOST_LOOKS):
            acting = (one.acts_by_look(takes_next=takes_next, of_files=of_files) for one in self._actors)
            if may_happen() and not any(acting):
                break
            self.let_call(1)

    def jump(self, seconds: float) -> None:
        """Let time go by for all."""
        self._seconds += seconds

    def let_call(self, count: int) -> None:
        """Let the others make so many calls, if they do, and be the next one then."""
        if self._current is not None and count:
            self._current.waits_for = self.calls + count
            self._hand_on(self._current)
            self._current.waits_for = 0

    # Time

    def now_ms(self) -> int:
        """The clock of the actor that acts."""
        return self.time_ms + (0 if self._current is None else self._current.offset_ms)

    @property
    def time_ms(self) -> int:
        """The true time, which the stores have."""
        return int(self._seconds * 1_000)

    def monotonic(self) -> float:
        """Seconds since some time."""
        return self._seconds

    def sleep(self, seconds: float, *, is_in_call: bool = False) -> None:
        """Let the others act for a time; a call that is slow is one that is still to be made."""
        actor = self._current
        if actor is None:
            self._seconds += seconds
            return
        self.note(f"waits {seconds:.3f} s")
        actor.wakes_at = self._seconds + max(seconds, 0.0)
        if not is_in_call:
            actor.since_look, actor.call = 99, ""
        self._hand_on(actor)

    def machine(self) -> Machine:
        """What the product takes from its machine, for whoever acts."""
        return Machine(self._look_at_clock, self.monotonic, self.sleep, self._random_bytes)

    def _look_at_clock(self) -> int:
        self.step(_CLOCK)
        return self.now_ms()

    def _random_bytes(self, count: int) -> bytes:
        return (self.random if self._current is None else self._current.random).randbytes(count)

    # Steps

    def step(self, call: str, *, is_write: bool = False, is_creation: bool = False) -> FaultKind | None:
        """Let others act before a call, and return what goes wrong at it. Raises Crash."""
        actor = self._current
        if actor is None:
            return None
        if actor.is_dead:
            raise Crash
        actor.calls += 1
        self.calls += 1
        actor.writes += is_write
        actor.creations += is_creation
        actor.note_call()
        actor.call = call
        self._hand_on(actor)
        kind = self._faults.get((actor.name, "call", actor.calls))
        if is_write:
            kind = self._faults.get((actor.name, "write", actor.writes), kind)
        if is_creation:
            kind = self._faults.get((actor.name, "creation", actor.creations), kind)
        self.note(f"{call} ({kind})" if kind else call)
        if kind is FaultKind.CRASH_BEFORE:
            self.crash()
        return kind

    def crash(self) -> NoReturn:
        """End the actor: whatever it calls from now on is not done."""
        assert self._current is not None
        self._current.is_dead = True
        self.note("is killed")
        raise Crash

    def let_land(self) -> None:
        """Let others act until what is on its way has landed."""
        while self._late:
            self.step(LANDING)

    def later(self, effect: Callable[[], object], *, is_long: bool = False) -> None:
        """Let something happen some steps later, and within minutes."""
        at = self.steps + self.random.choice((100, 400) if is_long else (1, 5, 20, 100))
        self._late.append((at, self._seconds + _LATE_SECONDS, effect))

    def note(self, what: str, actor: str | None = None) -> None:
        """Add a line to the trace."""
        self.trace.append(Step(self.time_ms, self.current if actor is None else actor, what))

    @property
    def digest(self) -> str:
        """The same for the same history."""
        text = "".join(f"{step.time_ms} {step.actor} {step.what}\n" for step in self.trace)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _hand_on(self, actor: Actor | None) -> None:
        """Decide who is next, and wait until this one is again; None: it is done."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise RuntimeError(f"{self.seed}: {_MOST_STEPS} steps")
        self._seconds += self.random.random() * self._pace
        self._deliver()
        following = self._next(actor)
        self._current = following
        if following is None:
            self._over.set()
            return
        if following is actor:
            return
        following.baton.release()
        if actor is not None:
            actor.baton.acquire()

    def _next(self, actor: Actor | None) -> Actor | None:
        alive = [one for one in self._actors if not one.is_over]
        if not alive:
            return None
        able = [one for one in alive if not one.waits_for] or alive
        for one in alive:
            if 0 < one.waits_for <= self.calls:
                return one
        ready = [one for one in able if one.wakes_at <= self._seconds]
        if not ready:
            self._seconds = min(one.wakes_at for one in able)
            ready = [one for one in able if one.wakes_at <= self._seconds]
        if len(ready) == 1:
            return ready[0]
        if self._has_priorities:
            if self.steps in self._changes:
                max(ready, key=_priority).priority = -self.steps
            return max(ready, key=_priority)
        if actor in ready and self.random.random() < self._stays:
            return actor
        return self.random.choice(ready)

    def _deliver(self, *, everything: bool = False) -> None:
        if not self._late:
            return
        due = [one for one in self._late if everything or one[0] <= self.steps or one[1] <= self._seconds]
        self._late = [one for one in self._late if one not in due]
        for _, _, effect in due:
            effect()


def _priority(actor: Actor) -> int:
    return actor.priority
