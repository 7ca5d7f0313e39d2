"""The check of a policy file: a line per group, then the problems and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, overload

from deltacli.cli.render.columns import Column, Row, Section
from deltacli.cli.results import (
    Document,
    Emit,
    EncodedItems,
    Grid,
    Listing,
    RowGrid,
    emit_lines,
    write_sections,
    write_whole_table,
)
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.documents import SCHEMA_VERSION, dumps
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.fleet.policy_file.model import Entry, FleetFile, Group, Problem, short_name
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas


def fleet_fields(kind: str, file: str, *, complete: bool = True) -> dict[str, Json]:
    """Return the first fields of a document about the tables of a policy file."""
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


@dataclass
class FleetListing(Listing[Row]):
    """The rows, then the sections. A terminal has rows and columns of its own where there are `on_screen` ones."""

    most: int = 0
    """The number of rows shown; 0 shows all."""
    on_screen: Callable[[], tuple[Sequence[Column[Any]], Sequence[Any]]] | None = None  # Any: rows of a screen

    def document(self) -> Document:
        is_whole = self.fields["complete"] and not self.is_cut(len(self.items))
        return Document({**self.fields, "complete": is_whole, self.items_name: list(self._first(self.items))})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, self._first(self.items), self.line)
        if self.last is not None:
            emit(EncodedItems(1, memoryview(dumps(self.last) + b"\n")))
        return not self.is_cut(len(self.items))

    def grid(self) -> Grid:
        return RowGrid(self.columns, self._first(self.rows))

    def is_cut(self, count: int) -> bool:
        """Return True if some of so many rows or items are left out."""
        return 0 < self.most < count

    def _first(self, all_of_them: Sequence[Any]) -> Sequence[Any]:  # Any: rows or items
        return all_of_them[: self.most] if self.is_cut(len(all_of_them)) else all_of_them

    def shown(self, terminal: Terminal) -> tuple[Sequence[Column[Any]], Sequence[Any]]:
        """Return the columns and all rows."""
        if self.on_screen is None or not terminal.is_drawn:
            return [column for column in self.columns if column.on_screen or not terminal.is_drawn], self.rows
        return self.on_screen()

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        columns, rows = self.shown(terminal)
        if rows:
            write_whole_table(sink, terminal, columns, self._first(rows))
            sink.write(b"\n")
        self.draw_more(sink, terminal)
        write_sections(sink, terminal, self.sections(terminal))

    def draw_more(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write what is between the rows and the sections."""


class Named(NamedTuple):
    """A row with the name of its table, which is blank where the row above has the same."""

    name: str
    row: Any  # of any kind


def under_names(rows: Iterable[tuple[str, Row]], file: str) -> list[Named]:
    """Return rows with the short names of their tables."""
    named: list[Named] = []
    last = None
    for name, row in rows:
        named.append(Named("" if name == last else short_name(name, file), row))
        last = name
    return named


def name_column(least: int = 20) -> Column[Named]:
    """Return the column of the short names, of at least so many characters."""
    return Column("table", lambda one: one.name, priority=0, least=least, keep_both=True)


def of_row(column: Column[Row], of: Callable[[Any], Row] = lambda row: row, *, once: bool = False) -> Column[Named]:
    """Return a column for rows below names. `once`: it is blank in the rows of a table but the first."""
    style, picture = column.style, column.picture

    def text(one: Named) -> str:
        return "" if once and not one.name else column.shown(of(one.row))

    def drawn(one: Named, canvas: Canvas, width: int) -> Text:
        assert picture is not None
        return canvas.text("") if once and not one.name else picture(of(one.row), canvas, width)

    return Column(
        column.name,
        lambda one: column.value(of(one.row)),
        text,
        None if style is None else lambda one: style(of(one.row)),
        right=column.right,
        priority=column.priority,
        least=column.least,
        title=column.title,
        folds=column.folds,
        picture=None if picture is None else drawn,
    )


def policy_check_result(found: FleetFile) -> FleetListing[JsonObject]:
    """Return the groups of a policy file with their steps, and what is wrong."""
    items = [_item(group) for group in found.groups]
    columns: list[Column[JsonObject]] = [
        Column("group", lambda one: one["name"], priority=1),
        Column("policy", lambda one: one["policy"], priority=2),
        Column("includes", _includes, priority=2, folds=True, least=16),
        Column("excludes", lambda one: " ".join(one["exclude"]), priority=4, folds=True, least=16),
        Column("steps", lambda one: " ".join(one["steps"]), priority=1, folds=True, least=16),
        Column("alerts", lambda one: " ".join(one["alerts"]), priority=3, folds=True, least=16, in_pipe=False),
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
        fields, "fleet-group", items, columns, items, items_name="groups", last=last, said=lambda _: said
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
    return [without_secrets(entry.text) for entry in entries]


def _includes(one: JsonObject) -> str:
    return " ".join([*one["globs"], *one["prefixes"], *one["tables"]])


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
    """Return a problem in the form that editors recognize: file, line, message."""
    key = f"{problem.key}: " if problem.key else ""
    expected = f" (expected: {problem.expected})" if problem.expected else ""
    return f"{found.path}:{problem.line}: {key}{problem.message}{expected}"
