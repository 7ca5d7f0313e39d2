"""Draw wall times against task slots as an SVG that is readable on light and on dark backgrounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 24, 48
_COLOURS = {"listing": "#2f81f7", "footers": "#d9822b", "deletes": "#2da169", "optimize": "#a371f7"}
_TEXT = "#808891"
"""A grey with a contrast of more than 3.5 against white and against black."""

Point = tuple[str, int, float]
"""A kind of work, the number of slots (0: embedded), and seconds."""


def draw(points: Sequence[Point]) -> str:
    """Return the plot: a line per kind, and a dashed line where the embedded engine is. Both axes are logarithmic."""
    slots = sorted({count for _, count, _ in points if count})
    seconds = [value for *_, value in points]
    low, high = 2 ** math.floor(math.log2(min(seconds))), 2 ** math.ceil(math.log2(max(seconds)))

    def across(count: float) -> float:
        share = math.log(count / slots[0]) / math.log(slots[-1] / slots[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def down(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [*_axes(slots, low, high, across, down)]
    for kind, colour in _COLOURS.items():
        parts += _series(kind, colour, points, across, down)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" font-size="13" fill="{_TEXT}" role="img" '
        'aria-label="Wall time against task slots, beside the embedded engine">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _axes(
    slots: Sequence[int], low: float, high: float, across: Callable[[float], float], down: Callable[[float], float]
) -> list[str]:
    parts = []
    value = low
    while value <= high:
        y = down(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{_TEXT}" stroke-opacity=".35"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g} s</text>')
        value *= 2
    for count in slots:
        label = f'<text x="{across(count):.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{count}</text>'
        parts.append(label)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">task slots</text>')
    return parts


def _series(
    kind: str,
    colour: str,
    points: Sequence[Point],
    across: Callable[[float], float],
    down: Callable[[float], float],
) -> list[str]:
    own = sorted((count, value) for name, count, value in points if name == kind and count)
    here = next(value for name, count, value in points if name == kind and not count)
    line = " ".join(f"{across(count):.1f},{down(value):.1f}" for count, value in own)
    y = down(here)
    dots = (f'<circle cx="{across(count):.1f}" cy="{down(value):.1f}" r="4" fill="{colour}"/>' for count, value in own)
    order = list(_COLOURS).index(kind)
    label = _TOP + 14 + 40 * order
    return [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>',
        *dots,
        f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{colour}" stroke-dasharray="6 5"/>',
        f'<path d="M{_WIDTH - _RIGHT + 12} {label - 4}h22" stroke="{colour}" stroke-width="2.5"/>',
        f'<text x="{_WIDTH - _RIGHT + 40}" y="{label}">{kind}</text>',
        f'<path d="M{_WIDTH - _RIGHT + 12} {label + 12}h22" stroke="{colour}" stroke-dasharray="6 5"/>',
        f'<text x="{_WIDTH - _RIGHT + 40}" y="{label + 16}">embedded</text>',
    ]
