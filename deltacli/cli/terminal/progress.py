"""Progress on stderr: lines that are redrawn on a terminal, whole lines in a log, or JSON lines for a program.

Imported only if progress is shown. The work only counts; a thread draws a few times per second. So a report costs one
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
from deltacli.cli.terminal.characters import shorten
from deltacli.cli.terminal.stderr import set_live_line, write_json_message, write_message, write_stderr
from deltacli.cli.terminal.steps import PlanState, StepSnapshot, StepState, describe_step
from deltacli.core.documents import dumps

if TYPE_CHECKING:
    from deltacli.cli.terminal.bars import Bars

_INTERRUPTED_NOTICE = "interrupted: finishing what is running; Ctrl-C again leaves at once"
_LOCK_TIMEOUT_SECONDS = 0.25
"""Longer than a terminal needs for a line, too short to notice."""
_MAX_TICK_SECONDS = 0.5
_DEFAULT_WIDTH = 80


class Painter:
    """Draws steps. Called by one thread at a time.

    Attributes:
        delay: Seconds of work before the first picture.
        interval: Minimum seconds between two pictures.
        announces_steps: Whether `begin` and `end` write something.
    """

    delay: float
    interval: float
    announces_steps: bool

    def begin(self, snapshot: StepSnapshot) -> None:
        """Announce that a step begins."""

    def show(self, steps: Sequence[StepSnapshot]) -> None:
        """Draw the outermost step, then the innermost one, or one step that is both. A plan counts as one step."""

    def show_notice(self, text: str) -> None:
        """Show a text instead of a step."""

    def end(self, snapshot: StepSnapshot) -> None:
        """Announce that a step has ended."""

    def hide(self) -> None:
        """Erase the drawn lines."""


class LiveProgress:
    """Shows the outermost and the innermost step, after a delay and at most once per interval of its painter."""

    def __init__(
        self,
        painter: Painter,
        *,
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
        began: float | None = None,
    ) -> None:
        """Make the progress.

        Args:
            painter: Draws the steps.
            clock: Returns seconds since any point in time.
            ticking: Whether a thread calls `tick`. Without it the caller does, and nothing depends on real time.
            began: The time from which the delay is counted; None for the beginning of the first step.
        """
        self._painter = painter
        self._clock = clock
        self._ticking = ticking
        self._ticker: threading.Thread | None = None
        self._closed = threading.Event()
        # Guards the painter. Reentrant, because a signal may interrupt the thread that holds it.
        self._lock = threading.RLock()
        # Guards the steps. Not held while writing, so that a blocked terminal does not stop the work.
        self._steps_lock = threading.RLock()
        self._steps: list[StepState] = []
        self._stated_beginning = began
        self._began: float | None = None
        self._last_drawn: float | None = None
        self._notice: str | None = None

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[StepState]:
        """Begin a step; one with nothing to do is not shown."""
        return self._run(StepState(what, unit, total))

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[StepState]:
        """Begin a step whose parts weigh so much together."""
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
            self._end(step)

    def _begin(self, step: StepState) -> None:
        with self._steps_lock:
            step.began = self._clock()
            if self._began is None:
                self._began = step.began if self._stated_beginning is None else self._stated_beginning
            planned = self._find_planned_step()
            if planned is not None and planned.plan is not None:
                planned.plan.begin(step, step.began)
            self._steps.append(step)
            self._start_ticker()
            snapshot = StepSnapshot.take(step, step.began, planned)

        if self._painter.announces_steps and step.plan is None:
            with self._lock:
                self._painter.begin(snapshot)

    def _end(self, step: StepState) -> None:
        with self._steps_lock:
            self._steps.remove(step)
            now = self._clock()
            planned = self._find_planned_step()
            if planned is not None and planned.plan is not None:
                planned.plan.end(step, now)
            snapshot = StepSnapshot.take(step, now, planned)

        if self._painter.announces_steps and step.plan is None:
            with self._lock:
                if not self._closed.is_set():
                    self._painter.end(snapshot)

    def _start_ticker(self) -> None:
        if self._ticking and self._ticker is None:
            self._ticker = threading.Thread(target=self._tick_until_closed, name="progress", daemon=True)
            self._ticker.start()

    def _tick_until_closed(self) -> None:
        while not self._closed.wait(min(self._painter.interval, _MAX_TICK_SECONDS)):
            self.tick()

    def tick(self) -> None:
        """Draw if the delay and the interval have passed."""
        with self._lock:
            now = self._clock()
            if self._closed.is_set() or self._began is None or now - self._began < self._painter.delay:
                return
            if self._last_drawn is not None and now - self._last_drawn < self._painter.interval:
                return
            self._last_drawn = now

            if self._notice is not None:
                self._painter.show_notice(self._notice)
                return
            steps = self.shown_steps()
            if steps:
                self._painter.show(steps)
            else:
                self._painter.hide()

    def shown_steps(self) -> list[StepSnapshot]:
        """Return the steps to draw, as they are now: the outermost one, and the innermost one if it is another."""
        now = self._clock()
        with self._steps_lock:
            if not self._steps:
                return []
            outermost = self._steps[0]
            innermost = self._steps[-1]
            planned = self._find_planned_step()
            snapshots = [StepSnapshot.take(innermost, now, planned)]
            # A step within a plan is shown with the bar of the plan, which needs no line of its own.
            if outermost is not innermost and outermost is not planned:
                snapshots.insert(0, StepSnapshot.take(outermost, now))
            return snapshots

    def _find_planned_step(self) -> StepState | None:
        """Return the innermost step that has a plan."""
        return next((step for step in reversed(self._steps) if step.plan is not None), None)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the lines while something else is written; the next picture draws them again."""
        with self._lock:
            self._painter.hide()
            self._last_drawn = self._clock()
            yield

    def stopping(self) -> None:
        """Show that the run was interrupted, with the next picture. Called in a signal handler."""
        self._notice = _INTERRUPTED_NOTICE

    def close(self) -> None:
        """Erase the lines permanently."""
        with self._lock:
            self._closed.set()
            self._painter.hide()

    def leave(self) -> None:
        """Erase the lines if the drawing thread releases its lock in time; it may be stuck."""
        if self._lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            self.close()


