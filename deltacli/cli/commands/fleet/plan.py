"""`deltacli fleet plan`; with `--details` and `--save-plans` the exact plans of the destructive steps that are due."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from deltacli.cli.options.fleet import (
    FLEET_FILE,
    DetailsOption,
    ExitCodeOption,
    FleetFileArgument,
    FleetLimitOption,
    SavePlansOption,
    fleet_command,
)
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.output import open_sink
from deltacli.core.errors import EXIT_FINDINGS, EXIT_OK, DeltacliError, UsageError
from deltacli.core.typing import JsonObject
from deltacli.fleet.request import FleetChoice

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.fleet.planning.plan import FleetPlan, TablePlan
    from deltacli.fleet.policy_file.model import Policy

EXIT_CODES = (0, 1, 2, 5, 7, 70)


def fleet_plan(
    run: Run,
    file: FleetFileArgument = FLEET_FILE,
    *,
    choice: FleetChoice,
    details: DetailsOption = False,
    save_plans: SavePlansOption = None,
    limit: FleetLimitOption = None,
    exit_code: ExitCodeOption = False,
) -> None:
    """Show what is due for the tables of a policy file, and why.

    \b
    Finds the tables, then lists the log of each and reads its checkpoint hint; no
    commit, no checkpoint and no data file is read. Steps are in the order of the
    work: the most urgent table first. Calls, bytes and seconds are estimates.
    Tables and directories that cannot be read are listed with the reason, and the
    exit code is 5; with --exit-code it is 1 where only steps are due. Nothing is
    changed.

    \b
    Examples:
      deltacli fleet plan
      deltacli fleet plan fleet.toml --only bronze --json
      deltacli fleet plan --exit-code || ( [ $? -eq 1 ] && deltacli fleet run )
      deltacli fleet plan --format markdown --output plan.md
      deltacli fleet plan --save-plans ./plans  # for vacuum --apply
    """
    from deltacli.cli.options.rows import note_the_cut, settle_limit
    from deltacli.cli.render.fleet.plan import plan_result
    from deltacli.fleet.planning.plan import plan_fleet
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.running.journal import Journal

    most = settle_limit(run, limit)
    found = require_fleet_file(file)
    journal = Journal(Path(choice.state or found.settings.state), run.clock)
    journal.refresh()
    planned = plan_fleet(
        found,
        run.throttled(found.settings.calls_per_second).open_other,
        run.engine,
        run.clock(),
        only=choice.only,
        past_of=journal.past_of,
        progress=run.progress,
    )
    exact = _add_exact_plans(run, planned, save_plans) if details or save_plans is not None else {}
    result = plan_result(planned, exact)
    result.most = most
    run.write(result)
    note_the_cut(run, len(result.items if run.format.errors_are_json else result.rows), most)
    if planned.due:
        run.say_next(fleet_command("run", file, choice.state, choice.only))
    if code := planned.exit_code or (EXIT_FINDINGS if exit_code and planned.due else EXIT_OK):
        raise typer.Exit(code)


_ExactPlans = Mapping[tuple[str, str], JsonObject]
"""Table and step -> the fields of the document of the step, or the error instead."""


def _add_exact_plans(run: Run, plan: FleetPlan, directory: str | None) -> _ExactPlans:
    """Return the exact plan of each destructive step, and save it in a directory if one is given. Raises UsageError."""
    if directory is not None:
        _make(directory)
    policies = {group.policy.name: group.policy for group in plan.file.groups}
    due = [(table, step.kind) for table, step in plan.due if step.is_destructive]
    found: dict[tuple[str, str], JsonObject] = {}
    with run.progress.step("planning deletions", unit="steps", total=len(due)) as progress:
        for table, kind in due:
            path = None if directory is None else os.path.join(directory, _file_name(table, kind))
            try:
                opened = run.open_table(table.name)
                found[table.name, kind] = _PLANNERS[kind](run, opened, policies[table.policy], path)
            except DeltacliError as fault:
                found[table.name, kind] = {"error": {"code": fault.code, "message": fault.message}}
            progress.advance()
    return found


def _make(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise UsageError(f"--save-plans {directory} cannot be created: {reason}", code="usage.output") from fault


def _file_name(table: TablePlan, kind: str) -> str:
    """Return a name that is the same in every run: the last part of the table's name, and a digest of all of it."""
    last = "".join(c if c.isalnum() or c in "-_." else "_" for c in table.name.rstrip("/").rpartition("/")[2])
    digest = sha256(table.name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{last}-{digest}.{kind}{'.parquet' if kind == 'vacuum' else '.json'}"


def _plan_vacuum(_: Run, table: Table, policy: Policy, path: str | None) -> JsonObject:
    from deltacli.fleet.planning.plan import plan_vacuum_step
    from deltacli.operations.vacuum.rechecking import with_past
    from deltacli.operations.vacuum.saved.plan_file import save_plan

    plan = plan_vacuum_step(table, policy)
    if path is None:
        return plan.as_json()
    save_plan(with_past(table, plan), path)
    return {**plan.as_json(), "savedAs": path}


def _plan_expiry(run: Run, table: Table, policy: Policy, path: str | None) -> JsonObject:
    from deltacli.cli.formats import JSON
    from deltacli.cli.render.log_files import expiry_result
    from deltacli.fleet.planning.plan import expiry_step

    plan = expiry_step(policy, proves=True).plan(table)
    if path is None:
        return plan.as_json()
    with open_sink(path) as sink:
        JSON.write(sink, expiry_result(plan, None, dry_run=True), run.terminal)
    return {**plan.as_json(), "savedAs": path}


_PLANNERS = {"vacuum": _plan_vacuum, "log-expire": _plan_expiry}
