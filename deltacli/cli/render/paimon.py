"""The history of a Paimon table as a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from deltacli.changing.file_totals import NO_FILES
from deltacli.cli.invocation import invocation
from deltacli.cli.output.columns import Column, choose_default_columns, show_exact_values
from deltacli.cli.output.grids import Grid, RowGrid, WriteItems, encode_line, make_field_grid, write_lines
from deltacli.cli.output.results import Document, Result, SingleResult
from deltacli.cli.output.sections import Section, make_refusal_section
from deltacli.cli.output.text_tables import write_complete_table, write_sections, write_text_table
from deltacli.cli.render.schemas.tree import branches, rooted
from deltacli.cli.running.changing import ChangePresentation
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.cli.terminal.suggested_commands import repeat_command_without_limit
from deltacli.core.documents import envelope
from deltacli.core.errors import Unreadable, format_sql_name, quote_table
from deltacli.core.ranges import format_ranges, format_spans
from deltacli.core.texts import summarize_names
from deltacli.core.times import format_age, format_duration, format_moment, format_timestamp
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_size, plural
from deltacli.operations.paimon.alter import AlterOutcome
from deltacli.operations.paimon.facts import Event, PaimonHistory, PaimonSnapshot, SchemaVersion, SnapshotVersion
from deltacli.operations.paimon.table_files import Usage
from deltacli.operations.paimon.vacuum_schemas import (
    SchemaFile,
    SchemaVacuumOutcome,
    SchemaVacuumPlan,
    SchemaVacuumResult,
    Verdict,
)
from deltacli.paimon.numbers import parse_whole_number
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import Change, ChangeKind, Loss, dotted, sentence
from deltacli.paimon.types import DataField, DataType, RowType, parts_of, simple_text, type_text, walk_fields

_FEW, _NAMED = 3, 5
STYLES = {Loss.LOSSLESS: Style.PLAIN, Loss.LOSSY: Style.CHANGED, Loss.REFUSED: Style.PROBLEM}


def paimon_history_columns(now_ms: int) -> list[Column[Event]]:
    """Return the columns of the timeline, in the order of a full row."""
    return [
        Column("kind", _kind, style=_kind_style, priority=1, min_width=8, title="what"),
        Column("id", lambda event: event.id, align_right=True, priority=1, min_width=3),
        Column("timestamp", _timestamp, text=_moment, priority=2, min_width=19, title="written (UTC)", is_rounded=True),
        Column(
            "age", lambda _: None, text=lambda event: _age(event, now_ms), style=_quiet, min_width=13, in_pipe=False
        ),
        Column("schema", _schema_id, align_right=True, priority=4, min_width=6),
        Column("class", _loss, style=_loss_style, priority=3, min_width=8),
        Column("changes", _changes, text=_changes_in_short, priority=1, min_width=24, wraps=True),
        Column("records", _records, align_right=True, on_screen=False),
        Column("usedBy", _users, style=_users_style, priority=2, min_width=14, wraps=True, title="used by"),
        Column("problem", _problem, style=lambda _: Style.PROBLEM, priority=1, min_width=16),
    ]


@dataclass
class PaimonHistoryResult(Result):
    """Schemas and snapshots of a branch; `is_chosen`: the user named the columns."""

    found: PaimonHistory
    columns: Sequence[Column[Event]]
    is_chosen: bool
    has_requested_rows: bool = True

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

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, self._schemas(), "schema-version")
        write_lines(write_items, self._snapshots(), "paimon-snapshot")
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
        shown = (
            show_exact_values(self.columns, terminal)
            if self.is_chosen
            else choose_default_columns(self.columns, terminal)
        )
        write_complete_table(sink, terminal, shown, list(self.found.events), keep_empty=self.is_chosen)

    def notes(self, table: str, *, on_screen: bool) -> Iterator[str]:
        """Yield which files cannot be read, which are stray or omitted, and the next command."""
        found, name = self.found, quote_table(table)
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
            command = repeat_command_without_limit(invocation.arguments)
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
    content = event.content if isinstance(event, SchemaVersion) else event.file.content
    return content.code if isinstance(content, Unreadable) else None


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


# -- the schema of a Paimon table at a point as a result ---------------------------------------------------------------


@dataclass
class PaimonSnapshotResult(Result):
    """The state at a point."""

    found: PaimonSnapshot

    def document(self) -> Document:
        fields = envelope("deltacli.snapshot", self.found.table, complete=True, table_format="paimon")
        return Document(fields | self.found.as_json())

    def lines(self, write_items: WriteItems) -> bool:
        write_items(encode_line({"table": self.found.table, **self.found.as_json()}, "paimon-state"))
        return True

    def grid(self) -> Grid:
        """Return two columns, `field` and `value`: nested fields with dots, arrays and maps as JSON."""
        return make_field_grid([("table", self.found.table), *self.found.as_json().items()])

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        found, schema = self.found, self.found.schema
        newest = found.schema_ids[-1]
        parts = [str(found.schema_id), "newest" if found.schema_id == newest else f"newest is {newest}"]
        if found.schema.time_ms:
            parts.append(f"written {format_moment(found.schema.time_ms)} UTC")
        sections = [
            Section("table", [found.table]),
            Section("branch", [found.point.branch]),
            Section("schema", [", ".join([*parts, f"file version {found.schema.version}"])]),
            *_snapshot_sections(found),
            *([Section("comment", [schema.comment])] if schema.comment else []),
            Section("columns", tree_lines(schema)),
            *_keys("primary key", schema.primary_keys, schema),
            *_keys("partitioned by", schema.partition_keys, schema),
        ]
        if schema.options:
            sections.append(Section("options", [_option(schema, *item) for item in schema.options.items()]))
        return sections


@dataclass
class PaimonSchemaResult(Result):
    """The schema at a point; people see a tree, or with `as_ddl` a CREATE TABLE statement."""

    found: PaimonSnapshot
    as_ddl: bool = False
    has_requested_rows: bool = True

    def document(self) -> Document:
        fields = envelope("deltacli.schema", self.found.table, complete=True, table_format="paimon")
        content = self.found.as_json()
        names = ("branch", "schemaId", "schema", *(("ddl",) if self.as_ddl else ()))
        return Document(fields | {name: content[name] for name in names})

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, map(SchemaRow.as_json, paimon_schema_rows(self.found.schema)), "paimon-field")
        return True

    def grid(self) -> Grid:
        columns: list[Column[SchemaRow]] = [
            Column("column", lambda row: row.path),
            Column("fieldId", lambda row: row.field_id),
            Column("type", lambda row: row.type),
            Column("nullable", lambda row: row.nullable),
            Column("key", lambda row: row.key),
            Column("default", lambda row: row.default),
            Column("comment", lambda row: row.comment),
        ]
        return RowGrid(columns, paimon_schema_rows(self.found.schema))

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.as_ddl:
            lines = [escape_control(line) for line in self.found.ddl.splitlines()]
        else:
            lines = rooted(tree_lines(self.found.schema), terminal)
        sink.write(encode_utf8("\n".join(lines) + "\n"))


class SchemaRow(NamedTuple):
    """A column or a nested field, for programs."""

    path: str
    field_id: int
    type: str
    nullable: bool
    key: str | None
    default: str | None
    comment: str | None

    def as_json(self) -> dict[str, Json]:
        """Return the row as a line of NDJSON, without absent values."""
        named = {
            "path": self.path,
            "fieldId": self.field_id,
            "dataType": self.type,
            "nullable": self.nullable,
            "key": self.key,
            "defaultValue": self.default,
            "description": self.comment,
        }
        return {name: value for name, value in named.items() if value is not None}


def paimon_schema_rows(schema: Schema) -> Iterator[SchemaRow]:
    for path, field in walk_fields(schema.fields):
        text = type_text(field.type).removesuffix("" if field.type.nullable else " NOT NULL")
        key = _key_of(schema, field) if len(path) == 1 else None
        yield SchemaRow(dotted(path), field.id, text, field.type.nullable, key, field.default_value, field.description)


def tree_lines(schema: Schema) -> list[str]:
    """Return the fields as a tree: name, type, id, key, default, comment."""
    keys = {field.name: key for field in schema.fields if (key := _key_of(schema, field)) is not None}
    return branches(list(_entries(schema.fields, 0, keys)))


def _entries(fields: Sequence[DataField], depth: int, keys: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    for field in fields:
        yield depth, _field_text(field, keys.get(field.name))
        yield from _below(field.type, depth + 1)


def _below(data_type: DataType, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the fields of rows inside a type; the path to a row in a list or map stands in a line of its own."""
    if isinstance(data_type, RowType):
        yield from _entries(data_type.fields, depth, {})
    for name, part in parts_of(data_type):
        if _has_row(part):
            yield depth, f"{name}: {simple_text(part)}"
            yield from _below(part, depth + 1)


