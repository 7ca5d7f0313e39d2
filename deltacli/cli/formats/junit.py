"""`--format junit`: findings as JUnit XML, for CI systems: one suite per table, one case per rule."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO
from xml.sax.saxutils import escape, quoteattr

from deltacli.cli.render.validate.findings import advice_of, judge, values_of
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, place_name, reaches
from deltacli.cli.terminal.term import visible
from deltacli.core.errors import DeltacliError
from deltacli.rules.framework.base import Finding, Rule, Severity

if TYPE_CHECKING:
    from deltacli.cli.results import ReportedResult
    from deltacli.cli.terminal.term import Terminal

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(sink: BinaryIO, result: ReportedResult, _terminal: Terminal) -> None:
    """Write a suite per table. A case fails where its rule has findings that reach `--fail-on`; others are its output.

    A path that could not be checked is a suite with one case in error.
    """
    report = result.report
    suites = [_suite(report, table) for table in report.tables]
    suites += [_failed_suite(name, fault) for name, fault in report.failures]
    tests = sum(tests for tests, _, _ in suites)
    failures = sum(failures for _, failures, _ in suites)
    counts = f'tests="{tests}" failures="{failures}" errors="{len(report.failures)}"'
    head = f'<testsuites name="deltacli {report.command}" {counts}>'
    sink.write(b'<?xml version="1.0" encoding="UTF-8"?>\n' + head.encode() + b"\n")
    for _, _, text in suites:
        sink.write(text.encode())
    sink.write(b"</testsuites>\n")


def _suite(report: ValidationReport, table: CheckedTable) -> tuple[int, int, str]:
    """Return the number of cases, the number of failed ones, and the text."""
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in table.findings:
        findings[finding.rule.id].append(finding)
    looked_for, skipped = table.validation.rules, table.validation.skipped
    rules = [rule for rule in report.rules() if rule.id in looked_for or rule.id in findings]
    cases = [_case(table, rule, findings[rule.id], report.fail_on) for rule in rules]
    failures = sum(failed for failed, _ in cases)
    cases += [(False, _skipped_case(table, rule, reason)) for rule, reason in skipped.items() if rule not in findings]
    head = (
        f'  <testsuite name={_attribute(table.name)} tests="{len(cases)}" failures="{failures}" errors="0" '
        f'skipped="{len(cases) - len(rules)}">'
    )
    tail = [
        *_properties(table),
        *(text for _, text in cases),
        *_output(list(_remarks(table)), "    "),
        "  </testsuite>\n",
    ]
    return len(cases), failures, "\n".join([head, *tail])


def _case(table: CheckedTable, rule: Rule, findings: Sequence[Finding], fail_on: Severity) -> tuple[bool, str]:
    head = f'    <testcase classname={_attribute(table.name)} name="{rule.id}"'
    if not findings:
        return False, head + "/>"
    weighty = [finding for finding in findings if reaches(finding.severity, fail_on)]
    light = [finding for finding in findings if not reaches(finding.severity, fail_on)]
    lines = [head + ">"]
    if weighty:
        advice = (f"{name}: {text}" for name, text in advice_of(rule, table))
        texts = [*(_sentence(table, finding) for finding in weighty), *advice]
        what = weighty[0].message if len(weighty) == 1 else f"{len(weighty)} findings, the first: {weighty[0].message}"
        lines.append(f"      <failure type={_attribute(rule.id)} message={_attribute(what)}>{_text(texts)}</failure>")
    lines += _output([_sentence(table, finding) for finding in light], "      ")
    return bool(weighty), "\n".join([*lines, "    </testcase>"])


def _skipped_case(table: CheckedTable, rule: str, reason: str) -> str:
    head = f'    <testcase classname={_attribute(table.name)} name="{rule}">'
    return "\n".join([head, f"      <skipped message={_attribute(reason)}/>", "    </testcase>"])


def _sentence(table: CheckedTable, finding: Finding) -> str:
    line = f":{finding.place.line}" if finding.place.line is not None else ""
    values = "".join(f"; {name} {value}" for name, value in values_of(finding) if value)
    return f"{place_name(table, finding.place)}{line}: {finding.severity}: {finding.message}{values}"


def _properties(table: CheckedTable) -> Iterator[str]:
    pairs = [
        ("table", table.validation.table),
        ("version", table.validation.version),
        ("level", table.validation.level),
        ("verdict", judge(table).sentence),
    ]
    rows = [f'<property name="{name}" value={_attribute(str(value))}/>' for name, value in pairs if value is not None]
    yield f"    <properties>{''.join(rows)}</properties>"


def _remarks(table: CheckedTable) -> Iterator[str]:
    for rule, count in table.suppressed.items():
        yield f"{count} more of {rule} are not shown"
    for sentence in table.validation.not_checked:
        yield f"not checked: {sentence}"


def _failed_suite(name: str, fault: DeltacliError) -> tuple[int, int, str]:
    facts = [f"{key}: {value}" for key, value in fault.facts.items()]
    lines = [
        f'  <testsuite name={_attribute(name)} tests="1" failures="0" errors="1" skipped="0">',
        f'    <testcase classname={_attribute(name)} name="table">',
        f"      <error type={_attribute(fault.code)} message={_attribute(fault.message)}>{_text(facts)}</error>",
        "    </testcase>",
        "  </testsuite>\n",
    ]
    return 1, 0, "\n".join(lines)


def _output(texts: Sequence[str], indent: str) -> list[str]:
    return [f"{indent}<system-out>{_text(texts)}</system-out>"] if texts else []


def _text(lines: Sequence[str]) -> str:
    """Return lines as the content of an element. Line ends inside a line are escaped."""
    return escape(_legal("\n".join(map(visible, lines))))


def _attribute(text: str) -> str:
    return quoteattr(_legal(visible(text)))


def _legal(text: str) -> str:
    """Return a text with the characters that XML does not allow replaced by escapes."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
