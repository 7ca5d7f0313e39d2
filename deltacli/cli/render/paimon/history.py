"""The history of a Paimon table as a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import Column, usual
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_whole_table
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines
from deltacli.cli.terminal.shell import again_without_limit, quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.typing import Json
from deltacli.core.units import format_age, format_moment, format_spans, format_timestamp, plural
from deltacli.operations.paimon.history import Event, PaimonHistory, SchemaVersion, SnapshotVersion
from deltacli.paimon.casts import Loss
from deltacli.paimon.schema_changes import Change, ChangeKind, sentence

if TYPE_CHECKING:
    from deltacli.operations.paimon.references import Usage

_FEW, _NAMED = 3, 5
STYLES = {Loss.LOSSLESS: Style.PLAIN, Loss.LOSSY: Style.CHANGED, Loss.REFUSED: Style.PROBLEM}


def paimon_history_columns(now_ms: int) -> list[Column[Event]]:
    """Return the columns of the timeline, in the order of a full row."""
    return [
        Column("kind", _kind, style=_kind_style, priority=1, least=8, title="what"),
        Column("id", lambda event: event.id, right=True, priority=1, least=3),
        Column("timestamp", _timestamp, text=_moment, priority=2, least=19, title="written (UTC)"),
        Column("age", lambda _: None, text=lambda event: _age(event, now_ms), style=_quiet, least=13, in_pipe=False),
        Column("schema", _schema_id, right=True, priority=4, least=6),
        Column("class", _loss, style=_loss_style, priority=3, least=8),
        Column("changes", _changes, text=_changes_in_short, priority=1, least=24, folds=True),
        Column("records", _records, right=True, on_screen=False),
        Column("usedBy", _users, style=_users_style, priority=2, least=14, folds=True, title="used by"),
        Column("problem", _problem, style=lambda _: Style.PROBLEM, priority=1, least=16),
    ]


@dataclass
class PaimonHistoryResult(Result):
    """Schemas and snapshots of a branch; `is_chosen`: the user named the columns."""

    found: PaimonHistory
    columns: Sequence[Column[Event]]
    is_chosen: bool
    lists: bool = True

    def document(self) -> Document:
        found = self.found
        fields = envelope("deltacli.history", found.table, complete=found.is_complete, table_format="paimon")
        fields |= {"branch": found.branch, "branches": list(found.branches), "gaps": [list(gap) for gap in found.gaps]}
        if found.missing:
            fields["missing"] = list(found.missing)
        if found.strays:
            fields["strays"] = list(found.strays)
        if found.broken:
            fields["problems"] = [broken._asdict() for broken in found.broken]
        return Document(fields | {"schemas": self._schemas(), "snapshots": self._snapshots()})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, self._schemas(), "schema-version")
        emit_lines(emit, self._snapshots(), "paimon-snapshot")
        return self.found.is_complete

    def grid(self) -> Grid:
        return RowGrid(self.columns, self.found.events, self.is_chosen)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the missing schemas, which a table of events alone would hide."""
        if not self.found.missing:
            return []
        missing = [(number, number) for number in self.found.missing]
        return [Section("table", [self.found.table]), Section("missing", [gaps_text(missing)])]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        shown = self.columns if self.is_chosen else usual(self.columns, terminal)
        write_whole_table(sink, terminal, shown, list(self.found.events), keep_empty=self.is_chosen)

    def notes(self, table: str, *, on_screen: bool) -> Iterator[str]:
        """Yield which files cannot be read, which are stray or omitted, and the next command."""
        found, name = self.found, quoted_table(table)
        for schema_id in found.denied[:_NAMED]:
            yield f"note: schema {schema_id}: no permission to read the file, so its changes are unknown"
        for broken in found.broken[:_NAMED]:
            yield f"note: {broken.path}: {broken.reason}"
        if found.broken:
            yield "note: the users of each schema are not completely known, so none is reported as unreferenced"
        if found.missing:
            named = gaps_text([(number, number) for number in found.missing])
            verb = "is" if len(found.missing) == 1 else "are"
            yield f"{named} {verb} in use but missing: deltacli validate {name}"
        if found.strays:
            yield f"note: not schema files: {', '.join(found.strays[:_NAMED])}"
        if found.gaps and on_screen:
            yield f"note: {gaps_text(found.gaps)} no longer exist, which is legal for unused schemas"
        if not found.is_complete:
            command = again_without_limit(invocation.arguments)
            yield f"showing {len(found.events):,} of {found.total:,} events; all: {command}"
        elif found.schemas and on_screen:
            yield f"next: deltacli snapshot {name} --schema-id {found.schemas[0].id}"

    def _schemas(self) -> list[dict[str, Json]]:
        return [version.as_json() for version in self.found.schemas]

    def _snapshots(self) -> list[dict[str, Json]]:
        return [snapshot.as_json() for snapshot in self.found.snapshots]


