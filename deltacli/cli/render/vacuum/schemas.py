"""`deltacli vacuum --schemas`: how it is told, and its result as sections, rows and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.changing import Wording
from deltacli.cli.render.columns import Column
from deltacli.cli.render.sections import Section, refused
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines, line_of
from deltacli.cli.terminal.shell import quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.typing import Json
from deltacli.core.units import format_duration, format_moment, format_ranges, format_size, format_timestamp, plural
from deltacli.operations.paimon.vacuum_schemas import (
    SchemaFile,
    SchemaVacuumOutcome,
    SchemaVacuumPlan,
    SchemaVacuumResult,
    Verdict,
)

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
class _SchemaVacuumShown(Result):
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


def schema_vacuum_wording(name: str, *, lists: bool) -> Wording[SchemaVacuumPlan, SchemaVacuumResult]:
    """Return how a vacuum of schema files is told; `lists` shows every file."""
    return Wording(
        lambda plan: (
            f"delete {plural(plan.amount.files, 'schema file')} ({format_size(plan.amount.size_bytes)}) of {plan.table}"
        ),
        lambda plan, is_dry: _SchemaVacuumShown(plan, None, is_dry, lists),
        lambda result: _SchemaVacuumShown(*result, dry_run=False, lists=lists),
        lambda _: f"deltacli history {quoted_table(name)}",
        deletes_by_age=True,
    )
