"""Progress on stderr: lines that are redrawn on a terminal, whole lines in a log, or JSON lines for a program.

Imported only where it is shown. Work only counts; a thread draws a few times per second. So a report costs one
addition, the clock advances while a call hangs, and a blocked terminal does not stop the work.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.steps import PlanState, Shown, StepState, describe
from deltacli.cli.terminal.term import say, say_json, set_live_line, shorten, write_stderr
from deltacli.core.documents import dumps

if TYPE_CHECKING:
    from deltacli.cli.terminal.bars import Bars

_STOPPING = "interrupted: finishing what is running; Ctrl-C again leaves at once"
_A_MOMENT = 0.25
"""In seconds: longer than a terminal needs for a line, too short to notice."""


class Painter:
    """Draws steps. Called by one thread at a time.

    `delay`: seconds of work before the first picture. `interval`: minimum seconds between two. `tells_steps`: whether
    `begin` and `end` write.
    """

    delay: float
    interval: float
    tells_steps: bool

    def begin(self, shown: Shown) -> None:
        """Say that a step begins."""

    def show(self, steps: Sequence[Shown]) -> None:
        """Draw the outermost step, then the innermost one; both may be the same. A plan and its steps are one."""

    def notice(self, text: str) -> None:
        """Show a text instead of a step."""

    def end(self, shown: Shown) -> None:
        """Say that a step has ended."""

    def hide(self) -> None:
        """Erase the drawn lines."""


class LiveProgress:
    """Shows the outermost and the innermost step, after `delay` seconds and at most once per `interval`. The delay is
    counted from `began`, else from the first step.

    Without `ticking` the caller calls `tick`, and nothing depends on real time.
    """

    def __init__(
        self,
        painter: Painter,
        *,
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
        began: float | None = None,
    ) -> None:
        self._painter = painter
        self._clock = clock
        self._ticking = ticking
        self._ticker: threading.Thread | None = None
        self._closed = threading.Event()
        self._lock = threading.RLock()  # guards the painter; a signal may interrupt the thread that holds it
        self._steps_lock = threading.RLock()  # not held while writing
        self._steps: list[StepState] = []
        self._begins_at = began
        self._began: float | None = None
        self._looked: float | None = None
        self._notice: str | None = None

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[StepState]:
        """Begin a step; one with nothing to do is not shown."""
        return self._run(StepState(what, unit, total))

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[StepState]:
        return self._run(StepState(what, unit, total, weight))

    @contextmanager
    def plan(self, what: str, costs: Mapping[str, float]) -> Iterator[PlanState]:
        """Begin an operation that is shown as one bar over all of its steps."""
        plan = PlanState(costs)
        with self._run(StepState(what, "", None, plan=plan)):
            yield plan

    @contextmanager
    def _run(self, step: StepState) -> Iterator[StepState]:
        if step.total == 0 or self._closed.is_set():
            yield step
            return
        self._begin(step)
        try:
            yield step
        finally:
            with self._steps_lock:
                self._steps.remove(step)
                now, whole = self._clock(), self._planned()
                if whole is not None and whole.plan is not None:
                    whole.plan.end(step, now)
                shown = Shown.of(step, now, whole)
            if self._painter.tells_steps and step.plan is None:
                with self._lock:
                    if not self._closed.is_set():
                        self._painter.end(shown)

    def tick(self) -> None:
        """Draw if the interval has passed."""
        with self._lock:
            now = self._clock()
            if self._closed.is_set() or self._began is None or now - self._began < self._painter.delay:
                return
            if self._looked is not None and now - self._looked < self._painter.interval:
                return
            self._looked = now
            if self._notice is not None:
                self._painter.notice(self._notice)
            elif shown := self.shown():
                self._painter.show(shown)
            else:
                self._painter.hide()

    def shown(self) -> list[Shown]:
        """The steps to draw, as they are now."""
        now = self._clock()
        with self._steps_lock:
            outermost, innermost = self._steps[:1], self._steps[-1:]
            whole = self._planned()
            shown = [Shown.of(step, now, whole) for step in innermost]
            if outermost not in (innermost, [whole]):
                shown.insert(0, Shown.of(outermost[0], now))
            return shown

    def _planned(self) -> StepState | None:
        return next((step for step in reversed(self._steps) if step.plan is not None), None)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the lines while something else is written; the next picture draws them again."""
        with self._lock:
            self._painter.hide()
            self._looked = self._clock()
            yield

    def stopping(self) -> None:
        self._notice = _STOPPING

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._painter.hide()

    def leave(self) -> None:
        """Erase the lines if the drawing thread releases its lock in time; it may be stuck."""
        if self._lock.acquire(timeout=_A_MOMENT):
            self.close()

    def _begin(self, step: StepState) -> None:
        with self._steps_lock:
            step.began = self._clock()
            if self._began is None:
                self._began = step.began if self._begins_at is None else self._begins_at
            whole = self._planned()
            if whole is not None and whole.plan is not None:
                whole.plan.begin(step, step.began)
            self._steps.append(step)
            if self._ticking and self._ticker is None:
                self._ticker = threading.Thread(target=self._keep_looking, name="progress", daemon=True)
                self._ticker.start()
            shown = Shown.of(step, step.began, whole)
        if self._painter.tells_steps and step.plan is None:
            with self._lock:
                self._painter.begin(shown)

    def _keep_looking(self) -> None:
        while not self._closed.wait(min(self._painter.interval, 0.5)):
            self.tick()


