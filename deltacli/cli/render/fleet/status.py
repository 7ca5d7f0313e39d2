"""The status of a fleet: a line per table, those with alerts first, then the newest run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from deltacli.cli.render.columns import Column
from deltacli.cli.render.fleet.check import Items, fleet_fields
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Document, Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.fleet.causes import Cause, find_causes
from deltacli.fleet.planning.due import ORDER
from deltacli.fleet.status import FleetStatus, TableStatus
from deltacli.hints import is_command
from deltacli.typing import Json
from deltacli.units import format_age, format_size, plural

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.cli.render.validate.report import ValidationReport

_SPARK_CELLS = 12


_MOST_LINES = 8
_TOTALS = {
    "liveFiles": ("data files", "{:,}".format),
    "liveBytes": ("data", format_size),
    "rows": ("rows", "{:,}".format),
    "logBytes": ("log", format_size),
    "tombstones": ("tombstones", "{:,}".format),
    "findings": ("findings", "{:,}".format),
}


class Total(NamedTuple):
    """A number of all tables, run by run."""

    name: str
    values: Sequence[int]
    newest: str


@dataclass
class StatusResult(Listing[TableStatus]):
    """The tables, then the totals of the last runs, then the newest run."""

    totals: Sequence[Total] = ()
    status: FleetStatus | None = None

    @property
    def report(self) -> ValidationReport:
        """Return the alerts as findings, for the formats that write findings."""
        from deltacli.cli.render.fleet.findings import status_report

        assert self.status is not None
        return status_report(self.status)

    def document(self) -> Document:
        return Document({**self.fields, self.items_name: list(self.items)})

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.rows:
            shown = [column for column in self.columns if column.on_screen or not terminal.is_drawn]
            write_table(sink, terminal, shown, self.rows)
            sink.write(b"\n")
        moving = [total for total in self.totals if len(total.values) > 1]
        if moving and terminal.is_drawn:
            write_table(sink, terminal, _TOTAL_COLUMNS, moving)
            sink.write(b"\n")
        write_sections(sink, terminal, self.sections(terminal))


def status_result(file: str, status: FleetStatus, now_ms: int) -> StatusResult:
    """Return the status as a result."""
    causes = find_causes(status.tables)
    content: dict[str, Json] = {
        "exit": status.exit_code,
        "newestRun": None if status.newest is None else status.newest.as_json(),
        "summary": status.summary(),
        "causes": [cause.as_json() for cause in causes],
        "trends": {name: [list(point) for point in points] for name, points in status.trends.items()},
    }
    said = _sections(status, causes, now_ms)
    return StatusResult(
        fleet_fields("fleet-status", file) | content,
        "fleet-status-table",
        Items(status.tables, TableStatus.as_json),
        _columns(now_ms),
        status.tables,
        items_name="tables",
        last={"type": "fleet-status", "file": file, **content},
        said=lambda _: said,
        totals=_totals(status),
        status=status,
    )


def _totals(status: FleetStatus) -> list[Total]:
    return [
        Total(title, [point.value for point in points], written(points[-1].value))
        for name, (title, written) in _TOTALS.items()
        if (points := status.trends.get(name))
    ]


def _columns(now_ms: int) -> list[Column[TableStatus]]:
    return [
        Column("table", lambda one: one.shown_name, priority=1, least=20, keep_end=True, folds=True),
        Column("group", lambda one: one.group, priority=5),
        *(_step_column(kind, now_ms) for kind in ORDER),
        Column("logBytes", _log_bytes, _log_size, right=True, priority=4, title="log"),
        Column("trend", lambda _: None, _has_trend, picture=_trend, priority=5, least=_SPARK_CELLS, in_pipe=False),
        Column("alerts", lambda one: "; ".join(one.alerts) or None, _alerts, priority=2, least=20, folds=True),
    ]


def _step_column(kind: str, now_ms: int) -> Column[TableStatus]:
    told, style = partial(_told, kind, now_ms), partial(_style, kind)
    return Column(kind, partial(_state, kind), told, style, priority=3, least=12)


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
    """Return the alerts without their messages, which are below the table, by cause; thresholds with their values."""
    beyond = ", ".join(one.brief for one in table.exceeded)
    faults = [" ".join(filter(None, alert.cause)) for alert in table.found if alert.cause[0] != "beyond"]
    return "; ".join([*faults, *([f"beyond {beyond}"] if beyond else [])])


def _log_bytes(table: TableStatus) -> int | None:
    return table.numbers.get("logBytes")


def _log_size(table: TableStatus) -> str:
    size = _log_bytes(table)
    return "" if size is None else format_size(size)


def _has_trend(table: TableStatus) -> str:
    return "trend" if len(table.trends.get("logBytes", ())) > 1 else ""


def _trend(table: TableStatus, canvas: Canvas, width: int) -> Text:
    from deltacli.cli.render.terminal.bars import sparkline

    points = table.trends.get("logBytes", ()) if _has_trend(table) else ()
    return sparkline(canvas, [point.value for point in points][-width:])


def _sections(status: FleetStatus, causes: Sequence[Cause], now_ms: int) -> list[Section]:
    summary, newest = status.summary(), status.newest
    tables = f"{plural(summary['tables'], 'table')}, {summary['alerts']:,} with alerts"
    if summary["unreadable"]:
        tables += f", {summary['unreadable']:,} unreadable"
    run = "none yet: deltacli fleet run"
    if newest is not None:
        run = f"{newest.run}, started {format_age(newest.started_ms, now_ms)}: {newest.state}"
        if newest.left:
            run += f", {plural(newest.left, 'step')} not started; continue with fleet run --resume"
    totals = ", ".join(f"{total.newest} {total.name}" for total in _totals(status))
    sections = [
        Section("tables", [tables], Style.PROBLEM if summary["alerts"] else Style.GOOD),
        Section("totals", [totals] if totals else [], is_cut=False),
        Section("alerts", _first([cause.sentence for cause in causes]), Style.PROBLEM, is_cut=False),
        Section("unknown", _unknown(status), is_cut=False),
        Section("to do", _first([one for one in _advice(causes) if not is_command(one)]), is_cut=False),
        Section("next", _first([one for one in _advice(causes) if is_command(one)]), is_cut=False),
        Section("newest run", [run], Style.PROBLEM if status.exit_code > 1 else Style.PLAIN, is_cut=False),
    ]
    return [section for section in sections if section.lines]


def _unknown(status: FleetStatus) -> list[str]:
    return [f"{reason}: {plural(len(tables), 'table')}" for reason, tables in sorted(status.unknown.items())]


def _advice(causes: Sequence[Cause]) -> list[str]:
    """Return what to do about each cause, for the first of its tables."""
    return list(dict.fromkeys(cause.advice for cause in causes if cause.advice is not None))


def _first(lines: list[str]) -> list[str]:
    more = [f"{len(lines) - _MOST_LINES:,} more with --json"] if len(lines) > _MOST_LINES else []
    return lines[:_MOST_LINES] + more


def _total_trend(total: Total, canvas: Canvas, width: int) -> Text:
    from deltacli.cli.render.terminal.bars import sparkline

    return sparkline(canvas, list(total.values)[-width:])


_TOTAL_COLUMNS: list[Column[Total]] = [
    Column("total", lambda total: total.name, priority=1),
    Column("newest", lambda total: total.newest, right=True, priority=1),
    Column("runs", lambda _: None, lambda _: "runs", picture=_total_trend, priority=2, least=30),
]