def gaps_text(gaps: Sequence[tuple[int, int]]) -> str:
    """Return missing schemas as the subject of a sentence: `schemas 0-1, 3`."""
    text = format_spans(gaps)
    return f"schema {text}" if text.isdigit() else f"schemas {text}"


def _kind(event: Event) -> str:
    return "schema" if isinstance(event, SchemaVersion) else "snapshot"


def _kind_style(event: Event) -> Style:
    return Style.HEADING if isinstance(event, SchemaVersion) else Style.PLAIN


def _quiet(_event: Event) -> Style:
    return Style.QUIET


def _timestamp(event: Event) -> str | None:
    return None if event.time_ms is None else format_timestamp(event.time_ms)


def _moment(event: Event) -> str:
    return "" if event.time_ms is None else format_moment(event.time_ms)


def _age(event: Event, now_ms: int) -> str:
    return "" if event.time_ms is None else format_age(event.time_ms, now_ms)


def _schema_id(event: Event) -> int | None:
    return event.schema_id if isinstance(event, SnapshotVersion) else None


def _loss(event: Event) -> str | None:
    return event.worst.value if isinstance(event, SchemaVersion) and event.worst is not None else None


def _loss_style(event: Event) -> Style:
    worst = event.worst if isinstance(event, SchemaVersion) else None
    return Style.PLAIN if worst is None else STYLES[worst]


def _records(event: Event) -> int | None:
    return event.record_count("totalRecordCount") if isinstance(event, SnapshotVersion) else None


def _problem(event: Event) -> str | None:
    problem = event.as_json().get("problem")
    return None if problem is None else str(problem)


def _changes(event: Event) -> str | None:
    return _changes_text(event, (Loss.LOSSY, Loss.REFUSED))


def _changes_in_short(event: Event) -> str:
    """Return the changes for the eye: why a change is lossy is left out, because the class has a column."""
    return _changes_text(event, (Loss.REFUSED,)) or ""


def _changes_text(event: Event, explained: Sequence[Loss]) -> str | None:
    if isinstance(event, SnapshotVersion):
        rows = event.record_count("deltaRecordCount")
        kind = event.commit_kind or ""
        return f"{kind}, {rows:+,} records" if rows is not None else kind or None
    if event.schema is None:
        return None
    if event.compared_with is None:
        return f"created with {plural(len(event.schema.fields), 'column')}" if event.id == 0 else "oldest left"
    told = [_told(change, explained) for change in event.changes if is_told(change, event.changes)]
    return "; ".join(told) or "no change"


def is_told(change: Change, others: Sequence[Change]) -> bool:
    """Return False for a highestFieldId that only follows from added columns."""
    is_next = change.kind is ChangeKind.HIGHEST_FIELD_ID and change.loss is Loss.LOSSLESS
    return not (is_next and any(other.kind is ChangeKind.ADD_COLUMN for other in others))


def _told(change: Change, explained: Sequence[Loss]) -> str:
    if change.loss not in explained or not change.reason:
        return sentence(change)
    return f"{sentence(change)} ({change.loss.value}: {change.reason})"


def _users(event: Event) -> str | None:
    if isinstance(event, SnapshotVersion):
        return None
    if event.is_unreferenced:
        return "unreferenced"
    users = [] if event.usage is None else users_text(event.usage)
    named = ["latest", *users] if event.is_latest else users
    return ", ".join(named) or ("unknown" if event.is_unreferenced is None else None)


def _users_style(event: Event) -> Style:
    is_unused = isinstance(event, SchemaVersion) and event.is_unreferenced
    return Style.QUIET if is_unused else Style.PLAIN


def users_text(usage: Usage) -> list[str]:
    """Return the users of a schema in words: `2 snapshots`, `tag first`, `12 live files`."""
    snapshots = [plural(len(usage.snapshots), "snapshot")] if usage.snapshots else []
    tags = [f"tag {name}" for name in usage.tags] if len(usage.tags) <= _FEW else [plural(len(usage.tags), "tag")]
    changelogs = [plural(len(usage.changelogs), "changelog")] if usage.changelogs else []
    files = [plural(usage.files, "live file")] if usage.files else []
    if usage.has_data_files and not usage.files:
        files = ["old data files"]
    if not files and usage.manifests:
        files = [plural(usage.manifests, "manifest list")]
    return [*snapshots, *tags, *changelogs, *files]
