"""What a run of a fleet did: a line per step and per problem, the worst first, then the counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from deltacli.cli.output.columns import Column
from deltacli.cli.output.sections import Section
from deltacli.cli.render.fleet.check import FleetListing, fleet_fields, of_row, table_screen
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.fleet.running.run import FleetReport, StepReport, TableReport
from deltacli.fleet.status import LOSING
from deltacli.storage.secrets import mask_secrets

_GOOD = frozenset({"done", "nothing"})
_UNREADABLE = "unreadable"
_NAMED = frozenset({_UNREADABLE, "findings", "failed", "partly"})
"""States in which somebody has to look at the table itself."""
_WORST_FIRST = (_UNREADABLE, "findings", "failed", "partly", "refused", "leased", "done", "nothing")


class RunRow(NamedTuple):
    """A step of a table, or the problem of a table or directory."""

    name: str
    group: str
    step: StepReport | None
    state: str
    exit_code: int
    message: str
    seconds: float | None = None


def run_result(report: FleetReport, look: str = "deltacli fleet status") -> FleetListing[RunRow]:
    """Return the report of a run as a result. `look` is the command that shows the alerts."""
    file = str(report.plan.file.path)
    content: dict[str, Json] = {
        "run": report.run,
        "resumed": report.is_resumed,
        "timestampMs": report.plan.now_ms,
        "exit": report.exit_code,
        "problems": [problem.as_json() for problem in report.plan.problems],
        "alerts": [
            {"table": mask_secrets(table), **threshold.as_json()}
            for table, exceeded in sorted(report.alerts.items())
            for threshold in exceeded
        ],
        "summary": report.summary(),
    }
    said, rows = _sections(report, look), sorted(_rows(report), key=_weight)
    tables = sorted(report.tables, key=lambda table: min(map(_weight, _rows_of(table)), default=len(_WORST_FIRST)))
    return FleetListing(
        fleet_fields("fleet-run", file) | content,
        "fleet-run-table",
        [table.as_json() for table in tables],
        _columns(),
        rows,
        items_name="tables",
        last_line={"type": "fleet-run", "file": file, **content},
        make_sections=lambda _: said,
        screen=lambda terminal, most: table_screen(
            ((row.name, row) for row in rows),
            [of_row(column) for column in _columns()[1:]],
            file,
            terminal,
            merged=_sum_of if most else None,
            same=_same,
            is_named=lambda row: row.state in _NAMED,
            least=18,
        ),
    )


def _rows(report: FleetReport) -> Iterator[RunRow]:
    for name, group, _, problem in report.plan.problems:
        yield RunRow(mask_secrets(name), group, None, _UNREADABLE, problem.exit_code, problem.sentence)
    for table in report.tables:
        yield from _rows_of(table)


def _rows_of(table: TableReport) -> Iterator[RunRow]:
    name = mask_secrets(table.name)
    if table.problem is not None:
        problem = table.problem
        yield RunRow(name, table.group, None, _UNREADABLE, problem.exit_code, problem.sentence)
    for step in {step.step.kind: step for step in table.steps}.values():  # of one that was done again, the last
        outcome = step.outcome
        yield RunRow(
            name, table.group, step, outcome.state, outcome.exit_code, outcome.message, step.duration_ms / 1_000
        )


def _columns() -> list[Column[RunRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, min_width=20, keep_end=True, wraps=True),
        Column("group", lambda row: row.group, priority=7, is_minor=True),
        Column("step", lambda row: row.step.step.kind if row.step else None, priority=1, min_width=10),
        Column("state", lambda row: row.state, style=_style, priority=1, min_width=10),
        Column("exit", lambda row: row.exit_code, align_right=True, priority=4),
        Column("message", lambda row: row.message, priority=2, min_width=30, wraps=True),
        Column("seconds", lambda row: row.seconds, _time, align_right=True, priority=6, title="time", is_minor=True),
    ]


def _same(row: RunRow) -> Hashable:
    """Return what tables of one row have in common. What was done with numbers is said of each table."""
    is_own = row.state == "done" and any(map(str.isdigit, row.message))
    return row.group, row.step and row.step.step.kind, row.state, row.message, row.name if is_own else ""


def _sum_of(rows: Sequence[RunRow]) -> RunRow:
    seconds = [row.seconds for row in rows if row.seconds is not None]
    return rows[0]._replace(seconds=sum(seconds) if seconds else None)


def _weight(row: RunRow) -> int:
    is_lost = row.step is not None and row.step.outcome.code in LOSING and row.step.step.kind == "validate"
    return -1 if is_lost else _WORST_FIRST.index(row.state)


def _style(row: RunRow) -> Style:
    return Style.GOOD if row.state in _GOOD else Style.PROBLEM


def _time(row: RunRow) -> str:
    return "" if row.seconds is None else f"{row.seconds:,.1f} s"


def _sections(report: FleetReport, look: str) -> list[Section]:
    summary = report.summary()
    states = [
        f"{count:,} {'with findings' if state == 'findings' else state}"
        for state, count in summary.items()
        if state not in ("tables", "unreadable", "alerts") and count
    ]
    sums = plural(summary["tables"], "table")
    if summary["unreadable"]:
        sums += f", {summary['unreadable']:,} cannot be read"
    sums += f"; steps: {', '.join(states)}" if states else "; nothing was due"
    alerts = f"{plural(len(report.alerts), 'table')} beyond a threshold: {look}"
    sections = [
        Section("run", [f"{report.run}{' (resumed)' if report.is_resumed else ''}"]),
        Section("alerts", [alerts] if report.alerts else [], Style.PROBLEM),
        Section("done", [sums], Style.PROBLEM if report.exit_code else Style.GOOD),
    ]
    return [section for section in sections if section.lines]
