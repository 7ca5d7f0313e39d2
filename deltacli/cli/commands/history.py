"""`deltacli history TABLE`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.shared import ColumnsOption, LimitOption, Run, TableArgument
from deltacli.cli.render.columns import DRAWN_ROWS, Column, choose, unknown_column, usual
from deltacli.cli.render.commit_metrics import changes_of, in_words
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_table
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines
from deltacli.cli.terminal.shell import again_without_limit, quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.units import format_age, format_count, format_moment, format_size

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.theme import Role
    from deltacli.operations.read.history import History, HistoryItem

EXIT_CODES = (0, 2, 3, 7, 70)


def history(
    run: Run,
    table: TableArgument,
    limit: LimitOption = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Read the file actions, too, and count files and bytes.")
    ] = False,
    columns: ColumnsOption = None,
) -> None:
    """Show who changed a table, when and how, newest first.

    \b
    Reads the provenance of each commit only, so it works across gaps, on damaged
    tables and on tables with unknown features.

    \b
    Examples:
      deltacli history ./tbl
      deltacli history ./tbl --limit 0 --counts
      deltacli history s3://lake/events --json | jq '.items[0].operation'
      deltacli history ./tbl --format csv --columns version,timestamp,operation
      deltacli history ./tbl --columns version,job   (a key that a writer added)
    """
    from deltacli.engine.embedded import EmbeddedEngine
    from deltacli.operations.read.history import read_history

    available = _columns(run, counts=counts)
    others = _keys_of_commit_info(columns, available)
    chosen = choose([*available, *others], columns)
    table_history = read_history(
        run.open(table), EmbeddedEngine(), limit=run.limit(limit), counts=counts, progress=run.progress
    )
    run.write(HistoryResult(table_history, chosen if columns else available, is_chosen=bool(columns)))
    _note_absent(run, table_history, others)
    _say_what_next(run, table, table_history)


@dataclass
class HistoryResult(Result):
    """Commits of a table; `is_chosen`: the user named the columns."""

    found: History
    columns: Sequence[Column[_Line]]
    is_chosen: bool
    lists: bool = True

    def document(self) -> Document:
        fields = envelope("deltacli.history", self.found.table, complete=self.found.is_complete)
        if self.is_chosen:
            fields["columns"] = [column.name for column in self.columns]
        return Document(fields | {"gaps": [list(gap) for gap in self.found.gaps], "items": self._items()})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, self._items(), "commit")
        return self.found.is_complete

    def grid(self) -> Grid:
        return RowGrid(self.columns, map(_Line, self.found.items), self.is_chosen)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the gaps of the log, which a table of commits alone would hide."""
        if not self.found.gaps:
            return []
        return [Section("table", [self.found.table]), Section("missing", [_versions(self.found.gaps)])]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        shown = self.columns if self.is_chosen else usual(self.columns, terminal)
        rows = list(_lines(self.found))
        if terminal.is_drawn and not self.is_chosen and len(rows) <= DRAWN_ROWS:
            from deltacli.cli.render.terminal.history import draw_history

            draw_history(sink, terminal, self.found, shown, rows)
            return
        write_table(sink, terminal, shown, rows, note=lambda line: line.gap, keep_empty=self.is_chosen)

    def _items(self) -> list[dict[str, Any]]:
        return _items(self.found, self.columns if self.is_chosen else None)


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of the table: a commit, or a gap between two."""

    item: HistoryItem | None
    gap: str | None = None


def _lines(table_history: History) -> Iterator[_Line]:
    gaps = {last: (first, last) for first, last in table_history.gaps}
    for item in table_history.items:
        yield _Line(item)
        if item.version - 1 in gaps:
            first, last = gaps[item.version - 1]
            span = f"version {first} is" if first == last else f"versions {first} to {last} are"
            yield _Line(None, f"{'':>7}  {span} missing from the log")


def _items(table_history: History, chosen: Sequence[Column[_Line]] | None) -> list[dict[str, Any]]:
    if chosen is None:
        return [item.as_json() for item in table_history.items]
    return [_chosen(item, {column.name for column in chosen}) for item in table_history.items]


def _chosen(item: HistoryItem, names: set[str]) -> dict[str, Any]:
    """Return the chosen fields; keys of commitInfo that have the name of a field stay in the object `commitInfo`."""
    whole = item.as_json()
    shadowed = {key: value for key, value in whole.get("commitInfo", {}).items() if key in names}
    chosen = {name: value for name, value in whole.items() if name in names}
    return {**chosen, "commitInfo": shadowed} if shadowed and "commitInfo" not in names else chosen


def _field(name: str, item: HistoryItem) -> object:
    return item.as_json().get(name)


def _columns(run: Run, *, counts: bool) -> list[Column[_Line]]:
    """Every column of the history, in the order of a full row."""
    from deltacli.operations.read.history import PROVENANCE_FIELDS

    now = run.clock()

    def column(name: str, **looks: Any) -> Column[_Line]:  # Any: fields of Column
        return Column(name, lambda line: _field(name, line.item) if line.item else None, **looks)

    hidden = {"on_screen": False}
    columns = [
        column("version", right=True, priority=1, least=7),
        column(
            "timestamp",
            text=lambda line: format_moment(line.item.time.timestamp_ms) if line.item else "",
            priority=2,
            least=19,
            title="committed (UTC)",
        ),
        Column(
            "age",
            lambda _: None,
            text=lambda line: format_age(line.item.time.timestamp_ms, now) if line.item else "",
            style=lambda _: Style.QUIET,
            priority=4,
            least=13,
            in_pipe=False,
        ),
        column("timestampSource", **hidden),
        column("hasCommitInfo", **hidden),
        column("commitInfoTimestampMs", **hidden),
        column("inCommitTimestampMs", **hidden),
        column("operation", text=_operation, style=_operation_role, priority=1, least=10),
        column("operationParameters", text=_parameters, priority=6, least=20, title="parameters"),
        column("operationMetrics", text=_changes, priority=3, least=16, title="changes"),
    ]
    columns += [
        column(name, **({"priority": 7, "least": 12, "title": title} if (title := _SHORT.get(name)) else hidden))
        for name in PROVENANCE_FIELDS
        if name not in ("operation", "operationParameters", "operationMetrics")
    ]
    if counts:
        columns += [
            column("actions", text=_action_counts, priority=5, least=20),
            column("addedFiles", text=_number("addedFiles"), right=True, priority=3, least=5, title="files +"),
            column("removedFiles", text=_number("removedFiles"), right=True, priority=3, least=5, title="files -"),
            column("addedBytes", text=_size("addedBytes"), right=True, priority=4, least=9, title="bytes +"),
            column("removedBytes", text=_size("removedBytes"), right=True, priority=4, least=9, title="bytes -"),
        ]
    columns.append(column("problem", style=lambda _: Style.PROBLEM, priority=1, least=12))
    columns.append(column("commitInfo", on_screen=False, in_pipe=False))
    return columns


def _keys_of_commit_info(wanted: str | None, available: Sequence[Column[_Line]]) -> list[Column[_Line]]:
    """Return a column for each wanted name that is not a column: writers add keys of their own to commitInfo.

    Raises UsageError for a name that is nearly one of a column.
    """
    from difflib import get_close_matches

    known = [column.name.lower() for column in available]
    others = [name for name in map(str.strip, (wanted or "").split(",")) if name and name.lower() not in known]
    for name in others:
        if get_close_matches(name.lower(), known, 1, _NEARLY_THE_SAME):
            raise unknown_column(name, [column.name for column in available])
    return [_key_column(name) for name in others]


def _key_column(name: str) -> Column[_Line]:
    return Column(name, lambda line: _key(name, line.item) if line.item else None, priority=7, least=8)


def _key(name: str, item: HistoryItem) -> object:
    """Return the value of a key of commitInfo, also of one with the name of a field that is not a column here."""
    return (item.commit_info or {}).get(name)


def _note_absent(run: Run, table_history: History, others: Sequence[Column[_Line]]) -> None:
    """Report the columns that are empty because no commit shown has such a key."""
    for column in others:
        if table_history.items and all(_key(column.name, item) is None for item in table_history.items):
            run.note(f"note: no commit shown has the key {column.name} in its commitInfo")


_NEARLY_THE_SAME = 0.8
"""The similarity above which a name counts as a misspelt column: `verison`, but not `jobVersion`."""

_SHORT = {"engineInfo": "engine", "userName": "user", "userMetadata": "message"}


def _operation(line: _Line) -> str:
    """Return the operation with its mode: `WRITE append`."""
    if line.item is None or line.item.operation is None:
        return "" if line.item is None or line.item.problem else "(not recorded)"
    parameters = (line.item.commit_info or {}).get("operationParameters")
    mode = parameters.get("mode") if isinstance(parameters, dict) else None
    return f"{line.item.operation} {str(mode).lower()}" if mode else line.item.operation


def _operation_role(line: _Line) -> Role:
    from deltacli.cli.render.terminal.theme import role_of_operation

    return role_of_operation((line.item.operation if line.item else None) or "")


def _parameters(line: _Line) -> str:
    """Return the operation's parameters without empty ones and the mode."""
    info = (line.item.commit_info if line.item else None) or {}
    parameters = info.get("operationParameters")
    if not isinstance(parameters, dict):
        return ""
    return ", ".join(
        f"{name}={value}"
        for name, value in parameters.items()
        if name != "mode" and value not in (None, "", "[]", "{}", "null")
    )


