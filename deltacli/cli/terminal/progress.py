"""Show the progress of operations on stderr.

An operation reports its progress as steps, which may be nested: `validate` contains `reading the log`.
Depending on stderr, a step is shown as

* a progress bar that is redrawn, on a terminal (`BarPainter`);
* a line every few seconds, in a log file (`LogPainter`);
* a JSON object twice per second, for a program (`JsonPainter`).

Operations only add to counters. A separate thread draws them a few times per second. So reporting progress
costs one addition, the elapsed time advances even while a request hangs, and a blocked terminal does not stop
the operation.

This module is imported only if progress is shown.
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
"""Time to wait for the drawing thread. A terminal needs less to draw a line, and users do not notice the delay."""

_MAX_TICK_SECONDS = 0.5
"""Maximum time between two checks whether to draw."""

_DEFAULT_WIDTH = 80


class Painter:
    """Base class for the ways to show steps. Methods are called by one thread at a time.

    Attributes:
        delay: Time before the first drawing, in seconds. Short operations show no progress.
        interval: Minimum time between two drawings, in seconds.
        announces_steps: Whether `begin` and `end` write something.
    """

    delay: float
    interval: float
    announces_steps: bool

    def begin(self, snapshot: StepSnapshot) -> None:
        """Announce the beginning of a step."""

    def show(self, steps: Sequence[StepSnapshot]) -> None:
        """Draw the running steps.

        Args:
            steps: The outermost and the innermost step. A single step if no steps are nested, or if the outermost
                step is a plan, which is shown as one bar.
        """

    def show_notice(self, text: str) -> None:
        """Show a text instead of the steps."""

    def end(self, snapshot: StepSnapshot) -> None:
        """Announce the end of a step."""

    def hide(self) -> None:
        """Erase the drawn lines."""


class LiveProgress:
    """Collects the running steps of a process and draws them with a painter.

    Steps are begun and ended by the main thread, and may be advanced by any thread. A background thread calls
    `tick` until `close` is called.
    """

    def __init__(
        self,
        painter: Painter,
        *,
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
        began: float | None = None,
    ) -> None:
        """Create the progress display without any step.

        Args:
            painter: The painter that draws the steps.
            clock: A function that returns a time in seconds, such as `time.monotonic`.
            ticking: Whether to start a thread that calls `tick`. Tests call `tick` themselves instead.
            began: The start of the painter's delay, as a time of `clock`; None for the beginning of the first step.
        """
        self._painter = painter
        self._clock = clock
        self._ticking = ticking
        self._ticker: threading.Thread | None = None
        self._closed = threading.Event()
        # Protects the painter. Reentrant, because a signal handler may run in the thread that holds the lock.
        self._lock = threading.RLock()
        # Protects the steps. Not held while writing, so that a blocked terminal does not stop the operation.
        self._steps_lock = threading.RLock()
        self._steps: list[StepState] = []
        self._stated_beginning = began
        self._began: float | None = None
        self._last_drawn: float | None = None
        self._notice: str | None = None

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[StepState]:
        """Show a step while the context is open. A step whose total is 0 is not shown.

        Args:
            what: The name of the step, such as `reading the log`.
            unit: The unit of its counter, such as `files`. Amounts of `bytes` are shown as `1.5 MiB`.
            total: The final value of the counter; None if it is not known.
        """
        return self._run(StepState(what, unit, total))

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[StepState]:
        """Show a step whose parts take different times. Parameters are as for `step`.

        The remaining time is estimated from weights: copying 10 files takes a time in proportion to their bytes.

        Args:
            what: The name of the step.
            unit: The unit of its counter.
            total: The number of parts.
            weight: The weight of all parts together, such as their size in bytes.
        """
        return self._run(StepState(what, unit, total, weight))

    @contextmanager
    def plan(self, what: str, costs: Mapping[str, float]) -> Iterator[PlanState]:
        """Show an operation of several steps as a single bar.

        Args:
            what: The name of the operation.
            costs: The names of its steps, in the order in which they end, and their expected seconds per unit.
        """
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
            steps = self.take_snapshots()
            if steps:
                self._painter.show(steps)
            else:
                self._painter.hide()

    def take_snapshots(self) -> list[StepSnapshot]:
        """Return snapshots of the steps to draw: the outermost step, and the innermost step if it differs."""
        now = self._clock()
        with self._steps_lock:
            if not self._steps:
                return []
            outermost = self._steps[0]
            innermost = self._steps[-1]
            planned = self._find_planned_step()
            snapshots = [StepSnapshot.take(innermost, now, planned)]
            # The bar of a step within a plan shows the share of the plan. A second bar would repeat it.
            if outermost is not innermost and outermost is not planned:
                snapshots.insert(0, StepSnapshot.take(outermost, now))
            return snapshots

    def _find_planned_step(self) -> StepState | None:
        """Return the innermost step that has a plan."""
        return next((step for step in reversed(self._steps) if step.plan is not None), None)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the drawn lines while the context is open. The next tick draws them again."""
        with self._lock:
            self._painter.hide()
            self._last_drawn = self._clock()
            yield

    def show_interruption(self) -> None:
        """Let the next tick show that the run was interrupted. Signal handlers call this, so it takes no lock."""
        self._notice = _INTERRUPTED_NOTICE

    def close(self) -> None:
        """Erase the drawn lines and stop drawing."""
        with self._lock:
            self._closed.set()
            self._painter.hide()

    def try_close(self) -> None:
        """Erase the drawn lines and stop drawing, unless the drawing thread is blocked by the terminal."""
        if self._lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            self.close()


