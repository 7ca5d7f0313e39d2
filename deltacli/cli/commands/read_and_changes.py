"""`deltacli read TABLE` and `deltacli changes TABLE`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterRowsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import parse_end, parse_moment_of
from deltacli.cli.options.tables import (
    ChangedColumnsOption,
    FirstVersionOption,
    LastVersionOption,
    LimitOption,
    ReadColumnsOption,
    RowIdsOption,
    TableArgument,
    TimestampOption,
    VersionOption,
    WhereOption,
)
from deltacli.cli.output.formats import PARQUET
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_disputed_damages, note_unpublished_versions, note_version_problems
from deltacli.cli.running.row_notes import (
    check_omitted_columns,
    choose_row_limit,
    note_omitted_content,
    note_rows,
    require_parquet_output,
    write_directory,
)
from deltacli.core.errors import UsageError
from deltacli.core.units import MAX_INT64, format_count
from deltacli.delta.schema.types import type_json

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.render.data.rows import FramedResult, RowsResult
    from deltacli.table.scan import Scan

app = typer.Typer(add_completion=False)


@app.command("read", cls=ClusterRowsCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def read(
    context: typer.Context,
    table: TableArgument,
    *,
    columns: ReadColumnsOption = None,
    where: WhereOption = None,
    row_ids: RowIdsOption = False,
    limit: LimitOption = None,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="List the files that would be read instead, and why others are skipped.")
    ] = False,
    count: Annotated[bool, typer.Option("--count", help="Count the rows instead.")] = False,
) -> None:
    """Read the rows of a table at a version.

    \b
    Rows have no particular order. Every value is exact: decimals keep their
    digits, times are ISO 8601, binary is hexadecimal. With --where, files whose
    statistics rule out a matching row are not opened. --count takes the number of
    rows from the log where it has that of every file, else it reads one column.

    \b
    Examples:
      deltacli read ./tbl --limit 5
      deltacli read ./tbl --columns trip,day --where "day = '2026-01-02'"
      deltacli read ./tbl --count --where "day = '2026-01-02'"
      deltacli read ./tbl --version 12 --format ndjson | jq -c .row
      deltacli read ./tbl --format parquet --output tbl.parquet
      deltacli read ./tbl --output rows/  # Parquet files, in parallel
      deltacli read ./tbl --where "trip > 500 AND ride.city = 'Bern'" --explain
      deltacli read ./tbl --row-ids --limit 5  # of a table with row tracking
    """
    run: CommandContext = context.obj
    at_ms = parse_moment_of(version, timestamp)
    if count and (explain or columns is not None or row_ids or limit is not None):
        raise UsageError("--count excludes --columns, --row-ids, --limit and --explain")
    if count and (run.format is PARQUET or run.directory is not None):
        raise UsageError("--count is not written as Parquet", facts={"expected": "--format json, csv or another one"})
    require_parquet_output(run)
    most = choose_row_limit(run, limit)
    if explain and run.directory is not None:
        raise UsageError("--explain cannot be written to a directory", code="usage.output")
    opened = run.open_table(table)
    if count:
        _count(run, opened, where, version, at_ms)
        return

    if explain:
        snapshot = opened.snapshot(version=version, timestamp_ms=at_ms)
        scan: Scan = snapshot.scan(columns=columns, where=where, row_ids=row_ids)
    else:
        version_scan = opened.scan(
            columns=columns,
            where=where,
            row_ids=row_ids,
            limit=_compute_read_limit(run, most),
            version=version,
            timestamp_ms=at_ms,
        )
        scan = version_scan
        snapshot = version_scan.snapshot
    note_version_problems(run, snapshot, at_ms)
    if not explain:
        check_omitted_columns(run, scan)
    if run.directory is not None:
        write_directory(run, opened.uri, "rows", {"version": scan.version}, scan.write_parquet, most)
    elif explain:
        from deltacli.cli.render.data.file_list import ScanResult

        _write(run, ScanResult(opened.uri, scan, most), most)
    else:
        # The log says how many rows there are, not how many meet a condition.
        count_all = partial(opened.find_row_count, snapshot) if where is None else lambda: None
        _write(run, _make_rows_result(snapshot.table.uri, scan, count_all, most), most)
    note_rows(run, scan, opened.address, snapshot.problems)


def _compute_read_limit(run: CommandContext, most: int) -> int | None:
    """Return the number of rows to read: one more than is shown, to find out whether there are more.

    Args:
        run: The context of the command. Into a directory, all rows that are read are written.
        most: The number of rows to show. 0 for all.
    """
    if not most:
        return None
    if run.directory is not None:
        return most
    return min(most + 1, MAX_INT64)


def _make_rows_result(uri: str, scan: Scan, count_all: Callable[[], int | None], most: int) -> RowsResult:
    from deltacli.cli.render.data.rows import Rows, RowsResult

    types = [{"name": column.name, "type": type_json(column.data_type)} for column in scan.columns]
    about = {"version": scan.version, "columns": types}
    rows = Rows("deltacli.read", "row", uri, about, scan.schema, scan, scan.left_out, count=count_all)
    return RowsResult(rows, most)


def _write(run: CommandContext, result: FramedResult, most: int) -> None:
    run.write(result)
    note_omitted_content(run, result.written, most)


def _count(run: CommandContext, table: Table, where: str | None, version: int | None, at_ms: int | None) -> None:
    """Write the number of rows."""
    count = table.count_rows(where=where, version=version, timestamp_ms=at_ms)
    snapshot = count.snapshot
    note_unpublished_versions(run, snapshot)
    note_disputed_damages(run, snapshot)
    rows = count.rows
    if count.scan is not None:
        note_rows(run, count.scan, snapshot.table.address, snapshot.problems)
    content = {"version": snapshot.version, "rows": rows, "countedFrom": "log" if count.is_from_log else "data"}
    sections = [Section("rows", [format_count(rows)])]
    run.write(SingleResult("row-count", snapshot.table.uri, content, lambda: sections, [content], ("version", "rows")))


_CHANGE = ("_change_type", "_commit_version", "_commit_timestamp")


@app.command("changes", cls=ClusterRowsCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def changes(
    context: typer.Context,
    table: TableArgument,
    *,
    first: FirstVersionOption,
    last: LastVersionOption = None,
    columns: ChangedColumnsOption = None,
    where: WhereOption = None,
    row_ids: RowIdsOption = False,
    limit: LimitOption = None,
) -> None:
    """Read how the rows of a table changed between two versions.

    \b
    Each row has the type of its change (_change_type: insert, delete,
    update_preimage, update_postimage), the version (_commit_version) and the
    time of the commit in UTC (_commit_timestamp; microseconds in Parquet). Both
    ends of the range are included. A range that starts one version above the
    newest is empty, so a poller can ask for the next one.

    \b
    Examples:
      deltacli changes ./tbl --from 12
      deltacli changes ./tbl --from 9 --to 9 --columns trip,day
      deltacli changes ./tbl --from 2026-01-03 --to 2026-01-04 --format ndjson
      deltacli changes ./tbl --from 0 --format parquet --output changes.parquet
      deltacli changes ./tbl --from 0 --output changes/
    """
    run: CommandContext = context.obj
    write_changes(run, table, first, last, columns=columns, where=where, row_ids=row_ids, limit=limit)


def write_changes(
    run: CommandContext,
    table: str,
    first: str,
    last: str | None,
    *,
    columns: Sequence[str] | None,
    where: str | None,
    row_ids: bool,
    limit: int | None,
) -> None:
    """Write the changes of rows of a table, which may be a shared one.

    Args:
        run: The run of the command.
        table: The table as the user wrote it.
        first: The first version, or the time at which the range begins, as it was written.
        last: The end of the range; None: the newest version.
        columns: The columns to show; None: all.
        where: A condition on the rows.
        row_ids: Whether the ids of rows are shown.
        limit: Value of `--limit`.
    """
    from deltacli.cli.render.data.rows import Rows, RowsResult

    begin = parse_end("--from", first, run.clock)
    end = parse_end("--to", last, run.clock)
    require_parquet_output(run)
    most = choose_row_limit(run, limit)
    opened = run.open_table(table)
    found = opened.changes(
        from_version=begin.version,
        from_timestamp_ms=begin.timestamp_ms,
        to_version=end.version,
        to_timestamp_ms=end.timestamp_ms,
        columns=columns,
        where=where,
        row_ids=row_ids,
        limit=_compute_read_limit(run, most),
    )
    note_version_problems(run, found.snapshot, None)
    check_omitted_columns(run, found)
    if run.directory is not None:
        versions = {"fromVersion": found.from_version, "toVersion": found.to_version}
        write_directory(run, opened.uri, "changes", versions, found.write_parquet, most)
        for note in found.notes:
            run.note(f"note: {note}")
        note_rows(run, found, opened.address, found.snapshot.problems)
        return
    about = {
        "fromVersion": found.from_version,
        "toVersion": found.to_version,
        "columns": [{"name": column.name, "type": type_json(column.data_type)} for column in found.columns],
    }
    rows = Rows("deltacli.changes", "change", opened.uri, about, found.schema, found, found.left_out, first=_CHANGE[:1])
    result = RowsResult(rows, most)
    run.write(result)
    for note in found.notes:
        run.note(f"note: {note}")
    note_rows(run, found, opened.address, found.snapshot.problems)
    note_omitted_content(run, result.written, most)