def _has_row(data_type: DataType) -> bool:
    return isinstance(data_type, RowType) or any(_has_row(part) for _, part in parts_of(data_type))


def _field_text(field: DataField, key: str | None) -> str:
    text = f"{format_sql_name(field.name)}: {simple_text(field.type)}  [id {field.id}]"
    text += f"  ({key})" if key else ""
    text += f"  default {field.default_value}" if field.default_value is not None else ""
    return text + (f"  -- {field.description}" if field.description else "")


def _key_of(schema: Schema, field: DataField) -> str | None:
    is_primary, is_partition = field.name in schema.primary_keys, field.name in schema.partition_keys
    named = [name for name, is_key in (("primary key", is_primary), ("partition", is_partition)) if is_key]
    return ", ".join(named) or None


def _snapshot_sections(found: PaimonSnapshot) -> Iterator[Section]:
    snapshot = found.snapshot
    if snapshot is None:
        return
    parts = [str(snapshot.id), snapshot.commit_kind, f"schema {snapshot.schema_id}"]
    if snapshot.time_ms:
        parts.append(f"committed {format_moment(snapshot.time_ms)} UTC")
    yield Section("snapshot", [", ".join(part for part in parts if part)])
    counts = [
        f"{format_count(value)} {word}"
        for key, word in (("totalRecordCount", "in total"), ("deltaRecordCount", "in this snapshot"))
        if (value := parse_whole_number(snapshot.content.get(key))) is not None
    ]
    if counts:
        yield Section("records", [", ".join(counts)])
    if found.tags:
        yield Section("tags", [", ".join(found.tags)])
    if found.statistics is not None:
        columns = found.statistics.get("colStats")
        number = plural(len(columns), "column") if isinstance(columns, dict) else "no columns"
        rows = found.statistics.get("mergedRecordCount")
        yield Section("statistics", [f"{rows} records, {number}" if rows is not None else number])
    if (broken := found.broken_statistics) is not None:
        yield Section("statistics", [f"cannot be read: {broken.path}: {broken.reason}"], Style.PROBLEM)


