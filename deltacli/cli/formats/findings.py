"""`--format github`: findings as workflow commands of GitHub Actions, which annotate a file and a line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import BinaryIO
from xml.sax.saxutils import escape, quoteattr

from deltacli import __version__
from deltacli.cli.render.validate.findings import advice_of, fix_sentence, judge, values_of
from deltacli.cli.render.validate.report import (
    CheckedTable,
    ValidationReport,
    place_name,
    reaches,
    working_path,
    working_uri,
)
from deltacli.cli.results import ReportedResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import escape_control, escape_control_in_json, escape_for_screen
from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError
from deltacli.core.typing import Json
from deltacli.delta.log.segment import Place
from deltacli.operations.validate.findings import fingerprint
from deltacli.rules.framework.base import Finding, Rule, Severity

_LINE_END = re.compile("([\r\n])")
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def write_github(sink: BinaryIO, result: ReportedResult, _terminal: Terminal) -> None:
    """Write an annotation per finding, errors first, and one for each omission. GitHub shows the first ten."""
    report = result.report
    for table in report.tables:
        for finding in report.ordered(table):
            sink.write(_annotation(table, finding))
        for rule, count in table.suppressed.items():
            sink.write(_command("notice", {"title": rule}, [f"{table.name}: {count} more are not shown"]))
        for sentence in table.validation.not_checked:
            sink.write(_command("notice", {"title": "not checked"}, [f"{table.name}: {sentence}"]))
    for name, fault in report.failures:
        sink.write(_command("error", {"title": fault.code}, [f"{name}: {fault.message}"]))


def _annotation(table: CheckedTable, finding: Finding) -> bytes:
    """Return `::error file=…,line=…,title=rule::message`, with the values and the fix on lines of their own."""
    properties = {"file": working_path(table, finding.place)}
    if finding.place.line is not None:
        properties["line"] = str(finding.place.line)
    properties["title"] = finding.rule.id
    pairs = [*values_of(finding), *advice_of(finding.rule, table)]
    lines = [finding.message, *(f"{name}: {value}" for name, value in pairs if value)]
    return _command(_COMMANDS[finding.severity], properties, lines)


def _command(name: str, properties: dict[str, str], lines: Sequence[str]) -> bytes:
    shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    message = _data("\n".join(map(escape_for_screen, lines)))
    return f"::{name} {shown}::{message}\n".encode("utf-8", "backslashreplace")


def _data(text: str) -> str:
    """Return a message with the characters that end a command escaped as the runner expects."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a property value with control characters and the characters that end it escaped, line ends by `%0A`."""
    return "".join(
        _data(part if part in ("\r", "\n") else escape_control(part)).replace(":", "%3A").replace(",", "%2C")
        for part in _LINE_END.split(text)
    )


# -- `--format junit` --------------------------------------------------------------------------------------------------

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
    return escape(_legal("\n".join(map(escape_control, lines))))


def _attribute(text: str) -> str:
    return quoteattr(_legal(escape_control(text)))


def _legal(text: str) -> str:
    """Return a text with the characters that XML does not allow replaced by escapes."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


# -- `--format sarif` --------------------------------------------------------------------------------------------------

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def write_sarif(sink: BinaryIO, result: ReportedResult, terminal: Terminal) -> None:
    """Write one run: every rule that was checked, a result per finding, and a notification per unchecked item."""
    report = result.report
    places = {rule.id: index for index, rule in enumerate(report.rules())}
    run: dict[str, Json] = {
        "tool": {
            "driver": {
                "name": "deltacli",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in report.rules()],
            }
        },
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(table, finding, places[finding.rule.id]) for table in report.tables for finding in table.findings
        ],
    }
    document = dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=terminal.is_terminal)
    sink.write(escape_control_in_json(document.decode()).encode() + b"\n")


def _rule(rule: Rule) -> dict[str, Json]:
    area = rule.id.partition(".")[0]
    properties: dict[str, Json] = {"tags": ["delta-lake", area], "level": rule.level.value, "spec": rule.spec}
    pairs = (
        ("Broken", rule.fix.broken),
        ("Fix", fix_sentence(rule.fix)),
        ("Source", rule.spec),
        ("Example", rule.example),
    )
    document: dict[str, Json] = {
        "id": rule.id,
        "shortDescription": {"text": rule.checks},
        "help": {"text": "\n".join([rule.checks, *(f"{name}: {text}" for name, text in pairs if text)])},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": properties,
    }
    return document


def _result(table: CheckedTable, finding: Finding, index: int) -> dict[str, Json]:
    place = finding.place
    location: dict[str, Json] = {"artifactLocation": {"uri": working_uri(table, place)}}
    if place.line is not None:
        location["region"] = {"startLine": place.line}
    properties: dict[str, Json] = {"table": table.validation.table, "version": place.version, "key": place.key}
    properties |= {"seen": finding.seen, "expected": finding.expected}
    known = fingerprint(working_uri(table, Place("")), finding)
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": escape_control(finding.message)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"deltacliFinding/v1": known.digest},
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _invocation(report: ValidationReport) -> dict[str, Json]:
    """Return whether every path was checked, and what was left out."""
    told = [_notification("warning", f"{name}: {fault.message} [{fault.code}]") for name, fault in report.failures]
    for table in report.tables:
        told += [_notification("note", f"{table.name}: not checked: {text}") for text in table.validation.not_checked]
        told += [
            _notification("note", f"{table.name}: {count} more of {rule} are not shown")
            for rule, count in table.suppressed.items()
        ]
    invocation: dict[str, Json] = {"executionSuccessful": not report.failures}
    return {**invocation, "toolExecutionNotifications": told} if told else invocation


def _notification(level: str, text: str) -> dict[str, Json]:
    return {"level": level, "message": {"text": escape_control(text)}}