class BarPainter(Painter):
    """Redraws the last lines of a terminal, never wider than it: bars of rich, which is imported for the first one."""

    delay = 0.4
    interval = 0.1
    announces_steps = False

    def __init__(
        self, write: Callable[[str], None], width: Callable[[], int], may_draw: Callable[[], bool], *, colour: bool
    ) -> None:
        """Make the painter.

        Args:
            write: Writes to the terminal.
            width: Returns its current width in cells.
            may_draw: Returns False while another process has the terminal.
            colour: Whether bars are coloured.
        """
        self._write = write
        self._width = width
        self._may_draw = may_draw
        self._colour = colour
        self._bars: Bars | None = None
        self._drawn_lines = 0
        """How many lines are drawn; the cursor is at the end of the last."""

    def show(self, steps: Sequence[StepSnapshot]) -> None:
        if not self._may_draw():
            return
        if self._bars is None:
            from deltacli.cli.terminal.bars import Bars

            self._bars = Bars(colour=self._colour)
        # Some terminals go to the next line when the last cell is written.
        self._draw(self._bars.draw_lines(steps, self._width() - 1))

    def show_notice(self, text: str) -> None:
        if self._may_draw():
            self._draw([shorten(text, self._width() - 1)])

    def hide(self) -> None:
        if not self._drawn_lines:
            return
        erase = "\x1b[K" if self._drawn_lines == 1 else "\x1b[J"
        self._write(f"{self._to_first_line()}{erase}")
        self._drawn_lines = 0

    def _draw(self, lines: Sequence[str]) -> None:
        to_first_line = self._to_first_line()
        has_fewer_lines = len(lines) < self._drawn_lines
        # Set before writing, so that a signal in between does not leave the lines behind.
        self._drawn_lines = len(lines)
        text = "\n".join(f"{line}\x1b[K" for line in lines)
        erase_below = "\x1b[J" if has_fewer_lines else ""
        self._write(f"{to_first_line}{text}{erase_below}")

    def _to_first_line(self) -> str:
        """Return the sequence that moves the cursor to the beginning of the first drawn line."""
        if self._drawn_lines < 2:
            return "\r"
        return f"\r\x1b[{self._drawn_lines - 1}A"


class LogPainter(Painter):
    """Writes whole lines at long intervals, where lines cannot be redrawn: a log, `TERM=dumb`."""

    delay = 0.5
    interval = 5.0
    announces_steps = True

    def show(self, steps: Sequence[StepSnapshot]) -> None:
        write_message(describe_step(steps[-1]))

    def show_notice(self, text: str) -> None:
        write_message(text)

    def end(self, snapshot: StepSnapshot) -> None:
        if snapshot.elapsed >= self.delay:
            write_message(describe_step(snapshot))


class JsonPainter(Painter):
    """Writes an object per line, at the begin and end of a step and twice per second.

    The schema is docs/schemas/progress.json.
    """

    delay = 0.0
    interval = 0.5
    announces_steps = True

    def begin(self, snapshot: StepSnapshot) -> None:
        self._write_line(snapshot)

    def show(self, steps: Sequence[StepSnapshot]) -> None:
        if steps[-1].step.plan is None:
            self._write_line(steps[-1])

    def end(self, snapshot: StepSnapshot) -> None:
        self._write_line(snapshot)

    def _write_line(self, snapshot: StepSnapshot) -> None:
        step = snapshot.step
        document: dict[str, object] = {
            "type": "progress",
            "step": step.what,
            "done": step.done,
            "total": step.total,
            "unit": step.unit,
            "elapsedMs": int(snapshot.elapsed * 1000),
        }
        is_part_of_plan = snapshot.eta is not step.eta
        if is_part_of_plan:
            remaining = snapshot.remaining
            document["share"] = snapshot.share and round(snapshot.share, 4)
            document["etaMs"] = remaining and int(remaining * 1000)
        write_json_message(dumps(document))


def start_progress(choice: str, *, colour: bool = True) -> LiveProgress:
    """Make the progress of stderr.

    Args:
        choice: `json`, or anything else for bars, or whole lines if nothing can be redrawn.
        colour: Whether bars are coloured.
    """
    painter: Painter
    began = None
    if choice == "json":
        painter = JsonPainter()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        painter = BarPainter(write_stderr, _stderr_width, _is_in_foreground, colour=colour)
        began = invocation.began
    else:
        painter = LogPainter()
    progress = LiveProgress(painter, began=began)
    set_live_line(progress)
    return progress


def _stderr_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


def _is_in_foreground() -> bool:
    """Return False for a background job, which must not write to the terminal."""
    # Without a controlling terminal, and on systems without job control, nothing else can be in the foreground.
    with suppress(OSError, ValueError, AttributeError):
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    return True
