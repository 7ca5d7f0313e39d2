"""Bars and sparklines: numbers as lengths and heights, in blocks of an eighth of a cell, in ASCII without UTF-8."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.terminal.term import Style

_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = "_.:-=+*#"


def bar(canvas: Canvas, value: float, largest: float, width: int, style: Style = Style.SIZE) -> Text:
    """Return a bar of at most `width` cells, as long as `value` is of `largest`; what is more than 0 is seen."""
    if value <= 0 or largest <= 0 or width < 1:
        return Text("")
    eighths = max(round(min(value / largest, 1) * width * 8), 1)
    if canvas.is_ascii:
        return Text("#" * max(round(eighths / 8), 1), str(style), no_wrap=True)
    return Text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), str(style), no_wrap=True)


def split_bar(canvas: Canvas, parts: Sequence[tuple[float, Style]], largest: float, width: int) -> Text:
    """Return one bar of several parts, each in its style: what was added, changed, removed.

    The parts are whole cells, so that they can be told apart without colour: `+`, `~` and `-` in ASCII.
    """
    total = sum(value for value, _ in parts)
    if total <= 0 or largest <= 0 or width < 1:
        return Text("")
    present = [(value, style) for value, style in parts if value > 0]
    cells = max(round(min(total / largest, 1) * width), 1)
    cells = min(max(cells, len(present)), width)
    drawn = Text(no_wrap=True)
    left, value_left = cells, total
    for place, (value, style) in enumerate(present):
        others = len(present) - place - 1
        length = min(max(round(left * value / value_left), 1), max(left - others, 1)) if value_left else 0
        drawn.append((_ASCII_MARKS if canvas.is_ascii else _MARKS).get(style, "█") * length, str(style))
        left, value_left = left - length, value_left - value
    return drawn


_MARKS = {Style.ADDED: "█", Style.CHANGED: "▓", Style.REMOVED: "░"}
_ASCII_MARKS = {Style.ADDED: "+", Style.CHANGED: "~", Style.REMOVED: "-"}


def sparkline(canvas: Canvas, values: Sequence[int], style: Style = Style.SIZE) -> Text:
    """Return one character per value, as high as it is of the largest; 0 is a blank."""
    heights = _ASCII_HEIGHTS if canvas.is_ascii else _HEIGHTS
    largest = max(values, default=0)
    drawn = "".join(heights[-(-value * len(heights) // largest) - 1] if value > 0 else " " for value in values)
    return Text(drawn, str(style), no_wrap=True)
