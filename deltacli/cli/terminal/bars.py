"""Progress bars drawn by rich. Imported when progress is drawn for the first time."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from deltacli.cli.render.terminal.console import speaks_utf8
from deltacli.cli.terminal.steps import Facts, Shown, facts_of, format_seconds
from deltacli.cli.terminal.term import cells, shorten

if TYPE_CHECKING:
    from rich.progress_bar import ProgressBar

_LEAST_BAR, _WIDEST_BAR = 10, 40
_WHOLE = 1_000
"""A full bar."""
_WITHOUT = ((), ("rate",), ("rate", "spent"), ("rate", "spent", "eta"), ("rate", "spent", "eta", "amount"))
"""Columns to leave out on a narrow terminal, the least useful first."""


class _Row(NamedTuple):
    """The texts of a step, in the order of the columns; an empty one takes no space."""

    what: str
    share: str
    amount: str
    rate: str
    spent: str
    eta: str

    @classmethod
    def of(cls, shown: Shown) -> _Row:
        facts: Facts = facts_of(shown)
        left = shown.stable_left()
        eta = "" if left is None else f"ETA {format_seconds(left)}"
        return cls(facts.what, facts.share or "", facts.amount, facts.rate or "", facts.spent, eta)


class _Words(ProgressColumn):
    """A column with a text per step, without markup."""

    def __init__(self, name: str, style: str) -> None:
        is_left = name in ("what", "eta")
        super().__init__(Column(no_wrap=True, justify="left" if is_left else "right"))
        self._name = name
        self._style = style

    def render(self, task: Task) -> Text:
        return Text(str(task.fields[self._name]), self._style)


class _Bar(BarColumn):
    """A bar; without colour, none where the total is not known, because it would look full."""

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        if task.total is None and not task.fields["colour"]:
            bar.total, bar.completed = 1.0, 0.0
        return bar


class Bars:
    """Draws steps below each other: name, bar, share, amount, rate, time, and the remaining time once it is stable."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._console = Console(
            # Only the encoding of the file is used: the output is captured.
            file=sys.stderr if speaks_utf8(os.environ) else io.TextIOWrapper(io.BytesIO(), "ascii"),
            force_terminal=True,
            color_system="standard" if colour else None,
            highlight=False,
            legacy_windows=False,
        )

    def lines(self, steps: Sequence[Shown], width: int) -> list[str]:
        """Return a line per step, none wider than `width` cells."""
        rows = [_Row.of(shown) for shown in steps]
        for left_out in _WITHOUT:
            kept = [name for name in _Row._fields if name not in left_out and any(getattr(row, name) for row in rows)]
            taken = sum(max(cells(getattr(row, name)) for row in rows) + 1 for name in kept)
            if taken + _LEAST_BAR <= width:
                return self._drawn(steps, rows, kept, width, min(width - taken, _WIDEST_BAR))
        return [shorten("  ".join(filter(None, (row.what, row.share or row.amount))), width) for row in rows]

    def _drawn(
        self, steps: Sequence[Shown], rows: Sequence[_Row], names: Sequence[str], width: int, bar_width: int
    ) -> list[str]:
        columns: list[ProgressColumn] = [_Words(name, "bold" if name == "what" else "") for name in names]
        columns.insert(1, _Bar(bar_width, "dim", "cyan", "cyan", "cyan"))
        bars = Progress(*columns, console=self._console, auto_refresh=False)
        for shown, row in zip(steps, rows, strict=True):
            total = None if shown.share is None else _WHOLE
            done = int((shown.share or 0) * _WHOLE)
            bars.add_task(row.what, total=total, completed=done, colour=self._colour, **row._asdict())
        self._console.width = width
        with self._console.capture() as captured:
            self._console.print(bars.make_tasks_table(bars.tasks))
        return captured.get().rstrip("\n").split("\n")
