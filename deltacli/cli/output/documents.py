"""`--format json` and `--format ndjson`: one document, or one object per line."""

from __future__ import annotations

from typing import BinaryIO

from deltacli.cli.output.grids import EncodedItems
from deltacli.cli.output.results import Result
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError


def write_json(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write one document and a final LF, indented on a terminal. Streamed items are written as they come.

    After an error among the items the document ends with `"complete":false`, so that it can be parsed all the same.
    """
    document = result.document()
    if document.items is None:
        sink.write(dumps(document.fields, indent=terminal.is_terminal) + b"\n")
        return

    # Whether the document is complete is known when the last item is written.
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    sink.write(dumps(fields)[:-1] + b',"items":[')
    separator = b"\n"
    try:
        for block in document.items:
            sink.write(separator)
            sink.write(block.data[:-2])  # without the comma and LF of the last item
            separator = b",\n"
    except DeltacliError:
        sink.write(b'\n],"complete":false}\n')
        raise
    sink.write(b"\n]," + dumps(document.make_last_fields())[1:] + b"\n")


def write_ndjson(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write an item per line with its `type` as they come, then the end line, without which output is incomplete."""
    count = 0

    def write_items(block: EncodedItems) -> None:
        nonlocal count
        sink.write(block.data)
        if result.is_live:
            sink.flush()
        count += block.count

    is_complete = result.lines(write_items)
    sink.write(dumps({"type": "end", "complete": is_complete, "count": count}) + b"\n")
