"""The check of a policy file: a line per group, then the problems and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, overload

from deltacli.cli.output.columns import Column, Row
from deltacli.cli.output.grids import EncodedItems, Grid, RowGrid, WriteItems, write_lines
from deltacli.cli.output.results import Document, ListResult
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_complete_table, write_sections
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.core.documents import SCHEMA_VERSION, dumps
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.fleet.policy_file.model import Entry, FleetFile, Group, Problem
from deltacli.fleet.policy_file.table_names import shorten_table_name
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas


def fleet_fields(kind: str, file: str, *, complete: bool = True) -> dict[str, Json]:
    return {"kind": f"deltacli.{kind}", "schemaVersion": SCHEMA_VERSION, "complete": complete, "file": file}


class Items(Sequence[JsonObject]):
    """The items of tables, each made when it is written: a fleet may have many thousands."""

    def __init__(self, tables: Sequence[Any], make: Callable[[Any], JsonObject]) -> None:  # Any: what `make` takes
        self._tables, self._make = tables, make

    def __len__(self) -> int:
        return len(self._tables)

    @overload
    def __getitem__(self, place: int) -> JsonObject: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[JsonObject]: ...
    def __getitem__(self, place: int | slice) -> JsonObject | Sequence[JsonObject]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        return self._make(self._tables[place])


class TableRow(NamedTuple):
    """A row for people: what its first column shows, and its tables. `is_counted`: they have no name there."""

    name: str
    row: Any  # of any kind
    tables: Sequence[str]
    is_counted: bool = False


class Screen(NamedTuple):
    """The rows and columns for people. Names are relative to the directory `root`, if there is one."""

    columns: Sequence[Column[TableRow]]
    rows: Sequence[TableRow]
    root: str = ""


@dataclass
class FleetListing(ListResult[Row]):
    """The rows, then the sections. People get rows and columns of their own where there is a `screen`."""

    most: int = 0
    """The number of rows shown; 0 shows all."""
    screen: Callable[[Terminal, int], Screen] | None = None
    """Returns what a terminal or a pipe shows, given the number of rows; none of them is left out yet."""
    drawn_screen: Screen | None = None
    """What was drawn, with the rows that were left out."""

    def document(self) -> Document:
        is_whole = self.fields["complete"] and not self.is_cut(len(self.items))
        return Document({**self.fields, "complete": is_whole, self.items_name: list(self._first(self.items))})

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, self._first(self.items), self.line_type)
        if self.last_line is not None:
            write_items(EncodedItems(1, memoryview(dumps(self.last_line) + b"\n")))
        return not self.is_cut(len(self.items))

    def grid(self) -> Grid:
        return RowGrid(self.columns, self._first(self.rows))

    def is_cut(self, count: int) -> bool:
        return 0 < self.most < count

    def _first(self, all_of_them: Sequence[Any]) -> Sequence[Any]:  # Any: rows or items
        return all_of_them[: self.most] if self.is_cut(len(all_of_them)) else all_of_them

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        columns: Sequence[Column[Any]] = [column for column in self.columns if column.on_screen]
        rows: Sequence[Any] = self.rows
        if self.screen is not None:
            self.drawn_screen = columns, rows, root = self.screen(terminal, self.most)
            if root and rows:
                sink.write(encode_utf8(terminal.paint(f"tables below {escape_control(root)}", Style.QUIET) + "\n\n"))
        if rows:
            write_complete_table(sink, terminal, columns, self._first(rows))
            sink.write(b"\n")
        self.draw_more(sink, terminal)
        write_sections(sink, terminal, self.sections(terminal))

    def draw_more(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write what is between the rows and the sections."""

    def left_out(self) -> tuple[str, str]:
        """Return what a limit leaves out of the screen that was drawn, and what shows it; empty texts for nothing."""
        assert self.drawn_screen is not None
        rows = self._first(self.drawn_screen.rows)
        shown = {table for row in rows for table in row.tables}
        tables = {table for row in self.drawn_screen.rows for table in row.tables}
        if len(shown) < len(tables):
            return f"showing {len(shown):,} of {plural(len(tables), 'table')}", "to show all"
        if len(rows) < (count := len(self.drawn_screen.rows)):
            return f"showing {len(rows):,} of {plural(count, 'row')}", "to show all"
        return ("", "to name each table") if any(row.is_counted for row in rows) else ("", "")


_NAMED = 3
"""Tables with the same row that are always named."""
_LONG = 12
"""Characters from which a directory that all tables share is left out of their names."""


def table_screen(
    rows: Iterable[tuple[str, Row]],
    columns: Sequence[Column[TableRow]],
    file: str,
    terminal: Terminal,
    *,
    merged: Callable[[Sequence[Row]], Row] | None = None,
    same: Callable[[Row], Hashable] = id,
    is_named: Callable[[Row], bool] = bool,
    least: int = 20,
) -> Screen:
    """Return rows with the names of their tables: as they are, or with those that are the `same` `merged` into one,
    which names its tables, or counts them where they are many and need no name. A table's column has at least so many
    characters.
    """
    all_of_them = list(rows)
    short = {name: shorten_table_name(name, file) if terminal.is_drawn else name for name, _ in all_of_them}
    root = _common_root(list(short.values())) if terminal.is_drawn else ""
    shown: list[TableRow] = []
    alike: dict[Hashable, list[tuple[str, Row]]] = {}
    for number, (name, row) in enumerate(all_of_them):
        alike.setdefault(number if merged is None else same(row), []).append((name, row))
    for of_row in alike.values():
        row = of_row[0][1] if merged is None else merged([row for _, row in of_row])
        tables = list(dict.fromkeys(name for name, _ in of_row))
        if is_counted := len(tables) > _NAMED and not is_named(row):
            said = plural(len(tables), "table")
        else:
            said = ", ".join(short[name].removeprefix(root) for name in tables)
        is_below = merged is None and terminal.is_drawn and bool(shown) and shown[-1].tables == tables
        shown.append(TableRow("" if is_below else said, row, tables, is_counted))
    column: Column[TableRow] = Column("table", lambda one: one.name, priority=1, min_width=least, wraps=True)
    return Screen([column, *columns], shown, root)


