"""Several validated tables in short: one row per table with its verdict, and a last row with the totals.

The findings are shown where one table is validated, and of several tables where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.output.columns import Column
from deltacli.cli.output.text_tables import write_table_with_total
from deltacli.cli.render.validate.findings import STYLES, all_sentence, judge
from deltacli.cli.render.validate.report import CheckedTable, Counts, ValidationReport
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.units import format_count, plural
from deltacli.rules.framework.base import Severity


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
    verdict: str
    style: Style = Style.PLAIN


def write_overview(sink: BinaryIO, terminal: Terminal, report: ValidationReport) -> None:
    """Write a row per table, and the totals below."""
    rows = overview_rows(report)
    write_table_with_total(sink, terminal, _columns(), rows, _total_row(report))


def overview_rows(report: ValidationReport) -> list[VerdictRow]:
    """Return a row per validated table, then one per path that could not be validated at all."""
    rows = [_table_row(table, report) for table in report.tables]
    validated = {table.name for table in report.tables}
    for name, failure in report.failures:
        # A table with files that could not be read is among the tables, too.
        if name not in validated:
            rows.append(VerdictRow(name, None, None, None, None, f"not validated ({failure.code})", Style.PROBLEM))
    return rows


def _table_row(table: CheckedTable, report: ValidationReport) -> VerdictRow:
    """Return the row of a table, in the style of the worst that its verdict says."""
    verdict = judge(table)
    sentence = verdict.sentence
    if left_out := len(table.validation.not_checked):
        sentence += f"; {plural(left_out, 'part')} not checked"
    style = Style.PLAIN
    if verdict.is_serious:
        style = Style.PROBLEM
    elif verdict.others or left_out:
        style = Style.WARNING
    return VerdictRow(
        table.name,
        table.validation.version,
        table.counts,
        sum(table.suppressed.values()) or None,
        table.accepted if report.stale is not None else None,
        sentence,
        style,
    )


def _total_row(report: ValidationReport) -> VerdictRow:
    """Return the row below the others, with the sums of all findings, also of those that are not shown."""
    suppressed = sum(sum(table.suppressed.values()) for table in report.tables)
    validated = {table.name for table in report.tables}
    failed = sum(name not in validated for name, _ in report.failures)
    sentence = all_sentence(report)
    if failed:
        sentence += f"; {plural(failed, 'path')} not validated"
    if report.reads_logs_only:
        sentence += " (logs only)"
    return VerdictRow(
        f"all {report.subjects}",
        None,
        report.counts,
        suppressed or None,
        report.accepted if report.stale is not None else None,
        sentence,
    )


def _columns() -> Sequence[Column[VerdictRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, min_width=20, keep_end=True),
        Column("version", lambda row: row.version, align_right=True, priority=5, min_width=7),
        _count_column("errors", lambda counts: counts.errors, priority=1, style=STYLES[Severity.ERROR]),
        _count_column("warnings", lambda counts: counts.warnings, priority=2, style=STYLES[Severity.WARNING]),
        _count_column("infos", lambda counts: counts.infos, priority=3, style=Style.PLAIN),
        Column("not shown", lambda row: row.suppressed, align_right=True, priority=4, min_width=9),
        Column("accepted", lambda row: row.accepted, align_right=True, priority=4, min_width=8),
        Column("verdict", lambda row: row.verdict, style=lambda row: row.style, priority=1, min_width=24, wraps=True),
    ]


def _count_column(name: str, count: Callable[[Counts], int], *, priority: int, style: Style) -> Column[VerdictRow]:
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
