"""What the pages have in common: the look, escaping, the frame of a page that loads nothing, and plots as HTML and SVG
without any script: lines, stacked bars, bars in rows, and a map of areas.

A page allows itself nothing but its own script and style, by their digests. So no element has a `style` attribute, and
nothing of a table becomes markup. Shapes are stretched to the width of the page, and all texts are HTML beside them, so
that these have the same size on every screen. Positions of areas are rules of the page's own style.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from html import escape, unescape
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote

from deltacli.core.patterns import pattern
from deltacli.core.units import format_timestamp, with_units

_UNSEEN = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text around them."""

_OPTION = pattern(r"(?<=\s)--?[A-Za-z][\w-]*")


def text(given: str) -> str:
    """Return a text as HTML, for content and for quoted attributes. Lone surrogates become question marks, and
    characters that are not seen their escapes.
    """
    shown = _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), given)
    return escape(shown.encode("utf-8", "replace").decode())


def words(given: str) -> str:
    """Return a sentence as HTML in which no line ends between a number and its unit."""
    return text(with_units(given, "\xa0"))


def command_line(given: str) -> str:
    """Return a command as HTML whose lines do not end within an option."""
    return _OPTION.sub(r'<span class="option">\g<0></span>', text(given))


_ABOUT = "deltacli-table"
_HEAD_BYTES = 65_536


def find_pages(directory: str) -> dict[str, str]:
    """Return the pages of tables in a directory: URI of the table -> path of the file. Of two pages of a table the one
    that was written last is taken. Raises OSError.
    """
    found: dict[str, str] = {}
    pages = [entry for entry in os.scandir(directory) if entry.name.endswith(".html") and entry.is_file()]
    for entry in sorted(pages, key=lambda entry: (entry.stat().st_mtime_ns, entry.name)):
        with open(entry.path, "rb") as page:
            head = page.read(_HEAD_BYTES).partition(b"<title>")[0].decode(errors="replace")
        if match := re.search(f'<meta name="{_ABOUT}" content="([^"]*)">', head):
            found[unescape(match[1])] = entry.path
    return found


def address(path: str, start: str) -> str:
    """Return the address of a file in a page that is in the directory `start`."""
    return f"./{quote(os.fsencode(os.path.relpath(os.path.abspath(path), os.path.abspath(start))))}"


def part(name: str) -> str:
    """Return a style or a script of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def framed(title: str, body: str, *, style: str, script: str | None = None, table: str | None = None) -> str:
    """Return a page around its body, which is HTML. The script is the last element. `table` is the URI of the table of
    the page, by which `find_pages` finds it.
    """
    about = "" if table is None else f'<meta name="{_ABOUT}" content="{text(table)}">\n'
    runs = "" if script is None else f"script-src '{_digest(script)}'; "
    policy = f"default-src 'none'; {runs}style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    last = "" if script is None else f"<script>{script}</script>\n"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{about}<title>{text(title)}</title>
<style>{style}</style>
</head>
<body>
{body}{last}</body>
</html>
"""


def card(title: str, value: str, *, kind: str = "", below: str = "") -> str:
    """Return a number with its title; `kind` is `bad`, `good` or nothing, `below` a line under it."""
    more = f'<span class="dim">{words(below)}</span>' if below else ""
    return f'<div class="card"><span class="dim">{text(title)}</span><b class="{kind}">{words(value)}</b>{more}</div>'


def _digest(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


COLOURS = 8
"""The number of colours of groups; the last one is for all others."""
_WIDTH, _HEIGHT = 600, 120


class Drawn(NamedTuple):
    """HTML, and the rules that belong into the style of the page."""

    html: str
    rules: str = ""


def day(timestamp_ms: int) -> str:
    """Return the day of a moment."""
    return format_timestamp(timestamp_ms)[:10]


def line(title: str, points: Sequence[tuple[int, int]], shown: Callable[[int], str]) -> str:
    """Return values over time, each held until the next one, with the axis below."""
    begin, end = points[0][0], points[-1][0]
    values = [value for _, value in points]
    high = max(*values, 1)
    low = min(*values, 0)
    span = max(end - begin, 1)
    path = list[str]()
    for place, (at, value) in enumerate(points):
        x = 2 + (at - begin) / span * (_WIDTH - 4)
        y = _HEIGHT - 2 - (value - low) / (high - low) * (_HEIGHT - 4)
        path.append(f"M{x:.1f} {y:.1f}" if not place else f"H{x:.1f}V{y:.1f}")
    label = f"{title}: from {shown(values[0])} on {day(begin)} to {shown(values[-1])} on {day(end)}"
    return (
        f"<figure><figcaption><span>{text(title)}</span><b>{words(shown(values[-1]))}</b></figcaption>"
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(label)}"><path d="{"".join(path)}" vector-effect="non-scaling-stroke"/></svg>'
        f"{_axis(begin, end, f'highest {shown(max(values))}')}</figure>"
    )


