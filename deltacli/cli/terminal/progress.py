"""Progress on stderr: one line that is redrawn on a terminal, whole lines in a log, or JSON lines for a program.

Imported only where somebody will see it. Work only counts; a thread looks a few times a second and draws. So reporting
costs an addition, and the clock on the line goes on while a call hangs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from deltacli.cli.render.json import dumps
from deltacli.cli.terminal.term import cells, say, say_json, set_live_line, shorten, write_stderr
from deltacli.units import format_count, format_size

_STOPPING = "interrupted: finishing what is running; Ctrl-C again leaves at once"
_A_MOMENT = 0.25
"""Seconds: longer than a terminal takes for a line, shorter than anybody waits."""


@dataclass(slots=True)
class StepState:
    """How far a step is; `began` is a moment of the progress's clock."""

    what: str
    unit: str
    total: int | None
    began: float = 0.0
    done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def advance(self, amount: int = 1) -> None:
        with self._lock:
            self.done += amount


class Painter(Protocol):
    """How a step looks. Called by one thread at a time.

    `delay`: seconds of work before the first picture. `interval`: the shortest time between two.
    """

    delay: float
    interval: float

    def begin(self, step: StepState) -> None: ...

    def show(self, step: StepState, elapsed: float) -> None: ...

    def notice(self, text: str) -> None:
        """Show a text instead of a step."""

    def end(self, step: StepState, elapsed: float) -> None: ...

    def hide(self) -> None:
        """Take away what is drawn: nothing is left of it."""


