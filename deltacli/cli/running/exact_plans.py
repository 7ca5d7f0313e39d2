"""Exact plans of the destructive steps of a fleet: `fleet plan --details` and `--save-plans`.

`fleet plan` estimates a step from the listing of the log. An exact plan is what `vacuum --dry-run` and
`log expire --dry-run` show.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import open_destination
from deltacli.cli.output.formats import JSON
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.typing import JsonObject
from deltacli.fleet.planning.due import FleetPlan, TablePlan, describe_error, expiry_step, plan_vacuum_step
from deltacli.fleet.policy_file.model import Policy

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.render.fleet.plan import ExactPlans


def make_exact_plans(run: CommandContext, plan: FleetPlan, directory: str | None) -> ExactPlans:
    """Plan each destructive step that is due. An error becomes the plan of its step.

    Args:
        run: The run of the command.
        plan: The plan of the fleet.
        directory: The directory to which the plans are saved. None: they are not saved.

    Raises:
        UsageError: If the directory cannot be created.
    """
    if directory is not None:
        _create_directory(directory)
    policies = {group.policy.name: group.policy for group in plan.file.groups}
    destructive_steps = [(table, step.kind) for table, step in plan.due if step.is_destructive]

    exact_plans: dict[tuple[str, str], JsonObject] = {}
    with run.progress.step("planning deletions", unit="steps", total=len(destructive_steps)) as progress:
        for table_plan, kind in destructive_steps:
            path = None if directory is None else os.path.join(directory, _make_file_name(table_plan, kind))
            try:
                table = run.open_table(table_plan.name)
                exact_plan = _PLANNERS[kind](run, table, policies[table_plan.policy], path)
            except DeltacliError as error:
                exact_plan = {"error": {"code": error.code, "message": describe_error(error)}}
            exact_plans[table_plan.name, kind] = exact_plan
            progress.advance()
    return exact_plans


def _create_directory(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--save-plans {directory} cannot be created: {reason}", code="usage.output") from error


def _make_file_name(table_plan: TablePlan, kind: str) -> str:
    """Return the file name of a saved plan. It is the same in every run, and different for every table.

    For example, `orders-1f3870be.vacuum.parquet` for the table `s3://lake/orders`.
    """
    last_part = table_plan.name.rstrip("/").rpartition("/")[2]
    safe_part = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in last_part)
    digest = sha256(table_plan.name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    extension = "parquet" if kind == "vacuum" else "json"
    return f"{safe_part}-{digest}.{kind}.{extension}"


def _plan_vacuum(_: CommandContext, table: Table, policy: Policy, path: str | None) -> JsonObject:
    plan = plan_vacuum_step(table, policy)
    if path is None:
        return plan.as_json()
    invocation.record_output(path)
    table.save_vacuum_plan(plan, path)
    return {**plan.as_json(), "savedAs": path}


def plan_expiry(run: CommandContext, table: Table, policy: Policy, path: str | None) -> JsonObject:
    """Plan the deletion of log files.

    Args:
        run: The run of the command.
        table: The table.
        policy: The policy with the retention.
        path: The file to which the plan is saved. None: it is not saved.

    Returns:
        The fields of the document `deltacli.log-expire`.
    """
    from deltacli.changing.change import plan_change
    from deltacli.cli.render.log_files import expiry_result

    plan = plan_change(expiry_step(policy, proves=True), table)
    if path is None:
        return plan.as_json()
    with open_destination(path) as sink:
        JSON.write(sink, expiry_result(plan, None, dry_run=True), run.terminal)
    return {**plan.as_json(), "savedAs": path}


_PLANNERS = {"vacuum": _plan_vacuum, "log-expire": plan_expiry}
"""Maps the kind of a destructive step to the function that plans it."""
