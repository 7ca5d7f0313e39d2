"""The alerts of a fleet as findings, for the formats of CI systems: JUnit, SARIF, GitHub annotations."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
from deltacli.core.errors import DeltacliError
from deltacli.core.typing import JsonObject
from deltacli.delta.log.log_path import Place
from deltacli.fleet.alerts import State, StepStatus, advice_for
from deltacli.fleet.policy_file.model import ALERT_KEYS, STEP_KEYS
from deltacli.fleet.status import FleetStatus, TableStatus
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import Finding, Fix, Level, Rule, Severity
from deltacli.rules.framework.catalogue import CATALOGUE

PREFIX = "fleet."
_FIX = Fix("the table needs work that no run has done", "deltacli fleet status", "")
_SPEC = "docs/fleet.md"

_STEP_RULES = {
    kind: Rule(f"{PREFIX}{kind}", Severity.ERROR, Level.LOG, f"The last {kind} of a table was done.", _SPEC, _FIX, "")
    for kind in STEP_KEYS
}
_THRESHOLD_RULES = {
    key.name: Rule(f"{PREFIX}{key.name}", Severity.WARNING, Level.LOG, key.meaning, _SPEC, _FIX, "")
    for key in ALERT_KEYS
}


def status_report(status: FleetStatus) -> ValidationReport:
    """Return a report with a suite per table: a case per step and threshold, and per rule that a validation broke.

    Tables that the newest run could not read are failures.
    """
    readable = [table for table in status.tables if table.problem is None]
    tables = tuple(_checked(table) for table in readable)
    failures = tuple(
        (table.shown_name, DeltacliError(table.problem.message, code=table.problem.code))
        for table in status.tables
        if table.problem is not None
    )
    known = {**_catalogued(tables), **{rule.id: rule for rule in (*_STEP_RULES.values(), *_THRESHOLD_RULES.values())}}
    used = {rule for table in tables for rule in table.validation.rules}
    rules = tuple(rule for name, rule in known.items() if name in used)
    return ValidationReport("log", Severity.INFO, tables, failures, lambda: rules, command="fleet status")


def _catalogued(tables: tuple[CheckedTable, ...]) -> dict[str, Rule]:
    found = [finding.rule for table in tables for finding in table.findings]
    return {rule.id: rule for rule in found if not rule.id.startswith(PREFIX)}


def _checked(table: TableStatus) -> CheckedTable:
    findings = tuple(_findings(table))
    judged = {PREFIX + one.threshold for one in table.judgements if one.state is not State.UNKNOWN}
    skipped = {PREFIX + one.threshold: one.message for one in table.judgements if one.state is State.UNKNOWN}
    rules = judged | {PREFIX + kind for kind in table.steps} | {finding.rule.id for finding in findings}
    uri = table.shown_name
    level = str(getattr(table.policy.get("validate"), "level", "log"))
    validation = Validation(uri, None, level, findings, {}, (), frozenset(rules), skipped=skipped)
    return CheckedTable(uri, validation, findings, {}, 0, bool(findings))


def _findings(table: TableStatus) -> Iterator[Finding]:
    for kind, step in table.steps.items():
        if not step.is_alert or kind not in _STEP_RULES:
            continue
        yield from (_recorded(found, step) for found in step.findings)
        if not step.findings or step.state != "findings":
            rule = _with_advice(
                _STEP_RULES[kind], advice_for(step, table.shown_name, table.run_command, table.policy.get(kind))
            )
            yield rule.at(Place(""), f"{step.state}: {step.message}")
    for one in table.exceeded:
        yield _with_advice(_THRESHOLD_RULES[one.threshold], one.advice or "").at(Place(""), one.message)


def _with_advice(rule: Rule, advice: str) -> Rule:
    return rule._replace(fix=rule.fix._replace(advice=advice))


def _recorded(found: JsonObject, step: StepStatus) -> Finding:
    """Return a finding of the journal. A rule that this version does not have is the one of its step."""
    rule = CATALOGUE.rules.get(str(found.get("rule")), _STEP_RULES[step.kind])
    severity = next((one for one in Severity if one.value == found.get("severity")), rule.severity)
    line, version = found.get("line"), found.get("version")
    place = Place(str(found.get("path", "")), line, version, found.get("key"))
    message = str(found.get("message", ""))
    return Finding(rule, severity, message, place, found.get("seen"), found.get("expected"))
