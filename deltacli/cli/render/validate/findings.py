"""Findings as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from deltacli.cli.render.columns import Column
from deltacli.cli.render.text_form import write_table
from deltacli.cli.render.validate.report import (
    CheckedTable,
    Counts,
    ValidationReport,
    place_name,
)
from deltacli.cli.render.validate.verdict import all_sentence, judge
from deltacli.cli.terminal.term import Style, Terminal, encoded, for_screen, visible
from deltacli.delta.rules.framework.base import Finding, Fix, Rule, Severity
from deltacli.delta.rules.framework.repairs import repair_command
from deltacli.units import format_count, plural

STYLES = {Severity.ERROR: Style.PROBLEM, Severity.WARNING: Style.CHANGED, Severity.INFO: Style.QUIET}


def write_text(sink: BinaryIO, terminal: Terminal, report: ValidationReport, *, brief: bool) -> None:
    """Write a line a finding, as compilers do, with details below unless `brief`; then the tables with their counts."""
    has_lines = False
    for table in report.tables:
        for line in table_lines(table, terminal, brief=brief):
            sink.write(encoded(f"{line}\n"))
            has_lines = True
    if has_lines:
        sink.write(b"\n")
    write_summary(sink, terminal, report)
    for line in _verdict_lines(report, terminal):
        sink.write(encoded(f"{line}\n"))


def table_lines(table: CheckedTable, terminal: Terminal, *, brief: bool) -> Iterator[str]:
    explained: set[str] = set()
    for finding in table.findings:
        yield _line(table, finding, terminal)
        if not brief:
            fix_of = table if finding.rule.id not in explained else None
            yield from _details(finding, terminal, fix_of)
            explained.add(finding.rule.id)
    name = _clean(table.name, terminal)
    yield from (f"{name}: {_clean(sentence, terminal)}" for sentence in omissions(table))


def omissions(table: CheckedTable) -> Iterator[str]:
    """Yield what a report leaves out of a table: findings above the limit, and what was not checked."""
    for rule, count in table.suppressed.items():
        yield f"{count:,} more of {rule} {'is' if count == 1 else 'are'} not shown"
    yield from (f"not checked: {sentence}" for sentence in table.validation.not_checked)


def _line(table: CheckedTable, finding: Finding, terminal: Terminal) -> str:
    """`path:line: severity: message [rule]`; the line only where there is one."""
    place = place_name(table, finding.place)
    where = f"{place}:{finding.place.line}:" if finding.place.line is not None else f"{place}:"
    severity = terminal.paint(f"{finding.severity.value}:", STYLES[finding.severity])
    rule = terminal.paint(f"[{finding.rule.id}]", Style.QUIET)
    where = terminal.paint(_clean(where, terminal), Style.HEADING)
    return f"{where} {severity} {_clean(finding.message, terminal)} {rule}"


def _details(finding: Finding, terminal: Terminal, fix_of: CheckedTable | None) -> Iterator[str]:
    """`fix_of`: the table whose repair follows."""
    pairs = [*values_of(finding), *(advice_of(finding.rule, fix_of) if fix_of is not None else [])]
    for label, value in pairs:
        if value:
            yield f"    {terminal.paint(f'{label:<8}', Style.QUIET)}  {_clean(value, terminal)}"


def values_of(finding: Finding) -> list[tuple[str, str | None]]:
    """Return what was seen and expected; of an answer of a server first the request, by which it can be repeated."""
    request = [("request", finding.place.key)] if _is_about_a_server(finding.rule) else []
    return [*request, ("seen", finding.seen), ("expected", finding.expected)]


def advice_of(rule: Rule, table: CheckedTable) -> list[tuple[str, str]]:
    """Return a possible repair of a table; for those who write a server also the paragraph that it breaks."""
    loses = [("loses", rule.fix.loss)] if rule.fix.loses else []
    if line := repair_command(rule, table.name, is_readable=table.validation.is_readable):
        return [("fix", line), *loses]
    return [
        ("fix", rule.fix.repair_of(table.name)),
        *loses,
        *([("spec", rule.spec)] if _is_about_a_server(rule) else []),
    ]


def _is_about_a_server(rule: Rule) -> bool:
    return rule.id.startswith("share.")


def fix_sentence(fix: Fix, table: str = "TABLE") -> str:
    """Return a possible repair of a fault of a table, and what the repair loses."""
    repair = fix.repair_of(table)
    return f"{repair}; loses: {fix.loss}" if fix.loses else repair


def _clean(text: str, terminal: Terminal) -> str:
    return for_screen(text) if terminal.is_terminal else visible(text)


def _verdict_lines(report: ValidationReport, terminal: Terminal) -> Iterator[str]:
    """What is at stake in each table with errors or warnings, and, of several, in how many."""
    told = False
    for table in report.tables:
        verdict = judge(table)
        if not verdict.needs_a_look:
            continue
        if not told:
            yield ""
            told = True
        yield f"{_clean(table.name, terminal)}: {_clean(verdict.sentence, terminal)}"
    if (told or report.left_out) and len(report.tables) > 1:
        yield f"{report.subjects} checked: {_clean(all_sentence(report), terminal)}"


class _Row(NamedTuple):
    """A line of the summary."""

    name: str
    version: int | None
    counts: Counts
    suppressed: int | None
    accepted: int | None


def write_summary(sink: BinaryIO, terminal: Terminal, report: ValidationReport) -> None:
    has_baseline = report.stale is not None
    rows = [
        _Row(
            table.name,
            table.validation.version,
            table.counts,
            sum(table.suppressed.values()) or None,
            table.accepted if has_baseline else None,
        )
        for table in report.tables
    ]
    if len(rows) > 1:
        suppressed = sum(row.suppressed or 0 for row in rows) or None
        name = f"all {report.subjects}" if not report.tables[0].is_server else report.subjects
        rows.append(_Row(name, None, report.counts, suppressed, report.accepted if has_baseline else None))
    write_table(sink, terminal, _summary_columns(), rows)


def _summary_columns() -> list[Column[_Row]]:
    def number(name: str, count: Callable[[Counts], int], priority: int, style: Style) -> Column[_Row]:
        return Column(
            name,
            lambda row: count(row.counts),
            text=lambda row: format_count(count(row.counts)),
            style=lambda row: style if count(row.counts) else Style.QUIET,
            right=True,
            priority=priority,
            least=8,
        )

    return [
        Column("table", lambda row: row.name, priority=1, least=20, keep_end=True),
        Column("version", lambda row: row.version, right=True, priority=4, least=7),
        number("errors", lambda counts: counts.errors, 1, STYLES[Severity.ERROR]),
        number("warnings", lambda counts: counts.warnings, 2, STYLES[Severity.WARNING]),
        number("infos", lambda counts: counts.infos, 3, Style.PLAIN),
        Column("not shown", lambda row: row.suppressed, right=True, priority=3, least=9),
        Column("accepted", lambda row: row.accepted, right=True, priority=3, least=8),
    ]


def summary_sentence(report: ValidationReport) -> str:
    """The run in one line, for formats that have no place for it."""
    counts = report.counts
    parts = (plural(counts.errors, "error"), plural(counts.warnings, "warning"), plural(counts.infos, "info"))
    return f"{report.subjects}: {', '.join(parts)}"
