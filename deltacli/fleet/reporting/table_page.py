"""`doctor table --html`: one table as one page that needs no server and loads nothing. Its script copies commands.

A page allows itself nothing but its own script and style, by their digests. So no element has a `style` attribute, and
nothing of a table becomes markup. Shapes are stretched to the width of the page, and all texts are HTML beside them, so
that these have the same size on every screen. Positions of areas are rules of the page's own style.

Names of tables, columns, partitions and engines are text nodes or quoted attributes, whatever they contain.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from html import escape, unescape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from deltacli.core.errors import command
from deltacli.core.release import VERSION
from deltacli.core.times import format_duration, format_moment, format_timestamp
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count, format_size, keep_units_together, plural
from deltacli.delta.schema.types import simple_name
from deltacli.fleet.policy_file.table_names import show_table_name
from deltacli.operations.doctor.advice import ARCHIVED_FILES, LOST_FILES, dollars, growth, numbers, saves
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.operations.doctor.examined import TableReport

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text around them."""

_OPTION = re.compile(r"(?<=\s)--?[A-Za-z][\w-]*")


def text(given: str) -> str:
    """Return a text as HTML, for content and quoted attributes; what is not seen is replaced or escaped."""
    shown = _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), given)
    return escape(shown.encode("utf-8", "replace").decode())


def words(given: str) -> str:
    """Return a sentence as HTML in which no line ends between a number and its unit."""
    return text(keep_units_together(given, "\xa0"))


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
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def framed(title: str, body: str, *, style: str, script: str | None = None, table: str | None = None) -> str:
    """Return a page around its body, which is HTML. `table` is the URI by which `find_pages` finds it."""
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


# -- `doctor table --html` ---------------------------------------------------------------------------------------------

_INTERVALS = (12, 60)
"""The least and the greatest number of bars over time."""
_POINTS = 300
_COLUMNS = 200
_NONE = '<p class="dim">None.</p>'


def table_page(report: TableReport, index: str | None = None) -> str:
    """Return the page of a table, which is named by its whole path or URI, so that its commands work from anywhere.
    `index` is the address of the page of all tables, relative to this one.
    """
    named = show_table_name(mask_secrets(report.uri))
    found = report.as_json(named)
    areas = _map(found["partitions"], found["files"]["sizeBytes"])
    said, kind = _headline(report, found["advice"])
    title = f"{named}: {said}"
    back = "" if index is None else f'<nav><a href="{text(index)}">All tables</a></nav>\n'
    body = f"""{back}<header>
<h1 class="{kind}">{text(title)}</h1>
<p class="dim">Version {found["snapshotVersion"]}. Examined {text(format_moment(found["nowMs"]))} UTC.</p>
</header>
<main>
<div class="cards">{"".join(_cards(found))}</div>
<h2>Advice</h2>
{_advice(found["advice"], is_complete=not found["notes"])}{_way_back(report, named)}
{_notes(found["notes"])}<h2>Commits</h2>
{_commits(found["timeline"])}
<h2>Sizes of files</h2>
{_classes(found["files"])}
<h2>Partitions</h2>
{areas.html}{_partitions(found["partitions"])}
<h2>Columns and their statistics</h2>
{_schema(report, found["statistics"])}
<h2>Health</h2>
{_health(found)}
</main>
<footer class="dim"><p>Seconds and dollars are estimates. Written by deltacli {VERSION}.</p></footer>
"""
    style = f"{part('page.css')}{part('table_page.css')}{areas.rules}\n"
    return framed(title, body, style=style, script=part("clipboard.js"), table=mask_secrets(report.uri))


def _headline(report: TableReport, advice: Sequence[JsonObject]) -> tuple[str, str]:
    """Return what is most important about a table, and its class: `bad` or nothing."""
    if report.facts.gap is not None:
        return report.facts.gap.message, "bad"
    for one in advice:
        if one["code"] == LOST_FILES:
            return f"{plural(one['now']['lostFiles'], 'live file')} lost", "bad"
        if one["code"] == ARCHIVED_FILES:
            return f"{plural(one['now']['archivedFiles'], 'live file')} archived", "bad"
    return plural(len(advice), "suggestion") if advice else "nothing to improve", ""


