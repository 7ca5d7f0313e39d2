"""Formats that write a result as it is: `table`, `json`, `ndjson` and `parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from deltacli.documents import dumps
from deltacli.errors import DeltacliError

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import FramedResult
    from deltacli.cli.results import EncodedItems, Result
    from deltacli.cli.terminal.term import Terminal


def write_table(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write text for people, drawn on a terminal, not truncated in a pipe."""
    result.draw(sink, terminal)


def write_json(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write one document and a final LF, indented on a terminal; streamed items are written as they come. After a fault
    among them, the document ends with `"complete":false`.
    """
    document = result.document()
    if document.items is None:
        sink.write(dumps(document.fields, indent=terminal.is_terminal) + b"\n")
        return
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    sink.write(dumps(fields)[:-1] + b',"items":[')
    separator = b"\n"
    try:
        for block in document.items:
            sink.write(separator)
            sink.write(block.data[:-2])
            separator = b",\n"
    except DeltacliError:
        sink.write(b'\n],"complete":false}\n')
        raise
    sink.write(b"\n]," + dumps(document.after())[1:] + b"\n")


def write_ndjson(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write an item per line with its `type` as they come, then the end line, without which output is incomplete."""
    count = 0

    def emit(block: EncodedItems) -> None:
        nonlocal count
        sink.write(block.data)
        if result.is_live:
            sink.flush()
        count += block.count

    complete = result.lines(emit)
    sink.write(dumps({"type": "end", "complete": complete, "count": count}) + b"\n")


def write_parquet(sink: BinaryIO, result: FramedResult, _terminal: Terminal) -> None:
    """Write the rows of a result whose rows are Arrow columns: streamed into a file with row groups of bounded size,
    which is complete or absent.
    """
    from deltacli.work.outputs.parquet_stream import write_parquet as write_rows

    write_rows(sink, *result.frames())