class BarPainter(Painter):
    """Redraws the last lines of a terminal, never wider than it: bars of rich, which is imported for the first one."""

    delay = 0.4
    interval = 0.1
    tells_steps = False

    def __init__(
        self, write: Callable[[str], None], width: Callable[[], int], may_draw: Callable[[], bool], *, colour: bool
    ) -> None:
        self._write = write
        self._width = width
        self._may_draw = may_draw
        self._colour = colour
        self._bars: Bars | None = None
        self._drawn = 0
        """How many lines are drawn; the cursor is at the end of the last."""

    def show(self, steps: Sequence[Shown]) -> None:
        if not self._may_draw():
            return
        if self._bars is None:
            from deltacli.cli.terminal.bars import Bars

            self._bars = Bars(colour=self._colour)
        self._draw(self._bars.lines(steps, self._width() - 1))

    def notice(self, text: str) -> None:
        if self._may_draw():
            self._draw([shorten(text, self._width() - 1)])

    def hide(self) -> None:
        if self._drawn:
            self._write(f"{self._to_first_line()}\x1b[{'K' if self._drawn == 1 else 'J'}")
            self._drawn = 0

    def _draw(self, lines: Sequence[str]) -> None:
        begin, before = self._to_first_line(), self._drawn
        self._drawn = len(lines)  # set first, so that a signal in between does not leave the lines behind
        rest = "\x1b[J" if len(lines) < before else ""
        text = "\n".join(f"{line}\x1b[K" for line in lines)
        self._write(f"{begin}{text}{rest}")

    def _to_first_line(self) -> str:
        return "\r" if self._drawn < 2 else f"\r\x1b[{self._drawn - 1}A"


class LogPainter(Painter):
    """Whole lines at long intervals, where lines cannot be redrawn: a log, `TERM=dumb`."""

    delay = 0.5
    interval = 5.0
    tells_steps = True

    def show(self, steps: Sequence[Shown]) -> None:
        say(describe(steps[-1]))

    def notice(self, text: str) -> None:
        say(text)

    def end(self, shown: Shown) -> None:
        if shown.elapsed >= self.delay:
            say(describe(shown))


class JsonPainter(Painter):
    """One object per line, at the begin and end of a step and twice per second. Schema: docs/schemas/progress.json."""

    delay = 0.0
    interval = 0.5
    tells_steps = True

    def begin(self, shown: Shown) -> None:
        self.end(shown)

    def show(self, steps: Sequence[Shown]) -> None:
        if steps[-1].step.plan is None:
            self.end(steps[-1])

    def end(self, shown: Shown) -> None:
        step = shown.step
        document = {
            "type": "progress",
            "step": step.what,
            "done": step.done,
            "total": step.total,
            "unit": step.unit,
            "elapsedMs": int(shown.elapsed * 1000),
        }
        if shown.eta is not step.eta:  # part of a plan
            left = shown.left
            document |= {"share": shown.share and round(shown.share, 4), "etaMs": left and int(left * 1000)}
        say_json(dumps(document))


def start_progress(choice: str, *, colour: bool = True) -> LiveProgress:
    """Make stderr's progress: `json`, or bars (`auto`, `always`; whole lines where nothing can be redrawn)."""
    painter: Painter
    if choice == "json":
        painter = JsonPainter()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        painter = BarPainter(write_stderr, _stderr_width, _is_in_foreground, colour=colour)
    else:
        painter = LogPainter()
    progress = LiveProgress(painter, began=invocation.began if isinstance(painter, BarPainter) else None)
    set_live_line(progress)
    return progress


def _stderr_width() -> int:
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _is_in_foreground() -> bool:
    """Return False for a background job, which must not write to the terminal."""
    with suppress(OSError, ValueError, AttributeError):  # not the controlling terminal; a system without job control
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    return True
