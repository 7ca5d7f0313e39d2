"""The history of a Delta table as a result, and on a terminal: aligned numbers, a bar per commit, commits per day.

`history_columns` says which come by themselves; `_drawn_columns` replaces the texts of some on a terminal.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.invocation import invocation
from deltacli.cli.output.alignment import GAP
from deltacli.cli.output.column_widths import MAX_DRAWN_ROWS
from deltacli.cli.output.columns import (
    Column,
    choose_columns,
    choose_default_columns,
    format_exact,
    show_exact_values,
    spellings_of_column,
    unknown_column_error,
)
from deltacli.cli.output.grids import Grid, RowGrid, WriteItems, write_lines
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.suggested_commands import (
    repeat_command_with,
    repeat_command_with_flags,
    repeat_command_without_limit,
)
from deltacli.core import units
from deltacli.core.documents import envelope
from deltacli.core.errors import UsageError, is_shared, nearest_name, quoted_table
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import JsonObject
from deltacli.delta.log.operation_metrics import ReportedChanges, read_reported_changes
from deltacli.delta.log.segment import CommitTime, TimestampSource
from deltacli.operations.read.history import PROVENANCE_FIELDS, ActionCounts, History, HistoryItem

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.core.machine import Clock

# -- the columns of `history` ------------------------------------------------------------------------------------------

_NEARLY_THE_SAME = 0.81
"""The similarity above which a name counts as a misspelt column: `verison`, but not the key `clusterId`."""

_PROVENANCE: Mapping[str, Mapping[str, Any]] = {  # Any: fields of Column
    "engineInfo": {"priority": 7, "min_width": 12, "title": "engine"},
    "userName": {"priority": 6, "min_width": 8, "title": "user"},
    "userMetadata": {"priority": 7, "min_width": 12, "title": "message"},
}


@dataclass(frozen=True)
class HistoryLine:
    """A row of the table: a commit, or a gap between two."""

    item: HistoryItem | None
    gap: str | None = None

    @cached_property
    def info(self) -> JsonObject:
        return (self.item.commit_info if self.item else None) or {}

    @property
    def counts(self) -> ActionCounts | None:
        return self.item.counts if self.item else None

    @property
    def time(self) -> CommitTime | None:
        return None if self.item is None else self.item.time


def _of_info(name: str, key: str = "", **looks: Any) -> Column[HistoryLine]:  # Any: fields of Column
    read = key or name
    return Column(name, lambda line: line.info.get(read), **looks)


def history_columns(clock: Clock, *, counts: bool) -> list[Column[HistoryLine]]:
    """Return every column, in the order of a full row; `on_screen` and `in_pipe` say where it is shown unasked. The
    clock is asked once, where ages are shown.
    """
    now_ms = cache(clock)
    hidden = {"on_screen": False}
    found: list[Column[HistoryLine]] = [
        Column("version", lambda line: line.item and line.item.version, align_right=True, priority=1, min_width=7),
        Column(
            "timestamp",
            lambda line: units.format_timestamp(line.time.timestamp_ms) if line.time else None,
            text=lambda line: units.format_moment(line.time.timestamp_ms) if line.time else "",
            priority=2,
            min_width=19,
            title="committed (UTC)",
            is_rounded=True,
        ),
        Column(
            "age",
            lambda _: None,
            text=lambda line: units.format_age(line.time.timestamp_ms, now_ms()) if line.time else "",
            style=lambda _: Style.TIME,
            priority=6,
            min_width=13,
            in_pipe=False,
        ),
        Column("timestampSource", lambda line: line.time and line.time.source.value, on_screen=False),
        Column("hasCommitInfo", lambda line: line.item and line.item.commit_info is not None, on_screen=False),
        _of_info("commitInfoTimestampMs", "timestamp", **hidden),
        _of_info("inCommitTimestampMs", "inCommitTimestamp", **hidden),
        _of_info("operation", text=_operation, style=_operation_style, priority=1, min_width=10),
        _of_info("operationParameters", text=_parameters, priority=3, min_width=12, title="parameters"),
        _of_info("operationMetrics", text=_changes, priority=3, min_width=16, title="changes"),
        _changed_numbers("files", _file_parts),
        _changed_numbers("rows", _row_parts),
    ]
    found += [
        _of_info(name, **_PROVENANCE.get(name, hidden))
        for name in PROVENANCE_FIELDS
        if name not in ("operation", "operationParameters", "operationMetrics")
    ]
    if counts:
        found += [
            Column(
                "actions",
                lambda line: line.counts and dict(line.counts.actions),
                text=_action_counts,
                priority=5,
                min_width=20,
            ),
            _number("addedFiles", "added_files", units.format_count, priority=2, min_width=7, title="files +"),
            _number("removedFiles", "removed_files", units.format_count, priority=2, min_width=7, title="files -"),
            _number("addedBytes", "added_bytes", units.format_size, priority=4, min_width=9, title="bytes +"),
            _number("removedBytes", "removed_bytes", units.format_size, priority=4, min_width=9, title="bytes -"),
        ]
    found += [
        Column(
            "problem",
            lambda line: line.item and line.item.problem,
            style=lambda _: Style.PROBLEM,
            priority=1,
            min_width=12,
        ),
        Column(
            "commitInfo",
            lambda line: line.item and line.item.as_json().get("commitInfo"),
            on_screen=False,
            in_pipe=False,
        ),
    ]
    return found


def keys_of_commit_info(wanted: str | None, available: Sequence[Column[HistoryLine]]) -> list[Column[HistoryLine]]:
    """Return a column for each wanted key of commitInfo. Raises UsageError for a name nearly one of a column."""
    known = [spelling for column in available for spelling in spellings_of_column(column)]
    others = [name for name in map(str.strip, (wanted or "").split(",")) if name and name.lower() not in known]
    for name in others:
        if nearest_name(name, known, ignores_case=True, alike=_NEARLY_THE_SAME) is not None:
            raise unknown_column_error(name, [column.name for column in available])
    return [_of_info(name, priority=7, min_width=8) for name in others]


def _operation(line: HistoryLine) -> str:
    if line.item is None or line.item.operation is None:
        return "" if line.item is None or line.item.problem else "(not recorded)"
    parameters = line.info.get("operationParameters")
    mode = parameters.get("mode") if isinstance(parameters, dict) else None
    return f"{line.item.operation} {str(mode).lower()}" if mode else line.item.operation


def _operation_style(line: HistoryLine) -> Style:
    """Return how an operation is shown, by what it does to a table; PLAIN for one that is not known."""
    name = ((line.item.operation if line.item else None) or "").upper()
    return next((style for style, prefixes in _OPERATIONS if name.startswith(prefixes)), Style.PLAIN)


_OPERATIONS: tuple[tuple[Style, tuple[str, ...]], ...] = (
    (Style.MAINTENANCE, ("VACUUM", "OPTIMIZE", "REORG", "COMPACT", "CHECKPOINT", "CLUSTER", "LOG ", "FSCK")),
    (
        Style.SCHEMA_CHANGE,
        (
            *("ADD COLUMN", "CHANGE COLUMN", "RENAME COLUMN", "DROP COLUMN", "REPLACE COLUMN", "WIDEN", "ALTER"),
            *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD FEATURE", "DROP FEATURE", "UPGRADE PROTOCOL"),
            *("ADD CONSTRAINT", "DROP CONSTRAINT", "UPDATE COLUMN METADATA", "UPDATE SCHEMA", "DOMAIN METADATA"),
            *("SET ", "UNSET ", "ADD PROPERTIES", "COMPUTE STATS"),
        ),
    ),
    (Style.DELETES, ("DELETE", "TRUNCATE", "RESTORE", "DROP", "REMOVE")),
    (
        Style.WRITES,
        ("WRITE", "STREAMING", "MERGE", "UPDATE", "COPY", "CREATE", "REPLACE", "CONVERT", "CLONE", "INSERT"),
    ),
)
"""The first row with a prefix of the operation decides: `DROP COLUMN` changes the schema, `DROP` deletes."""


def _parameters(line: HistoryLine) -> str:
    return ", ".join(f"{name}={value}" for name, value in _filled_parameters(line).items())


def parameters_in_words(line: HistoryLine) -> str:
    """Return the operation's parameters for a narrow column: a predicate alone, `zorder by day`, `fare double`."""
    words = []
    for name, value in _filled_parameters(line).items():
        columns = _columns_in_words(value) if name in ("column", "columns") else None
        words.append(columns or f"{_PARAMETER_WORDS.get(name, f'{name}=')}{_without_brackets(value)}")
    return ", ".join(words)


