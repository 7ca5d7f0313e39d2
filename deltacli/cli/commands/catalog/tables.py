"""`deltacli catalog ls`, and `catalog status`, `staged` and `publish` for tables that a catalog manages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.output.results import SingleResult
from deltacli.cli.render.catalog import catalogs_result, listing_result, publish_result, staged_result, status_result
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import EXIT_FINDINGS, command
from deltacli.core.ranges import name_ranges
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.catalog import (
        PublishOutcome,
        PublishPlan,
    )

app = typer.Typer(add_completion=False)


@app.command(
    "status",
    cls=SharedOptionsCommand,
    epilog=exit_codes(findings="the log and the catalog differ", unreadable=True, storage=True),
)
def catalog_status(
    context: typer.Context,
    table: TableArgument,
) -> None:
    """Show the newest versions in catalog and log, and what differs.

    \b
    The newest version that the catalog ratified, the newest that is published in
    the log, the versions between them, and which maintenance the catalog permits
    its clients. Schema, protocol, properties, domains, location and versions are
    compared. Nothing is changed.

    \b
    Examples:
      deltacli catalog status uc://prod.sales.orders
      deltacli catalog status uc://prod.sales.orders --json
    """
    run: CommandContext = context.obj
    status = _open_managed_table(run, table).status_catalog()
    for note in status.notes:
        run.note(f"note: {note}")
    run.write(status_result(status))
    if status.proposable or (status.agrees and status.unpublished):
        run.suggest_command(command("catalog publish", table=table))
    if not status.agrees:
        raise Exit(EXIT_FINDINGS)


@app.command("staged", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def catalog_staged(
    context: typer.Context,
    table: TableArgument,
) -> None:
    """List the staged commits of a table, and the outcome of each.

    \b
    ratified: it is the version; lost: another commit is; unknown: it may still be
    on its way, or was left behind. None is ever deleted by this command.

    \b
    Examples:
      deltacli catalog staged uc://prod.sales.orders
      deltacli catalog staged uc://prod.sales.orders --format csv
    """
    run: CommandContext = context.obj
    run.write(staged_result(_open_managed_table(run, table).staged_catalog()))


@app.command(
    "publish",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        unreadable=True, refused=True, partly="some commits are copied, or not reported; run it again", storage=True
    ),
)
def catalog_publish(
    context: typer.Context,
    table: TableArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy ratified commits into the log, in order, and report them.

    \b
    Each copy is read back and compared before it is reported. Anyone who may change
    the table may publish the commits of others. Commands that change a table do
    this themselves; run it where another client stopped.

    \b
    Examples:
      deltacli catalog publish uc://prod.sales.orders --dry-run
      deltacli catalog publish uc://prod.sales.orders --yes
    """
    from deltacli.cli.running.changing import ChangePresentation, Mode, run_change

    run: CommandContext = context.obj
    change = _open_managed_table(run, table, writes=not dry_run).prepare_publish_catalog()

    def build_plan_result(plan: PublishPlan, is_dry_run: bool) -> SingleResult:
        return publish_result(table, change.outcome_before_execution(plan), dry_run=is_dry_run)

    presentation: ChangePresentation[PublishPlan, PublishOutcome] = ChangePresentation(
        build_question=lambda plan: _build_publish_question(plan, table),
        build_plan_result=build_plan_result,
        build_outcome_result=lambda outcome: publish_result(table, outcome, dry_run=False),
        suggest_after_change=lambda _: command("catalog status", table=table),
        can_be_resumed=True,
    )
    run_change(run, change, presentation, Mode(dry_run, yes))


def _open_managed_table(run: CommandContext, table: str, *, writes: bool = False) -> Table:
    """Open a table that a catalog manages. Raises UsageError for other tables."""
    delta_table = run.open_table(table, writes=writes)
    delta_table.require_managed(table)
    return delta_table


def _build_publish_question(plan: PublishPlan, name: str) -> str:
    """Return the question. Commits that the catalog has forgotten are named, because it has to ratify them again."""
    forgotten_versions = [item.version for item in plan.items if item.is_forgotten]
    other_commits = len(plan.items) - len(forgotten_versions)
    actions = []
    if other_commits:
        actions.append(f"publish {plural(other_commits, 'commit')}")
    if forgotten_versions:
        versions = name_ranges("version", forgotten_versions)
        actions.append(f"propose {versions} to the catalog again, which has forgotten it")
    return f"{' and '.join(actions)} of {name}"


@app.command("ls", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def catalog_ls(
    context: typer.Context,
    catalog: Annotated[
        str,
        typer.Argument(
            metavar="CATALOG", help="Catalog or schema: uc://CATALOG or uc://CATALOG.SCHEMA; uc:// for all catalogs."
        ),
    ],
) -> None:
    """List the tables of a catalog or of a schema, or the catalogs.

    \b
    Needs no access to the files of the tables. The endpoint is that of
    --catalog-profile, of DATABRICKS_HOST, or of UC_ENDPOINT.

    \b
    Examples:
      deltacli catalog ls uc://
      deltacli catalog ls uc://prod
      deltacli catalog ls uc://prod.sales --format csv
    """
    from deltacli.catalogs.unity.addresses import SCHEME, is_root, parse_container

    run: CommandContext = context.obj
    if is_root(catalog):
        catalog_names = run.open_catalog().list_catalogs()
        run.write(catalogs_result(SCHEME, catalog_names))
        if catalog_names:
            run.suggest_command(command("catalog ls", table=f"{SCHEME}{catalog_names[0]}"))
        return

    container = parse_container(catalog)
    tables = run.open_catalog().tables_of(container.catalog, container.schema)
    run.write(listing_result(str(container), tables))
    delta_tables = [table for table in tables if table.data_format == "DELTA"]
    if delta_tables:
        run.suggest_command(command("snapshot", table=str(delta_tables[0].name)))
