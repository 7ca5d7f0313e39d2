"""The progress of long work as one line that updates: for notebooks and consoles of jobs."""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TextIO

from deltacli.progress import SILENT, Progress
from deltacli.units import format_count

_SECONDS = 0.5
"""Seconds before a step is shown, and between two updates."""


class LineProgress:
    """Writes the innermost step to a stream, and clears the line when the outermost ends. Thread-safe."""

    def __init__(self, stream: TextIO, ticks: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._ticks = stream, ticks
        self._lock = Lock()
        self._steps: list[_LineStep] = []
        self._shown = 0.0
        self._width = 0

    @contextmanager
    def step(self, what: str, *, unit: str, total: int | None = None) -> Iterator[_LineStep]:
        """Start a step; it is shown once it has taken half a second."""
        started = _LineStep(self, what, unit, total)
        with self._lock:
            if not self._steps:
                self._shown = self._ticks()
            self._steps.append(started)
        try:
            yield started
        finally:
            with self._lock:
                self._steps.remove(started)
                if not self._steps:
                    self._write("")

    def update(self) -> None:
        """Show the newest step, if the line is old enough."""
        with self._lock:
            if self._steps and self._ticks() - self._shown >= _SECONDS:
                self._shown = self._ticks()
                self._write(self._steps[-1].text)

    def _write(self, text: str) -> None:
        if text or self._width:
            self._stream.write(f"\r{text.ljust(self._width)}" + ("" if text else "\r"))
            self._stream.flush()
        self._width = len(text)


class _LineStep:
    def __init__(self, progress: LineProgress, what: str, unit: str, total: int | None) -> None:
        self._progress, self._what, self._unit, self._total = progress, what, unit, total
        self._done = 0

    def advance(self, amount: int = 1) -> None:
        """Add to the amount done."""
        self._done += amount
        self._progress.update()

    @property
    def text(self) -> str:
        """Return the step in words: `reading rows: 12 of 40 files (30 %)`."""
        done = format_count(self._done)
        if not self._total:
            return f"{self._what}: {done} {self._unit}"
        share = 100 * self._done // self._total
        return f"{self._what}: {done} of {format_count(self._total)} {self._unit} ({share} %)"


def chosen_progress(*, shows: bool | None) -> Progress:
    """Return a line on stderr, or nothing. By default it is shown in notebooks only."""
    is_wanted = hasattr(builtins, "get_ipython") if shows is None else shows
    return LineProgress(sys.stderr) if is_wanted else SILENT
