"""`deltacli manifest TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.render.manifest import make_manifest_outcome_result, make_manifest_plan_result
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import quote_table
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.changing.manifests import ManifestsOutcome, ManifestsPlan

app = typer.Typer(add_completion=False)


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
        build_plan_result=lambda plan, is_plan: make_manifest_plan_result(uri, plan, dry_run=is_plan),
        build_outcome_result=lambda outcome: make_manifest_outcome_result(uri, outcome),
        suggest_after_change=lambda _: f"deltacli manifest {quote_table(table)} --check",
        can_be_resumed=True,
        list_notes=lambda plan: plan.notes,
    )
    run_change(run, delta_table.prepare_manifest(), presentation, Mode(dry_run, yes, check))


def _describe_changes(plan: ManifestsPlan) -> str:
    deletions = f" and delete {len(plan.paths_to_delete):,}" if plan.paths_to_delete else ""
    return f"write {plural(len(plan.paths_to_write), 'manifest')}{deletions}"
