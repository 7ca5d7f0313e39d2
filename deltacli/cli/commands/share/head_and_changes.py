"""`deltacli share head TABLE` and `deltacli share changes TABLE`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.command_classes import RowsCommand
from deltacli.cli.commands.read_and_changes import write_changes
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import parse_timestamp_option
from deltacli.cli.options.share import SharedTableArgument
from deltacli.cli.options.tables import (
    ChangedColumnsOption,
    FirstVersionOption,
    LastVersionOption,
    LimitOption,
    ReadColumnsOption,
    RowIdsOption,
    TimestampOption,
    VersionOption,
    WhereOption,
)
from deltacli.cli.options.values import parse_whole_number
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.row_notes import check_omitted_columns, note_rows, require_parquet_output, write_directory
from deltacli.cli.running.shared_tables import open_shared_table, require_address, scan_shared_table
from deltacli.core.errors import UsageError
from deltacli.delta.schema.types import type_json
from deltacli.table.scan_requests import ScanRequest

app = typer.Typer(add_completion=False)

DEFAULT_SHARED_ROWS = 10


@app.command("head", cls=RowsCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def share_head(
    context: typer.Context,
    table: SharedTableArgument,
    *,
    limit: Annotated[
        int,
        typer.Option(
            "-n", "--limit", metavar="N", parser=parse_whole_number, help="Number of rows shown.  [default: 10]"
        ),
    ] = 10,
    columns: ReadColumnsOption = None,
    where: WhereOption = None,
    row_ids: RowIdsOption = False,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
) -> None:
    """Show a few rows of a shared table.

    \b
    The number of rows, or the condition, is sent to the server, which then lists
    only files that are needed for them.

    \b
    Examples:
      deltacli share head acme.share#sales.main.orders
      deltacli share head acme.share#sales.main.orders -n 3 --format ndjson
    """
    from deltacli.cli.render.data.rows import Rows, RowsResult

    run: CommandContext = context.obj
    if limit < 1:
        raise UsageError(f"--limit {limit} is not a number of rows", facts={"expected": "1 or more"})
    at_ms = parse_timestamp_option(version, timestamp)
    require_parquet_output(run)
    request = ScanRequest(columns=columns, where=where, row_ids=row_ids, limit=limit)
    store = open_shared_table(run, table)
    scan = scan_shared_table(run, store, request, version, at_ms)
    check_omitted_columns(run, scan)
    if run.directory is not None:
        write_directory(run, store.uri, "rows", {"version": scan.version}, scan.write_parquet, 0)
    else:
        columns_json = [{"name": column.name, "type": type_json(column.data_type)} for column in scan.columns]
        fields = {"version": scan.version, "columns": columns_json}
        rows = Rows("deltacli.read", "row", store.uri, fields, scan.schema, scan, scan.left_out)
        run.write(RowsResult(rows, 0))
    note_rows(run, scan, table)


@app.command("changes", cls=RowsCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def share_changes(
    context: typer.Context,
    table: SharedTableArgument,
    *,
    first: FirstVersionOption,
    last: LastVersionOption = None,
    columns: ChangedColumnsOption = None,
    where: WhereOption = None,
    row_ids: RowIdsOption = False,
    limit: LimitOption = None,
) -> None:
    """Read how the rows of a shared table changed between two versions.

    \b
    The provider has to share the history of the table, and the table needs a
    change data feed. The output is that of deltacli changes.

    \b
    Examples:
      deltacli share changes acme.share#sales.main.orders --from 12
      deltacli share changes acme.share#sales.main.orders --from 3 --format ndjson
    """
    run: CommandContext = context.obj
    require_address(table)
    write_changes(run, table, first, last, columns=columns, where=where, row_ids=row_ids, limit=limit)
