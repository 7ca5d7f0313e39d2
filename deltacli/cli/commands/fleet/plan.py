"""`deltacli fleet plan`; with `--details` and `--save-plans` the exact plans of the destructive steps that are due."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, overload

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.fleet import FleetFileArgument, FleetLimitOption, OnlyOption, StateOption, fleet_command
from deltacli.cli.output.columns import Column
from deltacli.cli.output.destination import open_destination
from deltacli.cli.output.formats import JSON
from deltacli.cli.output.sections import Section
from deltacli.cli.render.fleet.check import FleetListing, Items, Screen, fleet_fields, of_row, table_screen
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.row_notes import choose_row_limit, note_omitted_items
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.errors import EXIT_FINDINGS, EXIT_OK, DeltacliError, PartlyDone, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, plural
from deltacli.fleet.planning.due import (
    FleetPlan,
    PlannedStep,
    PlanProblem,
    TablePlan,
    expiry_step,
    plan_fleet,
    plan_vacuum_step,
    said_by,
)
from deltacli.fleet.policy_file.model import Policy
from deltacli.fleet.policy_file.requests import FleetChoice
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.api.table import Table

app = typer.Typer(add_completion=False)

# -- the plan of a fleet -----------------------------------------------------------------------------------------------

ExactPlans = Mapping[tuple[str, str], JsonObject]


class FleetPlanRow(NamedTuple):
    """A due step of a table, or the problem of a table or directory."""

    name: str
    group: str
    step: PlannedStep | None
    why: str
    problem: PlanProblem | None = None
    exact: JsonObject | None = None


class _Rows(Sequence[FleetPlanRow]):
    """The rows, made at the first use: NDJSON and JSON need none."""

    def __init__(self, plan: FleetPlan, exact: ExactPlans) -> None:
        self._plan, self._exact = plan, exact

    @cached_property
    def _all(self) -> Sequence[FleetPlanRow]:
        return list(_rows(self._plan, self._exact))

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, place: int) -> FleetPlanRow: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[FleetPlanRow]: ...
    def __getitem__(self, place: int | slice) -> FleetPlanRow | Sequence[FleetPlanRow]:
        return self._all[place]


def plan_result(plan: FleetPlan, exact: ExactPlans) -> FleetListing[FleetPlanRow]:
    """Return the plan as a result. `exact` are the exact plans of destructive steps, by table and step."""
    content = {
        "timestampMs": plan.now_ms,
        "problems": [problem.as_json() for problem in plan.problems],
        "summary": plan.summary(),
    }
    file = str(plan.file.path)
    said = _sections(plan)
    rows = _Rows(plan, exact)
    return FleetListing(
        fleet_fields("fleet-plan", file) | content,
        "fleet-table",
        Items(plan.tables, lambda table: _item(table, exact)),
        _columns(),
        rows,
        items_name="tables",
        last_line={"type": "fleet-plan", "file": file, **content},
        make_sections=lambda _: said,
        screen=lambda terminal, most: _screen(rows, file, terminal, most),
    )


def _item(table: TablePlan, exact: ExactPlans) -> dict[str, Json]:
    item = table.as_json()
    for step in item["steps"]:
        if (found := exact.get((table.name, step["kind"]))) is not None:
            step["plan"] = found
    return item


def _rows(plan: FleetPlan, exact: ExactPlans) -> Iterator[FleetPlanRow]:
    for name, group, _, problem in plan.problems:
        yield FleetPlanRow(mask_secrets(name), group, None, problem.sentence, problem)
    for table in plan.tables:
        name = mask_secrets(table.name)
        if table.problem is not None:
            yield FleetPlanRow(name, table.group, None, table.problem.sentence, table.problem)
        for step in table.steps:
            yield FleetPlanRow(name, table.group, step, step.reason, None, exact.get((table.name, step.kind)))


def _columns() -> list[Column[FleetPlanRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, min_width=20, keep_end=True, wraps=True),
        Column("group", lambda row: row.group, priority=7, is_minor=True),
        Column("step", lambda row: row.step and row.step.kind, style=_style, priority=1, min_width=10),
        Column("why", lambda row: row.why, _why, _style, priority=1, min_width=26, wraps=True),
        Column("plan", _exact, priority=2, min_width=12, wraps=True),
        Column("consent", _consent, on_screen=False),
        Column("calls", lambda row: row.step and row.step.estimate.calls, align_right=True, priority=4),
        Column("bytes", lambda row: row.step and row.step.estimate.size_bytes, _size, align_right=True, priority=4),
        Column(
            "seconds",
            lambda row: row.step and round(row.step.estimate.seconds, 3),
            lambda row: f"{row.step.estimate.seconds:,.0f} s" if row.step and row.step.estimate.seconds >= 1 else "",
            align_right=True,
            priority=3,
            title="time",
        ),
    ]


def _screen(rows: Sequence[FleetPlanRow], file: str, terminal: Terminal, most: int) -> Screen:
    """Return the rows for people: what cannot be read comes first. Where there is a limit, tables for which a step is
    due for the same reason share a row.
    """
    return table_screen(
        ((row.name, row) for row in sorted(rows, key=lambda row: row.problem is None)),
        [
            of_row(replace(column, value=_why) if column.name == "why" else column)
            for column in _columns()[1:]
            if column.on_screen
        ],
        file,
        terminal,
        merged=_sum_of if most else None,
        same=lambda row: (
            *(row.group, row.step and (row.step.kind, row.step.consent), row.why),
            row.name if row.exact is not None else "",
        ),
        is_named=lambda row: row.problem is not None,
        least=18,
    )


def _sum_of(rows: Sequence[FleetPlanRow]) -> FleetPlanRow:
    steps = [row.step for row in rows if row.step is not None]
    if len(steps) < 2:
        return rows[0]
    sizes = [step.estimate.size_bytes for step in steps]
    estimate = steps[0].estimate._replace(
        calls=sum(step.estimate.calls for step in steps),
        size_bytes=None if None in sizes else sum(size or 0 for size in sizes),
        seconds=sum(step.estimate.seconds for step in steps),
    )
    return rows[0]._replace(step=replace(steps[0], estimate=estimate))


def _consent(row: FleetPlanRow) -> bool | None:
    return row.step.consent if row.step and row.step.is_destructive else None


def _why(row: FleetPlanRow) -> str:
    return row.why if row.step is None or row.step.consent else f"{row.why}; lacks consent = true"


def _style(row: FleetPlanRow) -> Style:
    return Style.PROBLEM if row.problem is not None else Style.PLAIN


def _size(row: FleetPlanRow) -> str:
    if row.step is None:
        return ""
    return "unknown" if row.step.estimate.size_bytes is None else format_size(row.step.estimate.size_bytes)


def _exact(row: FleetPlanRow) -> str | None:
    """Return what an exact plan deletes, or why it cannot be executed."""
    if row.exact is None:
        return None
    if (error := row.exact.get("error")) is not None:
        return f"error: {error['message']}"
    if row.exact["refusals"]:
        return f"refused: {row.exact['refusals'][0]['message']}"
    candidates = row.exact["candidates"]
    return f"deletes {plural(candidates['files'], 'file')} ({format_size(candidates['sizeBytes'])})"


def _sections(plan: FleetPlan) -> list[Section]:
    summary = plan.summary()
    missed = f"{plural(summary['problems'], 'path')} not searched, whose tables are missing here"
    cost = (
        f"{plural(summary['calls'], 'call')}, {format_size(summary['sizeBytes'])}, {summary['seconds']:,.1f} s of work"
    )
    tables = plural(summary["tables"], "table")
    sums = f"nothing is due for {tables}"
    if steps := sum(summary["steps"].values()):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary["steps"].items())
        sums = f"{plural(steps, 'step')} due for {summary['due']:,} of {tables} ({kinds})"
    others = [(summary["unreadable"], "cannot be read"), (summary["otherFormats"], "of another format")]
    sums += "".join(f", {count:,} {what}" for count, what in others if count)
    is_good = not (steps or plan.exit_code)
    style = Style.PROBLEM if plan.exit_code else Style.GOOD if is_good else Style.PLAIN
    sections = [
        Section("problems", [missed] if summary["problems"] else [], Style.PROBLEM),
        Section("estimated", [cost] if steps else []),
        Section("plan", [sums], style),
    ]
    return [section for section in sections if section.lines]


# -- `deltacli fleet plan` ---------------------------------------------------------------------------------------------


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

    most = choose_row_limit(run, limit)
    found = require_fleet_file(file)
    journal = Journal(Path(choice.state or found.settings.state), run.clock)
    journal.refresh()
    on_tables = run.limit_call_rate(found.settings.calls_per_second)
    planned = plan_fleet(
        found,
        on_tables.open_other,
        run.engine,
        run.clock(),
        only=choice.only,
        past_of=journal.past_of,
        progress=run.progress,
        expand=on_tables.expand_in_catalog,
    )
    exact = _add_exact_plans(run, planned, save_plans) if details or save_plans is not None else {}
    result = plan_result(planned, exact)
    result.most = most
    run.write(result)
    note_omitted_items(run, result)
    planned.note_search(run.note)
    if planned.due:
        run.suggest_command(fleet_command("run", file, choice.state, choice.only))
    if any("error" in plan for plan in exact.values()):
        raise Exit(PartlyDone.exit_code)
    if code := planned.exit_code or (EXIT_FINDINGS if exit_code and planned.due else EXIT_OK):
        raise Exit(code)


_ExactPlans = Mapping[tuple[str, str], JsonObject]
"""Table and step -> the fields of the document of the step, or the error instead."""


def _add_exact_plans(run: CommandContext, plan: FleetPlan, directory: str | None) -> _ExactPlans:
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
                found[table.name, kind] = {"error": {"code": fault.code, "message": said_by(fault)}}
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


def _plan_vacuum(_: CommandContext, table: Table, policy: Policy, path: str | None) -> JsonObject:
    plan = plan_vacuum_step(table, policy)
    if path is None:
        return plan.as_json()
    invocation.writes(path)
    table.save_vacuum_plan(plan, path)
    return {**plan.as_json(), "savedAs": path}


def _plan_expiry(run: CommandContext, table: Table, policy: Policy, path: str | None) -> JsonObject:
    from deltacli.changing.change import plan_change
    from deltacli.cli.render.log_files import expiry_result

    plan = plan_change(expiry_step(policy, proves=True), table)
    if path is None:
        return plan.as_json()
    with open_destination(path) as sink:
        JSON.write(sink, expiry_result(plan, None, dry_run=True), run.terminal)
    return {**plan.as_json(), "savedAs": path}


_PLANNERS = {"vacuum": _plan_vacuum, "log-expire": _plan_expiry}
