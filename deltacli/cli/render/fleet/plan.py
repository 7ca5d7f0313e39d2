"""The result of `fleet plan`: the steps that are due for each table, and the tables that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, overload

from deltacli.cli.output.columns import Column
from deltacli.cli.output.sections import Section
from deltacli.cli.render.fleet.check import FleetListing, Items, Screen, fleet_fields, of_row, table_screen
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, plural
from deltacli.fleet.planning.due import FleetPlan, PlannedStep, PlanProblem, TablePlan
from deltacli.storage.secrets import mask_secrets

ExactPlans: TypeAlias = Mapping[tuple[str, str], JsonObject]
"""Maps the name of a table and the kind of a step to the document of its plan, or to the field `error`."""


class FleetPlanRow(NamedTuple):
    """One row of the result: a step that is due, or the problem of a table or a directory.

    Attributes:
        name: The table or the directory, without secrets.
        group: The group of the policy file.
        step: The step. None: the row is about a problem.
        reason: The reason why the step is due, or the sentence about the problem.
        problem: The problem. None: the row is about a step.
        exact_plan: The document of the exact plan of the step, if `--details` requests it.
    """

    name: str
    group: str
    step: PlannedStep | None
    reason: str
    problem: PlanProblem | None = None
    exact_plan: JsonObject | None = None


def plan_result(plan: FleetPlan, exact_plans: ExactPlans) -> FleetListing[FleetPlanRow]:
    """Return the plan of a fleet as a result.

    Args:
        plan: The plan.
        exact_plans: The exact plans of destructive steps. Empty without `--details`.
    """
    file = str(plan.file.path)
    content = {
        "timestampMs": plan.now_ms,
        "problems": [problem.as_json() for problem in plan.problems],
        "summary": plan.summary(),
    }
    rows = _LazyRows(plan, exact_plans)
    sections = _make_sections(plan)
    return FleetListing(
        fleet_fields("fleet-plan", file) | content,
        "fleet-table",
        Items(plan.tables, lambda table: _make_item(table, exact_plans)),
        _make_columns(),
        rows,
        items_name="tables",
        last_line={"type": "fleet-plan", "file": file, **content},
        make_sections=lambda _: sections,
        screen=lambda terminal, limit: _make_screen(rows, file, terminal, limit),
    )


class _LazyRows(Sequence[FleetPlanRow]):
    """The rows, created on first use. JSON and NDJSON do not need them, and a fleet may have many thousands."""

    def __init__(self, plan: FleetPlan, exact_plans: ExactPlans) -> None:
        self._plan = plan
        self._exact_plans = exact_plans

    @cached_property
    def _rows(self) -> Sequence[FleetPlanRow]:
        return list(_make_rows(self._plan, self._exact_plans))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> FleetPlanRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FleetPlanRow]: ...
    def __getitem__(self, index: int | slice) -> FleetPlanRow | Sequence[FleetPlanRow]:
        return self._rows[index]


def _make_rows(plan: FleetPlan, exact_plans: ExactPlans) -> Iterator[FleetPlanRow]:
    """Yield the problems of directories, then for each table its problem and its steps."""
    for name, group, _, problem in plan.problems:
        yield FleetPlanRow(mask_secrets(name), group, None, problem.sentence, problem)
    for table in plan.tables:
        name = mask_secrets(table.name)
        if table.problem is not None:
            yield FleetPlanRow(name, table.group, None, table.problem.sentence, table.problem)
        for step in table.steps:
            exact_plan = exact_plans.get((table.name, step.kind))
            yield FleetPlanRow(name, table.group, step, step.reason, None, exact_plan)


def _make_item(table: TablePlan, exact_plans: ExactPlans) -> dict[str, Json]:
    """Return a table as an item of the document, with the exact plans of its steps."""
    item = table.as_json()
    for step in item["steps"]:
        exact_plan = exact_plans.get((table.name, step["kind"]))
        if exact_plan is not None:
            step["plan"] = exact_plan
    return item


def _make_columns() -> list[Column[FleetPlanRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, min_width=20, keep_end=True, wraps=True),
        Column("group", lambda row: row.group, priority=7, is_minor=True),
        Column("step", lambda row: row.step and row.step.kind, style=_get_style, priority=1, min_width=10),
        Column("why", lambda row: row.reason, _format_reason, _get_style, priority=1, min_width=26, wraps=True),
        Column("plan", _describe_exact_plan, priority=2, min_width=12, wraps=True),
        Column("consent", _get_consent, on_screen=False),
        Column("calls", lambda row: row.step and row.step.estimate.calls, align_right=True, priority=4),
        Column(
            "bytes",
            lambda row: row.step and row.step.estimate.size_bytes,
            _format_size,
            align_right=True,
            priority=4,
        ),
        Column(
            "seconds",
            lambda row: row.step and round(row.step.estimate.seconds, 3),
            _format_seconds,
            align_right=True,
            priority=3,
            title="time",
        ),
    ]


def _make_screen(rows: Sequence[FleetPlanRow], file: str, terminal: Terminal, limit: int) -> Screen:
    """Return the rows for people, problems first.

    If there is a limit, tables with the same step for the same reason share a row. A step with an exact plan keeps its
    own row, because its plan differs from those of other tables.

    Args:
        rows: The rows.
        file: The path of the policy file. Names of tables are relative to its directory.
        terminal: The terminal.
        limit: The maximum number of rows. 0: all rows.
    """
    columns = []
    for column in _make_columns()[1:]:
        if column.on_screen:
            columns.append(of_row(replace(column, value=_format_reason) if column.name == "why" else column))
    problems_first = sorted(rows, key=lambda row: row.problem is None)
    return table_screen(
        ((row.name, row) for row in problems_first),
        columns,
        file,
        terminal,
        merged=_merge_rows if limit else None,
        same=_make_merge_key,
        is_named=lambda row: row.problem is not None,
        least=18,
    )


def _make_merge_key(row: FleetPlanRow) -> tuple[object, ...]:
    """Return a key that is equal for rows that can be merged."""
    step = row.step and (row.step.kind, row.step.consent)
    return row.group, step, row.reason, row.name if row.exact_plan is not None else ""


def _merge_rows(rows: Sequence[FleetPlanRow]) -> FleetPlanRow:
    """Return one row for the same step of several tables, with the sums of the estimates."""
    steps = [row.step for row in rows if row.step is not None]
    if len(steps) < 2:
        return rows[0]
    sizes = [step.estimate.size_bytes for step in steps]
    known_sizes = [size for size in sizes if size is not None]
    estimate = steps[0].estimate._replace(
        calls=sum(step.estimate.calls for step in steps),
        size_bytes=sum(known_sizes) if len(known_sizes) == len(sizes) else None,
        seconds=sum(step.estimate.seconds for step in steps),
    )
    return rows[0]._replace(step=replace(steps[0], estimate=estimate))


def _get_consent(row: FleetPlanRow) -> bool | None:
    return row.step.consent if row.step and row.step.is_destructive else None


def _get_style(row: FleetPlanRow) -> Style:
    return Style.PROBLEM if row.problem is not None else Style.PLAIN


def _format_reason(row: FleetPlanRow) -> str:
    if row.step is None or row.step.consent:
        return row.reason
    return f"{row.reason}; lacks consent = true"


def _format_size(row: FleetPlanRow) -> str:
    if row.step is None:
        return ""
    size_bytes = row.step.estimate.size_bytes
    return "unknown" if size_bytes is None else format_size(size_bytes)


def _format_seconds(row: FleetPlanRow) -> str:
    if row.step is None or row.step.estimate.seconds < 1:
        return ""
    return f"{row.step.estimate.seconds:,.0f} s"


def _describe_exact_plan(row: FleetPlanRow) -> str | None:
    """Return what an exact plan deletes, or why it cannot be executed. None without an exact plan."""
    if row.exact_plan is None:
        return None
    error = row.exact_plan.get("error")
    if error is not None:
        return f"error: {error['message']}"
    if row.exact_plan["refusals"]:
        return f"refused: {row.exact_plan['refusals'][0]['message']}"
    candidates = row.exact_plan["candidates"]
    return f"deletes {plural(candidates['files'], 'file')} ({format_size(candidates['sizeBytes'])})"


def _make_sections(plan: FleetPlan) -> list[Section]:
    """Return the sections below the rows: paths that were not searched, the estimated work, and the number of steps."""
    summary = plan.summary()
    steps = sum(summary["steps"].values())

    sections = []
    if summary["problems"]:
        problems = f"{plural(summary['problems'], 'path')} not searched, whose tables are missing here"
        sections.append(Section("problems", [problems], Style.PROBLEM))
    if steps:
        calls = plural(summary["calls"], "call")
        work = f"{calls}, {format_size(summary['sizeBytes'])}, {summary['seconds']:,.1f} s of work"
        sections.append(Section("estimated", [work]))

    tables = plural(summary["tables"], "table")
    sentence = f"nothing is due for {tables}"
    if steps:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary["steps"].items())
        sentence = f"{plural(steps, 'step')} due for {summary['due']:,} of {tables} ({kinds})"
    if summary["unreadable"]:
        sentence += f", {summary['unreadable']:,} cannot be read"
    if summary["otherFormats"]:
        sentence += f", {summary['otherFormats']:,} of another format"

    style = Style.PLAIN if steps else Style.GOOD
    if plan.exit_code:
        style = Style.PROBLEM
    sections.append(Section("plan", [sentence], style))
    return sections
