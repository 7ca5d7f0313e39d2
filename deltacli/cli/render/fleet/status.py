"""The status of a fleet: a line per table, those with alerts first, then the newest run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from deltacli.cli.output.columns import Column
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.render.fleet.check import FleetListing, Items, Screen, fleet_fields, of_row, table_screen
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.errors import DeltacliError, is_command, quote_table
from deltacli.core.times import format_age
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import Place
from deltacli.fleet.planning.due import ORDER
from deltacli.fleet.policy_file.keys import ALERT_KEYS, STEP_KEYS
from deltacli.fleet.policy_file.table_names import shorten_table_name
from deltacli.fleet.status import (
    Alert,
    Cause,
    FleetStatus,
    State,
    StepStatus,
    TableStatus,
    Weight,
    advice_for,
    find_causes,
    without_shorter,
)
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import CATALOGUE, Finding, Fix, Level, Rule, Severity

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas

# -- the alerts of a fleet as findings, for the formats of CI systems --------------------------------------------------

PREFIX = "fleet."
_FIX = Fix("the table needs work that no run has done", "deltacli fleet status", "")
_SPEC = "docs/fleet.md"

_STEP_RULES = {
    kind: Rule(f"{PREFIX}{kind}", Severity.ERROR, Level.LOG, f"The last {kind} of a table was done.", _SPEC, _FIX, "")
    for kind in STEP_KEYS
}
_THRESHOLD_RULES = {
    key.name: Rule(f"{PREFIX}{key.name}", Severity.WARNING, Level.LOG, key.meaning, _SPEC, _FIX, "")
    for key in ALERT_KEYS
}


def _catalogued(tables: tuple[CheckedTable, ...]) -> dict[str, Rule]:
    found = [finding.rule for table in tables for finding in table.findings]
    return {rule.id: rule for rule in found if not rule.id.startswith(PREFIX)}


def _checked(table: TableStatus) -> CheckedTable:
    findings = tuple(_findings(table))
    judged = {PREFIX + one.threshold for one in table.judgements if one.state is not State.UNKNOWN}
    skipped = {PREFIX + one.threshold: one.message for one in table.judgements if one.state is State.UNKNOWN}
    rules = judged | {PREFIX + kind for kind in table.steps} | {finding.rule.id for finding in findings}
    uri = table.shown_name
    level = str(getattr(table.policy.get("validate"), "level", "log"))
    validation = Validation(uri, None, level, findings, {}, (), frozenset(rules), skipped=skipped)
    return CheckedTable(uri, validation, findings, {}, 0, bool(findings))


def _findings(table: TableStatus) -> Iterator[Finding]:
    for kind, step in table.steps.items():
        if not step.is_alert or kind not in _STEP_RULES:
            continue
        yield from (_recorded(found, step) for found in step.findings)
        if not step.findings or step.state != "findings":
            rule = _with_advice(
                _STEP_RULES[kind], advice_for(step, table.shown_name, table.run_command, table.policy.get(kind))
            )
            yield rule.at(Place(""), f"{step.state}: {step.message}")
    for one in table.exceeded:
        yield _with_advice(_THRESHOLD_RULES[one.threshold], one.advice or "").at(Place(""), one.message)


def _with_advice(rule: Rule, advice: str) -> Rule:
    return rule._replace(fix=rule.fix._replace(advice=advice))


def _recorded(found: JsonObject, step: StepStatus) -> Finding:
    """Return a finding of the journal. A rule that this version does not have is the one of its step."""
    rule = CATALOGUE.rules.get(str(found.get("rule")), _STEP_RULES[step.kind])
    severity = next((one for one in Severity if one.value == found.get("severity")), rule.severity)
    line, version = found.get("line"), found.get("version")
    place = Place(str(found.get("path", "")), line, version, found.get("key"))
    message = str(found.get("message", ""))
    return Finding(rule, severity, message, place, found.get("seen"), found.get("expected"))


# -- the status of a fleet ---------------------------------------------------------------------------------------------

_SPARK_CELLS = 12


_MOST_LINES, _MOST_COMMANDS = 8, 3
_TOTALS = {
    "liveFiles": ("data files", "{:,}".format),
    "liveBytes": ("data", format_size),
    "rows": ("rows", "{:,}".format),
    "logBytes": ("log", format_size),
    "tombstones": ("tombstones", "{:,}".format),
    "findings": ("findings of any severity", "{:,}".format),
}


class Total(NamedTuple):
    """A number of all tables, run by run."""

    name: str
    values: Sequence[int]
    newest: str


@dataclass
class StatusResult(FleetListing[TableStatus]):
    """The tables, then the totals of the last runs, then the newest run."""

    totals: Sequence[Total] = ()
    status: FleetStatus | None = None

    @property
    def report(self) -> ValidationReport:
        """Return the alerts as findings, for the formats that write findings."""
        assert self.status is not None
        readable = [table for table in self.status.tables if table.problem is None]
        tables = tuple(_checked(table) for table in readable)
        failures = tuple(
            (table.shown_name, DeltacliError(table.problem.message, code=table.problem.code))
            for table in self.status.tables
            if table.problem is not None
        )
        known = {
            **_catalogued(tables),
            **{rule.id: rule for rule in (*_STEP_RULES.values(), *_THRESHOLD_RULES.values())},
        }
        used = {rule for table in tables for rule in table.validation.rules}
        rules = tuple(rule for name, rule in known.items() if name in used)
        return ValidationReport("log", Severity.INFO, tables, failures, lambda: rules, command="fleet status")

    def draw_more(self, sink: BinaryIO, terminal: Terminal) -> None:
        moving = [total for total in self.totals if len(total.values) > 1]
        if moving and terminal.is_drawn:
            write_text_table(sink, terminal, _TOTAL_COLUMNS, moving)
            sink.write(b"\n")


def status_result(
    file: str, status: FleetStatus, now_ms: int, *, run_command: str = "deltacli fleet run", most: int = 0
) -> StatusResult:
    """Return the status as a result. `run_command` is the command of the next run; `most` as in `FleetListing`."""
    causes = find_causes((table.shown_name, table.found) for table in status.tables)
    content: dict[str, Json] = {
        "exit": status.exit_code,
        "newestRun": None if status.newest is None else status.newest.as_json(),
        "summary": status.summary(),
        "causes": [cause.as_json() for cause in causes],
        "trends": {name: [list(point) for point in points] for name, points in status.trends.items()},
    }

    totals = _totals(status)
    moving = any(len(total.values) > 1 for total in totals)

    def said(terminal: Terminal) -> list[Section]:
        written = [] if terminal.is_drawn and moving else totals
        advice = _advice(causes, file)
        first = partial(_first, is_whole=most == 0)
        newest = status.newest
        run = f"none yet: {run_command}"
        if newest is not None:
            run = f"{newest.run}, started {format_age(newest.started_ms, now_ms)}: {newest.state}"
            if newest.left:
                run += f", {plural(newest.left, 'step')} not started; to continue: {run_command} --resume"
        numbers = ", ".join(_counted(total) for total in written)
        sections = [
            Section("totals", [numbers] if numbers else []),
            Section("no data", _unknown(status)),
            Section("to do", first([one for one in advice if not is_command(one)])),
            Section("next", first([one for one in advice if is_command(one)], _MOST_COMMANDS)),
            Section("newest run", [run], Style.PROBLEM if status.exit_code > 1 else Style.PLAIN),
            Section("status", [status.headline], Style.PROBLEM if status.alerted else Style.GOOD),
        ]
        return [section for section in sections if section.lines]

    return StatusResult(
        fleet_fields("fleet-status", file) | content,
        "fleet-status-table",
        Items(status.tables, TableStatus.as_json),
        _columns(now_ms),
        status.tables,
        items_name="tables",
        last_line={"type": "fleet-status", "file": file, **content},
        make_sections=said,
        most=most,
        screen=lambda terminal, most: _screen(status.tables, file, now_ms, terminal, most),
        totals=totals,
        status=status,
    )


def _totals(status: FleetStatus) -> list[Total]:
    return [
        Total(title, [point.value for point in points], written(points[-1].value))
        for name, (title, written) in _TOTALS.items()
        if (points := status.trends.get(name))
    ]


def _counted(total: Total) -> str:
    one = re.sub(r"s\b", "", total.name, count=1)
    return f"{total.newest} {one if total.newest == '1' else total.name}"


def _columns(now_ms: int) -> list[Column[TableStatus]]:
    return [
        Column("table", lambda one: one.shown_name, priority=1, min_width=20, keep_end=True, wraps=True),
        Column("group", lambda one: one.group, priority=5, is_minor=True),
        *(_step_column(kind, now_ms) for kind in ORDER),
        Column("logBytes", _log_bytes, _log_size, align_right=True, priority=4, title="log"),
        Column("trend", lambda _: None, _has_trend, draw_bar=_trend, priority=5, min_width=_SPARK_CELLS, in_pipe=False),
        Column("alerts", lambda one: "; ".join(one.alerts) or None, _alerts, priority=2, min_width=20, wraps=True),
    ]


_AlertRow = tuple[TableStatus, Alert | None]


def _screen(tables: Sequence[TableStatus], file: str, now_ms: int, terminal: Terminal, most: int) -> Screen:
    """Return a row for each alert of each table, and one for each table without any. Where there is a limit, each
    alert has one row; without one, a terminal has the steps, too.
    """
    none: list[Alert | None] = [None]
    rows: list[tuple[str, _AlertRow]] = [
        (table.shown_name, (table, alert)) for table in tables for alert in table.found or none
    ]
    alerts: Column[_AlertRow] = Column(
        "alert",
        lambda row: row[1].brief if row[1] else "none",
        style=_alert_style,
        priority=1,
        min_width=48,
        wraps=True,
    )
    if most:
        affected = Counter(_same(row) for _, row in rows)
        rows.sort(key=lambda one: (_weight(one[1]), -affected[_same(one[1])]))
        return table_screen(
            rows,
            [of_row(alerts)],
            file,
            terminal,
            merged=_merged,
            same=_same,
            is_named=lambda row: _weight(row) <= Weight.FAILED,
            least=26,
        )
    others = [of_row(column, itemgetter(0), once=True) for column in _columns(now_ms)[1:-1]]
    return table_screen(rows, [of_row(alerts), *(others if terminal.is_drawn else [])], file, terminal)


def _weight(row: _AlertRow) -> Weight:
    return Weight.NONE if row[1] is None else row[1].weight


def _same(row: _AlertRow) -> Hashable:
    """Return what alerts of one row have in common: the text, or the cause of those that are not named each."""
    alert = row[1]
    return alert and (alert.cause, alert.brief if alert.weight <= Weight.FAILED else "")


def _merged(rows: Sequence[_AlertRow]) -> _AlertRow:
    table, alert = rows[0]
    if alert is None or all(other is not None and other.brief == alert.brief for _, other in rows):
        return table, alert
    return table, alert._replace(brief=alert.cause)


def _step_column(kind: str, now_ms: int) -> Column[TableStatus]:
    told, style = partial(_told, kind, now_ms), partial(_style, kind)
    return Column(kind, partial(_state, kind), told, style, priority=3, min_width=14, is_rounded=True)


def _state(kind: str, table: TableStatus) -> str | None:
    step = table.steps.get(kind)
    return None if step is None else step.state


def _told(kind: str, now_ms: int, table: TableStatus) -> str:
    step = table.steps.get(kind)
    if step is None:
        return ""
    return format_age(step.timestamp_ms, now_ms) if step.state == "done" else step.state


def _style(kind: str, table: TableStatus) -> Style:
    step = table.steps.get(kind)
    return Style.PROBLEM if step is not None and step.is_alert else Style.PLAIN


def _alerts(table: TableStatus) -> str:
    return "; ".join(alert.brief for alert in table.found)


def _alert_style(row: tuple[TableStatus, Alert | None]) -> Style:
    return Style.PROBLEM if row[1] is not None and row[1].weight <= Weight.FAILED else Style.PLAIN


def _log_bytes(table: TableStatus) -> int | None:
    return table.numbers.get("logBytes")


def _log_size(table: TableStatus) -> str:
    size = _log_bytes(table)
    return "" if size is None else format_size(size)


def _has_trend(table: TableStatus) -> str:
    return "trend" if len(table.trends.get("logBytes", ())) > 1 else ""


def _trend(table: TableStatus, canvas: Canvas, width: int) -> Text:
    from deltacli.cli.render.terminal.tables import make_sparkline

    points = table.trends.get("logBytes", ()) if _has_trend(table) else ()
    return make_sparkline(canvas, [point.value for point in points][-width:])


def _unknown(status: FleetStatus) -> list[str]:
    return [f"{reason}: {plural(len(tables), 'table')}" for reason, tables in sorted(status.unknown.items())]


def _advice(causes: Sequence[Cause], file: str) -> list[str]:
    """Return what to do about each cause, for the first tables of it, by their short names where these suffice."""
    named = [one for several in zip_longest(*(cause.first for cause in causes)) for one in several if one is not None]
    if os.path.dirname(os.path.abspath(file)) != os.getcwd():
        return without_shorter(advice for _, advice in named)
    return without_shorter(
        advice.replace(quote_table(table), quote_table(shorten_table_name(table, file))) for table, advice in named
    )


def _first(lines: list[str], most: int = _MOST_LINES, *, is_whole: bool) -> list[str]:
    if is_whole or len(lines) <= most:
        return lines
    return [*lines[:most], f"{len(lines) - most:,} more with --limit 0"]


def _total_trend(total: Total, canvas: Canvas, width: int) -> Text:
    from deltacli.cli.render.terminal.tables import make_sparkline

    return make_sparkline(canvas, list(total.values)[-width:])


_TOTAL_COLUMNS: list[Column[Total]] = [
    Column("total", lambda total: total.name, priority=1),
    Column("newest", lambda total: total.newest, align_right=True, priority=1),
    Column("runs", lambda _: None, lambda _: "runs", draw_bar=_total_trend, priority=2, min_width=30),
]
