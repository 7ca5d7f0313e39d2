"""`--format parquet`: rows streamed into a file with row groups of bounded size, which is complete or absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from deltacli.work.outputs.parquet_stream import write_parquet

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import FramedResult
    from deltacli.cli.terminal.term import Terminal


def write(sink: BinaryIO, result: FramedResult, _terminal: Terminal) -> None:
    """Write the rows of a result whose rows are Arrow columns."""
    write_parquet(sink, *result.frames())