def _keys(label: str, names: Sequence[str], schema: Schema) -> list[Section]:
    known = {field.name for field in schema.fields}
    shown = [format_sql_name(name) + ("" if name in known else " (no such column)") for name in names]
    return [Section(label, [", ".join(shown)])] if names else []


def _option(schema: Schema, key: str, value: str) -> str:
    default = f"  (default of file version {schema.version})" if key in schema.defaulted else ""
    return f"{key} = {value}{default}"


# -- `deltacli vacuum --schemas` ---------------------------------------------------------------------------------------

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
    has_requested_rows: bool

    def document(self) -> Document:
        fields = envelope("deltacli.vacuum", self.plan.table, complete=True, table_format="paimon") | self._content()
        items = {"items": [file.as_json() for file in self.plan.files]} if self.has_requested_rows else {}
        return Document(fields | items)

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, (file.as_json() for file in self.plan.files), "schema-file")
        write_items(encode_line({"table": self.plan.table, **self._content()}, "schema-vacuum"))
        return True

    def grid(self) -> Grid:
        return RowGrid(_columns(), self.plan.files)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        plan, request = self.plan, self.plan.request
        cutoff = (
            f"schemas replaced before {format_moment(plan.cutoff_ms)} UTC ({format_duration(request.retention_ms)})"
        )
        counts = {verdict: count for verdict, count in plan.kept.items() if count}
        width = max((len(str(count)) for count in counts.values()), default=0)
        return [
            Section("table", [plan.table]),
            Section("branch", [request.branch]),
            Section("cutoff", [cutoff]),
            Section("delete" if self.outcome is None else "planned", [_deleted(plan)]),
            Section("keep", [f"{count:>{width}}  {_why(plan, verdict)}" for verdict, count in counts.items()]),
            make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals),
            *([] if self.outcome is None else _became(self.outcome)),
        ]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        if self.has_requested_rows:
            sink.write(b"\n")
            shown = [column for column in _columns() if column.on_screen]
            write_text_table(sink, terminal, shown, list(self.plan.files))

    def _content(self) -> dict[str, Json]:
        return self.plan.as_json() | (self.outcome or SchemaVacuumOutcome()).as_json() | {"dryRun": self.dry_run}


