"""The result of `manifest`: the symlink manifests that were written, deleted, or would be.

A manifest is a text file in `_symlink_format_manifest` that lists the live data files of a partition, a URI per line.
Engines that cannot read the Delta log read manifests instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import make_item_columns
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, make_refusal_section
from deltacli.core.units import format_count, plural

if TYPE_CHECKING:
    from deltacli.changing.manifests import ManifestProblem, ManifestsOutcome, ManifestsPlan

_MAX_LISTED = 5
"""The number of differing manifests that people see. JSON and CSV contain all of them."""

_COLUMNS = make_item_columns(("path", "problem", "lacks", "stale"))
"""The columns of a manifest that differs from the table. Each one is a field of the JSON document."""


def make_manifest_plan_result(uri: str, plan: ManifestsPlan, *, dry_run: bool) -> SingleResult:
    """Return the manifests that would be written and deleted as the result of the command.

    Args:
        uri: The URI of the table.
        plan: The plan.
        dry_run: Whether the plan is only shown. False if there is nothing to do.
    """
    content = plan.as_json(dry_run=dry_run)
    return SingleResult(
        "manifest", uri, content, lambda: list(_make_plan_sections(uri, plan)), content["differences"], _COLUMNS
    )


def make_manifest_outcome_result(uri: str, outcome: ManifestsOutcome) -> SingleResult:
    """Return the manifests that were written and deleted as the result of the command."""
    content = outcome.as_json()
    return SingleResult(
        "manifest", uri, content, lambda: list(_make_outcome_sections(uri, outcome)), content["differences"], _COLUMNS
    )


def _make_plan_sections(uri: str, plan: ManifestsPlan) -> Iterator[Section]:
    if _has_nothing_to_show(plan):
        yield _make_noop_section(uri, plan)
        return
    yield from _make_table_sections(uri, plan)
    yield _make_count_section("would write", len(plan.paths_to_write))
    yield _make_count_section("would delete", len(plan.paths_to_delete))
    yield Section("differences", list(_describe_differences(plan)))
    yield make_refusal_section(f"{refusal.message} [{refusal.code}]" for refusal in plan.refusals)


def _make_outcome_sections(uri: str, outcome: ManifestsOutcome) -> Iterator[Section]:
    plan = outcome.plan
    if _has_nothing_to_show(plan):
        yield _make_noop_section(uri, plan)
        return
    yield from _make_table_sections(uri, plan)
    yield _make_count_section("written", outcome.written)
    yield _make_count_section("deleted", outcome.deleted)
    yield Section("found", list(_describe_differences(plan)))
    yield make_refusal_section(f"{refusal.message} [{refusal.code}]" for refusal in plan.refusals)


def _has_nothing_to_show(plan: ManifestsPlan) -> bool:
    # A refused plan has no differences either, because manifests of such a table cannot be compared.
    return plan.is_noop and not plan.refusals


def _make_noop_section(uri: str, plan: ManifestsPlan) -> Section:
    sentence = f"{uri}, version {plan.base_version.version}: every manifest names the live files"
    return Section("nothing to do", [sentence])


def _make_table_sections(uri: str, plan: ManifestsPlan) -> Iterator[Section]:
    """Yield the table, the version that the manifests describe, and the number of its live files."""
    yield Section("table", [uri])
    yield Section("version", [str(plan.base_version.version)])
    yield Section("files", [] if plan.live is None else [format_count(plan.live.file_count)])


def _make_count_section(label: str, manifests: int) -> Section:
    """Return a section with a number of manifests. It is empty, and therefore not shown, if the number is 0."""
    return Section(label, [plural(manifests, "manifest")] if manifests else [])


def _describe_differences(plan: ManifestsPlan) -> Iterator[str]:
    """Yield a line per manifest that differs from the table, and how many are not listed."""
    for problem in plan.differences[:_MAX_LISTED]:
        yield _describe_problem(problem)
    unlisted = len(plan.differences) - _MAX_LISTED
    if unlisted > 0:
        yield f"{unlisted:,} more"


def _describe_problem(problem: ManifestProblem) -> str:
    """Return a sentence such as `day=2026-01-01/manifest lacks 2 files and has 1 line that names none`."""
    if problem.problem == "missing":
        return f"{problem.path} is missing ({plural(problem.lacks, 'file')})"
    if problem.problem == "extra":
        return f"{problem.path}: its partition has no files"

    differences: list[str] = []
    if problem.lacks:
        differences.append(f"lacks {plural(problem.lacks, 'file')}")
    if problem.stale:
        verb = "names" if problem.stale == 1 else "name"
        differences.append(f"has {plural(problem.stale, 'line')} that {verb} none")
    return f"{problem.path} {' and '.join(differences)}"
