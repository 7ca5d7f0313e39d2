"""The plan of a vacuum and what became of it, in each format; candidates by the million, a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.render.aligned import ROWS_PER_SCREEN, texts_of, write_aligned
from deltacli.cli.render.columns import Column
from deltacli.cli.render.text_form import write_table
from deltacli.cli.results import BatchGrid, Document, Emit, EncodedItems, Grid, Result, RowForm, draw_if_drawn, line_of
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.documents import dumps, envelope
from deltacli.core.typing import Json
from deltacli.core.units import format_moment, format_size
from deltacli.operations.vacuum.plan import VacuumOutcome

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.render.sections import Section
    from deltacli.operations.vacuum.plan import VacuumPlan

_NAMES = ("path", "sizeBytes", "modificationTimeMs", "reason", "removedAtVersion")
_ROWS_PER_PIECE = 32_768

Row = dict[str, Any]  # Any: values of a candidate


@dataclass(eq=False, repr=False)
class VacuumResult(Result):
    """The plan with its outcome. Lines and columns name every candidate, the others where that is asked for."""

    plan: VacuumPlan
    outcome: VacuumOutcome | None
    dry_run: bool
    lists: bool

    def document(self) -> Document:
        fields = envelope("deltacli.vacuum", self.plan.table, complete=True) | self._content()
        return Document(fields, _blocks(self.plan, "{", "},\n") if self.lists else None)

    def lines(self, emit: Emit) -> bool:
        for block in _blocks(self.plan, '{"type":"candidate",', "}\n"):
            emit(block)
        emit(line_of({"table": self.plan.table, **self._content()}, "vacuum"))
        return True

    def grid(self) -> Grid:
        return BatchGrid(_NAMES, partial(_grid_blocks, self.plan))

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        from deltacli.cli.render.vacuum.screen import vacuum_sections

        return vacuum_sections(self.plan, self.outcome, terminal)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        from deltacli.cli.render.vacuum.screen import draw_vacuum

        if not draw_if_drawn(sink, terminal, lambda canvas: draw_vacuum(canvas, terminal, self.plan, self.outcome)):
            super().draw(sink, terminal)
        if self.lists and self.plan.files:
            sink.write(b"\n")
            _write_screens(sink, terminal, self.plan)

    def _content(self) -> dict[str, Json]:
        return self.plan.as_json() | (self.outcome or VacuumOutcome()).as_json() | {"dryRun": self.dry_run}


def _pieces(plan: VacuumPlan, rows: int = _ROWS_PER_PIECE) -> Iterator[tuple[pyarrow.RecordBatch, bool]]:
    """The candidates in batches, their paths as text where all of a batch are; else as bytes, and False."""
    import pyarrow as pa

    from deltacli.arrow import compute as pc

    for batch in plan.candidates.select(list(_NAMES)).to_batches(max_chunksize=rows):
        try:
            path = pc.cast(batch.column(0), pa.string())
        except pa.ArrowInvalid:
            yield batch, False
            continue
        yield pa.record_batch([path, *batch.columns[1:]], list(_NAMES)), True


def _rows(piece: pyarrow.RecordBatch) -> Iterator[Row]:
    """A batch as rows; of names that are no UTF-8 the other bytes come as half characters."""
    for row in piece.to_pylist():
        path = row["path"]
        yield row if isinstance(path, str) else {**row, "path": path.decode("utf-8", "surrogateescape")}


def _blocks(plan: VacuumPlan, opening: str, closing: str) -> Iterator[EncodedItems]:
    """The candidates as JSON, their fields between two texts."""
    from deltacli.cli.render.data.rows import json_blocks

    for piece, is_text in _pieces(plan):
        if is_text:
            yield from json_blocks([piece], opening=opening, closing=closing)
            continue
        texts = [opening.encode() + dumps(row)[1:-1] + closing.encode() for row in _rows(piece)]
        yield EncodedItems(len(texts), memoryview(b"".join(texts)))


def _grid_blocks(plan: VacuumPlan, form: RowForm) -> Iterator[EncodedItems]:
    """Yield a row per candidate; names of files have the bytes they have on the store."""
    for piece, is_text in _pieces(plan):
        if is_text:
            yield form.block(piece.columns, piece.num_rows)
            continue
        rows = [form.row([row[name] for name in _NAMES]) for row in _rows(piece)]
        yield EncodedItems(len(rows), memoryview(b"".join(rows)))


def _write_screens(sink: BinaryIO, terminal: Terminal, plan: VacuumPlan) -> None:
    """Write every candidate in screens of a thousand, each aligned by itself, the heading once."""
    columns = _screen_columns()
    if terminal.width is None and not terminal.colour and all(is_text for _, is_text in _pieces(plan)):
        write_aligned(sink, columns, (texts_of(columns, piece) for piece, _ in _pieces(plan)), keep_empty=True)
        return
    heading, is_part = True, plan.files > ROWS_PER_SCREEN
    for piece, _ in _pieces(plan, ROWS_PER_SCREEN):
        write_table(sink, terminal, columns, list(_rows(piece)), heading=heading, keep_empty=True, is_part=is_part)
        heading = False


def _reason(row: Row) -> str:
    from deltacli.cli.render.vacuum.screen import kind_name
    from deltacli.operations.vacuum.plan import Reason

    return kind_name(Reason(row["reason"]))


def _screen_columns() -> list[Column[Row]]:
    """The columns for the eye; the path last, because it is longest."""

    def moment(row: Row) -> str:
        return format_moment(row["modificationTimeMs"]) if row["modificationTimeMs"] else ""

    def removed(row: Row) -> str:
        return "" if row["removedAtVersion"] is None else str(row["removedAtVersion"])

    def size(row: Row) -> str:
        return "" if row["sizeBytes"] is None else format_size(row["sizeBytes"])

    def quiet(_: Row) -> Style:
        return Style.QUIET

    return [
        Column("sizeBytes", lambda row: row["sizeBytes"], size, right=True, priority=2, least=9, title="size"),
        Column(
            "modificationTimeMs",
            lambda row: row["modificationTimeMs"],
            moment,
            quiet,
            priority=4,
            least=19,
            title="modified (UTC)",
        ),
        Column("reason", lambda row: row["reason"], text=_reason, priority=1, least=15),
        Column(
            "removedAtVersion",
            lambda row: row["removedAtVersion"],
            removed,
            right=True,
            priority=3,
            least=7,
            title="removed",
        ),
        Column("path", lambda row: row["path"], priority=0, least=24, keep_end=True, folds=True),
    ]