def _columns() -> list[Column[SchemaFile]]:
    return [
        Column("schemaId", lambda file: file.id, align_right=True, priority=1, title="schema"),
        Column("delete", lambda file: file.verdict is Verdict.UNREFERENCED, on_screen=False),
        Column("reason", lambda file: file.verdict.value, style=_style, priority=1),
        Column("sizeBytes", lambda file: file.size_bytes, text=_size, align_right=True, priority=4, title="size"),
        Column("replaced", _replaced, text=_replaced_at, priority=3, title="replaced (UTC)", is_rounded=True),
        Column("usedBy", lambda file: "; ".join(file.users) or None, priority=2, wraps=True, title="used by"),
        Column("path", lambda file: file.path, on_screen=False),
    ]


def _style(file: SchemaFile) -> Style:
    return Style.CHANGED if file.verdict is Verdict.UNREFERENCED else Style.PLAIN


def _size(file: SchemaFile) -> str:
    return format_size(file.size_bytes)


def _replaced(file: SchemaFile) -> str | None:
    return None if file.replaced_ms is None else format_timestamp(file.replaced_ms)


def _replaced_at(file: SchemaFile) -> str:
    return "" if file.replaced_ms is None else format_moment(file.replaced_ms)


def _deleted(plan: SchemaVacuumPlan) -> str:
    if not plan.candidates:
        return "nothing"
    files, size = plan.amount.files, plan.amount.size_bytes
    return f"{plural(files, 'schema file')}, {format_size(size)}: {format_ranges(file.id for file in plan.candidates)}"


def _why(plan: SchemaVacuumPlan, verdict: Verdict) -> str:
    if verdict is Verdict.LAST:
        return f"among the last {plural(plan.request.keep_last, 'version')}"
    return _WHY[verdict]


def _became(outcome: SchemaVacuumOutcome) -> list[Section]:
    files, size = outcome.deleted.files, outcome.deleted.size_bytes
    done = f"{plural(files, 'schema file')}, {format_size(size)}" if files else "nothing"
    failed = [f"{path}: {reason}" for path, reason in outcome.failed.examples[:_FAILURES]]
    return [
        Section("deleted", [done]),
        Section("missing", [f"{outcome.missing:,} already deleted"] if outcome.missing else []),
        Section("spared", [f"{outcome.spared:,} needed by a newer commit"] if outcome.spared else []),
        Section("failed", failed, Style.PROBLEM),
    ]


def make_schema_vacuum_presentation(
    name: str, *, lists: bool
) -> ChangePresentation[SchemaVacuumPlan, SchemaVacuumResult]:
    """Return how a vacuum of schema files is told; `lists` shows every file."""
    return ChangePresentation(
        lambda plan: (
            f"delete {plural(plan.amount.files, 'schema file')} ({format_size(plan.amount.size_bytes)}) of {plan.table}"
        ),
        lambda plan, is_dry: _SchemaVacuumShown(plan, None, is_dry, lists),
        lambda result: _SchemaVacuumShown(*result, dry_run=False, has_requested_rows=lists),
        lambda _: f"deltacli history {quote_table(name)}",
        deletes_by_age=True,
        get_file_action=lambda plan: ("delete", plan.amount),
        count_changed_files=_deleted_schemas,
    )


