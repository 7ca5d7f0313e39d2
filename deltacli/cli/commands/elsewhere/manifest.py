"""`deltacli manifest TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, make_refusal_section
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import quote_table
from deltacli.core.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltacli.changing.manifests import ManifestProblem, ManifestsOutcome, ManifestsPlan
    from deltacli.core.typing import JsonObject

app = typer.Typer(add_completion=False)

_NAMED = 5


@app.command(
    "manifest",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="with --check: a manifest differs from the newest version",
        unreadable=True,
        refused=True,
        partly="some manifests were not written; run it again",
        storage=True,
    ),
)
def manifest(
    context: typer.Context,
    table: TableArgument,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if a manifest differs, 4 if refused.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Write the lists of files that Athena, Redshift and Presto read.

    \b
    One file, or one per partition, in _symlink_format_manifest names the live files
    of the newest version, as GENERATE symlink_format_manifest of Spark writes them.
    Manifests of partitions without files are deleted. Tables with deleted rows in
    their files or with column mapping are refused: such readers would show wrong
    rows. With delta.compatibility.symlinkFormatManifest.enabled=true every command
    that commits files writes the manifests again.

    \b
    Examples:
      deltacli manifest ./tbl --dry-run
      deltacli manifest ./tbl --yes
      deltacli manifest ./tbl --check  # exit 1 if a manifest differs
    """
    from deltacli.cli.running.changing import ChangePresentation, Mode, run_change

    run: CommandContext = context.obj
    delta_table = run.open_table(table, writes=not (check or dry_run))
    uri = delta_table.uri
    presentation: ChangePresentation[ManifestsPlan, ManifestsOutcome] = ChangePresentation(
        build_question=lambda plan: f"{_describe_changes(plan)} of {uri}",
        build_plan_result=lambda plan, is_plan: _result(uri, plan, plan.as_json(dry_run=is_plan)),
        build_outcome_result=lambda outcome: _result(uri, outcome.plan, outcome.as_json(), outcome),
        suggest_after_change=lambda _: f"deltacli manifest {quote_table(table)} --check",
        can_be_resumed=True,
        list_notes=lambda plan: plan.notes,
    )
    run_change(run, delta_table.prepare_manifest(), presentation, Mode(dry_run, yes, check))


def _describe_changes(plan: ManifestsPlan) -> str:
    deletions = f" and delete {len(plan.paths_to_delete):,}" if plan.paths_to_delete else ""
    return f"write {plural(len(plan.paths_to_write), 'manifest')}{deletions}"


def _result(uri: str, plan: ManifestsPlan, content: JsonObject, done: ManifestsOutcome | None = None) -> SingleResult:
    columns = ("path", "problem", "lacks", "stale")
    rows = content["differences"]
    return SingleResult("manifest", uri, content, lambda: list(_sections(uri, plan, done)), rows, columns)


def _sections(uri: str, plan: ManifestsPlan, done: ManifestsOutcome | None) -> Iterator[Section]:
    if plan.is_noop and not plan.refusals:
        said = f"{uri}, version {plan.base_version.version}: every manifest names the live files"
        yield Section("nothing to do", [said])
        return
    yield Section("table", [uri])
    yield Section("version", [str(plan.base_version.version)])
    yield Section("files", [] if plan.live is None else [format_count(plan.live.file_count)])
    if done is None:
        counts = {"would write": len(plan.paths_to_write), "would delete": len(plan.paths_to_delete)}
    else:
        counts = {"written": done.written, "deleted": done.deleted}
    for label, count in counts.items():
        yield Section(label, [plural(count, "manifest")] if count else [])
    named = plan.differences[:_NAMED]
    more = len(plan.differences) - len(named)
    yield Section(
        "differences" if done is None else "found",
        [*(_words(one) for one in named), *([f"{more:,} more"] if more else [])],
    )
    yield make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals)


def _words(one: ManifestProblem) -> str:
    if one.problem == "missing":
        return f"{one.path} is missing ({plural(one.lacks, 'file')})"
    if one.problem == "extra":
        return f"{one.path}: its partition has no files"
    parts = [f"lacks {plural(one.lacks, 'file')}"] if one.lacks else []
    parts += [f"has {plural(one.stale, 'line')} that {'names' if one.stale == 1 else 'name'} none"] if one.stale else []
    return f"{one.path} {' and '.join(parts)}"
