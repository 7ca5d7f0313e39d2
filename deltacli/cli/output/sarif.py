"""Write findings in the Static Analysis Results Interchange Format (SARIF) 2.1.0, for code scanning services
(`--format sarif`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from deltacli import __version__
from deltacli.cli.output.results import ReportedResult
from deltacli.cli.render.validate.findings import fix_sentence
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, working_uri
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import escape_control, escape_control_in_json
from deltacli.core.documents import dumps
from deltacli.core.typing import Json
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import Finding, Rule, Severity
from deltacli.rules.framework.baseline import fingerprint

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def write_sarif(sink: BinaryIO, result: ReportedResult, terminal: Terminal) -> None:
    """Write a SARIF log with one run. It contains the checked rules, a result per finding, and notifications."""
    report = result.report
    rules = report.rules()
    indexes = {rule.id: index for index, rule in enumerate(rules)}
    driver: dict[str, Json] = {
        "name": "deltacli",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_describe_rule(rule) for rule in rules],
    }
    run: dict[str, Json] = {
        "tool": {"driver": driver},
        "invocations": [_describe_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [
            _describe_finding(table, finding, indexes[finding.rule.id])
            for table in report.tables
            for finding in table.findings
        ],
    }
    document = dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=terminal.is_terminal)
    sink.write(escape_control_in_json(document.decode()).encode() + b"\n")


def _describe_rule(rule: Rule) -> dict[str, Json]:
    """Return a reporting descriptor."""
    area = rule.id.partition(".")[0]
    details = {
        "Broken": rule.fix.broken,
        "Fix": fix_sentence(rule.fix),
        "Source": rule.spec,
        "Example": rule.example,
    }
    help_lines = [rule.checks, *(f"{name}: {text}" for name, text in details.items() if text)]
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.checks},
        "help": {"text": "\n".join(help_lines)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["delta-lake", area], "level": rule.level.value, "spec": rule.spec},
    }


def _describe_finding(table: CheckedTable, finding: Finding, rule_index: int) -> dict[str, Json]:
    """Create a SARIF `result`. A finding has the same fingerprint in each run, so that services detect new findings."""
    place = finding.place
    location: dict[str, Json] = {"artifactLocation": {"uri": working_uri(table, place)}}
    if place.line is not None:
        location["region"] = {"startLine": place.line}

    properties: dict[str, Json] = {
        "table": table.validation.table,
        "version": place.version,
        "key": place.key,
        "seen": finding.seen,
        "expected": finding.expected,
    }
    known_finding = fingerprint(working_uri(table, Place("")), finding)
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": escape_control(finding.message)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"deltacliFinding/v1": known_finding.digest},
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _describe_invocation(report: ValidationReport) -> dict[str, Json]:
    """Create a SARIF `invocation`. It records whether all tables could be read, and which checks were omitted."""
    invocation: dict[str, Json] = {"executionSuccessful": not report.failures}
    notifications = list(_find_notifications(report))
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    return invocation


def _find_notifications(report: ValidationReport) -> Iterator[Json]:
    """Yield a notification per table that cannot be read, per omitted check, and per rule with hidden findings."""
    for name, error in report.failures:
        yield _make_notification("warning", f"{name}: {error.message} [{error.code}]")
    for table in report.tables:
        for sentence in table.validation.not_checked:
            yield _make_notification("note", f"{table.name}: not checked: {sentence}")
        for rule, count in table.suppressed.items():
            yield _make_notification("note", f"{table.name}: {count} more of {rule} are not shown")


def _make_notification(level: str, text: str) -> Json:
    return {"level": level, "message": {"text": escape_control(text)}}
