"""`fleet status --html`: the status as one page that needs no server and loads nothing.

The data are a JSON block, which the script of the page draws by text nodes only, 100 rows at a time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from deltacli.core.documents import dumps
from deltacli.core.errors import UsageError, command, is_command, parameter, quote_table
from deltacli.core.times import format_moment
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_size
from deltacli.fleet.policy_file.table_names import make_table_uri, shorten_table_name
from deltacli.fleet.reporting.table_page import address, card, find_pages, framed, part, text, words
from deltacli.fleet.status import Cause, FleetStatus, TableStatus, Weight, find_causes
from deltacli.storage.secrets import mask_secrets

_NUMBERS = ("liveFiles", "liveBytes", "rows", "logBytes", "tombstones", "findings", "copyLag")
_MARKS = {"losesRows": (Weight.ROWS_LOST, "may lose rows"), "unreadable": (Weight.UNREADABLE, "cannot be read")}
_IN_ROW = {"liveFiles": ("files", format_count), "liveBytes": ("data", format_size), "logBytes": ("log", format_size)}
_VALIDATED = "validated (UTC)"
_FIRST_ROWS = 200
"""Tables that are listed without the script, which replaces their rows."""
_MOST_CAUSES = 20
_MOST_NAMES = 100
"""Tables of a cause that are listed; the rows below have all of them."""


_NOTHING: Mapping[str, str] = MappingProxyType({})


def status_page(
    status: FleetStatus,
    file: str,
    now_ms: int,
    pages: Mapping[str, str] = _NOTHING,
    faults: Mapping[str, str] = _NOTHING,
) -> str:
    """Return the page. `pages`: shown names of tables -> relative addresses; `faults`: those without a page -> why."""
    found = find_causes((table.shown_name, table.found) for table in status.tables)
    causes = [cause for cause in found if len(cause.tables) > 1]  # the row of a table has what is its own
    title = f"deltacli: {status.headline}"
    is_validated = any(table.validated_ms is not None for table in status.tables)
    body = f"""<header>