def _changes(line: _Line) -> str:
    """Return what changed by the writer's metrics: `+5 files, -2 files, +120 rows`."""
    return in_words(changes_of(line.item.commit_info if line.item else None))


def _action_counts(line: _Line) -> str:
    counted = line.item.counts.actions if line.item and line.item.counts else {}
    return ", ".join(f"{count:,} {kind}" for kind, count in counted.items())


def _number(name: str) -> Any:  # Any: Callable[[_Line], str]
    def text(line: _Line) -> str:
        value = _field(name, line.item) if line.item else None
        return format_count(value) if isinstance(value, int) else ""

    return text


def _size(name: str) -> Any:  # Any: Callable[[_Line], str]
    def text(line: _Line) -> str:
        value = _field(name, line.item) if line.item else None
        return format_size(value) if isinstance(value, int) else ""

    return text


def _versions(spans: Sequence[tuple[int, int]]) -> str:
    """Return versions as the subject of a sentence: `versions 2-4, 7`."""
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"version {text}" if text.isdigit() else f"versions {text}"


def _missing(table_history: History) -> str:
    """Return which commits are missing from the log, and which versions cannot be rebuilt as a result."""
    named = _versions(table_history.missing)
    text = f"{named} {'are' if named.startswith('versions') else 'is'} missing from the log"
    return f"{text}, so {_versions(table_history.lost)} cannot be rebuilt" if table_history.lost else text


def _say_what_next(run: Run, table: str, table_history: History) -> None:
    """Write notes on omitted rows, and the next command."""
    name = quoted_table(table)
    if table_history.missing:
        run.note(f"{_missing(table_history)}: deltacli validate {name}")
    if not table_history.is_complete:
        command = again_without_limit(invocation.arguments)
        run.note(f"showing {len(table_history.items):,} of {table_history.total:,} versions; all: {command}")
    elif run.is_on_screen:
        if not table_history.items:
            run.note("the log has checkpoints but no commits")
        if table_history.newest_readable is None:
            run.note(f"next: deltacli validate {name}")
        else:
            newest = f" --version {table_history.newest_readable}" if table_history.items else ""
            run.note(f"next: deltacli snapshot {name}{newest}")