def _deleted_schemas(result: SchemaVacuumResult) -> tuple[int, int]:
    deleted = NO_FILES if result.outcome is None else result.outcome.deleted
    return deleted.files, deleted.size_bytes


# -- a change of a Paimon table's schema -------------------------------------------------------------------------------


def _result(outcome: AlterOutcome, command: str, *, is_dry: bool) -> SingleResult:
    """Return the next version of a schema as a result. `command` is the one that was given: `alter` or `widen-type`."""
    return SingleResult(
        command,
        outcome.table,
        outcome.as_json(dry_run=is_dry),
        lambda: _sections(outcome, is_dry=is_dry),
        outcome.changes,
        _COLUMNS,
        line_type="alter",
        table_format="paimon",
    )


def _sections(outcome: AlterOutcome, *, is_dry: bool) -> list[Section]:
    if outcome.is_noop:
        said = f"{outcome.table}, schema {outcome.before.id}, is already as requested"
        return [Section("nothing to do", [said])]
    return [
        Section("table", [outcome.table]),
        Section("branch", [outcome.request.branch] if outcome.request.branch != "main" else []),
        Section("schema", [_version_line(outcome, is_dry=is_dry)]),
        Section("changes", list(_change_lines(outcome))),
        Section("warnings", [message for _, message in outcome.warnings], Style.PROBLEM),
        make_refusal_section(_refusal(outcome)),
    ]


def _named(change: Change) -> str | None:
    is_option = change.kind in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION)
    return (change.path[0] if is_option else dotted(change.path)) if change.path else None


_COLUMNS: Sequence[Column[Change]] = (
    Column("kind", lambda change: change.kind.value),
    Column("field", _named),
    Column("fieldId", lambda change: change.field_id),
    Column("class", lambda change: change.loss.value),
    Column("cast", lambda change: change.cast),
    Column("change", sentence),
)


def _version_line(outcome: AlterOutcome, *, is_dry: bool) -> str:
    before = outcome.before.id
    if outcome.committed is not None:
        return f"{before} -> {outcome.committed}, created"
    return f"{before} -> {before + 1}, would be created" if is_dry and outcome.refusal is None else f"{before}"


def _change_lines(outcome: AlterOutcome) -> Iterator[str]:
    for change in outcome.changes:
        if change.kind is not ChangeKind.HIGHEST_FIELD_ID:
            yield f"{sentence(change)}{_class(change)}"


def _class(change: Change) -> str:
    """Return the class of a change of type, and of what loses data: `(lossy: longer values are cut; implicit cast)`."""
    if change.kind is not ChangeKind.TYPE and change.loss is Loss.LOSSLESS:
        return f"  [id {change.field_id}]" if change.kind is ChangeKind.ADD_COLUMN else ""
    said = f"{change.loss}: {change.reason}" if change.reason else str(change.loss)
    cast = f"; {change.cast} cast in Paimon" if change.cast else ""
    return f"  ({said}{cast})"


def _refusal(outcome: AlterOutcome) -> Iterator[str]:
    refusal = outcome.refusal
    if refusal is None:
        return
    yield f"{refusal.message} [{refusal.code}]"
    yield from (f"{name}: {value}" for name, value in refusal.facts.items())


def make_schema_change_presentation(name: str, command: str) -> ChangePresentation[AlterOutcome, AlterOutcome]:
    """Return how a change of a Paimon schema is told; `command` was given: `alter` or `widen-type`."""
    history = f"deltacli history {quote_table(name)} --limit 5"
    return ChangePresentation(
        build_question=lambda plan: f"change the schema of {plan.table}: {_in_words(plan.changes)}",
        build_plan_result=lambda plan, is_dry: _result(plan, command, is_dry=is_dry),
        build_outcome_result=lambda made: _result(made, command, is_dry=False),
        suggest_after_change=lambda made: None if made.committed is None else history,
        override_options={"alter.lossy": "--allow-lossy", "alter.in-options": "--with-options"},
    )


def _in_words(changes: Sequence[Change]) -> str:
    said = [sentence(change) for change in changes if change.kind is not ChangeKind.HIGHEST_FIELD_ID]
    return summarize_names(said, 5, "; ")
