"""`--format json`: one document."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.render.json import dumps

if TYPE_CHECKING:
    from deltacli.cli.results import Result
    from deltacli.cli.terminal.term import Terminal


def write(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write a document and a final LF, indented on a terminal; streamed items are written as they come."""
    document = result.document()
    if document.items is None:
        sink.write(dumps(document.fields, indent=terminal.is_terminal) + b"\n")
        return
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    sink.write(dumps(fields)[:-1] + b',"items":[')
    separator = b"\n"
    for block in document.items:
        sink.write(separator)
        sink.write(block.data[:-2])
        separator = b",\n"
    sink.write(b"\n]," + dumps(document.after())[1:] + b"\n")
