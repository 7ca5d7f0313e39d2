"""The history of a table on a terminal: aligned numbers, a bar per commit, commits per day as a sparkline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import GAP, Column
from deltacli.cli.render.history_columns import Changes, HistoryLine, changes_of, parameters_in_words
from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.tables import draw_table, sparkline, split_bar
from deltacli.cli.terminal.shell import again_with
from deltacli.cli.terminal.term import Style
from deltacli.units import DAY_MS, format_count, format_moment

if TYPE_CHECKING:
    from deltacli.operations.read.history import History

_MANY_COMMITS = 20
_NARROW = 100
_WIDE = 120
_BAR_CELLS = 8
_SPARKS = 60
_OPERATION_CELLS = 18
_OPERATION_FROM = 50
"""Cells of a screen from which other columns are left out before an operation is cut."""
_PARAMETER_CELLS = 12
_NUMBER_CELLS = {"files": (6, 8, 9), "rows": (11, 14, 21)}
"""Cells that are kept for numbers on screens that are narrow, usual and wide."""
_LOOKS: Mapping[str, Mapping[str, Any]] = {  # Any: fields of Column
    "age": {"priority": 6, "style": lambda _: Style.TIME},
    "operationParameters": {"priority": 3, "least": _PARAMETER_CELLS, "text": parameters_in_words},
    "userName": {"priority": 6},
}
_METRICS = "operationMetrics"

Parts = Sequence[tuple[int, str, Style]]
"""Numbers with their sign and style: `(3, "+", Style.ADDED)`."""


def draw_history(
    canvas: Canvas, history: History, columns: Sequence[Column[HistoryLine]], rows: Sequence[HistoryLine]
) -> str:
    """Draw the history; `columns` are those of the screen, of which the metrics become numbers and bars. Return the
    remark on what had no room, else an empty text.
    """
    if len(history.times_ms) > _MANY_COMMITS:
        canvas.draw(commits_per_day(canvas, history.times_ms), Text(""))
    drawn = _drawn_columns(canvas, columns, rows)
    names = draw_table(canvas, _with_room(canvas, drawn, rows), rows, note=lambda line: line.gap)
    if any(changes_of(line.item.commit_info).rows_updated for line in rows if line.item) and "rows" in names:
        canvas.draw(canvas.text("rows: + added, ~ updated, - deleted", Style.QUIET))
    absent = [one for one in drawn if one.name not in names and one.in_pipe and any(map(one.shown, rows))]
    absent = [one for one in absent if one.picture is None or one.name in _NUMBER_CELLS]  # bars are not missed
    if absent:
        keys = dict.fromkeys(_METRICS if one.name in _NUMBER_CELLS else one.name for one in absent)
        command = again_with(invocation.arguments, "--columns", ",".join(["version", *keys]))
        return f"no room for {', '.join(one.heading() for one in absent)}; to show more: {command}"
    return ""


def _with_room(
    canvas: Canvas, columns: Sequence[Column[HistoryLine]], rows: Sequence[HistoryLine]
) -> list[Column[HistoryLine]]:
    """Return the columns for which the screen has room, as far as possible whatever the rows are: more rows of the same
    table have the same columns.
    """
    if canvas.never_cuts:
        return list(columns)
    place = 2 if canvas.width >= _WIDE else 1 if canvas.width >= _NARROW else 0
    room, chosen = canvas.width + len(GAP), []
    for column in sorted(columns, key=lambda one: one.priority):
        if rows and not any(map(column.shown, rows)):
            continue
        cells = _NUMBER_CELLS[column.name][place] if column.name in _NUMBER_CELLS else column.least
        if cells + len(GAP) <= room or column.priority == 1:
            chosen.append(column.name)
            room -= cells + len(GAP)
    return [column for column in columns if column.name in chosen]


def commits_per_day(canvas: Canvas, times_ms: Sequence[int]) -> Text:
    """Return one line: how many commits each day had, several days to a mark where there are many."""
    first, last = min(times_ms) // DAY_MS, max(times_ms) // DAY_MS
    span = " to ".join(format_moment(day * DAY_MS)[:10] for day in (first, last))
    room = max(min(canvas.width - len(f"commits per 1,000 days    {span}"), _SPARKS), 10)
    days = -(-(last - first + 1) // room)
    counts = [0] * ((last - first) // days + 1)
    for time_ms in times_ms:
        counts[(time_ms // DAY_MS - first) // days] += 1
    most = f", at most {format_count(max(counts))}" if canvas.width >= _NARROW else ""
    return canvas.joined(
        [
            ("commits per day" if days == 1 else f"commits per {format_count(days)} days", Style.LABEL),
            "  ",
            sparkline(canvas, counts),
            "  ",
            (f"{span}{most}", Style.QUIET),
        ]
    )


def _drawn_columns(
    canvas: Canvas, columns: Sequence[Column[HistoryLine]], rows: Sequence[HistoryLine]
) -> list[Column[HistoryLine]]:
    changes = {line.item.version: changes_of(line.item.commit_info) for line in rows if line.item is not None}
    drawn: list[Column[HistoryLine]] = []
    has_counts = any(column.name == "addedFiles" for column in columns)
    for column in columns:
        match column.name:
            case "timestamp" if canvas.width < _NARROW and not canvas.never_cuts:
                drawn.append(replace(column, text=_to_the_minute, least=16))
            case "operation":
                least = _OPERATION_CELLS if canvas.width >= _OPERATION_FROM else column.least
                drawn.append(replace(column, least=least))
            case "operationMetrics":
                drawn += _change_columns(canvas, changes, with_files=not has_counts)
            case "addedFiles" | "removedFiles":
                drawn.append(replace(column, priority=2, least=len(column.heading())))
            case name:
                drawn.append(replace(column, **_LOOKS.get(name, {})))
    return drawn


def _to_the_minute(line: HistoryLine) -> str:
    return format_moment(line.item.time.timestamp_ms)[:16] if line.item else ""


def _change_columns(canvas: Canvas, changes: Mapping[int, Changes], *, with_files: bool) -> list[Column[HistoryLine]]:
    """Return the columns `files` and `rows`, whose numbers stand below each other, and a bar of the rows, or of the
    files where no commit counts its rows.
    """
    has_rows = any(map(_row_parts_sum, changes.values()))
    largest = max((sum(n for n, _, _ in (_rows(c) if has_rows else _files(c))) for c in changes.values()), default=0)

    def parts(line: HistoryLine, of: Callable[[Changes], Parts]) -> Parts:
        return of(changes[line.item.version]) if line.item is not None else ()

    def bar(line: HistoryLine, canvas: Canvas, width: int) -> Text:
        amounts = [(number, style) for number, _, style in parts(line, _rows if has_rows else _files)]
        return split_bar(canvas, amounts, largest, width)

    return [
        *([_numbers(canvas, "files", changes, _files)] if with_files else []),
        _numbers(canvas, "rows", changes, _rows),
        Column(
            "changes",
            lambda _: None,
            text=lambda line: "x" if any(n for n, _, _ in parts(line, _rows if has_rows else _files)) else "",
            picture=bar,
            priority=4,
            least=_BAR_CELLS,
        ),
    ]


def _row_parts_sum(changes: Changes) -> int:
    return sum(number for number, _, _ in _rows(changes))


def _files(changes: Changes) -> Parts:
    return ((changes.files_added, "+", Style.ADDED), (changes.files_removed, "-", Style.REMOVED))


def _rows(changes: Changes) -> Parts:
    return (
        (changes.rows_added, "+", Style.ADDED),
        (changes.rows_updated, "~", Style.CHANGED),
        (changes.rows_deleted, "-", Style.REMOVED),
    )


def _numbers(
    canvas: Canvas, name: str, changes: Mapping[int, Changes], of: Callable[[Changes], Parts]
) -> Column[HistoryLine]:
    """Return a column of signed numbers: each sign in a place of its own where a commit has several and the screen has
    room, else close together.
    """
    every = [[_signed(number, sign) for number, sign, _ in of(one)] for one in changes.values()]
    has_places = canvas.width >= _WIDE and any(sum(map(bool, texts)) > 1 for texts in every)
    places = [max(map(len, texts)) if has_places else 0 for texts in zip(*every, strict=True)]
    lengths = [places] if has_places else [[len(text) for text in texts] for texts in every]

    def draw(line: HistoryLine, _: Canvas, __: int) -> Text:
        drawn = Text(no_wrap=True)
        if line.item is None:
            return drawn
        for (number, sign, style), place in zip(of(changes[line.item.version]), places, strict=True):
            if place or number:
                drawn.append((" " if drawn else "") + _signed(number, sign).rjust(place), str(style))
        return drawn

    return Column(
        name,
        lambda _: None,
        text=lambda line: "x" if line.item and any(n for n, _, _ in of(changes[line.item.version])) else "",
        picture=draw,
        right=True,
        priority=3,
        least=max(len(name), *(sum(cells) + max(sum(map(bool, cells)) - 1, 0) for cells in lengths), 0),
    )


def _signed(number: int, sign: str) -> str:
    return f"{sign}{format_count(number)}" if number else ""
