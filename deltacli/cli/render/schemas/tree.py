"""A schema for the eye, as a tree, and for a program, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.output.column_widths import MAX_DRAWN_ROWS
from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import Grid, RowGrid, WriteItems, write_lines
from deltacli.cli.output.results import Document, Result
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control, escape_for_screen, shorten
from deltacli.core.documents import envelope
from deltacli.core.typing import Json
from deltacli.delta.schema import types

if TYPE_CHECKING:
    from rich.tree import Tree

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.table.version import Snapshot

_BRANCH = 4
_LEAST_ROOM = 16


def write_schema_tree(sink: BinaryIO, snapshot: Snapshot, terminal: Terminal, *, with_mapping: bool) -> None:
    """Write the schema as a tree: drawn where the terminal has room for it, else a line per field."""
    deepest, count = 0, 0
    for depth, _ in types.walk(snapshot.schema):
        deepest, count = max(deepest, depth), count + 1
    has_room = terminal.width is not None and _BRANCH * (deepest + 1) + _LEAST_ROOM <= terminal.width
    if has_room and count <= MAX_DRAWN_ROWS:
        from deltacli.cli.render.terminal.console import Canvas

        canvas = Canvas(sink, terminal)
        canvas.draw(_drawing(canvas, snapshot, with_mapping=with_mapping))
        return
    sink.write(encode_utf8("\n".join(schema_tree(snapshot, terminal, with_mapping=with_mapping)) + "\n"))


def schema_tree(snapshot: Snapshot, terminal: Terminal, *, with_mapping: bool = False) -> list[str]:
    """The schema as a tree: name, type, `not null`, partition columns, comments."""
    partitions = set(snapshot.metadata.partition_columns)
    entries = []
    for depth, field in types.walk(snapshot.schema):
        mapping = _mapping_of(field) if with_mapping else None
        marks = "" if field.nullable else " not null"
        marks += "  (partition)" if depth == 0 and field.name in partitions else ""
        comment = field.metadata.get("comment")
        text = f"{field.name}: {type_text(field)}{marks}" + (f"  -- {comment}" if comment else "")
        entries.append((depth, text if mapping is None else f"{text}  [{mapping}]"))
    return rooted(branches(entries), terminal)


def rooted(lines: Iterable[str], terminal: Terminal) -> list[str]:
    """Return the lines of a tree below their root, safe to show, and on a terminal no wider than it."""
    safe = map(escape_control if terminal.width is None else escape_for_screen, lines)
    if terminal.width is not None and terminal.is_terminal:
        safe = map(partial(shorten, width=terminal.width), safe)
    return [terminal.paint("root", Style.HEADING), *safe]


def branches(entries: Sequence[tuple[int, str]]) -> list[str]:
    """Return texts with their depths, parents first, as the lines of a tree."""
    lines = []
    last_of: list[bool] = []
    for (depth, text), is_last in zip(entries, _are_last([depth for depth, _ in entries]), strict=True):
        last_of[depth:] = [is_last]
        trunk = "".join("    " if last else "│   " for last in last_of[:depth])
        lines.append(f"{trunk}{'└── ' if is_last else '├── '}{text}")
    return lines


def _are_last(depths: list[int]) -> list[bool]:
    """Of every entry, whether no later one stands beside it; one pass from the end, for schemas of a million fields."""
    flags: list[bool] = []
    open_at: set[int] = set()
    for depth in reversed(depths):
        flags.append(depth not in open_at)
        open_at = {deeper for deeper in open_at if deeper < depth} | {depth}
    return flags[::-1]


def type_text(field: types.StructField) -> str:
    """Return the type of a field for people: `char(5)` for a string that was declared so."""
    declared, name = types.declared_type(field), types.simple_name(field.data_type)
    if declared is None:
        return name
    return declared if name == "string" else f"{name} declared as {declared}"


def _mapping_of(field: types.StructField) -> str | None:
    """Return the id and the physical name that column mapping gave a field: `id 3, physical name col-1a2b`."""
    number = field.metadata.get("delta.columnMapping.id")
    name = field.metadata.get(types.PHYSICAL_NAME)
    parts = [f"id {number}"] if number is not None else []
    parts += [f"physical name {name}"] if name is not None else []
    return ", ".join(parts) or None


def _drawing(canvas: Canvas, snapshot: Snapshot, *, with_mapping: bool) -> Tree:
    from rich.tree import Tree

    partitions = set(snapshot.metadata.partition_columns)
    root = Tree(canvas.text("root", Style.HEADING), guide_style=str(Style.FRAME))
    path = [root]
    for depth, field in types.walk(snapshot.schema):
        is_partition = depth == 0 and field.name in partitions
        comment, mapping = field.metadata.get("comment"), _mapping_of(field) if with_mapping else None
        text = canvas.joined(
            [
                (field.name, Style.HEADING),
                ": ",
                (type_text(field), Style.TYPE),
                "" if field.nullable else (" not null", Style.WARNING),
                ("  (partition)", Style.GOOD) if is_partition else "",
                (f"  [{mapping}]", Style.QUIET) if mapping is not None else "",
                (f"  -- {comment}", Style.QUIET) if comment else "",
            ]
        )
        path[depth + 1 :] = [path[depth].add(text)]
    return root


def schema_rows(snapshot: Snapshot) -> Iterator[tuple[str, str, bool, bool]]:
    """The fields as (path, type, nullable, is partition column), parents first."""
    partitions = set(snapshot.metadata.partition_columns)
    path: list[str] = []
    for depth, field in types.walk(snapshot.schema):
        path[depth:] = [field.name]
        yield ".".join(path), _type_of_row(field), field.nullable, depth == 0 and field.name in partitions


def _type_of_row(field: types.StructField) -> str:
    """Return the type of a field for a program: that of a string as declared, and others as in the schema."""
    if not isinstance(field.data_type, types.PrimitiveType):
        return types.simple_name(field.data_type)
    return type_text(field) if field.data_type.name == "string" else field.data_type.name


def schema_columns() -> list[Column[tuple[str, str, bool, bool]]]:
    """The columns of `--schema --format csv`."""
    return [
        Column("column", lambda row: row[0]),
        Column("type", lambda row: row[1]),
        Column("nullable", lambda row: row[2]),
        Column("partition", lambda row: row[3]),
    ]


@dataclass
class SchemaResult(Result):
    """The schema of a snapshot; `with_mapping`: people see the ids and names of column mapping. A schema that cannot be
    parsed is refused in every format.
    """

    found: Snapshot
    with_mapping: bool = False
    has_requested_rows: bool = True

    def document(self) -> Document:
        fields = envelope("deltacli.schema", self.found.table.uri, complete=True)
        partitions = list(self.found.metadata.partition_columns)
        return Document(
            fields | {"version": self.found.version, "partitionColumns": partitions, "schema": self._stored()}
        )

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, map(_field_line, self._stored()["fields"]), "field")
        return True

    def grid(self) -> Grid:
        return RowGrid(schema_columns(), schema_rows(self.found))

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_schema_tree(sink, self.found, terminal, with_mapping=self.with_mapping)

    def _stored(self) -> dict[str, Json]:
        _ = self.found.schema
        schema: dict[str, Any] = json.loads(self.found.metadata.schema_string or types.NO_COLUMNS)
        return schema


def _field_line(field: dict[str, Json]) -> dict[str, Json]:
    """Return a field as a line: its `type` is what the line is, so the column's own is `dataType`."""
    return {"dataType" if name == "type" else name: value for name, value in field.items()}
