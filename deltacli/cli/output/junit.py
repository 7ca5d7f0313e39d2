"""Write findings as a JUnit XML report, which CI servers show as test results (`--format junit`).

A table is a test suite, and a rule of `validate` is a test case:

    <testsuite name="trips" tests="40" failures="1" errors="0" skipped="2">
      <testcase classname="trips" name="commit.bad-json">
        <failure type="commit.bad-json" message="invalid JSON">…</failure>
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from deltacli.cli.output.results import ReportedResult
from deltacli.cli.render.validate.findings import advice_of, judge, values_of
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, place_name, reaches
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import escape_control
from deltacli.core.errors import DeltacliError
from deltacli.rules.framework.base import Finding, Rule, Severity

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches characters that are not allowed in XML, not even as character references such as `&#1;`."""


class _Suite(NamedTuple):
    """The test suite of a table.

    Attributes:
        tests: The number of test cases.
        failures: The number of test cases that failed.
        text: The XML element.
    """

    tests: int
    failures: int
    text: str


class _Case(NamedTuple):
    """The test case of a rule.

    Attributes:
        has_failed: Whether the test case failed.
        text: The XML element.
    """

    has_failed: bool
    text: str


def write_junit(sink: BinaryIO, result: ReportedResult, _terminal: Terminal) -> None:
    """Write a test suite per table.

    A test case fails if its rule has findings of at least the severity of `--fail-on`. Findings of lower severity are
    written as output of the test case. A table that cannot be read is a test suite with one error.
    """
    report = result.report
    suites = [_make_suite(report, table) for table in report.tables]
    suites += [_make_failed_suite(name, error) for name, error in report.failures]

    tests = sum(suite.tests for suite in suites)
    failures = sum(suite.failures for suite in suites)
    counts = f'tests="{tests}" failures="{failures}" errors="{len(report.failures)}"'
    sink.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    sink.write(f'<testsuites name="deltacli {report.command}" {counts}>\n'.encode())
    for suite in suites:
        sink.write(suite.text.encode())
    sink.write(b"</testsuites>\n")


def _make_suite(report: ValidationReport, table: CheckedTable) -> _Suite:
    """Create the test suite of a table: a test case per rule that was checked, has findings or was skipped."""
    findings_by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in table.findings:
        findings_by_rule[finding.rule.id].append(finding)

    checked_rules = table.validation.rules
    rules = [rule for rule in report.rules() if rule.id in checked_rules or rule.id in findings_by_rule]
    cases = [_make_case(table, rule, findings_by_rule[rule.id], report.fail_on) for rule in rules]
    failures = sum(case.has_failed for case in cases)
    skipped_cases = [
        _make_skipped_case(table, rule, reason)
        for rule, reason in table.validation.skipped.items()
        if rule not in findings_by_rule
    ]
    cases += skipped_cases

    head = (
        f'  <testsuite name={_quote_attribute(table.name)} tests="{len(cases)}" failures="{failures}" errors="0" '
        f'skipped="{len(skipped_cases)}">'
    )
    lines = [
        head,
        _format_properties(table),
        *(case.text for case in cases),
        *_format_output(list(_find_remarks(table)), "    "),
        "  </testsuite>\n",
    ]
    return _Suite(len(cases), failures, "\n".join(lines))


def _make_case(table: CheckedTable, rule: Rule, findings: Sequence[Finding], fail_on: Severity) -> _Case:
    """Create the test case of a rule. Findings of a lower severity than `fail_on` are written as output."""
    head = f'    <testcase classname={_quote_attribute(table.name)} name="{rule.id}"'
    if not findings:
        return _Case(has_failed=False, text=head + "/>")

    # A test case has only one result. Findings that do not let it fail are written as its output.
    failing = [finding for finding in findings if reaches(finding.severity, fail_on)]
    others = [finding for finding in findings if not reaches(finding.severity, fail_on)]
    lines = [head + ">"]
    if failing:
        message = failing[0].message
        if len(failing) > 1:
            message = f"{len(failing)} findings, the first: {message}"
        texts = [_describe_finding(table, finding) for finding in failing]
        texts += [f"{name}: {text}" for name, text in advice_of(rule, table)]
        attributes = f"type={_quote_attribute(rule.id)} message={_quote_attribute(message)}"
        lines.append(f"      <failure {attributes}>{_escape_lines(texts)}</failure>")
    lines += _format_output([_describe_finding(table, finding) for finding in others], "      ")
    lines.append("    </testcase>")
    return _Case(has_failed=bool(failing), text="\n".join(lines))


def _make_skipped_case(table: CheckedTable, rule: str, reason: str) -> _Case:
    lines = [
        f'    <testcase classname={_quote_attribute(table.name)} name="{rule}">',
        f"      <skipped message={_quote_attribute(reason)}/>",
        "    </testcase>",
    ]
    return _Case(has_failed=False, text="\n".join(lines))


def _make_failed_suite(name: str, error: DeltacliError) -> _Suite:
    """Create the test suite of a table that cannot be read."""
    facts = [f"{key}: {value}" for key, value in error.facts.items()]
    attributes = f"type={_quote_attribute(error.code)} message={_quote_attribute(error.message)}"
    lines = [
        f'  <testsuite name={_quote_attribute(name)} tests="1" failures="0" errors="1" skipped="0">',
        f'    <testcase classname={_quote_attribute(name)} name="table">',
        f"      <error {attributes}>{_escape_lines(facts)}</error>",
        "    </testcase>",
        "  </testsuite>\n",
    ]
    return _Suite(1, 0, "\n".join(lines))


def _describe_finding(table: CheckedTable, finding: Finding) -> str:
    """Format a finding as `path:line: severity: message; seen …`. Editors and CI servers convert this to a link."""
    line = "" if finding.place.line is None else f":{finding.place.line}"
    values = "".join(f"; {name} {value}" for name, value in values_of(finding) if value)
    return f"{place_name(table, finding.place)}{line}: {finding.severity}: {finding.message}{values}"


def _format_properties(table: CheckedTable) -> str:
    values = {
        "table": table.validation.table,
        "version": table.validation.version,
        "level": table.validation.level,
        "verdict": judge(table).sentence,
    }
    properties = [
        f'<property name="{name}" value={_quote_attribute(str(value))}/>'
        for name, value in values.items()
        if value is not None
    ]
    return f"    <properties>{''.join(properties)}</properties>"


def _find_remarks(table: CheckedTable) -> Iterator[str]:
    """Yield sentences about findings that are not shown, and about parts of the table that were not checked."""
    for rule, count in table.suppressed.items():
        yield f"{count} more of {rule} are not shown"
    for sentence in table.validation.not_checked:
        yield f"not checked: {sentence}"


def _format_output(texts: Sequence[str], indent: str) -> list[str]:
    return [f"{indent}<system-out>{_escape_lines(texts)}</system-out>"] if texts else []


def _escape_lines(lines: Sequence[str]) -> str:
    return escape(_replace_illegal_characters("\n".join(map(escape_control, lines))))


def _quote_attribute(text: str) -> str:
    return quoteattr(_replace_illegal_characters(escape_control(text)))


def _replace_illegal_characters(text: str) -> str:
    """Replace characters that are not allowed in XML by Python escapes."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
