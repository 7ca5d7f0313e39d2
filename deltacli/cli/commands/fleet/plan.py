"""`deltacli fleet plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.fleet import FleetFileArgument, FleetLimitOption, OnlyOption, StateOption, fleet_command
from deltacli.cli.render.fleet.plan import plan_result
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.exact_plans import make_exact_plans
from deltacli.cli.running.row_notes import choose_row_limit, note_omitted_items
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone
from deltacli.fleet.planning.due import plan_fleet
from deltacli.fleet.policy_file.requests import FleetChoice

if TYPE_CHECKING:
    from deltacli.cli.render.fleet.plan import ExactPlans

app = typer.Typer(add_completion=False)


@app.command(
    "plan",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="with --exit-code: a step is due",
        partly="a table or a directory could not be read, or a step planned",
        storage=True,
    ),
)
def fleet_plan(
    context: typer.Context,
    file: FleetFileArgument = "fleet.toml",
    *,
    only: OnlyOption = None,
    state: StateOption = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Plan destructive steps exactly, as vacuum and log expire do with --dry-run."),
    ] = False,
    save_plans: Annotated[
        str | None,
        typer.Option("--save-plans", metavar="DIR", help="Also save these plans in a directory, for vacuum --apply."),
    ] = None,
    limit: FleetLimitOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if a step is due, for scripts.")] = False,
) -> None:
    """Show what is due for the tables of a policy file, and why.

    \b
    Finds the tables, then lists the log of each and reads its checkpoint hint; no
    commit, no checkpoint and no data file is read. Steps are in the order of the
    work: the most urgent table first. Calls, bytes and seconds are estimates.
    Tables and directories that cannot be read are listed with the reason, and so
    are steps that --details cannot plan, and the exit code is 5; with --exit-code
    it is 1 where only steps are due. Nothing is changed.

    \b
    Examples:
      deltacli fleet plan
      deltacli fleet plan fleet.toml --only bronze --json
      deltacli fleet plan --exit-code || ( [ $? -eq 1 ] && deltacli fleet run )
      deltacli fleet plan --format markdown --output plan.md
      deltacli fleet plan --save-plans ./plans  # for vacuum --apply
    """
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.running.journal import Journal

    run: CommandContext = context.obj
    choice = FleetChoice(only=tuple(only or ()), state=state)
    row_limit = choose_row_limit(run, limit)
    fleet_file = require_fleet_file(file)
    journal = Journal(Path(choice.state or fleet_file.settings.state), run.clock)
    journal.refresh()

    limited_run = run.limit_call_rate(fleet_file.settings.calls_per_second)
    plan = plan_fleet(
        fleet_file,
        limited_run.open_other,
        run.engine,
        run.clock(),
        only=choice.only,
        past_of=journal.past_of,
        progress=run.progress,
        expand=limited_run.expand_in_catalog,
    )
    exact_plans: ExactPlans = {}
    if details or save_plans is not None:
        exact_plans = make_exact_plans(run, plan, save_plans)

    result = plan_result(plan, exact_plans)
    result.most = row_limit
    run.write(result)
    note_omitted_items(run, result)
    plan.note_search(run.note)
    if plan.due:
        run.suggest_command(fleet_command("run", file, choice.state, choice.only))

    if any("error" in exact_plan for exact_plan in exact_plans.values()):
        raise Exit(PartlyDone.exit_code)
    if plan.exit_code:
        raise Exit(plan.exit_code)
    if exit_code and plan.due:
        raise Exit(EXIT_FINDINGS)
