"""What a copy of a table did, would do, or found, as a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.units import plural
from deltacli.operations.copy.execute import CopyResult

if TYPE_CHECKING:
    from deltacli.operations.copy.plan import CopyPlan

_NAMED = 10
_COMPARED = {
    "storage": "sizes, and the digest of the state",
    "footers": "sizes, footers, and the digest of the state",
    "data": "every byte, and the digest of the state",
}


def planned_copy_result(plan: CopyPlan, is_plan: bool) -> SingleResult:
    """Return a plan as a result; with `is_plan`, one that is only shown, else one that has nothing to copy."""
    return copy_result(CopyResult(plan, dry_run=is_plan))


def copy_result(result: CopyResult) -> SingleResult:
    """Return what a copy did, would do, or found."""
    content = result.as_json()
    files, lag = content["files"], content["lag"]
    assert isinstance(files, dict)
    assert isinstance(lag, dict)
    columns = ("source", "target", "copied", "sizeBytes", "skipped", "lagVersions", "lagSeconds", "differences")
    row = {
        "source": content["source"],
        "target": content["target"],
        **files,
        "lagVersions": lag["versions"],
        "lagSeconds": lag["seconds"],
        "differences": len(result.differences),
    }
    return SingleResult("copy", result.plan.base_version.table.uri, content, lambda: _sections(result), [row], columns)


def _sections(result: CopyResult) -> list[Section]:
    plan, lag = result.plan, result.lag or result.plan.lag
    amount = plan.to_copy if result.dry_run else result.copied
    verb = "would copy" if result.dry_run else "copied"
    behind = f"{plural(lag.versions, 'version')}" + ("" if lag.seconds is None else f", {lag.seconds:,.0f} s")
    named = [f"{one.path}: {one.problem}, {one.reason}" for one in result.differences[:_NAMED]]
    more = len(result.differences) - len(named)
    is_check = plan.request.check
    return [
        Section("source", [plan.base_version.table.uri]),
        Section("target", [plan.target.uri]),
        Section("version", [str(plan.last)])
        if plan.first == plan.last
        else Section("versions", [f"{plan.first} to {plan.last}"]),
        *(
            []
            if is_check
            else [Section(verb, ["nothing" if plan.is_noop else format_file_totals(*amount[:2])], Style.GOOD)]
        ),
        Section("unchanged", [format_file_totals(*plan.skipped[:2])] if plan.skipped.files else []),
        Section("behind", [behind] if lag.versions and (is_check or lag.seconds is not None) else []),
        Section("compared", [_COMPARED[result.verified]] if result.verified else []),
        Section("committed", [] if result.committed_version is None else [f"version {result.committed_version}"]),
        Section("note", plan.notes, Style.WARNING),
        *([Section("differences", named or ["none"], Style.PROBLEM if named else Style.GOOD)] if is_check else []),
        Section("and", [f"{more:,} more: --json shows all"] if more > 0 else []),
        make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals),
    ]