def _common_root(names: Sequence[str]) -> str:
    """Return the directory that all of several names begin with, if it is long enough to be left out of them."""
    if len(names) < 2:
        return ""
    pairs = zip(min(names).split("/")[:-1], max(names).split("/")[:-1], strict=False)
    root = "/".join(name for name, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return "" if len(root) < _LONG or root.endswith(":/") else f"{root}/"


def of_row(column: Column[Row], of: Callable[[Any], Row] = lambda row: row, *, once: bool = False) -> Column[TableRow]:
    """Return a column for rows below names. `once`: it is blank in the rows of a table but the first."""
    style, picture = column.style, column.draw_bar

    def text(one: TableRow) -> str:
        return "" if once and not one.name else column.format_for_screen(of(one.row))

    def drawn(one: TableRow, canvas: Canvas, width: int) -> Text:
        assert picture is not None
        return canvas.text("") if once and not one.name else picture(of(one.row), canvas, width)

    return Column(
        column.name,
        lambda one: column.value(of(one.row)),
        text,
        None if style is None else lambda one: style(of(one.row)),
        align_right=column.align_right,
        priority=column.priority,
        min_width=column.min_width,
        title=column.title,
        is_minor=column.is_minor,
        wraps=column.wraps,
        draw_bar=None if picture is None else drawn,
    )


def policy_check_result(found: FleetFile) -> FleetListing[Group]:
    """Return the groups of a policy file with their steps, and what is wrong."""
    items = [_item(group) for group in found.groups]
    columns: list[Column[Group]] = [
        Column("group", lambda one: one.name, priority=1),
        Column("policy", lambda one: one.policy.name, priority=2),
        Column("includes", _includes, priority=2, wraps=True, min_width=16),
        Column("excludes", lambda one: " ".join(_texts(one.exclude)), priority=4, wraps=True, min_width=16),
        Column("steps", lambda one: " ".join(one.policy.steps), priority=1, wraps=True, min_width=16),
        Column("alerts", _thresholds, priority=3, wraps=True, min_width=16, in_pipe=False),
        Column("exempt", _exempt, priority=4, wraps=True, min_width=16, in_pipe=False),
    ]
    content = {
        "problems": [problem.as_json() for problem in found.problems],
        "summary": {
            "groups": len(found.groups),
            "policies": len(found.policies),
            "errors": len(found.errors),
            "warnings": len(found.problems) - len(found.errors),
        },
    }
    fields = fleet_fields("fleet-check", str(found.path)) | content
    last = {"type": "fleet-check", "file": str(found.path), **content}
    said = _sections(found)
    return FleetListing(
        fields,
        "fleet-group",
        items,
        columns,
        found.groups,
        items_name="groups",
        last_line=last,
        make_sections=lambda _: said,
    )


def _item(group: Group) -> dict[str, Json]:
    return {
        "name": group.name,
        "policy": group.policy.name,
        "line": group.line,
        "globs": _texts(group.globs),
        "prefixes": _texts(group.prefixes),
        "tables": _texts(group.tables),
        "exclude": _texts(group.exclude),
        "steps": group.policy.as_json(),
        "alerts": group.policy.alerts_as_json(),
    }


def _texts(entries: Sequence[Entry]) -> list[str]:
    return [mask_secrets(entry.text) for entry in entries]


def _includes(one: Group) -> str:
    return " ".join(_texts((*one.globs, *one.prefixes, *one.tables)))


def _thresholds(one: Group) -> str | None:
    return " ".join(name for name in one.policy.alerts_as_json() if name != "least-files") or None


def _exempt(one: Group) -> str | None:
    """Return which tables have no alerts on shares of files."""
    alerts = one.policy.alerts
    if alerts is None or (alerts.small_files is None and alerts.tombstones is None):
        return None
    return f"tables with fewer than {plural(alerts.least_files, 'data file')}"


def _sections(found: FleetFile) -> list[Section]:
    warnings = [problem for problem in found.problems if not problem.is_error]
    errors, said = len(found.errors), plural(len(warnings), "warning")
    verdict = f"{plural(len(found.groups), 'group')}, {plural(errors, 'error')}, {said}"
    sections = [
        Section("errors", [_line(found, problem) for problem in found.errors], Style.PROBLEM),
        Section("warnings", [_line(found, problem) for problem in warnings]),
        Section("result", [verdict], Style.PROBLEM if errors else Style.GOOD),
    ]
    return [section for section in sections if section.lines]


def _line(found: FleetFile, problem: Problem) -> str:
    key = f"{problem.key}: " if problem.key else ""
    expected = f" (expected: {problem.expected})" if problem.expected else ""
    return f"{found.path}:{problem.line}: {key}{problem.message}{expected}"
