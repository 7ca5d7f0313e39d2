"""`deltacli vacuum --schemas`: plan, ask, delete the schema files of a Paimon table that nothing needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.confirmation import now_is_ahead, require_confirmation, require_now_is_not_ahead
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.render.columns import Column
from deltacli.cli.render.sections import Section, refused
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines, line_of
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again, again_past, again_without, keep_retention, quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.documents import envelope
from deltacli.errors import DeltacliError, PaimonTable, Refused
from deltacli.operations.paimon.vacuum_schemas import (
    SchemaFile,
    SchemaVacuumOutcome,
    SchemaVacuumPlan,
    SchemaVacuumRequest,
    Verdict,
    execute_schema_vacuum,
    plan_schema_vacuum,
    require_all_deleted,
    require_allowed,
)
from deltacli.typing import Json
from deltacli.units import (
    format_duration,
    format_moment,
    format_ranges,
    format_size,
    format_timestamp,
    plural,
)

if TYPE_CHECKING:
    from deltacli.cli.commands.vacuum import VacuumOptions
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.vacuum.request import VacuumRequest

_WHY: Mapping[Verdict, str] = {
    Verdict.NEWEST: "the newest version",
    Verdict.OLDEST: "the oldest version, whose time identifies the table",
    Verdict.USED: "in use",
    Verdict.LAST: "among the last versions",
    Verdict.YOUNG: "written or replaced after the cutoff",
    Verdict.UNREADABLE: "cannot be read, so nothing is known about it",
}
_FAILURES = 10


@dataclass
class _SchemaVacuumResult(Result):
    """The plan with its outcome. Lines and columns name every schema file, the others where that is asked for."""

    plan: SchemaVacuumPlan
    outcome: SchemaVacuumOutcome | None
    dry_run: bool
    lists: bool

    def document(self) -> Document:
        fields = envelope("deltacli.vacuum", self.plan.table, complete=True, table_format="paimon") | self._content()
        items = {"items": [file.as_json() for file in self.plan.files]} if self.lists else {}
        return Document(fields | items)

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, (file.as_json() for file in self.plan.files), "schema-file")
        emit(line_of({"table": self.plan.table, **self._content()}, "schema-vacuum"))
        return True

    def grid(self) -> Grid:
        return RowGrid(_columns(), self.plan.files)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        plan, request = self.plan, self.plan.request
        cutoff = (
            f"schemas replaced before {format_moment(plan.cutoff_ms)} UTC ({format_duration(request.retention_ms)})"
        )
        return [
            Section("table", [plan.table]),
            Section("branch", [request.branch]),
            Section("cutoff", [cutoff]),
            Section("delete" if self.outcome is None else "planned", [_deleted(plan)]),
            Section("keep", _kept(plan)),
            refused(f"{one.message} [{one.code}]" for one in plan.refusals),
            *([] if self.outcome is None else _became(self.outcome)),
        ]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        if self.lists:
            sink.write(b"\n")
            shown = [column for column in _columns() if column.on_screen or not terminal.is_drawn]
            write_table(sink, terminal, shown, list(self.plan.files))

    def _content(self) -> dict[str, Json]:
        return self.plan.as_json() | (self.outcome or SchemaVacuumOutcome()).as_json() | {"dryRun": self.dry_run}


def _columns() -> list[Column[SchemaFile]]:
    return [
        Column("schemaId", lambda file: file.id, right=True, priority=1, title="schema"),
        Column("delete", lambda file: file.verdict is Verdict.UNREFERENCED, on_screen=False),
        Column("reason", lambda file: file.verdict.value, style=_style, priority=1),
        Column("sizeBytes", lambda file: file.size_bytes, text=_size, right=True, priority=4, title="size"),
        Column("replaced", _replaced, text=_moment, priority=3, title="replaced (UTC)"),
        Column("usedBy", lambda file: "; ".join(file.users) or None, priority=2, folds=True, title="used by"),
        Column("path", lambda file: file.path, on_screen=False),
    ]


def _style(file: SchemaFile) -> Style:
    return Style.CHANGED if file.verdict is Verdict.UNREFERENCED else Style.PLAIN


def _size(file: SchemaFile) -> str:
    return format_size(file.size_bytes)


def _replaced(file: SchemaFile) -> str | None:
    return None if file.replaced_ms is None else format_timestamp(file.replaced_ms)


def _moment(file: SchemaFile) -> str:
    return "" if file.replaced_ms is None else format_moment(file.replaced_ms)


def _deleted(plan: SchemaVacuumPlan) -> str:
    if not plan.candidates:
        return "nothing"
    files, size = plan.amount.files, plan.amount.size_bytes
    return f"{plural(files, 'schema file')}, {format_size(size)}: {format_ranges(file.id for file in plan.candidates)}"


def _kept(plan: SchemaVacuumPlan) -> list[str]:
    """Return a line per reason: the number, and why."""
    counts = {verdict: count for verdict, count in plan.kept.items() if count}
    width = max((len(str(count)) for count in counts.values()), default=0)
    return [f"{count:>{width}}  {_why(plan, verdict)}" for verdict, count in counts.items()]


def _why(plan: SchemaVacuumPlan, verdict: Verdict) -> str:
    if verdict is Verdict.LAST:
        return f"among the last {plural(plan.request.keep_last, 'version')}"
    return _WHY[verdict]


def _became(outcome: SchemaVacuumOutcome) -> list[Section]:
    files, size = outcome.deleted.files, outcome.deleted.size_bytes
    done = f"{plural(files, 'schema file')}, {format_size(size)}" if files else "nothing"
    failed = [f"{path}: {reason}" for path, reason in outcome.failed.named[:_FAILURES]]
    return [
        Section("deleted", [done]),
        Section("missing", [f"{outcome.missing:,} already deleted"] if outcome.missing else []),
        Section("spared", [f"{outcome.spared:,} needed by a newer commit"] if outcome.spared else []),
        Section("failed", failed, Style.PROBLEM),
    ]


def vacuum_schemas(run: Run, name: str, table: TableHandle, asked: VacuumRequest, options: VacuumOptions) -> None:
    """Delete schema files that nothing needs. Raises PaimonTable without `--schemas`, and Refused."""
    if not options.schemas:
        raise _of_data(table.uri)
    retention_ms, limit_ms = asked.retention_ms, asked.allow_retention_below_ms
    request = SchemaVacuumRequest.of(options.branch, retention_ms, limit_ms, options.keep_last)
    plan = plan_schema_vacuum(table, request)
    if options.dry_run or plan.refusals or not plan.candidates:
        _show(run, plan, None, options, dry_run=options.dry_run or bool(plan.refusals))
        _require_allowed(plan)
        if plan.candidates and not now_is_ahead(run):
            run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    files, size = plan.amount.files, plan.amount.size_bytes
    what = f"delete {plural(files, 'schema file')} ({format_size(size)}) of {plan.table}"
    require_confirmation(run, what, yes=options.yes, show_plan=lambda: _show(run, plan, None, options, dry_run=True))
    _delete(run, name, table, plan, options)


def _delete(run: Run, name: str, table: TableHandle, plan: SchemaVacuumPlan, options: VacuumOptions) -> None:
    require_now_is_not_ahead(run)
    outcome = SchemaVacuumOutcome()
    try:
        execute_schema_vacuum(table, plan, outcome)
    except Interrupted as interruption:
        interruption.outcome = f"{outcome.deleted.files:,} of {plural(plan.amount.files, 'schema file')} deleted"
        raise
    except DeltacliError:
        if outcome.deleted.files:
            _show(run, plan, outcome, options, dry_run=False)
        raise
    _show(run, plan, outcome, options, dry_run=False)
    require_all_deleted(outcome, again=again(invocation.arguments))
    run.say_next(f"deltacli history {quoted_table(name)}")


def _show(
    run: Run,
    plan: SchemaVacuumPlan,
    outcome: SchemaVacuumOutcome | None,
    options: VacuumOptions,
    *,
    dry_run: bool,
) -> None:
    run.write(_SchemaVacuumResult(plan, outcome, dry_run, options.files))


def _require_allowed(plan: SchemaVacuumPlan) -> None:
    """Raise the first refusal of a plan with the command that overrides it."""
    try:
        require_allowed(plan)
    except Refused as refusal:
        first = plan.refusals[0]
        if first.override and first.code == "vacuum.retention":
            keep_retention(refusal, invocation.arguments, first.override, "if no writer is older")
        elif first.override:
            refusal.hint = again_past(invocation.arguments, first.override)
        raise


def _of_data(uri: str) -> PaimonTable:
    return PaimonTable(
        "this is a Paimon table: vacuum deletes its schema files only, with --schemas",
        facts={"path": uri},
        hint="deltacli vacuum {table} --schemas --dry-run",
    )
