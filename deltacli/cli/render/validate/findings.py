"""Findings as text, and the verdict: what the findings of a table mean, in one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import BinaryIO, NamedTuple

from deltacli.cli.output.text_tables import write_table_with_total
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, place_name
from deltacli.cli.render.validate.verdict_columns import STYLES, count_columns, make_table_row, make_total_row
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control, escape_for_screen
from deltacli.core.texts import cut_middle, summarize_names
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.rules.framework import repairs
from deltacli.rules.framework.base import Finding, Fix, Rule, Severity
from deltacli.rules.framework.choice import COULD_NOT_BE_READ, SelectedRules


def write_text(sink: BinaryIO, terminal: Terminal, report: ValidationReport, *, brief: bool) -> None:
    """Write a line a finding, as compilers do, with details below unless `brief`; then the tables with their counts."""
    has_lines = False
    for table in report.tables:
        for line in table_lines(table, terminal, brief=brief):
            sink.write(encode_utf8(f"{line}\n"))
            has_lines = True
    if has_lines:
        sink.write(b"\n")
    write_summary(sink, terminal, report)
    for line in _verdict_lines(report, terminal):
        sink.write(encode_utf8(f"{line}\n"))


def table_lines(table: CheckedTable, terminal: Terminal, *, brief: bool) -> Iterator[str]:
    explained: set[tuple[str, str]] = set()
    for finding in table.findings:
        yield _line(table, finding, terminal)
        if not brief:
            explanation = finding.rule.id, finding.rule.fix.repair
            fix_of = table if explanation not in explained else None
            pairs = [*values_of(finding), *(advice_of(finding.rule, fix_of) if fix_of is not None else [])]
            for label, value in pairs:
                if value:
                    yield f"    {terminal.paint(f'{label:<8}', Style.QUIET)}  {_clean(value, terminal)}"
            explained.add(explanation)
    name = _clean(table.name, terminal)
    yield from (f"{name}: {_clean(sentence, terminal)}" for sentence in omissions(table))


def omissions(table: CheckedTable) -> Iterator[str]:
    """Yield what a report leaves out of a table: findings above the limit, and what was not checked."""
    for rule, count in table.suppressed.items():
        yield f"{count:,} more of {rule} {'is' if count == 1 else 'are'} not shown"
    yield from (f"not checked: {sentence}" for sentence in table.validation.not_checked)


def _line(table: CheckedTable, finding: Finding, terminal: Terminal) -> str:
    place = place_name(table, finding.place)
    where = f"{place}:{finding.place.line}:" if finding.place.line is not None else f"{place}:"
    severity = terminal.paint(f"{finding.severity.value}:", STYLES[finding.severity])
    rule = terminal.paint(f"[{finding.rule.id}]", Style.QUIET)
    where = terminal.paint(_clean(where, terminal), Style.HEADING)
    return f"{where} {severity} {_clean(finding.message, terminal)} {rule}"


def values_of(finding: Finding) -> list[tuple[str, str | None]]:
    """Return what was seen and expected; of an answer of a server first the request, by which it can be repeated."""
    request = [("request", finding.place.key)] if _is_about_a_server(finding.rule) else []
    return [*request, ("seen", finding.seen), ("expected", finding.expected)]


def advice_of(rule: Rule, table: CheckedTable) -> list[tuple[str, str]]:
    """Return a possible repair of a table; for those who write a server also the paragraph that it breaks."""
    loses = [("loses", rule.fix.loss)] if rule.fix.loses else []
    if line := repairs.repair_command(rule, table.name, table.validation.condition):
        return [("fix", line), *loses]
    return [
        ("fix", repairs.repair_in_words(rule, table.name, table.validation.condition)),
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
    text = cut_middle(text)
    return escape_for_screen(text) if terminal.is_terminal else escape_control(text)


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
        yield f"{checked_subjects(report)}: {_clean(all_sentence(report), terminal)}"


def write_summary(sink: BinaryIO, terminal: Terminal, report: ValidationReport) -> None:
    """Write a row per table with its counts, and the totals below."""
    rows = [make_table_row(table, report, verdict="", style=Style.PLAIN) for table in report.tables]
    # A server has suites, which are not "all suites": more of them may apply to another server.
    is_server = bool(report.tables) and report.tables[0].is_server
    total = make_total_row(report, name=report.subjects if is_server else f"all {report.subjects}", verdict="")
    write_table_with_total(sink, terminal, count_columns(), rows, total)


def summary_sentence(report: ValidationReport) -> str:
    """The run in one line, for formats that have no place for it."""
    counts = report.counts
    parts = (plural(counts.errors, "error"), plural(counts.warnings, "warning"), plural(counts.infos, "info"))
    return f"{report.subjects}: {', '.join(parts)}"


def checked_subjects(report: ValidationReport) -> str:
    """Return how many tables were checked, and that nothing but their logs was read if that is so."""
    return f"{report.subjects} checked{' (logs only)' if report.reads_logs_only else ''}"


_NAMED = 3


class TableVerdict(NamedTuple):
    """`risks`: each class that findings are of, the worst first, with their number by rule. `others` counts the rules
    of errors and warnings that put nothing at stake, `remarks` those of observations. `is_readable`: whether the newest
    version can be rebuilt from the log; None where not everything that decides it was looked at. `unsupported`: the
    code of the error with which deltacli refuses to read the table.
    """

    level: str
    unsupported: str | None
    risks: dict[repairs.Risk, dict[str, int]]
    others: int
    remarks: int
    is_readable: bool | None
    is_paimon: bool = False
    is_untested: bool = False
    """Whether the server did not let a shared table be read."""

    @property
    def is_serious(self) -> bool:
        """Whether something is at stake, or deltacli refuses to read the table."""
        return bool(self.risks) or self.unsupported is not None

    @property
    def needs_a_look(self) -> bool:
        """Whether the verdict is shown where those of tables without problems are not."""
        return self.is_serious or bool(self.others) or self.is_untested

    @property
    def sentence(self) -> str:
        """The verdict for people, exact and short."""
        parts = [
            f"{self._says(risk, rules)} ({summarize_names(list(rules), _NAMED)})"
            for risk, rules in self.risks.items()
            if rules.keys() != {self.unsupported}  # which is said already
        ]
        if self.unsupported is not None:
            parts.insert(0, f"deltacli cannot read it ({self.unsupported})")
        if self.is_readable and not parts:
            parts.append(self._can_be_read())
        if self.others:
            parts.append(f"{plural(self.others, 'other problem' if self.is_serious else 'problem')}")
        elif self.remarks and not self.is_serious:
            parts.append(plural(self.remarks, "remark"))
        elif not self.is_serious:
            parts.append(f"not tested: {COULD_NOT_BE_READ}" if self.is_untested else "nothing found")
        return "; ".join(parts)

    def _can_be_read(self) -> str:
        if self.is_paimon:
            return "its schemas can be read"
        return "its log can be read" if self.level == "log" else "readable"

    def _says(self, risk: repairs.Risk, rules: Collection[str]) -> str:
        if repairs.UNREADABLE_FILES.issuperset(rules):
            return repairs.SAYS_OF_FILES
        return (
            "it cannot be read" if risk is repairs.Risk.UNREADABLE and self.is_readable is False else repairs.SAYS[risk]
        )

    def as_json(self) -> dict[str, Json]:
        """The verdict as in the document `deltacli.validate`."""
        risks = [
            {"risk": risk.value, "says": self._says(risk, rules), "findings": sum(rules.values()), "rules": list(rules)}
            for risk, rules in self.risks.items()
        ]
        return {"sentence": self.sentence, "readable": self.is_readable, "risks": risks}


def judge(table: CheckedTable) -> TableVerdict:
    """What the findings of a table come to."""
    risks: dict[repairs.Risk, dict[str, int]] = {risk: {} for risk in repairs.Risk}
    others, remarks = set(), set()
    for finding in table.findings:
        rule, risk = finding.rule.id, repairs.risk_of(finding)
        if rule in repairs.REPLACED_WHERE_REBUILT and table.validation.is_rebuilt:
            risk = repairs.Risk.READERS_FAIL
        if risk is not None:
            risks[risk][rule] = risks[risk].get(rule, 0) + 1
        elif finding.severity is Severity.INFO:
            remarks.add(rule)
        else:
            others.add(rule)
    present = {risk: rules for risk, rules in risks.items() if rules}
    at_stake = {rule for rules in present.values() for rule in rules}
    readable = _is_readable(table, can_be=repairs.Risk.UNREADABLE not in present)
    is_paimon = table.validation.table_format == "paimon"
    level, unsupported = table.validation.level, table.validation.unsupported
    code = None if unsupported is None else unsupported.code
    is_untested = not table.is_server and COULD_NOT_BE_READ in table.validation.skipped.values()
    count = len(others - at_stake - {code})
    return TableVerdict(level, code, present, count, len(remarks), readable, is_paimon, is_untested)


def _is_readable(table: CheckedTable, *, can_be: bool) -> bool | None:
    validation = table.validation
    if not validation.is_rebuilt:
        return False
    needed = _rules_of_unreadable(validation.table_format)
    rules = validation.rules
    is_asked = all(map(rules.choice.names, needed)) if isinstance(rules, SelectedRules) else needed <= rules
    is_whole = is_asked and not validation.not_checked and not table.accepted
    return True if can_be and is_whole else None


def _rules_of_unreadable(table_format: str) -> frozenset[str]:
    """Return the rules that decide whether a table can be read, which every level checks."""
    if table_format == "paimon":
        return frozenset(repairs.PAIMON_RULES[repairs.Risk.UNREADABLE].split())
    return repairs.DECIDE_READABLE


def all_sentence(report: ValidationReport) -> str:
    """What the verdicts of several tables come to."""
    verdicts = [judge(table) for table in report.tables]
    at_risk = sum(bool(verdict.risks) for verdict in verdicts)
    to_look_at = sum(bool(verdict.others and not verdict.risks) for verdict in verdicts)
    untested = sum(verdict.is_untested and not verdict.risks and not verdict.others for verdict in verdicts)
    rest = len(verdicts) - at_risk - to_look_at - untested
    found = f"{at_risk:,} at risk, {to_look_at:,} with other problems, {rest:,} without problems"
    if not at_risk and not to_look_at:
        found = "no problems" if not untested else f"{rest:,} without problems"
    omitted = [f"{plural(untested, 'table')} could not be tested"] if untested else []
    omitted += [f"not tested: {text}" for text in report.left_out]
    return "; ".join([found, *omitted])