_PARAMETER_WORDS = {
    "predicate": "",
    "zOrderBy": "zorder by ",
    "clusterBy": "cluster by ",
    "partitionBy": "partition by ",
    "properties": "",
}


def _filled_parameters(line: HistoryLine) -> dict[str, object]:
    parameters = line.info.get("operationParameters")
    if not isinstance(parameters, dict):
        return {}
    return {
        name: value
        for name, value in parameters.items()
        if name != "mode" and value not in (None, "", "[]", "{}", "null")
    }


def _columns_in_words(value: object) -> str | None:
    """Return columns that were added or changed, as `fare double, tip integer after fare`.

    Spark describes a column by an object `{"name", "type", "nullable", "metadata"}`, within `{"column", "position"}`
    where it is added; other writers have its name under `column`. None for another form.
    """
    read = _read_json(value)
    columns = [_column_in_words(column) for column in (read if isinstance(read, list) else [read])]
    return None if None in columns else ", ".join(column for column in columns if column is not None)


def _column_in_words(column: object) -> str | None:
    if not isinstance(column, dict):
        return None
    inside = column.get("column")
    if isinstance(inside, dict):
        words, position = _column_in_words(inside), column.get("position")
        if words is None or not isinstance(position, str):
            return words
        keyword, blank, after = position.partition(" ")
        return f"{words} {keyword.lower()}{blank}{after}"
    name, data_type = column.get("name", inside), column.get("type")
    if isinstance(data_type, dict):  # the fields of a struct are in the log
        data_type = data_type.get("type")
    if not isinstance(name, str) or not isinstance(data_type, str):
        return None
    words = f"{name} {data_type}{' not null' if column.get('nullable') is False else ''}"
    metadata = column.get("metadata")
    comment = metadata.get("comment") if isinstance(metadata, dict) else None
    return f"{words} comment {comment!r}" if isinstance(comment, str) else words


