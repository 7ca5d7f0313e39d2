"""The plan of a vacuum and what became of it, in each format; candidates by the million, a column at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.options.shared import OutputFormat, Run
from deltacli.cli.render.aligned import ROWS_PER_SCREEN, texts_of, write_aligned
from deltacli.cli.render.columns import Column, write_csv, write_table
from deltacli.cli.render.json import (
    EncodedItems,
    dumps,
    end_line,
    envelope,
    write_document,
    write_document_with_items,
)
from deltacli.cli.terminal.term import Style
from deltacli.operations.vacuum.plan import VacuumOutcome
from deltacli.units import format_moment, format_size

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.vacuum.plan import VacuumPlan

_NAMES = ("path", "sizeBytes", "modificationTimeMs", "reason", "removedAtVersion")
_ROWS_PER_PIECE = 32_768

Row = dict[str, Any]  # Any: values of a candidate


def write_vacuum(
    sink: BinaryIO,
    run: Run,
    plan: VacuumPlan,
    outcome: VacuumOutcome | None,
    *,
    dry_run: bool,
    with_files: bool,
) -> None:
    """Write the plan with its outcome; NDJSON and CSV name every candidate, the others where that is asked for."""

    def content() -> dict[str, Any]:  # Any: JSON values
        return plan.as_json() | (outcome or VacuumOutcome()).as_json() | {"dryRun": dry_run}

    match run.format:
        case OutputFormat.JSON:
            document = envelope("deltacli.vacuum", plan.table, complete=True) | content()
            if with_files:
                write_document_with_items(sink, document, _blocks(plan, "{", "},\n"), was_cut=lambda: False)
            else:
                write_document(sink, document, indent=run.terminal.is_terminal)
        case OutputFormat.NDJSON:
            for block in _blocks(plan, '{"type":"candidate",', "}\n"):
                sink.write(block.data)
            sink.write(dumps({"type": "vacuum", "table": plan.table, **content()}) + b"\n")
            sink.write(end_line(plan.files + 1, complete=True))
        case OutputFormat.CSV:
            _write_csv(sink, plan)
        case _:
            from deltacli.cli.render.state import write_sections
            from deltacli.cli.render.vacuum.screen import vacuum_sections

            write_sections(sink, run.terminal, vacuum_sections(plan, outcome, run.terminal))
            if with_files and plan.files:
                sink.write(b"\n")
                _write_screens(sink, run, plan)


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


def _write_csv(sink: BinaryIO, plan: VacuumPlan) -> None:
    """Write a header line and a line a candidate; names of files have the bytes they have on the store."""
    from deltacli.cli.render.csv import csv_block

    sink.write(",".join(_NAMES).encode() + b"\n")
    for piece, is_text in _pieces(plan):
        if is_text:
            sink.write(csv_block(piece.columns, piece.num_rows).data)
            continue
        written = io.BytesIO()
        write_csv(written, [_exact(name) for name in _NAMES], _rows(piece))
        sink.write(written.getbuffer()[written.getvalue().index(b"\n") + 1 :])


def _exact(name: str) -> Column[Row]:
    return Column(name, lambda row: row[name])


def _write_screens(sink: BinaryIO, run: Run, plan: VacuumPlan) -> None:
    """Write every candidate in screens of a thousand, each aligned by itself, the heading once."""
    columns = _screen_columns()
    if run.terminal.width is None and not run.terminal.colour and all(is_text for _, is_text in _pieces(plan)):
        write_aligned(sink, columns, (texts_of(columns, piece) for piece, _ in _pieces(plan)), keep_empty=True)
        return
    heading = True
    for piece, _ in _pieces(plan, ROWS_PER_SCREEN):
        write_table(sink, run.terminal, columns, list(_rows(piece)), heading=heading, keep_empty=True)
        heading = False


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
        Column("reason", lambda row: row["reason"], priority=1, least=11),
        Column(
            "removedAtVersion",
            lambda row: row["removedAtVersion"],
            removed,
            right=True,
            priority=3,
            least=7,
            title="removed",
        ),
        Column("path", lambda row: row["path"], priority=0, least=24, keep_end=True),
    ]
