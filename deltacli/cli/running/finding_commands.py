"""The commands that are suggested after a check: repair a finding, explain a rule, or show more findings."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import is_shared, quote_table

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.rules.framework.base import Finding, Level, Rule

_MAX_REPAIRS = 3
"""For how many tables a repair is suggested individually."""


def find_next_command(report: ValidationReport, rules_without_help: Container[str] = ()) -> str | None:
    """Return the command to run after a check; None if there are no findings.

    The command shows all findings if some were suppressed. Otherwise it is about the worst finding: a repair, as a dry
    run, or the explanation of the rule.

    Args:
        report: The result of the check.
        rules_without_help: Ids of rules that have no explanation. Their findings are ignored.
    """
    from deltacli.cli.render.validate.report import rank_finding
    from deltacli.rules.framework.base import Severity
    from deltacli.rules.framework.repairs import suggest_repair

    if any(table.suppressed for table in report.tables):
        return repeat_command_with(invocation.arguments, "--max-findings", "0")

    findings = [
        (table, finding)
        for table in report.tables
        for finding in table.findings
        if finding.rule.id not in rules_without_help
    ]
    if not findings:
        return None
    if all(finding.severity is Severity.INFO for _, finding in findings):
        # Information is no reason to change the table.
        return f"deltacli history {quote_table(findings[0][0].name)}"

    worst_rank = min(rank_finding(table, finding) for table, finding in findings)
    worst_findings = [pair for pair in findings if rank_finding(*pair) == worst_rank]
    for table, finding in worst_findings:
        command = suggest_repair(finding.rule, table.name, table.validation.condition)
        if command:
            return _add_dry_run(command)
    for table, finding in worst_findings:
        dry_run = _make_dry_run(table.name, finding.rule)
        if dry_run is not None:
            return dry_run
    return f"deltacli help {worst_findings[0][1].rule.id}"


def find_safe_repairs(report: ValidationReport, suggested_command: str | None) -> list[str]:
    """Return dry runs of the repairs that lose no rows, one command per table.

    If there are many tables, a single command contains the placeholder `TABLE`.

    Args:
        report: The result of the check.
        suggested_command: The command that is suggested already. A repair of its table is omitted.
    """
    from deltacli.rules.framework.base import Level

    commands: dict[str, str] = {}
    for table in report.tables:
        levels = [finding.rule.level for finding in table.findings if _has_safe_repair(finding)]
        if not levels or not table.validation.is_readable or is_shared(table.name):
            continue
        deepest_level = next((level for level in (Level.DATA, Level.FOOTERS) if level in levels), None)
        commands[table.name] = _build_dry_run(table.name, deepest_level)

    if len(commands) > _MAX_REPAIRS:
        return [f"deltacli repair TABLE --dry-run   # {len(commands):,} tables can be repaired without loss"]
    return [command for name, command in commands.items() if not _is_repair_of(suggested_command, name)]


def _has_safe_repair(finding: Finding) -> bool:
    """Return whether `repair` corrects a finding outside the log without giving up rows."""
    from deltacli.rules.framework.base import Severity
    from deltacli.rules.framework.repairs import Family, StepKind, get_repair_row

    row = get_repair_row(finding.rule.id)
    has_safe_step = not {StepKind.REBUILD, StepKind.QUARANTINE}.isdisjoint(row.steps)
    return finding.severity is not Severity.INFO and row.family is not Family.LOG and not row.loses and has_safe_step


def _is_repair_of(command: str | None, table: str) -> bool:
    if command is None or not command.startswith("deltacli repair "):
        return False
    return f" {quote_table(table)} " in f"{command} "


def _make_dry_run(table: str, rule: Rule) -> str | None:
    """Return the dry run of the repair of a finding; None if `repair` has no steps for the rule."""
    from deltacli.rules.framework.base import Level
    from deltacli.rules.framework.repairs import get_repair_row

    if is_shared(table) or not get_repair_row(rule.id).steps:
        return None
    return _build_dry_run(table, rule.level if rule.level in (Level.FOOTERS, Level.DATA) else None)


def _build_dry_run(table: str, level: Level | None) -> str:
    level_option = "" if level is None else f" --level {level.value}"
    return f"deltacli repair {quote_table(table)}{level_option} --dry-run"


def _add_dry_run(command: str) -> str:
    if command.startswith("deltacli repair ") and "--dry-run" not in command:
        return f"{command} --dry-run"
    return command
