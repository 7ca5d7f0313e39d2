"""The rows of validated tables, each column declared once: with verdicts for several tables, without below findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deltacli.cli.output.columns import Column
from deltacli.cli.render.validate.report import CheckedTable, Counts, ValidationReport
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.units import format_count
from deltacli.rules.framework.base import Severity

STYLES: Mapping[Severity, Style] = {
    Severity.ERROR: Style.PROBLEM,
    Severity.WARNING: Style.CHANGED,
    Severity.INFO: Style.QUIET,
}


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One table of several, or a path that could not be validated.

    Attributes:
        name: The table as the user wrote it, or as a pattern found it.
        version: The newest version; None where there is none, and in the row of totals.
        counts: How many findings there are of each severity; None for what could not be validated.
        suppressed: How many findings are above the limit, in addition to `counts`.
        accepted: How many findings a baseline accepts; None without a baseline.
        verdict: What the findings mean, and what was not checked.
        style: The style of the verdict.
    """

    name: str
    version: int | None
    counts: Counts | None
    suppressed: int | None
    accepted: int | None
    verdict: str = ""
    style: Style = Style.PLAIN


def make_table_row(table: CheckedTable, report: ValidationReport, *, verdict: str, style: Style) -> VerdictRow:
    """Return the row of a validated table."""
    return VerdictRow(
        name=table.name,
        version=table.validation.version,
        counts=table.counts,
        suppressed=sum(table.suppressed.values()) or None,
        accepted=table.accepted if report.stale is not None else None,
        verdict=verdict,
        style=style,
    )


def make_total_row(report: ValidationReport, *, name: str, verdict: str) -> VerdictRow:
    """Return the row below the others, with the sums of all findings, also of those that are not shown."""
    return VerdictRow(
        name=name,
        version=None,
        counts=report.counts,
        suppressed=sum(sum(table.suppressed.values()) for table in report.tables) or None,
        accepted=report.accepted if report.stale is not None else None,
        verdict=verdict,
    )


def verdict_columns() -> list[Column[VerdictRow]]:
    """Return all columns."""
    verdict: Column[VerdictRow] = Column(
        "verdict", lambda row: row.verdict, style=lambda row: row.style, priority=1, min_width=24, wraps=True
    )
    return [*count_columns(), verdict]


def count_columns() -> Sequence[Column[VerdictRow]]:
    """Return the columns without the verdict."""
    return [
        Column("table", lambda row: row.name, priority=1, min_width=20, keep_end=True),
        Column("version", lambda row: row.version, align_right=True, priority=5, min_width=7),
        _severity_column("errors", lambda counts: counts.errors, priority=1, style=STYLES[Severity.ERROR]),
        _severity_column("warnings", lambda counts: counts.warnings, priority=2, style=STYLES[Severity.WARNING]),
        _severity_column("infos", lambda counts: counts.infos, priority=3, style=Style.PLAIN),
        Column("not shown", lambda row: row.suppressed, align_right=True, priority=4, min_width=9),
        Column("accepted", lambda row: row.accepted, align_right=True, priority=4, min_width=8),
    ]


def _severity_column(name: str, count: Callable[[Counts], int], *, priority: int, style: Style) -> Column[VerdictRow]:
    """Return the column of a severity, in colour where there are findings of it."""

    def value(row: VerdictRow) -> int | None:
        return None if row.counts is None else count(row.counts)

    return Column(
        name,
        value,
        text=lambda row: "" if row.counts is None else format_count(count(row.counts)),
        style=lambda row: style if value(row) else Style.QUIET,
        align_right=True,
        priority=priority,
        min_width=8,
    )
