"""`fleet plan --details` and `--save-plans`: the exact plans of the destructive steps that are due."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from deltacli.cli.options.run import Run
from deltacli.cli.terminal.output import open_sink
from deltacli.errors import DeltacliError, UsageError
from deltacli.typing import JsonObject

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.fleet.planning.plan import FleetPlan, TablePlan
    from deltacli.fleet.policy_file.model import Policy

ExactPlans = Mapping[tuple[str, str], JsonObject]
"""Table and step -> the fields of the document of the step, or the error instead."""


def add_exact_plans(run: Run, plan: FleetPlan, directory: str | None) -> ExactPlans:
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
    from deltacli.operations.vacuum.saved.applicable import with_past
    from deltacli.operations.vacuum.saved.plan_file import save_plan

    plan = plan_vacuum_step(table, policy)
    if path is None:
        return plan.as_json()
    save_plan(with_past(table, plan), path)
    return {**plan.as_json(), "savedAs": path}


def _plan_expiry(run: Run, table: Table, policy: Policy, path: str | None) -> JsonObject:
    from deltacli.cli.formats import JSON
    from deltacli.cli.render.expiry import expiry_result
    from deltacli.fleet.planning.plan import plan_expiry_step
    from deltacli.operations.log.expire import with_proof

    plan = with_proof(table, plan_expiry_step(table, policy))
    if path is None:
        return plan.as_json()
    with open_sink(path) as sink:
        JSON.write(sink, expiry_result(plan, None, dry_run=True), run.terminal)
    return {**plan.as_json(), "savedAs": path}


_PLANNERS = {"vacuum": _plan_vacuum, "log-expire": _plan_expiry}
