"""`--format ndjson`: an item per line with its `type`, then the end line. Output without that line is incomplete."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.render.json import dumps

if TYPE_CHECKING:
    from deltacli.cli.render.json import EncodedItems
    from deltacli.cli.results import Result
    from deltacli.cli.terminal.term import Terminal


def write(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write the lines as they come, then the end line."""
    count = 0

    def emit(block: EncodedItems) -> None:
        nonlocal count
        sink.write(block.data)
        if result.is_live:
            sink.flush()
        count += block.count

    complete = result.lines(emit)
    sink.write(dumps({"type": "end", "complete": complete, "count": count}) + b"\n")
