"""`--format sarif`: findings as SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from deltacli import __version__
from deltacli.cli.render.validate.findings import fix_sentence
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, working_uri
from deltacli.cli.terminal.term import escaped_json, visible
from deltacli.core.documents import dumps
from deltacli.core.typing import Json
from deltacli.delta.log.log_path import Place
from deltacli.operations.validate.baseline import fingerprint
from deltacli.rules.framework.base import Finding, Rule, Severity

if TYPE_CHECKING:
    from deltacli.cli.results import ReportedResult
    from deltacli.cli.terminal.term import Terminal

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
    sink.write(escaped_json(document.decode()).encode() + b"\n")


def _rule(rule: Rule) -> dict[str, Json]:
    area = rule.id.partition(".")[0]
    properties: dict[str, Json] = {"tags": ["delta-lake", area], "level": rule.level.value, "spec": rule.spec}
    document: dict[str, Json] = {
        "id": rule.id,
        "shortDescription": {"text": rule.checks},
        "help": {"text": _help(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": properties,
    }
    return document


def _help(rule: Rule) -> str:
    pairs = (
        ("Broken", rule.fix.broken),
        ("Fix", fix_sentence(rule.fix)),
        ("Source", rule.spec),
        ("Example", rule.example),
    )
    return "\n".join([rule.checks, *(f"{name}: {text}" for name, text in pairs if text)])


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
        "message": {"text": visible(finding.message)},
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
    return {"level": level, "message": {"text": visible(text)}}