class BarPainter(Painter):
    """Draws progress bars in the last lines of a terminal. Lines are never wider than the terminal.

    Bars are drawn by rich, which is imported for the first drawing: most commands finish before.
    """

    delay = 0.4
    interval = 0.1
    announces_steps = False

    def __init__(
        self, write: Callable[[str], None], width: Callable[[], int], may_draw: Callable[[], bool], *, colour: bool
    ) -> None:
        """Create a painter.

        Args:
            write: A function that writes a text to the terminal.
            width: A function that returns the current width of the terminal, in cells.
            may_draw: A function that returns False while this process is in the background.
            colour: Whether bars are coloured.
        """
        self._write = write
        self._width = width
        self._may_draw = may_draw
        self._colour = colour
        self._bars: Bars | None = None
        # The cursor is at the end of the last drawn line.
        self._drawn_lines = 0

    def show(self, steps: Sequence[StepSnapshot]) -> None:
        if not self._may_draw():
            return
        if self._bars is None:
            from deltacli.cli.terminal.bars import Bars

            self._bars = Bars(colour=self._colour)
        # Some terminals wrap to the next line when the last cell of a line is written.
        self._draw(self._bars.draw_lines(steps, self._width() - 1))

    def show_notice(self, text: str) -> None:
        if self._may_draw():
            self._draw([shorten(text, self._width() - 1)])

    def hide(self) -> None:
        if not self._drawn_lines:
            return
        # "\x1b[K" erases to the end of the line, "\x1b[J" to the end of the screen.
        erase = "\x1b[K" if self._drawn_lines == 1 else "\x1b[J"
        self._write(f"{self._format_cursor_up()}{erase}")
        self._drawn_lines = 0

    def _draw(self, lines: Sequence[str]) -> None:
        cursor_up = self._format_cursor_up()
        has_fewer_lines = len(lines) < self._drawn_lines
        # Set the number before writing: if a signal interrupts the write, the lines are still erased.
        self._drawn_lines = len(lines)
        text = "\n".join(f"{line}\x1b[K" for line in lines)
        erase_below = "\x1b[J" if has_fewer_lines else ""
        self._write(f"{cursor_up}{text}{erase_below}")

    def _format_cursor_up(self) -> str:
        """Return the escape sequence that moves the cursor to the beginning of the first drawn line."""
        if self._drawn_lines < 2:
            return "\r"
        return f"\r\x1b[{self._drawn_lines - 1}A"


class LogPainter(Painter):
    """Writes a line every few seconds, for log files and terminals with `TERM=dumb`, which cannot redraw lines."""

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
    """Writes a JSON object when a step begins or ends, and twice per second while it runs.

    The schema of the objects is docs/schemas/progress.json.
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
    """Start showing progress on stderr.

    Args:
        choice: The format of progress. For `json`, JSON objects are written. Otherwise, bars are drawn on a
            terminal, and lines are written to other files.
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
    """Return False if the shell runs this process in the background. Then it must not write to the terminal."""
    # Without a controlling terminal, or without job control, there are no background processes.
    with suppress(OSError, ValueError, AttributeError):
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    return True
