"""`validate` of a Paimon table: of every branch its schema files, neighbouring ones, and what refers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from deltacli.core.errors import Unreadable, UsageError, command, parameter
from deltacli.core.progress import ProgressPlan, start_plan
from deltacli.delta.log.segment import Place
from deltacli.operations.paimon import table_files
from deltacli.operations.validate.findings import Collector, ValidateRequest
from deltacli.operations.validate.validate import Validation
from deltacli.paimon.schema import Schema
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.choice import RuleChoice
from deltacli.rules.paimon.branches import BROKEN, SCHEMA_MISSING
from deltacli.rules.paimon.catalogue import (
    PAIMON_CATALOGUE,
    BranchesView,
    BranchView,
    EvolutionView,
    Profile,
    SchemaFileView,
)
from deltacli.table.handle import TableHandle

_LISTS, _MANIFESTS = "reading lists of manifests", "reading manifests"
_COSTS = {
    "reading schemas": 3e-4,
    "reading snapshots": 2.5e-4,
    _LISTS: 5e-4,
    _MANIFESTS: 4e-4,
    "reading the newest manifests": 4e-4,
    "checking schemas": 2e-4,
}
"""Seconds per small file on a disk; far ones take longer by a factor, which the plan finds."""
_MANY_SNAPSHOTS = 1_000
"""How many a branch is expected to have until they are listed."""
_NEEDS_MANIFESTS = (SCHEMA_MISSING.id, *(rule.id for rule in BROKEN))


def validate_paimon_table(
    table: TableHandle,
    request: ValidateRequest,
    *,
    profile: Profile = Profile.JAVA,
    with_manifests: bool = True,
    on_finding: Callable[[Finding], None] | None = None,
) -> Validation:
    """Check a Paimon table; `profile` is the reader that has to accept it.

    Works on tables that cannot be opened. Raises NotATable, StorageFailed, and UsageError where manifests are Avro and
    fastavro is missing.
    """
    storage = table.storage
    table_files.require_paimon(storage)
    choice = RuleChoice(request.level, request.select, request.ignore)
    collector = Collector(choice, request.max_findings, on_finding, known=PAIMON_CATALOGUE)
    needs_manifests = with_manifests and any(rule in collector.rules for rule in _NEEDS_MANIFESTS)
    newest_of: dict[str, Schema | None] = {}
    branches = table_files.list_branches(storage)
    several = len(branches) if len(branches) > 1 else 0  # a step of nothing is not shown
    with table.progress.step("checking branches", unit="branches", total=several) as step:
        for branch in reversed(branches):
            what = f"checking branch {branch}" if several else "checking the table"
            with start_plan(table.progress, what, _COSTS) as plan:
                try:
                    newest_of[branch] = _check_branch(
                        table, branch, collector, profile, plan, with_manifests=needs_manifests
                    )
                except UsageError as lacking:  # a package; the schemas need none
                    lacking.facts = {"works without it": command("validate", with_manifests=False)}
                    raise
            step.advance()
    collector.look(BranchesView(newest_of), Place(""))
    newest = newest_of[branches[0]]
    not_checked = (
        ()
        if with_manifests
        else (
            f"the schemas that manifests and data files name, because of {parameter('validate.with_manifests', False)}",
        )
    )
    return Validation(
        storage.uri,
        newest.id if newest is not None else None,
        request.level,
        tuple(sorted(collector.findings, key=_order)),
        dict(sorted(collector.suppressed.items())),
        not_checked,
        collector.rules,
        is_rebuilt=newest is not None,
        table_format="paimon",
    )


def _check_branch(
    table: TableHandle, branch: str, collector: Collector, profile: Profile, plan: ProgressPlan, *, with_manifests: bool
) -> Schema | None:
    """Check a branch and return its newest schema, None if that cannot be read."""
    storage, engine, progress = table.storage, table.engine, table.progress

    def foresee(snapshots: int) -> None:
        plan.expect("reading snapshots", snapshots)
        if with_manifests:
            plan.expect(_LISTS, 2 * snapshots)
            plan.expect(_MANIFESTS, snapshots)

    foresee(_MANY_SNAPSHOTS)
    listing = table_files.list_schemas(storage, branch)
    plan.expect("checking schemas", len(listing.ids))
    contents = table_files.read_schemas(storage, engine, listing.ids, branch, progress=progress)
    files = table_files.read_branch(storage, engine, branch, progress=progress, foresee=foresee)
    references = table_files.collect_schema_references(
        storage, engine, files, with_manifests=with_manifests, progress=progress
    )
    with progress.step("checking schemas", unit="schemas", total=len(contents)) as step:
        for schema_id, content in contents.items():
            is_in_use = schema_id == listing.ids[-1] or bool(references.usage.get(schema_id))
            view = SchemaFileView(schema_id, content, branch, profile, is_in_use)
            collector.look(view, view.place())
            step.advance()
        read = [found for found in contents.values() if isinstance(found, Schema)]
        first_use = min((schema_id for schema_id, usage in references.usage.items() if usage), default=None)
        for before, after in pairwise(read):
            evolution = EvolutionView(before, after, first_use is not None and first_use <= before.id, branch)
            collector.look(evolution, evolution.place())
    broken = [
        *(
            table_files.BrokenFile(fault.facts["file"], fault.code, fault.message)
            for fault in _denied(contents.values())
        ),
        *references.broken,
        *(table_files.schemas_of_statistics(storage, engine, files)[1] if with_manifests else ()),
        *table_files.broken_consumers(storage, branch),
    ]
    users = {number: table_files.words_of(usage) for number, usage in references.usage.items() if usage}
    collector.look(BranchView(branch, listing.ids, listing.strays, users, broken), Place(""))
    newest = contents[listing.ids[-1]] if listing.ids else None
    return newest if isinstance(newest, Schema) else None


def _denied(contents: Iterable[Schema | Unreadable]) -> Iterator[Unreadable]:
    for content in contents:
        if isinstance(content, Unreadable) and content.code == table_files.NO_PERMISSION:
            yield content


def _order(finding: Finding) -> tuple[str, int, str, str, str]:
    place = finding.place
    return (place.path.rpartition("/")[0], place.version or 0, finding.rule.id, place.key or "", finding.message)
