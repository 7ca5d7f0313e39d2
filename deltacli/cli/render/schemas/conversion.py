"""A converted schema with what is lost by the conversion, and the difference of two schemas, as results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.render.columns import Column
from deltacli.cli.render.paimon.history import STYLES, is_told
from deltacli.cli.render.text_form import write_table
from deltacli.cli.results import Document, Emit, Grid, Listing, Result, RowGrid, line_of
from deltacli.cli.terminal.term import Style, Terminal, encoded, visible
from deltacli.core.documents import envelope
from deltacli.operations.schemas.convert import Conversion
from deltacli.operations.schemas.described import SchemaDiff, field_of, shown
from deltacli.paimon.losses import ConversionLoss
from deltacli.paimon.schema_changes import Change


@dataclass
class ConversionResult(Result):
    """The converted schema, or without it what would be lost; CSV always has that."""

    found: Conversion
    with_result: bool = True
    lists: bool = True

    def document(self) -> Document:
        source = self.found.source
        fields = envelope("deltacli.schema-convert", source.table, complete=True, table_format=source.table_format)
        return Document(fields | self.found.as_json(with_result=self.with_result))

    def lines(self, emit: Emit) -> bool:
        content = self.found.as_json(with_result=self.with_result)
        emit(line_of({"table": self.found.source.table, **content}, "schema-conversion"))
        return True

    def grid(self) -> Grid:
        return RowGrid(_columns(), self.found.losses)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.with_result:
            lines = [visible(line) for line in self.found.text.split("\n")]
            sink.write(encoded("\n".join(lines) + "\n"))
        else:
            shown = [column for column in _columns() if column.on_screen or not terminal.is_drawn]
            write_table(sink, terminal, shown, list(self.found.losses))


def _columns() -> Sequence[Column[ConversionLoss]]:
    return [
        Column("column", lambda loss: loss.column or None, priority=1),
        Column("what", lambda loss: loss.what, priority=3),
        Column("from", lambda loss: loss.before or None, priority=1, least=12),
        Column("to", lambda loss: loss.after or None, priority=1, least=13),
        Column("lost", lambda loss: loss.is_lost, text=_lost, style=_style, priority=2),
        Column("reason", lambda loss: loss.reason, priority=1, folds=True),
    ]


def _lost(loss: ConversionLoss) -> str:
    return "lost" if loss.is_lost else "wider"


def _style(loss: ConversionLoss) -> Style:
    return Style.CHANGED if loss.is_lost else Style.PLAIN


def diff_result(found: SchemaDiff) -> Listing[Change]:
    """Return the changes as a list."""
    has_class = found.matched_by == "id" and found.after.table_format == "paimon"
    columns: list[Column[Change]] = [
        Column("kind", lambda change: change.kind.value, priority=3, least=24),
        Column("field", field_of, on_screen=False),
        Column("change", shown, priority=1, folds=True),
        Column("from", lambda change: change.before, on_screen=False),
        Column("to", lambda change: change.after, on_screen=False),
    ]
    if has_class:
        columns += [
            Column("class", lambda change: change.loss.value, style=lambda change: STYLES[change.loss], priority=2),
            Column("reason", lambda change: change.reason or None, priority=4, folds=True),
        ]
    content = envelope(
        "deltacli.schema-diff", found.before.table, complete=True, table_format=found.before.table_format
    )
    content |= {name: value for name, value in found.as_json().items() if name != "changes"}
    items = [found.change_json(change) for change in found.changes]
    rows = [change for change in found.changes if is_told(change, found.changes)]
    return Listing(content, "schema-change", items, columns, rows, items_name="changes", lists=bool(rows))