def _read_json(value: object) -> object:
    """Return a parameter, which may be a list or an object as JSON."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _without_brackets(value: object) -> str:
    """Return a parameter, which may be a list or an object as JSON, as plain text: `["(day < 3)"]` as `day < 3`."""
    read = _read_json(value)
    match read:
        case list():
            return ", ".join(map(_without_brackets, read))
        case dict():
            return ", ".join(f"{name}={_without_brackets(one)}" for name, one in read.items())
        case _:
            text = read if isinstance(read, str) else format_exact(read)
            inner = text[1:-1]
            return inner if text == f"({inner})" and "(" not in inner and ")" not in inner else text


def _changes(line: HistoryLine) -> str:
    """Return what changed by the writer's metrics, numbers of 0 left out: `+5 files, -2 files, +120 rows`."""
    changes = read_reported_changes(line.info)
    counted = [(pattern, getattr(changes, field)) for field, pattern in _WORDS]
    return ", ".join(
        pattern.format(units.format_count(number)) + ("" if number == 1 else "s")
        for pattern, number in counted
        if number
    )


def _changed_numbers(name: str, parts_of: Callable[[ReportedChanges], Parts]) -> Column[HistoryLine]:
    """Return the column `files` or `rows` for a user who names it: `+5 -2`, by the writer's metrics.

    Nobody who names no column gets it: `_change_columns` draws these numbers in place of the metrics.
    """

    def text(line: HistoryLine) -> str:
        parts = parts_of(read_reported_changes(line.info))
        return " ".join(f"{sign}{number}" for number, sign, _ in parts if number)

    return Column(
        name, lambda line: text(line) or None, text, align_right=True, on_screen=False, in_pipe=False, priority=3
    )


def _action_counts(line: HistoryLine) -> str:
    counted = line.counts.actions if line.counts else {}
    return ", ".join(f"{count:,} {kind}" for kind, count in counted.items())


def _number(name: str, attribute: str, write: Callable[[int], str], **looks: Any) -> Column[HistoryLine]:
    def value(line: HistoryLine) -> int | None:
        return getattr(line.counts, attribute, None)

    return Column(name, value, lambda line: "" if (n := value(line)) is None else write(n), align_right=True, **looks)


_WORDS = (
    ("files_added", "+{} file"),
    ("files_removed", "-{} file"),
    ("rows_added", "+{} row"),
    ("rows_updated", "~{} row"),
    ("rows_deleted", "-{} row"),
)


