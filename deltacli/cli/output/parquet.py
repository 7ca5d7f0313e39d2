"""Write rows of a table as a Parquet file (`--format parquet`)."""

from __future__ import annotations

from typing import BinaryIO

from deltacli.cli.output.results import ArrowResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.work import parquet_writing


def write_parquet(sink: BinaryIO, result: ArrowResult, _terminal: Terminal) -> None:
    """Write rows as one Parquet file, with row groups of limited size."""
    schema, batches = result.read_batches()
    parquet_writing.write_parquet(sink, schema, batches)
