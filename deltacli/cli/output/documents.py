"""Write results as one JSON document (`--format json`) or as one JSON object per line (`--format ndjson`)."""

from __future__ import annotations

from typing import BinaryIO

from deltacli.cli.output.grids import EncodedItems
from deltacli.cli.output.results import Result
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError


def write_json(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write one document, followed by LF. On a terminal, it is indented unless its items are streamed.

    If an error occurs while items are streamed, the document is closed with `"complete":false`, so that it can still be
    parsed.
    """
    document = result.document()
    if document.items is None:
        sink.write(dumps(document.fields, indent=terminal.is_terminal) + b"\n")
        return

    # `complete` follows the items, because an item may fail.
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    sink.write(dumps(fields)[:-1] + b',"items":[')
    separator = b"\n"
    try:
        for block in document.items:
            sink.write(separator)
            # JSON allows no comma after the last item, so the separator is written before the next block.
            sink.write(block.data[:-2])
            separator = b",\n"
    except DeltacliError:
        sink.write(b'\n],"complete":false}\n')
        raise
    sink.write(b"\n]," + dumps(document.make_last_fields())[1:] + b"\n")


def write_ndjson(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write one item per line, followed by an `end` line. Without the `end` line, the output is incomplete."""
    count = 0

    def write_items(block: EncodedItems) -> None:
        nonlocal count
        sink.write(block.data)
        if result.is_live:
            sink.flush()
        count += block.count

    is_complete = result.lines(write_items)
    sink.write(dumps({"type": "end", "complete": is_complete, "count": count}) + b"\n")