# -- the history of a Delta table as a result --------------------------------------------------------------------------


@dataclass
class HistoryResult(Result):
    """Commits of a table; `is_chosen`: the user named the columns."""

    found: History
    columns: Sequence[Column[HistoryLine]]
    is_chosen: bool
    has_requested_rows: bool = True
    no_room: str = ""
    """What the screen had no room for, once it is drawn."""

    def document(self) -> Document:
        fields = envelope("deltacli.history", self.found.table, complete=self.found.is_complete)
        if self.is_chosen:
            fields["columns"] = [column.name for column in self.columns]
        return Document(fields | {"gaps": [list(gap) for gap in self.found.gaps], "items": self._items()})

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, self._items(), "commit")
        return self.found.is_complete

    def grid(self) -> Grid:
        return RowGrid(self.columns, map(HistoryLine, self.found.items), self.is_chosen)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the gaps of the log, which a table of commits alone would hide."""
        if not self.found.gaps:
            return []
        return [Section("table", [self.found.table]), Section("missing", [_versions(self.found.gaps)])]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        shown = (
            show_exact_values(self.columns, terminal)
            if self.is_chosen
            else choose_default_columns(self.columns, terminal)
        )
        rows = list(_lines(self.found))
        if terminal.is_drawn and not self.is_chosen and len(rows) <= MAX_DRAWN_ROWS:
            from deltacli.cli.render.terminal.console import Canvas

            self.no_room = draw_history(Canvas(sink, terminal), self.found, shown, rows)
            return
        if not terminal.is_drawn and not self.is_chosen:
            drawn = _drawn_columns(shown, rows, sys.maxsize, never_cuts=True)
            shown = [replace(one, draw_bar=None) if one.name in _NUMBER_CELLS else one for one in drawn]
        write_text_table(sink, terminal, shown, rows, note=lambda line: line.gap, keep_empty=self.is_chosen)

    def notes(self, table: str, *, on_screen: bool) -> Iterator[str]:
        """Yield what is missing or omitted, and the next command."""
        found, name = self.found, quoted_table(table)
        if self.no_room:
            yield self.no_room
        if found.asked and found.oldest and min(found.asked) < found.oldest:
            yield f"note: the log begins at version {found.oldest}; older commits are no longer there"
        if on_screen and (copied := _copied_at_once(found.items)):
            yield (
                f"note: {_versions(copied)} have the same time, because copying the table changed the times of its "
                "files; the times that the writers recorded: "
                f"deltacli history {name} --columns version,operation,commitInfoTimestampMs"
            )
        if found.missing:
            yield f"{_missing(found)}: deltacli validate {name}"
        if not found.is_complete:
            command = repeat_command_without_limit(invocation.arguments)
            yield f"showing {len(found.items):,} of {found.total:,} versions; all: {command}"
        elif on_screen:
            if not found.items:
                yield "no commit in this range" if found.asked else "the log has checkpoints but no commits"
            yield f"next: {_next_command(found, table)}"

    def _items(self) -> list[dict[str, Any]]:
        if not self.is_chosen:
            return [item.as_json() for item in self.found.items]
        return [_chosen(item, {column.name for column in self.columns}) for item in self.found.items]


_CHANGES_ROWS = frozenset({"DELETE", "UPDATE", "MERGE"})
"""Operations after which people ask which rows have changed."""


def _next_command(found: History, table: str) -> str:
    """Return the command that shows the newest version: which rows it changed, or what it has now."""
    name, version = quoted_table(table), found.newest_readable
    if version is None:
        return f"deltacli validate {name}"
    if not found.items:
        return f"deltacli snapshot {name}"

    newest = found.items[0]
    changes_rows = newest.version == version and (newest.operation or "").upper() in _CHANGES_ROWS
    # A share may have no change data, and without it the rows cannot be derived from files there.
    if changes_rows and not is_shared(table):
        return f"deltacli changes {name} --from {version} --to {version}"
    return f"deltacli snapshot {name} --version {version}"


def shown_commits(read: Callable[[], History], columns: str | None, clock: Clock, *, counts: bool) -> HistoryResult:
    """Return commits in the columns that the user named, else in all. Raises UsageError for an unknown name."""
    available = history_columns(clock, counts=counts)
    others = keys_of_commit_info(columns, available)
    chosen = choose_columns([*available, *others], columns)
    found = read()
    absent = [column.name for column in others if _is_absent(column.name, found)]
    counted = {spelling for column in history_columns(clock, counts=True) for spelling in spellings_of_column(column)}
    if uncounted := [name for name in absent if name.lower() in counted]:
        raise UsageError(
            f"{' and '.join(uncounted)} {'needs' if len(uncounted) == 1 else 'need'} --counts",
            code="usage.column",
            hint=repeat_command_with_flags(invocation.arguments, ["--counts"]),
        )
    if absent:
        known = [column.name for column in available]
        keys = {key for item in found.items for key in item.commit_info or ()}
        near = nearest_name(absent[0], [*known, *sorted(keys)], ignores_case=True)
        raise UsageError(
            f"no commit shown has the {'key' if len(absent) == 1 else 'keys'} {', '.join(absent)} in its commitInfo",
            code="usage.column",
            facts={"columns": ", ".join(known)},
        ).asking(absent[0], near)
    return HistoryResult(found, chosen if columns else available, bool(columns))


_COPIED = 3
"""Versions of one second from which a copy is suspected."""


def _copied_at_once(items: Sequence[HistoryItem]) -> list[tuple[int, int]]:
    """Return the ranges of the versions whose files are of the same second, although their writers took longer."""
    of_second: dict[int, list[HistoryItem]] = {}
    for item in items:
        if item.time is not None and item.time.source is not TimestampSource.IN_COMMIT:
            of_second.setdefault(item.time.timestamp_ms // 1_000, []).append(item)
    found: list[int] = []
    for same in of_second.values():
        written = [at for item in same if type(at := (item.commit_info or {}).get("timestamp")) is int]
        if len(same) >= _COPIED and written and max(written) - min(written) >= _COPIED * 1_000:
            found += [item.version for item in same]
    return units.ranges_of(found)


def _lines(found: History) -> Iterator[HistoryLine]:
    gaps = {last: (first, last) for first, last in found.gaps}
    for item in found.items:
        yield HistoryLine(item)
        if item.version - 1 in gaps:
            first, last = gaps[item.version - 1]
            span = f"version {first} is" if first == last else f"versions {first} to {last} are"
            yield HistoryLine(None, f"{'':>7}  {span} missing from the log")


def _chosen(item: HistoryItem, names: set[str]) -> dict[str, Any]:
    """Return the chosen fields; keys of commitInfo that have the name of a field stay in the object `commitInfo`."""
    whole = item.as_json()
    shadowed = {key: value for key, value in whole.get("commitInfo", {}).items() if key in names}
    found = {name: value for name, value in whole.items() if name in names}

    for name, numbers in _reported_numbers(item).items():
        if name not in names:
            continue
        if name in found:  # a key that the writer added
            shadowed[name] = found.pop(name)
        if numbers:
            found[name] = numbers
    return {**found, "commitInfo": shadowed} if shadowed and "commitInfo" not in names else found


def _reported_numbers(item: HistoryItem) -> dict[str, dict[str, int]]:
    """Return the fields of the columns `files` and `rows`, without the numbers that the writer does not report."""
    changes = read_reported_changes(item.commit_info)
    files = {"added": changes.files_added, "removed": changes.files_removed}
    rows = {"added": changes.rows_added, "updated": changes.rows_updated, "deleted": changes.rows_deleted}
    return {
        "files": {name: number for name, number in files.items() if number},
        "rows": {name: number for name, number in rows.items() if number},
    }


def _is_absent(key: str, found: History) -> bool:
    return bool(found.items) and all((item.commit_info or {}).get(key) is None for item in found.items)


def _versions(spans: Sequence[tuple[int, int]]) -> str:
    """Return versions as the subject of a sentence: `versions 2-4, 7`."""
    text = units.format_spans(spans)
    return f"version {text}" if text.isdigit() else f"versions {text}"


def _missing(found: History) -> str:
    """Return which commits are missing from the log, and which versions cannot be rebuilt as a result."""
    named = _versions(found.missing)
    text = f"{named} {'are' if named.startswith('versions') else 'is'} missing from the log"
    return f"{text}, so {_versions(found.lost)} cannot be rebuilt" if found.lost else text


_MANY_COMMITS = 20
_NARROW = 100
_WIDE = 120
_BAR_CELLS = 8
_SPARKS = 60
_OPERATION_CELLS = 18
_OPERATION_FROM = 50
"""Cells of a screen from which other columns are left out before an operation is cut."""
_NUMBER_CELLS = {"files": (6, 8, 9), "rows": (11, 14, 21)}
"""Cells that are kept for numbers on screens that are narrow, usual and wide."""
_METRICS = "operationMetrics"

Parts = Sequence[tuple[int, str, Style]]
"""Numbers with their sign and style: `(3, "+", Style.ADDED)`."""


def draw_history(
    canvas: Canvas, history: History, columns: Sequence[Column[HistoryLine]], rows: Sequence[HistoryLine]
) -> str:
    """Draw the history with metrics as numbers and bars. Return the remark on what had no room, else ""."""
    from deltacli.cli.render.terminal.tables import draw_table

    if len(history.times_ms) > _MANY_COMMITS:
        canvas.draw(commits_per_day(canvas, history.times_ms), canvas.text(""))
    drawn = _drawn_columns(columns, rows, canvas.width, never_cuts=canvas.never_cuts)
    names = draw_table(canvas, _with_room(canvas, drawn, rows), rows, note=lambda line: line.gap)
    if any(read_reported_changes(line.item.commit_info).rows_updated for line in rows if line.item) and "rows" in names:
        canvas.draw(canvas.text("rows: + added, ~ updated, - deleted", Style.QUIET))
    absent = [one for one in drawn if one.name not in names and one.in_pipe and any(map(one.format_for_screen, rows))]
    absent = [one for one in absent if one.draw_bar is None or one.name in _NUMBER_CELLS]  # bars are not missed
    if absent:
        keys = dict.fromkeys(_METRICS if one.name in _NUMBER_CELLS else one.name for one in absent)
        command = repeat_command_with(invocation.arguments, "--columns", ",".join(["version", *keys]))
        return f"no room for {', '.join(one.heading() for one in absent)}; to show more: {command}"
    return ""


def _with_room(
    canvas: Canvas, columns: Sequence[Column[HistoryLine]], rows: Sequence[HistoryLine]
) -> list[Column[HistoryLine]]:
    """Return the columns that the screen has room for; more rows of the same table have the same columns."""
    if canvas.never_cuts:
        return list(columns)
    place = 2 if canvas.width >= _WIDE else 1 if canvas.width >= _NARROW else 0
    room, chosen = canvas.width + len(GAP), []
    for column in sorted(columns, key=lambda one: one.priority):
        if rows and not any(map(column.format_for_screen, rows)):
            continue
        cells = _NUMBER_CELLS[column.name][place] if column.name in _NUMBER_CELLS else column.min_width
        if cells + len(GAP) <= room or column.priority == 1:
            chosen.append(column.name)
            room -= cells + len(GAP)
    return [column for column in columns if column.name in chosen]


def commits_per_day(canvas: Canvas, times_ms: Sequence[int]) -> Text:
    """Return one line: how many commits each day had, several days to a mark where there are many."""
    from deltacli.cli.render.terminal.tables import make_sparkline

    first, last = min(times_ms) // units.DAY_MS, max(times_ms) // units.DAY_MS
    span = " to ".join(units.format_moment(day * units.DAY_MS)[:10] for day in (first, last))
    room = max(min(canvas.width - len(f"commits per 1,000 days    {span}"), _SPARKS), 10)
    days = -(-(last - first + 1) // room)
    counts = [0] * ((last - first) // days + 1)
    for time_ms in times_ms:
        counts[(time_ms // units.DAY_MS - first) // days] += 1
    most = f", at most {units.format_count(max(counts))}" if canvas.width >= _NARROW else ""
    return canvas.joined(
        [
            ("commits per day" if days == 1 else f"commits per {units.format_count(days)} days", Style.LABEL),
            "  ",
            make_sparkline(canvas, counts),
            "  ",
            (f"{span}{most}", Style.QUIET),
        ]
    )


def _drawn_columns(
    columns: Sequence[Column[HistoryLine]], rows: Sequence[HistoryLine], width: int, *, never_cuts: bool
) -> list[Column[HistoryLine]]:
    changes = {
        line.item.version: read_reported_changes(line.item.commit_info) for line in rows if line.item is not None
    }
    drawn: list[Column[HistoryLine]] = []
    has_counts = any(column.name == "addedFiles" for column in columns)
    problem_cells = max((len(line.item.problem or "") for line in rows if line.item is not None), default=0)
    for column in columns:
        match column.name:
            case "timestamp" if width < _NARROW and not never_cuts:
                drawn.append(replace(column, text=_to_the_minute, min_width=16))
            case "operation":
                is_whole = width >= _OPERATION_FROM and not problem_cells
                least = _OPERATION_CELLS if is_whole else column.min_width
                drawn.append(replace(column, min_width=least))
            case "problem":  # a code is never cut
                drawn.append(replace(column, min_width=max(column.min_width, problem_cells)))
            case "operationParameters":
                drawn.append(replace(column, text=parameters_in_words))
            case "operationMetrics":
                drawn += _change_columns(width, changes, with_files=not has_counts)
            case _:
                drawn.append(column)
    return drawn


def _to_the_minute(line: HistoryLine) -> str:
    return units.format_moment(line.time.timestamp_ms)[:16] if line.time else ""


def _change_columns(
    width: int, changes: Mapping[int, ReportedChanges], *, with_files: bool
) -> list[Column[HistoryLine]]:
    """Return the columns `files` and `rows`, and a bar of the rows, or of the files where no commit counts rows."""
    has_rows = any(number for one in changes.values() for number, _, _ in _row_parts(one))
    largest = max(
        (sum(n for n, _, _ in (_row_parts(c) if has_rows else _file_parts(c))) for c in changes.values()), default=0
    )

    def parts(line: HistoryLine, of: Callable[[ReportedChanges], Parts]) -> Parts:
        return of(changes[line.item.version]) if line.item is not None else ()

    def bar(line: HistoryLine, canvas: Canvas, width: int) -> Text:
        from deltacli.cli.render.terminal.tables import make_split_bar

        amounts = [(number, style) for number, _, style in parts(line, _row_parts if has_rows else _file_parts)]
        return make_split_bar(canvas, amounts, largest, width)

    return [
        *([_numbers(width, "files", changes, _file_parts)] if with_files else []),
        _numbers(width, "rows", changes, _row_parts),
        Column(
            "changes",
            lambda _: None,
            text=lambda line: "x" if any(n for n, _, _ in parts(line, _row_parts if has_rows else _file_parts)) else "",
            draw_bar=bar,
            priority=4,
            min_width=_BAR_CELLS,
        ),
    ]


def _file_parts(changes: ReportedChanges) -> Parts:
    return ((changes.files_added, "+", Style.ADDED), (changes.files_removed, "-", Style.REMOVED))


def _row_parts(changes: ReportedChanges) -> Parts:
    return (
        (changes.rows_added, "+", Style.ADDED),
        (changes.rows_updated, "~", Style.CHANGED),
        (changes.rows_deleted, "-", Style.REMOVED),
    )


def _numbers(
    width: int, name: str, changes: Mapping[int, ReportedChanges], of: Callable[[ReportedChanges], Parts]
) -> Column[HistoryLine]:
    """Return a column of signed numbers, each sign in a place of its own where the screen has room."""
    every = [[_signed(number, sign) for number, sign, _ in of(one)] for one in changes.values()]
    has_places = width >= _WIDE and any(sum(map(bool, texts)) > 1 for texts in every)
    places = [max(map(len, texts)) if has_places else 0 for texts in zip(*every, strict=True)]
    lengths = [places] if has_places else [[len(text) for text in texts] for texts in every]

    def parts(line: HistoryLine) -> Iterator[tuple[str, Style]]:
        for (number, sign, style), place in (
            zip(of(changes[line.item.version]), places, strict=True) if line.item else ()
        ):
            if place or number:
                yield _signed(number, sign).rjust(place), style

    def draw(line: HistoryLine, _: Canvas, __: int) -> Text:
        from rich.text import Text

        drawn = Text(no_wrap=True)
        for text, style in parts(line):
            drawn.append((" " if drawn else "") + text, str(style))
        return drawn

    def text(line: HistoryLine) -> str:
        written = " ".join(text for text, _ in parts(line))
        return "" if written.isspace() else written

    return Column(
        name,
        lambda _: None,
        text=text,
        draw_bar=draw,
        align_right=True,
        priority=3,
        min_width=max(len(name), *(sum(cells) + max(sum(map(bool, cells)) - 1, 0) for cells in lengths), 0),
    )


def _signed(number: int, sign: str) -> str:
    return f"{sign}{units.format_count(number)}" if number else ""
