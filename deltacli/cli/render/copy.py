"""The result of `copy`: the files that were copied or would be, or the differences that `copy --check` found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import Column, make_item_columns
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.units import plural
from deltacli.operations.copy.execute import CopyResult

if TYPE_CHECKING:
    from deltacli.operations.copy.plan import CopyPlan

_MAX_LISTED = 10
"""The number of differences that people see. The JSON document contains all of them."""

_COLUMNS = make_item_columns(
    [
        "source",
        "target",
        Column("copied", lambda content: content["files"]["copied"]),
        Column("sizeBytes", lambda content: content["files"]["sizeBytes"]),
        Column("skipped", lambda content: content["files"]["skipped"]),
        Column("lagVersions", lambda content: content["lag"]["versions"]),
        Column("lagSeconds", lambda content: content["lag"]["seconds"]),
        Column("differences", lambda content: len(content["differences"])),
    ]
)
"""The columns of a copy. The only row is the content of the JSON document."""

_COMPARED_PARTS = {
    "storage": "sizes, and the digest of the state",
    "footers": "sizes, footers, and the digest of the state",
    "data": "every byte, and the digest of the state",
}
"""Describes for each value of `--level` which parts of the copy were compared with the source."""


def planned_copy_result(plan: CopyPlan, is_plan: bool) -> SingleResult:
    """Return a plan as the result of the command.

    Args:
        plan: The plan.
        is_plan: Whether the plan is only shown. False if the copy is up to date, so that there is nothing to execute.
    """
    return copy_result(CopyResult(plan, dry_run=is_plan))


def copy_result(result: CopyResult) -> SingleResult:
    """Return a copy that was made or planned, or a comparison, as the result of the command."""
    content = result.as_json()
    return SingleResult(
        "copy", result.plan.base_version.table.uri, content, lambda: list(_make_sections(result)), [content], _COLUMNS
    )


def _make_sections(result: CopyResult) -> Iterator[Section]:
    """Yield the result as labelled lines."""
    plan = result.plan
    is_check = plan.request.check
    yield Section("source", [plan.base_version.table.uri])
    yield Section("target", [plan.target.uri])
    if plan.first == plan.last:
        yield Section("version", [str(plan.last)])
    else:
        yield Section("versions", [f"{plan.first} to {plan.last}"])

    if not is_check:
        yield Section("would copy" if result.dry_run else "copied", [_describe_copied_files(result)], Style.GOOD)
    unchanged = plan.skipped
    yield Section("unchanged", [format_file_totals(unchanged.files, unchanged.size_bytes)] if unchanged.files else [])
    yield Section("behind", list(_describe_lag(result)))
    yield Section("compared", [_COMPARED_PARTS[result.verified]] if result.verified else [])
    yield Section("committed", [] if result.committed_version is None else [f"version {result.committed_version}"])
    yield Section("note", plan.notes, Style.WARNING)

    if is_check:
        yield _make_difference_section(result)
    unlisted = len(result.differences) - _MAX_LISTED
    yield Section("and", [f"{unlisted:,} more: --json shows all"] if unlisted > 0 else [])
    yield make_refusal_section(f"{refusal.message} [{refusal.code}]" for refusal in plan.refusals)


def _describe_copied_files(result: CopyResult) -> str:
    if result.plan.is_noop:
        return "nothing"
    totals = result.plan.to_copy if result.dry_run else result.copied
    return format_file_totals(totals.files, totals.size_bytes)


def _describe_lag(result: CopyResult) -> Iterator[str]:
    """Yield how far the target is behind the source, such as `2 versions, 3,600 s`.

    A new copy is behind by all versions, which is not worth a line. Only a check says so.
    """
    lag = result.lag or result.plan.lag
    if not lag.versions:
        return
    versions = plural(lag.versions, "version")
    if lag.seconds is not None:
        yield f"{versions}, {lag.seconds:,.0f} s"
    elif result.plan.request.check:
        yield versions


def _make_difference_section(result: CopyResult) -> Section:
    """Return the first differences between source and target that a check found."""
    differences = [
        f"{difference.path}: {difference.problem}, {difference.reason}"
        for difference in result.differences[:_MAX_LISTED]
    ]
    if not differences:
        return Section("differences", ["none"], Style.GOOD)
    return Section("differences", differences, Style.PROBLEM)
