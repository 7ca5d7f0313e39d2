"""What a run of a fleet did: a line per step and per problem, then the counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from deltacli.cli.render.columns import Column
from deltacli.cli.render.fleet.check import fleet_fields
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.fleet.running.runner import FleetReport, StepReport
from deltacli.storage.secrets import without_secrets
from deltacli.typing import Json
from deltacli.units import plural

_GOOD = frozenset({"done", "nothing"})
_UNREADABLE = "unreadable"


class RunRow(NamedTuple):
    """A step of a table, or the problem of a table or directory."""

    name: str
    group: str
    step: StepReport | None
    state: str
    exit_code: int
    message: str


class RunResult(Listing[RunRow]):
    """The rows, then the counts."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.rows:
            shown = [column for column in self.columns if column.on_screen or not terminal.is_drawn]
            write_table(sink, terminal, shown, self.rows)
            sink.write(b"\n")
        write_sections(sink, terminal, self.sections(terminal))


def run_result(report: FleetReport) -> RunResult:
    """Return the report of a run as a result."""
    file = str(report.plan.file.path)
    content: dict[str, Json] = {
        "run": report.run,
        "resumed": report.is_resumed,
        "timestampMs": report.plan.now_ms,
        "exit": report.exit_code,
        "problems": [problem.as_json() for problem in report.plan.problems],
        "alerts": [
            {"table": without_secrets(table), **threshold.as_json()}
            for table, exceeded in sorted(report.alerts.items())
            for threshold in exceeded
        ],
        "summary": report.summary(),
    }
    said = _sections(report)
    return RunResult(
        fleet_fields("fleet-run", file) | content,
        "fleet-run-table",
        [table.as_json() for table in report.tables],
        _columns(),
        list(_rows(report)),
        items_name="tables",
        last={"type": "fleet-run", "file": file, **content},
        said=lambda _: said,
    )


def _rows(report: FleetReport) -> Iterator[RunRow]:
    for name, group, _, problem in report.plan.problems:
        yield RunRow(without_secrets(name), group, None, _UNREADABLE, problem.exit_code, problem.sentence)
    for table in report.tables:
        name = without_secrets(table.name)
        if table.problem is not None:
            problem = table.problem
            yield RunRow(name, table.group, None, _UNREADABLE, problem.exit_code, problem.sentence)
        for step in table.steps:
            yield RunRow(name, table.group, step, step.outcome.state, step.outcome.exit_code, step.outcome.message)


def _columns() -> list[Column[RunRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, least=20, keep_end=True, folds=True),
        Column("group", lambda row: row.group, priority=5),
        Column("step", lambda row: row.step.step.kind if row.step else None, priority=1, least=10),
        Column("state", lambda row: row.state, style=_style, priority=1, least=10),
        Column("exit", lambda row: row.exit_code, right=True, priority=4),
        Column("message", lambda row: row.message, priority=2, least=24, folds=True),
        Column("seconds", _seconds, right=True, priority=6),
    ]


def _style(row: RunRow) -> Style:
    return Style.GOOD if row.state in _GOOD else Style.PROBLEM


def _seconds(row: RunRow) -> float | None:
    return row.step.duration_ms / 1_000 if row.step else None


def _sections(report: FleetReport) -> list[Section]:
    summary = report.summary()
    states = [
        f"{count:,} {state}"
        for state, count in summary.items()
        if state not in ("tables", "unreadable", "alerts") and count
    ]
    tables = plural(summary["tables"], "table")
    if summary["unreadable"]:
        tables += f", {summary['unreadable']:,} unreadable"
    sections = [
        Section("run", [f"{report.run}{' (resumed)' if report.is_resumed else ''}"]),
        Section("tables", [tables]),
        Section("steps", [", ".join(states) or "nothing was due"], Style.PROBLEM if report.exit_code else Style.GOOD),
    ]
    if report.alerts:
        alerts = f"{plural(len(report.alerts), 'table')} beyond a threshold: deltacli fleet status"
        sections.append(Section("alerts", [alerts], Style.PROBLEM, is_cut=False))
    return sections
