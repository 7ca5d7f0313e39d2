"""`deltacli fleet plan`."""

from __future__ import annotations

from pathlib import Path

import typer

from deltacli.cli.options.fleet import (
    FLEET_FILE,
    DetailsOption,
    FleetFileArgument,
    OnlyOption,
    SavePlansOption,
    StateOption,
)
from deltacli.cli.options.run import Run

EXIT_CODES = (0, 2, 5, 7, 70)


def plan(
    run: Run,
    file: FleetFileArgument = FLEET_FILE,
    only: OnlyOption = None,
    state: StateOption = None,
    details: DetailsOption = False,
    save_plans: SavePlansOption = None,
) -> None:
    """Show what is due for the tables of a policy file, and why.

    \b
    Finds the tables, then lists the log of each and reads its checkpoint hint; no
    commit, no checkpoint and no data file is read. Steps are in the order of the
    work: the most urgent table first. Calls, bytes and seconds are estimates.
    Tables and directories that cannot be read are listed with the reason, and the
    exit code is 5. Nothing is changed.

    \b
    Examples:
      deltacli fleet plan
      deltacli fleet plan fleet.toml --only bronze --json
      deltacli fleet plan --format markdown --output plan.md
      deltacli fleet plan --save-plans ./plans    (for vacuum --apply)
    """
    from deltacli.cli.fleet.plans import add_exact_plans
    from deltacli.cli.fleet.stores import FleetStores
    from deltacli.cli.render.fleet.plan import plan_result
    from deltacli.fleet.planning.plan import plan_fleet
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.running.journal import Journal

    found = require_fleet_file(file)
    journal = Journal(Path(state or found.settings.state), run.clock)
    journal.refresh()
    stores = FleetStores.of(run, found.settings.calls_per_second)
    planned = plan_fleet(
        found,
        stores.open,
        run.engine,
        run.clock(),
        only=only or (),
        past_of=journal.past_of,
        progress=run.progress,
    )
    exact = add_exact_plans(run, planned, save_plans) if details or save_plans is not None else {}
    run.write(plan_result(planned, exact))
    if planned.exit_code:
        raise typer.Exit(planned.exit_code)
