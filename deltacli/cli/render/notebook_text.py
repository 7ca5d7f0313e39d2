"""Results of the Python API in the words of the commands: what `.show()` prints in a notebook or a job."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from deltacli.cli.output.results import Result, SingleResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.operations.validate.validate import Validation

_PAGE = Terminal(is_terminal=False, width=None, colour=False)


def shown(outcome: Any, name: str) -> str:  # Any: the result of an operation
    """Return the text that the command prints for the result of its operation; `name` is the table as the user wrote
    it.

    Raises UsageError for a result that no command shows.
    """
    sink = io.BytesIO()
    _result_of(outcome, name).draw(sink, _PAGE)
    return sink.getvalue().decode(errors="replace")


def _result_of(outcome: Any, name: str) -> Result:
    match type(outcome).__name__:
        case "VacuumResult":
            from deltacli.cli.render.vacuum import VacuumResult

            return VacuumResult(outcome.plan, outcome.outcome, outcome.outcome is None, has_requested_rows=False)
        case "CheckpointResult":
            from deltacli.cli.render.checkpoint import checkpoint_sections

            uri = outcome.plan.snapshot.table.uri
            return SingleResult("checkpoint", uri, {}, lambda: checkpoint_sections(outcome), (), ())
        case "Validation":
            return _validation(outcome, name)
        case "WideningOutcome":
            from deltacli.cli.render.schemas.altering import widening_result

            return widening_result(outcome, outcome.committed_version is None)
        case "AlterationOutcome":
            from deltacli.cli.render.schemas.altering import alteration_result

            return alteration_result(outcome, outcome.committed_version is None)
        case "OptimizeOutcome":
            from deltacli.cli.render.optimize import optimize_result

            return optimize_result(outcome.plan, outcome if outcome.versions else None)
        case "StatsOutcome":
            from deltacli.cli.render.stats import stats_result

            return stats_result(outcome.plan, None if outcome.plan.request.dry_run else outcome)
        case "RestoreOutcome":
            from deltacli.cli.render.restore import restore_result

            is_plan = outcome.committed_version is None
            return restore_result(outcome.plan, None if is_plan else outcome, is_plan=is_plan)
        case "RepairOutcome":
            from deltacli.cli.render.validate.repair import repair_result

            is_plan = not outcome.steps
            return repair_result(outcome.plan, None if is_plan else outcome, name, is_plan=is_plan)
        case "FleetReport":
            from deltacli.cli.render.fleet.run import run_result

            return run_result(outcome)
    raise UsageError(f"a {type(outcome).__name__} cannot be shown", code="usage.result")


def _validation(found: Validation, name: str) -> Result:
    from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
    from deltacli.cli.render.validate.result import FindingsResult
    from deltacli.rules.framework.base import Severity

    fails = any(finding.severity is Severity.ERROR for finding in found.findings)
    table = CheckedTable(name, found, found.findings, found.suppressed, 0, fails)
    by_id = {finding.rule.id: finding.rule for finding in found.findings}
    rules = [by_id[rule_id] for rule_id in sorted(by_id)]
    return FindingsResult(ValidationReport(found.level, Severity.ERROR, (table,), (), lambda: rules), brief=False)