def _cards(found: JsonObject) -> Iterator[str]:
    files, log, cost, advice = found["files"], found["log"], found["cost"], found["advice"]
    worst = {one["severity"] for one in advice}
    if advice:
        yield card("suggestions", format_count(len(advice)), kind="bad" if worst & {"error", "warning"} else "")
    yield card("files", format_count(files["count"]), below=f"median {format_size(files['medianBytes'])}")
    yield card("data", format_size(files["sizeBytes"]))
    yield card("rows", "unknown" if files["rows"] is None else format_count(files["rows"]))
    if found["partitions"]["columns"]:
        yield card("partitions", format_count(found["partitions"]["count"]))
    yield card("log", format_size(log["sizeBytes"]), below=plural(log["files"], "file"))
    if log["commitsBehind"]:
        yield card("commits after the checkpoint", format_count(log["commitsBehind"]))
    yield card("requests per read", format_count(cost["requestsPerRead"]))
    if cost["dollarsPerMonth"] is not None:
        yield card("per month, estimated", dollars(cost["dollarsPerMonth"]))


def _advice(items: Sequence[JsonObject], *, is_complete: bool) -> str:
    if not items and is_complete:
        return '<p class="good">Nothing would save much.</p>'
    if not items:
        return "<p>None that is certain.</p>"
    return f'<ol class="advice">{"".join(map(_one_advice, items))}</ol>'


def _way_back(report: TableReport, name: str) -> str:
    """Return the command that reports how missing commits come back."""
    if report.facts.gap is None:
        return ""
    return f"<pre>{command_line(command('repair', table=name, dry_run=True))}</pre>"


def _one_advice(one: JsonObject) -> str:
    gain = saves(one["saves"]).removeprefix("saves ")
    advised = one["command"]
    severity = text(one["severity"])
    return (
        f'<li class="{severity}"><h3>{words(one["message"])}</h3>'
        f'<p class="dim">{severity}: {text(one["code"])}</p><dl><dt>now</dt><dd>{words(numbers(one["now"]))}</dd>'
        f"<dt>afterwards</dt><dd>{words(numbers(one['after']))}</dd>"
        + (f"<dt>saves</dt><dd>{words(gain)}</dd>" if gain else "")
        + f"</dl>{f'<pre>{command_line(advised)}</pre>' if advised else ''}</li>"
    )


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f'<li class="name">{text(note)}</li>' for note in notes)
    return f"<ul>{items}</ul>\n" if notes else ""


