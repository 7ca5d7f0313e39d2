"""`fleet status --html`: the status as one page that needs no server and loads nothing.

The data are a JSON block, which the script of the page draws by text nodes only, 100 rows at a time. The page allows
itself nothing but its own script and style, by their digests.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files

from deltacli.documents import dumps
from deltacli.fleet.alerts import Weight, find_causes
from deltacli.fleet.names import short_name
from deltacli.fleet.status import FleetStatus, TableStatus
from deltacli.hints import is_command
from deltacli.storage.secrets import without_secrets
from deltacli.typing import Json
from deltacli.units import format_timestamp

_NUMBERS = ("liveFiles", "liveBytes", "rows", "logBytes", "tombstones", "findings")
_MOST_CAUSES = 20


def status_page(status: FleetStatus, file: str, now_ms: int) -> str:
    """Return the page."""
    style, script = _part("page.css"), _part("page.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{_text(status.headline)}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1 class="{"bad" if status.alerted else "good"}">{_text(status.headline)}</h1>
<p>Tables of {_text(file)}</p>
<p class="dim">{_text(_run(status))}. Written {_text(format_timestamp(now_ms))}.</p>
</header>
<div class="cards">{"".join(_cards(status))}</div>
{_alerts(status)}<h2>All tables, run by run</h2>
<div class="cards" id="plots"></div>
<h2>Tables</h2>
<div class="tools">
<input type="search" id="find" placeholder="Find a table or an alert" aria-label="Find a table or an alert">
<select id="group" aria-label="Group"><option value="">all groups</option></select>
<label><input type="checkbox" id="only"> with alerts only</label>
<span class="dim" id="shown"></span>
</div>
<div class="scroll"><table><thead><tr id="headings"></tr></thead><tbody id="rows"></tbody></table></div>
<p class="dim" id="more">More rows follow when you scroll.</p>
<noscript><p class="bad">The tables are drawn by the script of this page, which is turned off.</p></noscript>
<script type="application/json" id="data">{_data(status, file)}</script>
<script>{script}</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the digest of a text as a Content Security Policy has it."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())


def _run(status: FleetStatus) -> str:
    newest = status.newest
    if newest is None:
        return "No run yet"
    return f"Newest run {newest.run}: {newest.state}, started {format_timestamp(newest.started_ms)}"


def _cards(status: FleetStatus) -> Iterable[str]:
    summary = status.summary()
    for name, title in (
        ("tables", "tables"),
        ("alerts", "tables with alerts"),
        ("unreadable", "unreadable tables"),
        ("losingRows", "tables that lose rows"),
        ("unknown", "thresholds without data"),
        ("runs", "runs in the journal"),
    ):
        kind = "bad" if name in ("alerts", "unreadable", "losingRows") and summary[name] else ""
        yield f'<div class="card"><span class="dim">{title}</span><b class="{kind}">{summary[name]:,}</b></div>'


def _alerts(status: FleetStatus) -> str:
    """Return the causes of the alerts, each with the number of its tables."""
    causes = find_causes((table.shown_name, table.found) for table in status.tables)
    if not causes:
        return ""
    marks = [' class="bad"' if cause.weight <= Weight.FAILED else "" for cause in causes]
    shown = [
        f"<li{mark}>{_text(cause.sentence)}</li>" for cause, mark in zip(causes[:_MOST_CAUSES], marks, strict=False)
    ]
    more = [f"<li>{len(causes) - _MOST_CAUSES:,} more</li>"] if len(causes) > _MOST_CAUSES else []
    return f"<h2>Alerts</h2>\n<ul>{''.join(shown + more)}</ul>\n"


def _data(status: FleetStatus, file: str) -> str:
    """Return the data of the script, without any character that could end its block."""
    trends = {name: [list(point) for point in points] for name, points in status.trends.items()}
    text = dumps({"trends": trends, "tables": [_table(table, file) for table in status.tables]}).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _table(table: TableStatus, file: str) -> dict[str, Json]:
    found = table.found
    steps = {
        kind: [step.state, step.timestamp_ms, without_secrets(step.message), step.is_alert]
        for kind, step in table.steps.items()
    }
    return {
        "t": table.shown_name,
        "m": short_name(table.shown_name, file),
        "g": table.group,
        "w": table.weight.value,
        "a": [alert.message for alert in found],
        "b": [alert.brief for alert in found],
        "n": [[advice, is_command(advice)] for advice in table.advice],
        "s": steps,
        "v": {name: table.numbers[name] for name in _NUMBERS if name in table.numbers},
        "p": table.trends.series.get("logBytes", []),
    }
