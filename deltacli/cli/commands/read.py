"""`deltacli read TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.chosen_version import note_findings, parse_moment_of
from deltacli.cli.options import (
    ColumnsOption,
    LimitOption,
    OutputFormat,
    RowFormat,
    Run,
    TableArgument,
    TimestampOption,
    VersionOption,
    invocation,
)
from deltacli.cli.shell import again_with, again_without_limit
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.cli.render.rows import Written

EXIT_CODES = (0, 2, 3, 7, 70)
FORMATS = RowFormat
_NAMED = 5

WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only rows for which this condition is true.", show_default=False),
]


def read(
    run: Run,
    table: TableArgument,
    columns: ColumnsOption = None,
    where: WhereOption = None,
    limit: LimitOption = None,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="List the files instead that would be read, and why others not.")
    ] = False,
) -> None:
    """Read the rows of a table at a version.

    \b
    Rows come in no particular order, and every value is exact: decimals keep
    their digits, times are ISO 8601, binary is hexadecimal. With --where, files
    that can't hold a row for which it is true are not opened.

    \b
    Examples:
      deltacli read ./tbl --limit 5
      deltacli read ./tbl --columns trip,day --where "day = '2026-01-02'"
      deltacli read ./tbl --version 12 --format ndjson | jq -c .row
      deltacli read ./tbl --format parquet --output tbl.parquet
      deltacli read ./tbl --where "trip > 500 AND ride.city = 'Bern'" --explain
    """
    from deltacli.cli.render.rows import Rows, write_rows
    from deltacli.delta.schema.types import type_json
    from deltacli.operations.table import Table

    at_ms = parse_moment_of(version, timestamp)
    require_file(run)
    chosen = split_columns(columns)
    most = run.limit(limit)
    opened = Table(run.open(table), clock=run.clock, progress=run.progress)
    found = opened.snapshot(version=version, timestamp_ms=at_ms)
    # One more row than is shown: whether there are more is known by that.
    scan = found.scan(columns=chosen, where=where, limit=most + 1 if most and not explain else None)
    note_findings(run, found, at_ms)
    with run.sink() as sink:
        if explain:
            from deltacli.cli.render.scan_files import write_scan_files

            written = write_scan_files(sink, run, opened.uri, scan, limit=most)
        else:
            types = [{"name": column.name, "type": type_json(column.data_type)} for column in scan.columns]
            about = {"version": scan.version, "columns": types}
            rows = Rows("deltacli.read", "row", opened.uri, about, scan.schema, scan)
            written = write_rows(sink, run, rows, limit=most)
    note_what_is_missing(run, written, most)


def require_file(run: Run) -> None:
    """Raise UsageError where Parquet would be written to nowhere, or to a terminal."""
    if run.format is OutputFormat.PARQUET and (run.output is None or run.terminal.is_terminal):
        raise UsageError(
            "--format parquet needs a file to be written to",
            code="usage.output",
            hint=again_with(invocation.arguments, "--output", "rows.parquet"),
        )


def split_columns(columns: str | None) -> list[str] | None:
    """The names of `--columns`. Raises UsageError where there is none."""
    if columns is None:
        return None
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not names:
        raise UsageError("--columns names no column", code="usage.column", hint="deltacli snapshot {table} --schema")
    return names


def note_what_is_missing(run: Run, written: Written, limit: int) -> None:
    """Say which rows a limit cut, and for which columns the screen had no room."""
    if written.left_out:
        names = list(written.left_out)
        shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        again = again_with(invocation.arguments, "--format", "ndjson")
        run.note(f"no room for {shown}: choose with --columns, or all of them: {again}")
    if written.was_cut:
        run.note(f"showing the first {limit:,}; all of them: {again_without_limit(invocation.arguments)}")