def _commits(found: JsonObject) -> str:
    commits: Sequence[JsonObject] = found["commits"]
    if not commits:
        return _NONE
    parts = [
        stacked(f"commits by {key}", series, *_span(commits))
        for key in ("operation", "engine")
        if len(series := _series(commits, key)) > 1 or key == "operation"
    ]
    known = [one for one in commits if one["sizeBytes"] is not None]
    if len(known) > 1:
        chosen = known[:: max(1, len(known) // _POINTS)]
        chosen = chosen if chosen[-1] is known[-1] else [*chosen, known[-1]]
        parts.append(line("live bytes", [(one["timestampMs"], one["sizeBytes"]) for one in chosen], format_size))
        parts.append(line("live files", [(one["timestampMs"], one["files"]) for one in chosen], format_count))
    total = found["totalCommits"]
    more = f'<p class="dim">The newest {len(commits):,} of {total:,} commits.</p>' if total > len(commits) else ""
    return f'<div class="pair">{"".join(parts)}</div>{more}'


def _span(commits: Sequence[JsonObject]) -> tuple[int, int]:
    times = [one["timestampMs"] for one in commits]
    return min(times), max(times)


def _series(commits: Sequence[JsonObject], key: str) -> list[Series]:
    """Return the commits per interval of time by the most frequent values of a key, the others together."""
    begin, end = _span(commits)
    count = min(max(len(commits), _INTERVALS[0]), _INTERVALS[1])
    totals = Counter(str(one[key]) for one in commits)
    names = [name for name, _ in totals.most_common(COLOURS if len(totals) <= COLOURS else COLOURS - 1)]
    values = {name: [0] * count for name in names}
    others = [0] * count
    for one in commits:
        place = min((one["timestampMs"] - begin) * count // max(end - begin, 1), count - 1)
        values.get(str(one[key]), others)[place] += 1
    found = [Series(name, totals[name], values[name]) for name in names]
    return [*found, Series("others", sum(others), others)] if any(others) else found


def _table(headings: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """Return a table: headings with the class of their column, and rows of cells that are HTML."""
    head = "".join(f'<th scope="col" class="{kind}">{title}</th>' for title, kind in headings)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}"{f" data-label={chr(34)}{title}{chr(34)}" if "name" not in kind else ""}>{cell}</td>'
            for (title, kind), cell in zip(headings, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _classes(found: JsonObject) -> str:
    classes = found["classes"]
    if not classes:
        return _NONE
    most = max(one["files"] for one in classes)
    rows = [
        [words(_class_name(one)), bar(one["files"] / most), format_count(one["files"]), format_size(one["sizeBytes"])]
        for one in classes
    ]
    small = found["smallFiles"]
    said = ""
    if small is not None and small:
        limit, target = format_size(found["smallBelowBytes"]), format_size(found["targetBytes"])
        said = f'<p class="dim">{small:,} files are smaller than {limit}; the target is {target}.</p>'
    return _table([("size", "name"), ("", "wide-bar"), ("files", "number"), ("bytes", "number")], rows) + said


def _class_name(one: JsonObject) -> str:
    if one["toBytes"] is None:
        return f"from {format_size(one['fromBytes'])}"
    return (
        f"below {format_size(one['toBytes'])}"
        if not one["fromBytes"]
        else (f"{format_size(one['fromBytes'])} to {format_size(one['toBytes'])}")
    )


_OTHERS = 0.05
"""The share of a table that the smallest partitions have together, which are one area of the map."""


def _map(found: JsonObject, total: int) -> Drawn:
    """Return the partitions as areas; the smallest and those that are not listed are one. `total` are all bytes."""
    items = [one for one in found["items"] if one["sizeBytes"] > 0]
    if len(items) < 2:
        return Drawn("")
    left = total - sum(one["sizeBytes"] for one in items)
    others = found["count"] - len(found["items"])
    while len(items) > 2 and left + items[-1]["sizeBytes"] <= _OTHERS * total:
        left += items.pop()["sizeBytes"]
        others += 1
    areas = [
        Area(
            one["sizeBytes"],
            f"{number}.",
            re.sub(r"(^|/)[^=/]*=", r"\1", one["partition"]),
            _percent(one["sizeBytes"] / total),
            format_size(one["sizeBytes"]),
        )
        for number, one in enumerate(items, 1)
    ]
    if not left:
        return area_map(areas)
    rest = Area(left, f"{others:,}", "others", _percent(left / total), format_size(left), is_rest=True)
    said = f"The grey area is the {plural(others, 'smallest partition')} together: {rest.size}, {rest.share}."
    drawn = area_map([*areas, rest])
    return drawn._replace(html=f'{drawn.html}<p class="dim">{words(said)}</p>')


def _partitions(found: JsonObject) -> str:
    if not found["columns"]:
        return '<p class="dim">The table has no partitions.</p>'
    if not found["items"]:
        return _NONE
    most = max(found["items"][0]["sizeBytes"], 1)
    rows = [
        [
            f"{number}. {text(one['partition'])}",
            bar(one["sizeBytes"] / most),
            format_size(one["sizeBytes"]),
            format_count(one["files"]),
            format_count(one["filesAfter"]),
            "" if one["rows"] is None else format_count(one["rows"]),
        ]
        for number, one in enumerate(found["items"], 1)
    ]
    headings = [
        ("partition", "name"),
        ("", "wide-bar"),
        ("bytes", "number"),
        ("files", "number"),
        ("files after optimize", "number"),
        ("rows", "number"),
    ]
    left = found["count"] - found["shown"]
    skew = "" if (found["skew"] or 0) < 2 else f" The largest has {found['skew']:,g} times the bytes of the median."
    more = f" {left:,} smaller ones are not shown." if left else ""
    said = f'<p class="dim name">{found["count"]:,} by {text(", ".join(found["columns"]))}.{skew}{more}</p>'
    return said + _table(headings, rows)


def _schema(report: TableReport, found: JsonObject) -> str:
    types = {column.name: simple_name(column.data_type) for column in report.snapshot.schema.fields}
    partitions = [
        [text(name), text(types.get(name, "")), "partition", "", ""]
        for name in report.snapshot.metadata.partition_columns[:_COLUMNS]
    ]
    columns = found["columns"]
    rows = [
        [
            text(one["column"]),
            text(one["type"]),
            ("indexed" if one["indexed"] else "not indexed") if one["canSkip"] else "no bounds",
            text(_percent(one["withBounds"])),
            "" if one["filesOpened"] is None else text(_percent(one["filesOpened"])),
        ]
        for one in columns[:_COLUMNS]
    ]
    if not partitions and not rows:
        return _NONE
    headings = [
        ("column", "name"),
        ("type", "name"),
        ("statistics", ""),
        ("files with bounds", "number"),
        ("files opened per search", "number"),
    ]
    left = len(columns) - len(rows)
    more = f'<p class="dim">{left:,} more columns are not shown.</p>' if left else ""
    sampled = f'<p class="dim">From the statistics of {plural(found["sampledFiles"], "file")}.</p>'
    return _table(headings, [*partitions, *rows]) + more + sampled


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 or not share else "<1 %"


def _health(found: JsonObject) -> str:
    log, vectors, tombstones, unreferenced = (found[name] for name in ("log", "vectors", "tombstones", "unreferenced"))
    checkpoint = "none" if log["checkpointVersion"] is None else f"version {log['checkpointVersion']}"
    features = [f"{one['name']}{'' if one['active'] else ' (not used)'}" for one in found["features"]]
    lines = [
        ("log", f"{plural(log['files'], 'file')}, {format_size(log['sizeBytes'])}, {plural(log['commits'], 'commit')}"),
        ("newest checkpoint", f"{checkpoint}, {plural(log['commitsBehind'], 'commit')} after it"),
        ("problems of the log", ", ".join(log["problems"]) or "none"),
        ("deleted rows", f"{format_count(vectors['deletedRows'])} in {plural(vectors['files'], 'file')}"),
        ("tombstones", _tombstones(tombstones)),
        ("unreferenced files", _unreferenced(unreferenced)),
        ("retention of the log", format_duration(found["retention"]["logMs"])),
        ("retention of removed files", format_duration(found["retention"]["filesMs"])),
        ("features", ", ".join(features) or "none"),
        ("growth", "unknown" if found["growth"] is None else growth(found["growth"])),
        ("prices", found["cost"]["prices"]["source"]),
    ]
    return f"<dl>{''.join(f'<dt>{title}</dt><dd>{words(said)}</dd>' for title, said in lines)}</dl>"


def _tombstones(found: JsonObject) -> str:
    return f"{format_count(found['count'])}, {format_count(found['expired'])} expired by deletion time"


def _unreferenced(found: JsonObject | None) -> str:
    if found is None:
        return "unknown"
    return f"{format_count(found['files'])}, {format_size(found['sizeBytes'])}"
