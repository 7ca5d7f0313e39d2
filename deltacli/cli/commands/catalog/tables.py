"""`deltacli catalog ls`, and `status`, `staged` and `publish`, of a table that a catalog manages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
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
    found = _open_managed(run, table).status_catalog()
    for note in found.notes:
        run.note(f"note: {note}")
    run.write(status_result(found))
    if found.proposable or (found.agrees and found.unpublished):
        run.say_next(command("catalog publish", table=table))
    if not found.agrees:
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
    run.write(staged_result(_open_managed(run, table).staged_catalog()))


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
    from deltacli.cli.running.changing import Mode, Wording, run_change

    run: CommandContext = context.obj
    opened = _open_managed(run, table, writes=not dry_run)
    name = table
    change = opened.prepare_publish_catalog()
    wording: Wording[PublishPlan, PublishOutcome] = Wording(
        question=lambda plan: _question(plan, name),
        planned=lambda plan, is_plan: publish_result(name, change.outcome_before_execution(plan), dry_run=is_plan),
        done=lambda outcome: publish_result(name, outcome, dry_run=False),
        following=lambda _: command("catalog status", table=name),
        repeats=True,
    )
    run_change(run, change, wording, Mode(dry_run, yes))


def _open_managed(run: CommandContext, table: str, *, writes: bool = False) -> Table:
    """Open a table that a catalog manages. Raises UsageError for another, with what it is by its address."""
    opened = run.open_table(table, writes=writes)
    opened.require_managed(table)
    return opened


def _question(plan: PublishPlan, name: str) -> str:
    """Return what a plan does, as a question; a commit that is proposed again is named."""
    forgotten = [item.version for item in plan.items if item.is_forgotten]
    due = len(plan.items) - len(forgotten)
    parts = [f"publish {plural(due, 'commit')}"] if due else []
    if forgotten:
        parts.append(f"propose {name_ranges('version', forgotten)} to the catalog again, which has forgotten it")
    return f"{' and '.join(parts)} of {name}"


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
        names = run.open_catalog().list_catalogs()
        run.write(catalogs_result(SCHEME, names))
        if names:
            run.say_next(command("catalog ls", table=f"{SCHEME}{names[0]}"))
        return
    container = parse_container(catalog)
    tables = run.open_catalog().tables_of(container.catalog, container.schema)
    run.write(listing_result(str(container), tables))
    known = next((one for one in tables if one.data_format == "DELTA"), None)
    if known is not None:
        run.say_next(command("snapshot", table=str(known.name)))
