"""`deltacli share head TABLE` and `deltacli share changes TABLE`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from deltacli.cli.commands import read_and_changes as local
from deltacli.cli.options import declared
from deltacli.cli.output.formats import RowFormat
from deltacli.cli.running.run import Run, judge_left_out, note_rows, require_file, write_directory
from deltacli.cli.running.shared_tables import SharedTableArgument, open_shared, require_address, rows_of_shared
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Option
from deltacli.delta.schema.types import type_json
from deltacli.table.scan import ChangesRequest, ScanRequest

EXIT_CODES = (0, 2, 3, 4, 7, 70)
FORMATS = RowFormat
DEFAULT_ROWS = 10

FewOption = Annotated[int, Option("Number of rows shown.", "N", spelled="-n --limit", shows_default=True)]


def share_head(
    run: Run,
    table: SharedTableArgument,
    limit: FewOption = DEFAULT_ROWS,
    *,
    asked: declared.Asked[ScanRequest],
    version: declared.VersionOption = None,
    timestamp: declared.TimestampOption = None,
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

    if limit < 1:
        raise UsageError(f"--limit {limit} is not a number of rows", facts={"expected": "1 or more"})
    at_ms = declared.parse_moment_of(version, timestamp)
    require_file(run)
    request = replace(asked.request(), limit=limit)
    store = open_shared(run, table)
    scan, uri = rows_of_shared(run, store, request, version, at_ms), store.uri
    judge_left_out(run, scan)
    if run.directory is not None:
        write_directory(run, uri, "rows", {"version": scan.version}, scan.write_parquet, 0)
        note_rows(run, scan, table)
        return
    types = [{"name": column.name, "type": type_json(column.data_type)} for column in scan.columns]
    about = {"version": scan.version, "columns": types}
    run.write(RowsResult(Rows("deltacli.read", "row", uri, about, scan.schema, scan, scan.left_out), 0))
    note_rows(run, scan, table)


def share_changes(
    run: Run,
    table: SharedTableArgument,
    first: local.First,
    last: declared.LastOption = None,
    *,
    asked: declared.Asked[ChangesRequest],
    limit: declared.LimitOption = None,
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
    require_address(table)
    local.changes(run, table, first, last, asked=asked, limit=limit)