class LiveProgress:
    """Shows the innermost step, after `delay` seconds of work and at most once an `interval`.

    Without `ticking` the caller looks (`tick`), and nothing depends on real time.
    """

    def __init__(self, painter: Painter, *, clock: Callable[[], float] = time.monotonic, ticking: bool = True) -> None:
        self._painter = painter
        self._clock = clock
        self._ticking = ticking
        self._ticker: threading.Thread | None = None
        self._closed = threading.Event()
        self._lock = threading.RLock()  # a signal may interrupt the thread that holds it
        self._steps: list[StepState] = []
        self._began: float | None = None
        self._looked: float | None = None
        self._notice: str | None = None

    @contextmanager
    def step(self, what: str, *, unit: str, total: int | None = None) -> Iterator[StepState]:
        """Begin a step; one with nothing to do is not shown."""
        step = StepState(what, unit, total)
        if total == 0 or self._closed.is_set():
            yield step
            return
        self._begin(step)
        try:
            yield step
        finally:
            with self._lock:
                self._steps.remove(step)
                if not self._closed.is_set():
                    self._painter.end(step, self._clock() - step.began)

    def tick(self) -> None:
        """Draw, where it is time to."""
        with self._lock:
            now = self._clock()
            if self._closed.is_set() or self._began is None or now - self._began < self._painter.delay:
                return
            if self._looked is not None and now - self._looked < self._painter.interval:
                return
            self._looked = now
            if self._notice is not None:
                self._painter.notice(self._notice)
            elif self._steps:
                self._painter.show(self._steps[-1], now - self._steps[-1].began)
            else:
                self._painter.hide()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the line away while something else is written; it comes back with the next picture."""
        with self._lock:
            self._painter.hide()
            self._looked = self._clock()
            yield

    def stopping(self) -> None:
        """From now on say that the run was interrupted and ends as soon as it can."""
        self._notice = _STOPPING

    def close(self) -> None:
        """Take the line away for good."""
        with self._lock:
            self._closed.set()
            self._painter.hide()

    def leave(self) -> None:
        """Take the line away, if whoever draws lets go of it within a moment: it may be stuck."""
        if self._lock.acquire(timeout=_A_MOMENT):
            self.close()

    def _begin(self, step: StepState) -> None:
        with self._lock:
            step.began = self._clock()
            self._began = step.began if self._began is None else self._began
            self._steps.append(step)
            self._painter.begin(step)
            if self._ticking and self._ticker is None:
                self._ticker = threading.Thread(target=self._keep_looking, name="progress", daemon=True)
                self._ticker.start()

    def _keep_looking(self) -> None:
        while not self._closed.wait(min(self._painter.interval, 0.5)):
            self.tick()


class LinePainter:
    """Redraws one line of a terminal, never wider than it."""

    delay = 0.5
    interval = 0.1

    def __init__(self, write: Callable[[str], None], width: Callable[[], int], may_draw: Callable[[], bool]) -> None:
        self._write = write
        self._width = width
        self._may_draw = may_draw
        self._is_drawn = False

    def begin(self, step: StepState) -> None:
        pass

    def show(self, step: StepState, elapsed: float) -> None:
        self._draw(describe(step, elapsed, self._width() - 1))

    def notice(self, text: str) -> None:
        self._draw(shorten(text, self._width() - 1))

    def end(self, step: StepState, elapsed: float) -> None:
        pass

    def hide(self) -> None:
        if self._is_drawn:
            self._write("\r\x1b[K")
            self._is_drawn = False

    def _draw(self, text: str) -> None:
        if self._may_draw():
            self._is_drawn = True  # said first: a signal between the two must not leave the line behind
            self._write(f"\r{text}\x1b[K")


class LogPainter:
    """Whole lines, few of them, where nothing can be redrawn: a log, `TERM=dumb`."""

    delay = 0.5
    interval = 5.0

    def begin(self, step: StepState) -> None:
        pass

    def show(self, step: StepState, elapsed: float) -> None:
        say(describe(step, elapsed, None))

    def notice(self, text: str) -> None:
        say(text)

    def end(self, step: StepState, elapsed: float) -> None:
        if elapsed >= self.delay:
            say(describe(step, elapsed, None))

    def hide(self) -> None:
        pass


class JsonPainter:
    """An object a line: when a step begins, twice a second, and when it ends. Schema: docs/schemas/progress.json."""

    delay = 0.0
    interval = 0.5

    def begin(self, step: StepState) -> None:
        self.show(step, 0.0)

    def show(self, step: StepState, elapsed: float) -> None:
        document = {
            "type": "progress",
            "step": step.what,
            "done": step.done,
            "total": step.total,
            "unit": step.unit,
            "elapsedMs": int(elapsed * 1000),
        }
        say_json(dumps(document))

    def notice(self, text: str) -> None:
        pass

    def end(self, step: StepState, elapsed: float) -> None:
        self.show(step, elapsed)

    def hide(self) -> None:
        pass


def start_progress(choice: str) -> LiveProgress:
    """Make stderr's progress: `json`, or a line (`auto`, `always`; whole lines where nothing can be redrawn)."""
    painter: Painter
    if choice == "json":
        painter = JsonPainter()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        painter = LinePainter(write_stderr, _stderr_width, _is_in_foreground)
    else:
        painter = LogPainter()
    progress = LiveProgress(painter)
    set_live_line(progress)
    return progress


def describe(step: StepState, elapsed: float, width: int | None) -> str:
    """A step in one line of at most `width` cells, the least telling parts left out first."""
    amount = _amount(step.done, step.unit)
    share = eta = None
    if step.total is not None:
        share = f"{min(step.done * 100 // step.total, 100)}%"
        amount = f"{amount}/{_amount(step.total, step.unit)}"
        if 0 < step.done < step.total:
            eta = f"ETA {_duration(elapsed * (step.total - step.done) / step.done)}"
    amount = amount if step.unit == "bytes" else f"{amount} {step.unit}"
    rate = f"{_amount(int(step.done / elapsed), step.unit)}/s" if step.done > elapsed > 0 else None
    spent = _duration(elapsed)
    choices = (
        (step.what, amount, share, rate, spent, eta),
        (step.what, amount, share, spent, eta),
        (step.what, amount, share, eta),
        (step.what, amount, share),
        (step.what, share or amount),
    )
    lines = ["  ".join(part for part in parts if part) for parts in choices]
    if width is None:
        return lines[0]
    return shorten(next((line for line in lines if cells(line) <= width), lines[-1]), width)


def _amount(number: int, unit: str) -> str:
    return format_size(number) if unit == "bytes" else format_count(number)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _stderr_width() -> int:
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _is_in_foreground() -> bool:
    """False for a job in the background: the terminal is somebody else's then."""
    with suppress(OSError, ValueError, AttributeError):  # not the controlling terminal; a system without job control
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    return True
