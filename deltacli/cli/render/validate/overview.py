"""Several validated tables in short: one row per table with its verdict, and a last row with the totals.

The findings are shown where one table is validated, and of several tables where they are asked for.
"""

from __future__ import annotations

from typing import BinaryIO

from deltacli.cli.output.text_tables import write_table_with_total
from deltacli.cli.render.validate.findings import all_sentence, judge
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
from deltacli.cli.render.validate.verdict_columns import VerdictRow, make_table_row, make_total_row, verdict_columns
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.units import plural


def write_overview(sink: BinaryIO, terminal: Terminal, report: ValidationReport) -> None:
    """Write a row per table, and the totals below."""
    rows = overview_rows(report)
    write_table_with_total(sink, terminal, verdict_columns(), rows, _total_row(report))


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
    return make_table_row(table, report, verdict=sentence, style=style)


def _total_row(report: ValidationReport) -> VerdictRow:
    """Return the row below the others, with the sums of all findings, also of those that are not shown."""
    validated = {table.name for table in report.tables}
    failed = sum(name not in validated for name, _ in report.failures)
    sentence = all_sentence(report)
    if failed:
        sentence += f"; {plural(failed, 'path')} not validated"
    if report.reads_logs_only:
        sentence += " (logs only)"
    return make_total_row(report, name=f"all {report.subjects}", verdict=sentence)
