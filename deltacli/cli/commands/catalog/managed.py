"""`deltacli catalog status`, `staged` and `publish`, of a table that a catalog manages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.invocation import Exit
from deltacli.cli.options.declared import DryRunOption, TableArgument, YesOption
from deltacli.cli.running.run import Run
from deltacli.core.errors import EXIT_FINDINGS, command
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.operations.catalog import PublishOutcome, PublishPlan

EXIT_CODES = {
    "publish": (0, 2, 3, 4, 5, 7, 70),
    "staged": (0, 2, 3, 7, 70),
    "status": (0, 1, 2, 3, 7, 70),
}


def catalog_status(run: Run, table: TableArgument) -> None:
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
    from deltacli.cli.render.catalog import status_result

    found = run.open_table(table).status_catalog()
    for note in found.notes:
        run.note(f"note: {note}")
    run.write(status_result(found))
    if not found.agrees:
        raise Exit(EXIT_FINDINGS)
    if found.unpublished:
        run.say_next(command("catalog publish", table=table))


def catalog_staged(run: Run, table: TableArgument) -> None:
    """List the staged commits of a table, and the outcome of each.

    \b
    ratified: it is the version; lost: another commit is; unknown: it may still be
    on its way, or was left behind. None is ever deleted by this command.

    \b
    Examples:
      deltacli catalog staged uc://prod.sales.orders
      deltacli catalog staged uc://prod.sales.orders --format csv
    """
    from deltacli.cli.render.catalog import staged_result

    run.write(staged_result(run.open_table(table).staged_catalog()))


def catalog_publish(run: Run, table: TableArgument, *, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
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
    from deltacli.cli.render.catalog import publish_result
    from deltacli.cli.running.changing import Mode, Wording, run_change
    from deltacli.operations.catalog import Publish

    opened = run.open_table(table, writes=not dry_run)
    name = table
    wording: Wording[PublishPlan, PublishOutcome] = Wording(
        question=lambda plan: f"publish {plural(len(plan.items), 'commit')} of {name}",
        planned=lambda plan, is_plan: publish_result(name, Publish().outcome(plan), dry_run=is_plan),
        done=lambda outcome: publish_result(name, outcome, dry_run=False),
        following=lambda _: command("catalog status", table=name),
        repeats=True,
    )
    run_change(run, opened, Publish(), wording, Mode(dry_run, yes))
