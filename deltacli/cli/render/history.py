"""The history of a Delta table as a result, and on a terminal: aligned numbers, a bar per commit, commits per day.

The columns are those of `history_columns.py`; `_drawn_columns` replaces the texts of some on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.invocation import invocation
from deltacli.cli.output.alignment import GAP
from deltacli.cli.output.column_widths import MAX_DRAWN_ROWS
from deltacli.cli.output.columns import (
    Column,
    choose_columns,
    choose_default_columns,
    show_exact_values,
    spellings_of_column,
)
from deltacli.cli.output.grids import Grid, RowGrid, WriteItems, write_lines
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.render.history_columns import HistoryLine, history_columns, make_columns_of_other_keys
from deltacli.cli.render.operation_words import ChangedNumbers, describe_parameters, get_changed_files, get_changed_rows
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.suggested_commands import (
    repeat_command_with,
    repeat_command_with_flags,
    repeat_command_without_limit,
)
from deltacli.core import ranges, times, units
from deltacli.core.documents import envelope
from deltacli.core.errors import UsageError, is_shared, nearest_name, quote_table
from deltacli.delta.log.operation_metrics import ReportedChanges, read_reported_changes
from deltacli.delta.log.segment import TimestampSource
from deltacli.operations.read.history import History, HistoryItem

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.core.machine import Clock

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
        found, name = self.found, quote_table(table)
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
    name, version = quote_table(table), found.newest_readable
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


@dataclass(frozen=True)
class HistoryColumns:
    """The columns of a history that the user named, else all.

    Attributes:
        available: The columns of every history.
        of_other_keys: Columns for names that are none of these. They may be keys that a writer added to the commitInfo,
            which only the commits can tell.
        shown: The columns to show.
        is_chosen: True if the user named them.
    """

    available: Sequence[Column[HistoryLine]]
    of_other_keys: Sequence[Column[HistoryLine]]
    shown: Sequence[Column[HistoryLine]]
    is_chosen: bool


def choose_history_columns(names: str | None, clock: Clock, *, counts: bool) -> HistoryColumns:
    """Return the columns that a list of names chooses.

    Args:
        names: The names, separated by commas. None: all columns.
        clock: The clock, by which the age of a commit is shown.
        counts: True if the files and bytes of commits were counted.

    Raises:
        UsageError: If a name cannot be that of a column.
    """
    available = history_columns(clock, counts=counts)
    of_other_keys = make_columns_of_other_keys(names, available)
    chosen = choose_columns([*available, *of_other_keys], names)
    return HistoryColumns(available, of_other_keys, chosen if names else available, bool(names))


def make_history_result(history: History, columns: HistoryColumns, clock: Clock) -> HistoryResult:
    """Return commits in the chosen columns.

    Raises:
        UsageError: If a named column is none, and no commit has a key of its name.
    """
    absent = [column.name for column in columns.of_other_keys if _is_absent(column.name, history)]
    counted = {spelling for column in history_columns(clock, counts=True) for spelling in spellings_of_column(column)}
    uncounted = [name for name in absent if name.lower() in counted]
    if uncounted:
        raise UsageError(
            f"{' and '.join(uncounted)} {'needs' if len(uncounted) == 1 else 'need'} --counts",
            code="usage.column",
            hint=repeat_command_with_flags(invocation.arguments, ["--counts"]),
        )
    if absent:
        known = [column.name for column in columns.available]
        keys = {key for item in history.items for key in item.commit_info or ()}
        nearest = nearest_name(absent[0], [*known, *sorted(keys)], ignores_case=True)
        raise UsageError(
            f"no commit shown has the {'key' if len(absent) == 1 else 'keys'} {', '.join(absent)} in its commitInfo",
            code="usage.column",
            facts={"columns": ", ".join(known)},
        ).suggest(absent[0], nearest)
    return HistoryResult(history, columns.shown, columns.is_chosen)


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
    return ranges.find_ranges(found)


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
    text = ranges.format_spans(spans)
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

    first, last = min(times_ms) // times.DAY_MS, max(times_ms) // times.DAY_MS
    span = " to ".join(times.format_moment(day * times.DAY_MS)[:10] for day in (first, last))
    room = max(min(canvas.width - len(f"commits per 1,000 days    {span}"), _SPARKS), 10)
    days = -(-(last - first + 1) // room)
    counts = [0] * ((last - first) // days + 1)
    for time_ms in times_ms:
        counts[(time_ms // times.DAY_MS - first) // days] += 1
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
                drawn.append(replace(column, text=_format_minute, min_width=16))
            case "operation":
                is_whole = width >= _OPERATION_FROM and not problem_cells
                least = _OPERATION_CELLS if is_whole else column.min_width
                drawn.append(replace(column, min_width=least))
            case "problem":  # a code is never cut
                drawn.append(replace(column, min_width=max(column.min_width, problem_cells)))
            case "operationParameters":
                drawn.append(replace(column, text=lambda line: describe_parameters(line.info)))
            case "operationMetrics":
                drawn += _change_columns(width, changes, with_files=not has_counts)
            case _:
                drawn.append(column)
    return drawn


def _format_minute(line: HistoryLine) -> str:
    return times.format_moment(line.time.timestamp_ms)[:16] if line.time else ""


def _change_columns(
    width: int, changes: Mapping[int, ReportedChanges], *, with_files: bool
) -> list[Column[HistoryLine]]:
    """Return the columns `files` and `rows`, and a bar of the rows, or of the files if no commit counts rows.

    Args:
        width: The cells of the screen.
        changes: What the commits changed, by version.
        with_files: Whether the column `files` is shown.
    """
    has_rows = any(changed.number for change in changes.values() for changed in get_changed_rows(change))
    get_numbers = get_changed_rows if has_rows else get_changed_files
    totals = [sum(changed.number for changed in get_numbers(change)) for change in changes.values()]
    largest = max(totals, default=0)

    def numbers_of_line(line: HistoryLine) -> ChangedNumbers:
        return () if line.item is None else get_numbers(changes[line.item.version])

    def draw_bar(line: HistoryLine, canvas: Canvas, width: int) -> Text:
        from deltacli.cli.render.terminal.tables import make_split_bar  # rich is imported for a terminal only

        amounts = [(changed.number, changed.style) for changed in numbers_of_line(line)]
        return make_split_bar(canvas, amounts, largest, width)

    def text(line: HistoryLine) -> str:
        # Never shown: it says that the column has a value in this line.
        return "x" if any(changed.number for changed in numbers_of_line(line)) else ""

    bar: Column[HistoryLine] = Column(
        "changes", lambda _: None, text=text, draw_bar=draw_bar, priority=4, min_width=_BAR_CELLS
    )
    rows_column = _signed_numbers_column(width, "rows", changes, get_changed_rows)
    if not with_files:
        return [rows_column, bar]
    return [_signed_numbers_column(width, "files", changes, get_changed_files), rows_column, bar]


def _signed_numbers_column(
    width: int,
    name: str,
    changes: Mapping[int, ReportedChanges],
    get_numbers: Callable[[ReportedChanges], ChangedNumbers],
) -> Column[HistoryLine]:
    """Return a column of signed numbers, each sign at a place of its own if the screen has room.

    Args:
        width: The cells of the screen.
        name: The name of the column.
        changes: What the commits changed, by version.
        get_numbers: Returns the numbers that are shown of a change.
    """
    texts_of_commits = [
        [_signed(changed.number, changed.sign) for changed in get_numbers(change)] for change in changes.values()
    ]
    is_aligned = width >= _WIDE and any(sum(map(bool, texts)) > 1 for texts in texts_of_commits)
    # The cells of the first, the second … number in all rows, 0 if they are not aligned.
    places = [max(map(len, texts)) if is_aligned else 0 for texts in zip(*texts_of_commits, strict=True)]

    def numbers_of_line(line: HistoryLine) -> Iterator[tuple[str, Style]]:
        if line.item is None:
            return
        numbers = get_numbers(changes[line.item.version])
        for changed, place in zip(numbers, places, strict=True):
            if place or changed.number:
                yield _signed(changed.number, changed.sign).rjust(place), changed.style

    def draw(line: HistoryLine, _canvas: Canvas, _width: int) -> Text:
        from rich.text import Text  # rich is imported for a terminal only

        drawn = Text(no_wrap=True)
        for text, style in numbers_of_line(line):
            separator = " " if drawn else ""
            drawn.append(separator + text, str(style))
        return drawn

    def text(line: HistoryLine) -> str:
        joined = " ".join(text for text, _ in numbers_of_line(line))
        return "" if joined.isspace() else joined

    cells_of_rows = [places] if is_aligned else [[len(text) for text in texts] for texts in texts_of_commits]
    row_widths = [_joined_width(cells) for cells in cells_of_rows]
    return Column(
        name,
        lambda _: None,
        text=text,
        draw_bar=draw,
        align_right=True,
        priority=3,
        min_width=max([len(name), *row_widths]),
    )


def _joined_width(cells: Sequence[int]) -> int:
    """Return the cells of numbers with a blank between two; a number of 0 cells takes none."""
    return sum(cells) + max(sum(map(bool, cells)) - 1, 0)


def _signed(number: int, sign: str) -> str:
    return f"{sign}{units.format_count(number)}" if number else ""