def _axis(begin: int, end: int, middle: str) -> str:
    first, last = format_timestamp(begin), format_timestamp(end)
    ends = [first[:10], last[:10]]
    if first == last:
        ends = [f"{first[:10]} {first[11:16]}", ""]
    elif ends[0] == ends[1]:  # shorter than a day: the time of the day
        until = 16 if first[:16] != last[:16] else 19
        ends = [f"{first[:10]} {first[11:until]}", last[11:until]]
    return f'<div class="axis dim"><span>{ends[0]}</span><span>{words(middle)}</span><span>{ends[1]}</span></div>'


class Series(NamedTuple):
    """A group of a stacked plot: its name, its total, and its value in each interval."""

    name: str
    total: int
    values: Sequence[int]


def stacked(title: str, series: Sequence[Series], begin: int, end: int) -> str:
    """Return counts per interval of time, stacked by group, with a legend."""
    count = len(series[0].values)
    heights = [sum(one.values[place] for one in series) for place in range(count)]
    high = max(*heights, 1)
    width = _WIDTH / count
    bars = list[str]()
    for place in range(count):
        y = float(_HEIGHT)
        for colour, one in enumerate(series):
            if value := one.values[place]:
                height = value / high * (_HEIGHT - 4)
                y -= height
                bars.append(
                    f'<rect class="c{colour}" x="{place * width:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
                    f'height="{height:.1f}"><title>{text(one.name)}: {value:,}</title></rect>'
                )
    legend = "".join(
        '<li><svg class="key" viewBox="0 0 1 1" aria-hidden="true">'
        f'<rect class="c{colour}" width="1" height="1"/></svg>'
        f'<span class="name">{text(one.name)}</span> <b>{one.total:,}</b></li>'
        for colour, one in enumerate(series)
    )
    return (
        f"<figure><figcaption><span>{text(title)}</span></figcaption>"
        f'<svg class="bars" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(title)}">{"".join(bars)}</svg>'
        f'{_axis(begin, end, f"at most {high:,} per bar")}<ul class="legend">{legend}</ul></figure>'
    )


def bar(share: float) -> str:
    """Return a bar for a cell of a table; `share` is from 0 to 1."""
    return (
        '<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="c0" width="{100 * min(max(share, 0), 1):.2f}" height="1"/></svg>'
    )


class Area(NamedTuple):
    """A part of a map. `title` is shown by the pointer. The area has two lines, `number` and `label`, `share` and
    `size`, of which the style shows what fits.
    """

    value: int
    number: str
    label: str
    share: str
    size: str
    is_rest: bool = False

    @property
    def title(self) -> str:
        """Return all texts of the area."""
        return f"{self.label}: {self.size}, {self.share}"


def area_map(areas: Sequence[Area]) -> Drawn:
    """Return areas whose sizes are their values, the largest first: rows of them that are as square as possible."""
    total = sum(one.value for one in areas)
    places = _squarified([one.value / total for one in areas])
    parts, rules = list[str](), list[str]()
    for number, (one, (x, y, width, height)) in enumerate(zip(areas, places, strict=True)):
        rules.append(
            f"#a{number}{{left:{100 * x:.3f}%;top:{100 * y:.3f}%;width:{100 * width:.3f}%;height:{100 * height:.3f}%}}"
        )
        lines = (one.number, one.label), (one.share, one.size)
        shown = "".join(f"<p><b>{words(first)}</b> <span>{words(second)}</span></p>" for first, second in lines)
        colour = COLOURS - 1 if one.is_rest else number % (COLOURS - 1)
        parts.append(f'<div id="a{number}" class="area c{colour}" title="{text(one.title)}">{shown}</div>')
    return Drawn(f'<div class="map">{"".join(parts)}</div>', "\n".join(rules))


_ASPECT = 4.0
"""The width of the map per height."""


def _squarified(shares: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """Return x, y, width and height of each share in a square of one: rows are laid along the shorter side, and a row
    ends where one more area would make its areas longer.
    """
    found: list[tuple[float, float, float, float]] = []
    x, y, width, height = 0.0, 0.0, _ASPECT, 1.0
    left = [share * _ASPECT for share in shares if share > 0]
    while left:
        side = min(width, height)
        taken = 1
        while taken < len(left) and _worst(left[: taken + 1], side) <= _worst(left[:taken], side):
            taken += 1
        row, left = left[:taken], left[taken:]
        depth = sum(row) / side
        at = 0.0
        for one in row:
            length = one / depth
            if width >= height:
                found.append((x / _ASPECT, y + at, depth / _ASPECT, length))
            else:
                found.append(((x + at) / _ASPECT, y, length / _ASPECT, depth))
            at += length
        if width >= height:
            x, width = x + depth, max(width - depth, 1e-9)
        else:
            y, height = y + depth, max(height - depth, 1e-9)
    return [*found, *[(0.0, 0.0, 0.0, 0.0)] * (len(shares) - len(found))]


def _worst(row: Sequence[float], side: float) -> float:
    depth = sum(row) / side
    return max(max(depth * depth / one, one / (depth * depth)) for one in row)
