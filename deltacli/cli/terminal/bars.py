"""Draw progress bars with rich.

    copying  ━━━━━━━━━╺━━━━━━━━━━  45%  9/20 files  3 files/s  0:03  ETA 0:04

This module is imported for the first drawing, because importing rich takes longer than most commands.
"""

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
from deltacli.cli.terminal.characters import count_cells, shorten
from deltacli.cli.terminal.steps import StepSnapshot, format_seconds, format_step

if TYPE_CHECKING:
    from rich.progress_bar import ProgressBar

_MIN_BAR_CELLS = 10
_MAX_BAR_CELLS = 40
_BAR_TOTAL = 1_000
"""Value of a completed bar. Bars show shares in steps of a thousandth."""

_OMITTED_COLUMNS = ((), ("rate",), ("rate", "spent"), ("rate", "spent", "eta"), ("rate", "spent", "eta", "amount"))
"""Sets of columns to omit on narrow terminals. The first set that leaves room for the bar is used."""


class _Row(NamedTuple):
    """The texts of a step, in the order of the columns. A column without any text is omitted."""

    what: str
    share: str
    amount: str
    rate: str
    spent: str
    eta: str

    @classmethod
    def from_step(cls, snapshot: StepSnapshot) -> _Row:
        texts = format_step(snapshot)
        remaining = snapshot.estimate_stable_remaining()
        eta = "" if remaining is None else f"ETA {format_seconds(remaining)}"
        return cls(texts.what, texts.share or "", texts.amount, texts.rate or "", texts.spent, eta)


class _TextColumn(ProgressColumn):
    """A column with the texts of a field of `_Row`. Unlike rich's TextColumn, it does not interpret markup."""

    def __init__(self, name: str, style: str) -> None:
        is_left = name in ("what", "eta")
        super().__init__(Column(no_wrap=True, justify="left" if is_left else "right"))
        self._name = name
        self._style = style

    def render(self, task: Task) -> Text:
        return Text(str(task.fields[self._name]), self._style)


class _StepBarColumn(BarColumn):
    """A column with bars.

    If the total is not known, rich draws a pulsing bar. Without colour, that looks like a full bar, so an
    empty one is drawn.
    """

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        if task.total is None and not task.fields["colour"]:
            bar.total = 1.0
            bar.completed = 0.0
        return bar


class Bars:
    """Draws one line per step, with aligned columns: name, bar, share, amount, rate, elapsed and remaining time."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        # Nothing is written to this file, because the output is captured. From its encoding, rich concludes whether
        # to draw bars with `━` or `-`.
        is_utf8 = speaks_utf8(os.environ)
        file = sys.stderr if is_utf8 else io.TextIOWrapper(io.BytesIO(), "ascii")
        self._console = Console(
            file=file,
            force_terminal=True,
            color_system="standard" if colour else None,
            highlight=False,
            legacy_windows=False,
        )

    def draw_lines(self, steps: Sequence[StepSnapshot], width: int) -> list[str]:
        """Draw the bars of steps.

        Args:
            steps: The steps.
            width: The maximum width of a line in cells.

        Returns:
            One line per step.
        """
        rows = [_Row.from_step(snapshot) for snapshot in steps]
        for omitted in _OMITTED_COLUMNS:
            columns = [name for name in _columns_with_texts(rows) if name not in omitted]
            bar_cells = width - sum(_column_cells(rows, name) + 1 for name in columns)
            if bar_cells >= _MIN_BAR_CELLS:
                return self._draw_table(steps, rows, columns, width, min(bar_cells, _MAX_BAR_CELLS))

        # The terminal is too narrow for a bar.
        texts = ["  ".join(filter(None, (row.what, row.share or row.amount))) for row in rows]
        return [shorten(text, width) for text in texts]

    def _draw_table(
        self, steps: Sequence[StepSnapshot], rows: Sequence[_Row], names: Sequence[str], width: int, bar_cells: int
    ) -> list[str]:
        """Draw a table with a row per step. The bar is the second column.

        Args:
            steps: The steps.
            rows: The texts of the steps.
            names: The fields of `_Row` to show.
            width: The width of the table in cells.
            bar_cells: The width of the bar in cells.
        """
        columns: list[ProgressColumn] = [_TextColumn(name, "bold" if name == "what" else "") for name in names]
        columns.insert(1, _StepBarColumn(bar_cells, "dim", "cyan", "cyan", "cyan"))
        progress = Progress(*columns, console=self._console, auto_refresh=False)
        for snapshot, row in zip(steps, rows, strict=True):
            total = None if snapshot.share is None else _BAR_TOTAL
            completed = int((snapshot.share or 0) * _BAR_TOTAL)
            progress.add_task(row.what, total=total, completed=completed, colour=self._colour, **row._asdict())

        self._console.width = width
        with self._console.capture() as captured:
            self._console.print(progress.make_tasks_table(progress.tasks))
        return captured.get().rstrip("\n").split("\n")


def _columns_with_texts(rows: Sequence[_Row]) -> list[str]:
    return [name for name in _Row._fields if any(getattr(row, name) for row in rows)]


def _column_cells(rows: Sequence[_Row], name: str) -> int:
    return max(count_cells(getattr(row, name)) for row in rows)
