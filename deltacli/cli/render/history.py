"""The history of a Delta table as a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import DRAWN_ROWS, Column, choose, usual
from deltacli.cli.render.history_columns import HistoryLine, history_columns, key_of_commit_info, keys_of_commit_info
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_table
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines
from deltacli.cli.terminal.shell import again_without_limit, quoted_table
from deltacli.cli.terminal.term import Terminal
from deltacli.errors import UsageError
from deltacli.units import format_spans

if TYPE_CHECKING:
    from deltacli.operations.read.history import History, HistoryItem


@dataclass
class HistoryResult(Result):
    """Commits of a table; `is_chosen`: the user named the columns, some of which may be `absent` from every commit."""

    found: History
    columns: Sequence[Column[HistoryLine]]
    is_chosen: bool
    absent: Sequence[str] = ()
    lists: bool = True
    no_room: str = ""
    """What the screen had no room for, once it is drawn."""

    def document(self) -> Document:
        fields = envelope("deltacli.history", self.found.table, complete=self.found.is_complete)
        if self.is_chosen:
            fields["columns"] = [column.name for column in self.columns]
        return Document(fields | {"gaps": [list(gap) for gap in self.found.gaps], "items": self._items()})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, self._items(), "commit")
        return self.found.is_complete

    def grid(self) -> Grid:
        return RowGrid(self.columns, map(HistoryLine, self.found.items), self.is_chosen)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the gaps of the log, which a table of commits alone would hide."""
        if not self.found.gaps:
            return []
        return [Section("table", [self.found.table]), Section("missing", [_versions(self.found.gaps)])]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        shown = self.columns if self.is_chosen else usual(self.columns, terminal)
        rows = list(_lines(self.found))
        if terminal.is_drawn and not self.is_chosen and len(rows) <= DRAWN_ROWS:
            from deltacli.cli.render.terminal.console import Canvas
            from deltacli.cli.render.terminal.history import draw_history

            self.no_room = draw_history(Canvas(sink, terminal), self.found, shown, rows)
            return
        write_table(sink, terminal, shown, rows, note=lambda line: line.gap, keep_empty=self.is_chosen)

    def notes(self, table: str, *, on_screen: bool) -> Iterator[str]:
        """Yield what is missing or omitted, and the next command."""
        found, name = self.found, quoted_table(table)
        if self.no_room:
            yield self.no_room
        for absent in self.absent:
            yield f"note: no commit shown has the key {absent} in its commitInfo"
        if found.missing:
            yield f"{_missing(found)}: deltacli validate {name}"
        if not found.is_complete:
            command = again_without_limit(invocation.arguments)
            yield f"showing {len(found.items):,} of {found.total:,} versions; all: {command}"
        elif on_screen:
            if not found.items:
                yield "the log has checkpoints but no commits"
            if found.newest_readable is None:
                yield f"next: deltacli validate {name}"
            else:
                newest = f" --version {found.newest_readable}" if found.items else ""
                yield f"next: deltacli snapshot {name}{newest}"

    def _items(self) -> list[dict[str, Any]]:
        return _items(self.found, self.columns if self.is_chosen else None)


def shown_commits(read: Callable[[], History], columns: str | None, now_ms: int, *, counts: bool) -> HistoryResult:
    """Return the commits that `read` returns, in the columns that the user named or else in all. Raises UsageError for
    a name that is none.
    """
    available = history_columns(now_ms, counts=counts)
    others = keys_of_commit_info(columns, available)
    chosen = choose([*available, *others], columns)
    found = read()
    absent = [column.name for column in others if _is_absent(column.name, found)]
    if columns and len(absent) == len(chosen):
        raise UsageError(
            f"no commit shown has the {'key' if len(absent) == 1 else 'keys'} {', '.join(absent)} in its commitInfo",
            code="usage.column",
            facts={"columns": ", ".join(column.name for column in available)},
        )
    return HistoryResult(found, chosen if columns else available, bool(columns), absent)


def _lines(found: History) -> Iterator[HistoryLine]:
    gaps = {last: (first, last) for first, last in found.gaps}
    for item in found.items:
        yield HistoryLine(item)
        if item.version - 1 in gaps:
            first, last = gaps[item.version - 1]
            span = f"version {first} is" if first == last else f"versions {first} to {last} are"
            yield HistoryLine(None, f"{'':>7}  {span} missing from the log")


def _items(found: History, chosen: Sequence[Column[HistoryLine]] | None) -> list[dict[str, Any]]:
    if chosen is None:
        return [item.as_json() for item in found.items]
    return [_chosen(item, {column.name for column in chosen}) for item in found.items]


def _chosen(item: HistoryItem, names: set[str]) -> dict[str, Any]:
    """Return the chosen fields; keys of commitInfo that have the name of a field stay in the object `commitInfo`."""
    whole = item.as_json()
    shadowed = {key: value for key, value in whole.get("commitInfo", {}).items() if key in names}
    found = {name: value for name, value in whole.items() if name in names}
    return {**found, "commitInfo": shadowed} if shadowed and "commitInfo" not in names else found


def _is_absent(key: str, found: History) -> bool:
    return bool(found.items) and all(key_of_commit_info(key, item) is None for item in found.items)


def _versions(spans: Sequence[tuple[int, int]]) -> str:
    """Return versions as the subject of a sentence: `versions 2-4, 7`."""
    text = format_spans(spans)
    return f"version {text}" if text.isdigit() else f"versions {text}"


def _missing(found: History) -> str:
    """Return which commits are missing from the log, and which versions cannot be rebuilt as a result."""
    named = _versions(found.missing)
    text = f"{named} {'are' if named.startswith('versions') else 'is'} missing from the log"
    return f"{text}, so {_versions(found.lost)} cannot be rebuilt" if found.lost else text
