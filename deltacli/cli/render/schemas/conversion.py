"""A converted schema, and the changes between two schemas, as results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import Grid, RowGrid, WriteItems, encode_line
from deltacli.cli.output.results import Document, ListResult, Result
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.render.paimon import STYLES, is_told
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.core.documents import envelope
from deltacli.operations.schemas.described import (
    Conversion,
    SchemaDiff,
    field_of,
    shown,
)
from deltacli.paimon.conversions import ConversionLoss
from deltacli.paimon.schema_changes import Change


@dataclass
class ConversionResult(Result):
    """The converted schema, or without it what would be lost; CSV always has that."""

    found: Conversion
    with_result: bool = True
    has_requested_rows: bool = True

    def document(self) -> Document:
        source = self.found.source
        fields = envelope("deltacli.schema-convert", source.table, complete=True, table_format=source.table_format)
        return Document(fields | self.found.as_json(with_result=self.with_result))

    def lines(self, write_items: WriteItems) -> bool:
        content = self.found.as_json(with_result=self.with_result)
        write_items(encode_line({"table": self.found.source.table, **content}, "schema-conversion"))
        return True

    def grid(self) -> Grid:
        return RowGrid(_columns(), self.found.losses)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.with_result:
            lines = [escape_control(line) for line in self.found.text.split("\n")]
            sink.write(encode_utf8("\n".join(lines) + "\n"))
        else:
            shown = [column for column in _columns() if column.on_screen]
            write_text_table(sink, terminal, shown, list(self.found.losses))


def _columns() -> Sequence[Column[ConversionLoss]]:
    return [
        Column("column", lambda loss: loss.column or None, priority=1),
        Column("what", lambda loss: loss.what, priority=3),
        Column("from", lambda loss: loss.before or None, priority=1, min_width=12),
        Column("to", lambda loss: loss.after or None, priority=1, min_width=13),
        Column("lost", lambda loss: loss.is_lost, text=_lost, style=_style, priority=2),
        Column("reason", lambda loss: loss.reason, priority=1, wraps=True),
    ]


def _lost(loss: ConversionLoss) -> str:
    return "lost" if loss.is_lost else "wider"


def _style(loss: ConversionLoss) -> Style:
    return Style.CHANGED if loss.is_lost else Style.PLAIN


def schema_diff_result(found: SchemaDiff) -> ListResult[Change]:
    """Return the changes as a list."""
    has_class = found.matched_by == "id" and found.after.table_format == "paimon"
    columns: list[Column[Change]] = [
        Column("kind", lambda change: change.kind.value, priority=3, min_width=24),
        Column("field", field_of, on_screen=False),
        Column("change", shown, priority=1, wraps=True),
        Column("from", lambda change: change.before, on_screen=False),
        Column("to", lambda change: change.after, on_screen=False),
    ]
    if has_class:
        columns += [
            Column("class", lambda change: change.loss.value, style=lambda change: STYLES[change.loss], priority=2),
            Column("reason", lambda change: change.reason or None, priority=4, wraps=True),
        ]
    content = envelope(
        "deltacli.schema-diff", found.before.table, complete=True, table_format=found.before.table_format
    )
    content |= {name: value for name, value in found.as_json().items() if name != "changes"}
    items = [found.change_json(change) for change in found.changes]
    rows = [change for change in found.changes if is_told(change, found.changes)]
    return ListResult(
        content, "schema-change", items, columns, rows, items_name="changes", has_requested_rows=bool(rows)
    )