<h1 class="{"bad" if status.alerted else "good"}">{text(title)}</h1>
<p>Tables of {text(file)}; commands are for the directory {text(os.path.dirname(os.path.abspath(file)))}</p>
<p class="dim">{text(_run(status))}. Written {text(format_moment(now_ms))} UTC.</p>
</header>
<div class="cards">{"".join(_cards(status))}</div>
{_alerts(causes, file)}<section id="trends" hidden>
<h2>All tables, run by run</h2>
{_first_run(status)}<div class="cards" id="plots"></div>
</section>
<h2>Tables</h2>
{_without_script(len(status.tables))}<div class="tools" id="tools" hidden>
<input type="search" id="find" placeholder="Find a table or an alert" aria-label="Find a table or an alert">
<select id="group" aria-label="Group"><option value="">all groups</option></select>
<select id="only" aria-label="Alerts"><option value="">with and without alerts</option>
<option value="alerts">with alerts</option><option value="losesRows">that may lose rows</option>
<option value="unreadable">that cannot be read</option></select>
<span class="dim" id="shown"></span>
</div>
<div class="scroll"><table><thead><tr id="headings">{_headings(is_validated=is_validated)}</tr></thead>
<tbody id="rows">{"".join(_row(one, file, pages, faults, is_validated) for one in status.tables[:_FIRST_ROWS])}</tbody>
</table></div>
<p class="dim" id="more" hidden>More rows follow when you scroll.</p>
{"" if pages or faults else _without_pages(file)}
<script type="application/json" id="data">{_data(status, causes, file, pages, faults)}</script>
"""
    return framed(title, body, style=part("page.css"), script=part("clipboard.js") + part("page.js"))


def linked_pages(status: FleetStatus, directory: str, start: str) -> dict[str, str]:
    """Return the tables of which a directory has a page, by their shown names -> its address relative to `start`.

    Raises UsageError for what is not a directory.
    """
    try:
        found = find_pages(directory)
    except OSError as fault:
        where, facts = parameter("fleet status.pages", directory), {"expected": "a directory of pages of tables"}
        writing = f"add {parameter('fleet status.write_pages', True)}, which writes them"
        raise UsageError(f"{where}: {(fault.strerror or '').lower()}", facts=facts, hint=writing) from fault
    uris = {table.shown_name: make_table_uri(table.shown_name) for table in status.tables}
    return {name: address(found[uri], start) for name, uri in uris.items() if uri in found}


def _without_pages(file: str) -> str:
    """Return the command that writes and links pages of the tables."""
    where = {"html": "site/index.html", "pages": "site", "write_pages": True}
    writing = command("fleet status", file, table=None, **where)
    return f'<p class="dim">A page for each table, linked here: <code>{text(writing)}</code></p>\n'


def _without_script(tables: int) -> str:
    """Return what is missing where the script is turned off."""
    left = f" These are the first {_FIRST_ROWS} of {tables:,} tables." if tables > _FIRST_ROWS else ""
    return f"<noscript><p>Search, sorting and plots need the script of this page, which is off.{left}</p></noscript>\n"


def _headings(*, is_validated: bool) -> str:
    titles = ["table", "alert", "group", *([_VALIDATED] if is_validated else [])]
    numbers = "".join(f'<th scope="col" class="number">{title}</th>' for title, _ in _IN_ROW.values())
    return "".join(f'<th scope="col">{title}</th>' for title in titles) + numbers


def _row(table: TableStatus, file: str, pages: Mapping[str, str], faults: Mapping[str, str], is_validated: bool) -> str:
    """Return the row of a table, as the script draws it but for what is opened, copied and plotted."""
    name, shown, weights = table.shown_name, text(shorten_table_name(table.shown_name, file)), table.weights
    link = f' <a class="page" href="{text(pages.get(name, ""))}" aria-label="the page of {shown}">page</a>'
    why = f'<span class="fault dim">page not written: {text(faults.get(name, ""))}</span>'
    marks = [f'<span class="mark bad">{title}</span> ' for weight, title in _MARKS.values() if weight in weights]
    advised = [_remedy(_short(advice, name, file)) for advice in table.advice]
    alerts = "<br>".join([*(words(alert.brief) for alert in table.found), *advised])
    numbers = [
        f'<td class="number" data-label="{title}">{words(shown_as(table.numbers[number]))}</td>'
        if number in table.numbers
        else "<td></td>"
        for number, (title, shown_as) in _IN_ROW.items()
    ]
    if is_validated:
        moment = "" if table.validated_ms is None else format_moment(table.validated_ms)[:16]
        numbers.insert(0, f'<td data-label="{_VALIDATED}">{moment}</td>')
    return (
        f'<tr><td class="name">{shown}{link if name in pages else ""}{why if name in faults else ""}</td>'
        f'<td class="alert">{"".join(marks)}{alerts}</td>'
        f'<td data-label="group">{text(table.group)}</td>{"".join(numbers)}</tr>\n'
    )


def _run(status: FleetStatus) -> str:
    newest = status.newest
    if newest is None:
        return "No run yet"
    return f"Newest run: {newest.state}, started {format_moment(newest.started_ms)} UTC"


def _first_run(status: FleetStatus) -> str:
    if any(len(points) > 1 for points in status.trends.values()):
        return ""
    begin = "The numbers of one run. " if status.trends else ""
    return f'<p class="dim">{begin}Plots appear from the second run on.</p>\n'


def _cards(status: FleetStatus) -> Iterable[str]:
    summary = status.summary()
    for name, title, below in (
        ("tables", "tables", ""),
        ("alerts", "tables with alerts", ""),
        ("unreadable", "tables that cannot be read", "in their newest version"),
        ("losingRows", "tables that may lose rows", "files are missing or damaged"),
        ("unknown", "thresholds without data", "until a run reads the numbers"),
        ("runs", "runs so far", ""),
    ):
        kind = "bad" if name in ("alerts", "unreadable", "losingRows") else ""
        if summary[name]:
            yield card(title, f"{summary[name]:,}", kind=kind, below=below)


def _alerts(causes: Sequence[Cause], file: str) -> str:
    """Return causes of alerts, each with the number of its tables and the commands that the script makes links."""
    if not causes:
        return ""
    marks = [' class="bad"' if cause.weight <= Weight.FAILED else "" for cause in causes]
    shown = [
        f"<li{mark}>{words(cause.sentence_by(shorten_table_name(cause.tables[0], file)))}{_remedies(cause, file)}</li>"
        for cause, mark in zip(causes[:_MOST_CAUSES], marks, strict=False)
    ]
    left = len(causes) - _MOST_CAUSES
    more = [f'<li id="others">{left:,} more, in the tables below</li>'] if left > 0 else []
    return f'<h2>Alerts of several tables</h2>\n<ul id="alerts">{"".join(shown + more)}</ul>\n'


def _remedies(cause: Cause, file: str) -> str:
    """Return what to do about a cause: once, or for each of the first tables, then the others, which a click shows."""
    advised = {advice: _remedy(_short(advice, name, file)) for name, advice in cause.first}
    if len(advised) < 2:
        remedies = [f"<br>{remedy}" for remedy in advised.values()]
    else:
        remedies = [
            f"<br><b>{text(shorten_table_name(name, file))}</b><br>{advised[advice]}" for name, advice in cause.first
        ]
    return "".join(remedies) + _others(cause, file, len(_named(cause)))


def _short(advice: str, table: str, file: str) -> str:
    """Return a command with the short name of its table, which leads to it from the directory of the policy file."""
    return advice.replace(quote_table(table), quote_table(shorten_table_name(table, file)))


def _named(cause: Cause) -> Sequence[str]:
    """Return the tables whose remedies have their names."""
    return [name for name, _ in cause.first] if len({advice for _, advice in cause.first}) > 1 else []


def _listed(cause: Cause) -> Sequence[str]:
    """Return the tables of a cause that are listed below those with remedies."""
    named = {*_named(cause)}
    left = [name for name in cause.tables if name not in named] if len(cause.tables) > 1 else []
    return left[:_MOST_NAMES]


def _others(cause: Cause, file: str, named: int) -> str:
    listed = _listed(cause)
    if not listed:
        return ""
    count = len(cause.tables) - named
    names = "".join(f"<li><b>{text(shorten_table_name(name, file))}</b></li>" for name in listed)
    more = f"<li>{count - len(listed):,} more, in the tables below</li>" if count > len(listed) else ""
    return (
        f"<details><summary>{f'and {count:,} more' if named else 'show them'}</summary><ul>{names}{more}</ul></details>"
    )


def _remedy(advice: str) -> str:
    kind = "code" if is_command(advice) else "span"
    return f"<{kind}>{text(mask_secrets(advice))}</{kind}>"


def _data(
    status: FleetStatus, causes: Sequence[Cause], file: str, pages: Mapping[str, str], faults: Mapping[str, str]
) -> str:
    """Return the data of the script, without any character that could end its block. `causes` are, for each alert that
    is shown, the place of its first table and the places of those that it names.
    """
    places = {table.shown_name: place for place, table in enumerate(status.tables)}
    first = [
        [places[name] for name in (cause.tables[0], *_named(cause), *_listed(cause))] for cause in causes[:_MOST_CAUSES]
    ]
    trends = {name: [list(point) for point in points] for name, points in status.trends.items()}
    affected = Counter(alert.cause for table in status.tables for alert in table.found)
    newest = status.newest
    since_ms = newest.started_ms if newest is not None and newest.finished_ms is not None else 0
    tables = [
        _table(table, file, since_ms)
        | {key: of[table.shown_name] for key, of in (("l", pages), ("f", faults)) if table.shown_name in of}
        | ({"o": 1} if table.found and affected[table.found[0].cause] == 1 else {})
        for table in status.tables
    ]
    marks = [[mark, title] for mark, (_, title) in _MARKS.items()]
    data = dumps({"trends": trends, "tables": tables, "causes": first, "marks": marks}).decode()
    return data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _table(table: TableStatus, file: str, since_ms: int) -> dict[str, Json]:
    """Return the data of a table. `since_ms`: the beginning of the newest run if it has ended, else None."""
    found, weights = table.found, table.weights
    marks = {mark: 1 for mark, (weight, _) in _MARKS.items() if weight in weights}
    steps = {
        kind: [step.state, step.timestamp_ms, mask_secrets(step.message), step.is_alert]
        for kind, step in table.steps.items()
    }
    log: Sequence[Sequence[int]] = table.trends.series.get("logBytes", [])
    return {
        "t": table.shown_name,
        "m": shorten_table_name(table.shown_name, file),
        "g": table.group,
        "w": table.weight.value,
        "a": [alert.message for alert in found],
        "b": [alert.brief for alert in found],
        "n": [[_short(advice, table.shown_name, file), is_command(advice)] for advice in table.advice],
        "s": steps,
        "v": {name: table.numbers[name] for name in _NUMBERS if name in table.numbers},
        "p": log,
        **marks,
        **({} if table.validated_ms is None else {"d": table.validated_ms}),
        **({"u": 1} if len(log) == 1 and log[0][0] < since_ms and table.problem is None else {}),
    }
