"""What an undelete brings back, or would, in each format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.render.json import EncodedItems, envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.render.undelete_sections import sections_of
from deltacli.cli.results import BatchGrid, Document, Emit, Grid, Result, line_of
from deltacli.cli.terminal.term import Terminal
from deltacli.operations.recover.plan import PLANNED, RESTORED
from deltacli.typing import Json, RecordBatch

if TYPE_CHECKING:
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.put import Journal


@dataclass(eq=False, repr=False)
class UndeleteScreen(Result):
    """A plan, and what of it was put in place (None: nothing was to be)."""

    plan: UndeletePlan
    restored: Journal | None
    dry_run: bool

    def document(self) -> Document:
        fields = envelope("deltacli.undelete", self.plan.table, complete=True) | self._content()
        return Document(fields, self._blocks("{", "},\n"))

    def lines(self, emit: Emit) -> bool:
        for block in self._blocks('{"type":"lost-file",', "}\n"):
            emit(block)
        emit(line_of({"table": self.plan.table, **self._content()}, "undelete"))
        return True

    def grid(self) -> Grid:
        names = self.plan.items.schema.names
        return BatchGrid(names, lambda form: (form.block(one.columns, one.num_rows) for one in self._batches()))

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        return sections_of(self.plan, self.restored)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not terminal.is_drawn:
            super().draw(sink, terminal)
            return
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.undelete import draw_undelete

        draw_undelete(Canvas(sink, terminal), self.plan, self.restored)

    def _content(self) -> dict[str, Json]:
        files = (0, 0) if self.restored is None else (self.restored.files, self.restored.size_bytes)
        restored = dict(zip(("files", "sizeBytes"), files, strict=True))
        return self.plan.as_json() | {"restored": restored, "dryRun": self.dry_run}

    def _batches(self) -> Iterator[RecordBatch]:
        yield from self.plan.items_as(PLANNED if self.restored is None else RESTORED).to_batches(max_chunksize=32_768)

    def _blocks(self, opening: str, closing: str) -> Iterator[EncodedItems]:
        from deltacli.cli.render.data.rows import json_blocks

        for batch in self._batches():
            yield from json_blocks([batch], opening=opening, closing=closing)
