"""`--format parquet`: rows of a table in one file."""

from __future__ import annotations

from typing import BinaryIO

from deltacli.cli.output.results import ArrowResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.work import parquet_writing


def write_parquet(sink: BinaryIO, result: ArrowResult, _terminal: Terminal) -> None:
    """Write rows of Arrow columns into a file that is complete or absent, with row groups of bounded size."""
    schema, batches = result.read_batches()
    parquet_writing.write_parquet(sink, schema, batches)
