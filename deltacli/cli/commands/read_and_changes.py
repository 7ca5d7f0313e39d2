"""`deltacli read TABLE` and `deltacli changes TABLE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterRowsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import parse_range_end, parse_timestamp_option
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
    from deltacli.core.typing import JsonObject
    from deltacli.operations.read.changes import Changes
    from deltacli.table.scan import ArrowRows, Scan

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
    at_ms = parse_timestamp_option(version, timestamp)
    if count and (explain or columns is not None or row_ids or limit is not None):
        raise UsageError("--count excludes --columns, --row-ids, --limit and --explain")
    if count and (run.format is PARQUET or run.directory is not None):
        raise UsageError("--count is not written as Parquet", facts={"expected": "--format json, csv or another one"})
    require_parquet_output(run)
    row_limit = choose_row_limit(run, limit)
    if explain and run.directory is not None:
        raise UsageError("--explain cannot be written to a directory", code="usage.output")

    delta_table = run.open_table(table)
    if count:
        _write_count(run, delta_table, where, version, at_ms)
        return
    if explain:
        snapshot = delta_table.snapshot(version=version, timestamp_ms=at_ms)
        scan: Scan = snapshot.scan(columns=columns, where=where, row_ids=row_ids)
    else:
        version_scan = delta_table.scan(
            columns=columns,
            where=where,
            row_ids=row_ids,
            limit=_compute_read_limit(run, row_limit),
            version=version,
            timestamp_ms=at_ms,
        )
        scan = version_scan
        snapshot = version_scan.snapshot

    note_version_problems(run, snapshot, at_ms)
    if not explain:
        check_omitted_columns(run, scan)
    if run.directory is not None:
        write_directory(run, delta_table.uri, "rows", {"version": scan.version}, scan.write_parquet, row_limit)
    elif explain:
        from deltacli.cli.render.data.file_list import ScanResult

        _write_rows(run, ScanResult(delta_table.uri, scan, row_limit), row_limit)
    else:
        # The log contains the number of all rows, but not of those that match a condition.
        count_all = partial(delta_table.find_row_count, snapshot) if where is None else lambda: None
        _write_rows(run, _make_rows_result(snapshot.table.uri, scan, count_all, row_limit), row_limit)
    note_rows(run, scan, delta_table.address, snapshot.problems)


def _compute_read_limit(run: CommandContext, row_limit: int) -> int | None:
    """Return how many rows to read. None: all rows.

    One more row is read than is shown, so that the result can say whether there are more. All rows that are read are
    written to an output directory, so no additional row is read for one.

    Args:
        run: The run of the command.
        row_limit: How many rows to show. 0: all rows.
    """
    if not row_limit:
        return None
    if run.directory is not None:
        return row_limit
    return min(row_limit + 1, MAX_INT64)


def _make_rows_result(uri: str, scan: Scan, count_all: Callable[[], int | None], row_limit: int) -> RowsResult:
    from deltacli.cli.render.data.rows import Rows, RowsResult

    fields = {"version": scan.version, "columns": _describe_columns(scan)}
    rows = Rows("deltacli.read", "row", uri, fields, scan.schema, scan, scan.left_out, count=count_all)
    return RowsResult(rows, row_limit)


def _describe_columns(rows: ArrowRows) -> list[JsonObject]:
    return [{"name": column.name, "type": type_json(column.data_type)} for column in rows.columns]


def _write_rows(run: CommandContext, result: FramedResult, row_limit: int) -> None:
    run.write(result)
    note_omitted_content(run, result.written, row_limit)


def _write_count(run: CommandContext, table: Table, where: str | None, version: int | None, at_ms: int | None) -> None:
    """Write the number of rows, counted by the log if it contains the number of rows of every file."""
    row_count = table.count_rows(where=where, version=version, timestamp_ms=at_ms)
    snapshot = row_count.snapshot
    note_unpublished_versions(run, snapshot)
    note_disputed_damages(run, snapshot)
    # Counts the rows now. The notes below are known only after that.
    rows = row_count.rows
    if row_count.scan is not None:
        note_rows(run, row_count.scan, snapshot.table.address, snapshot.problems)

    content = {
        "version": snapshot.version,
        "rows": rows,
        "countedFrom": "log" if row_count.is_from_log else "data",
    }
    sections = [Section("rows", [format_count(rows)])]
    run.write(SingleResult("row-count", snapshot.table.uri, content, lambda: sections, [content], ("version", "rows")))


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
    """Write the row changes of a table, which may be a shared table.

    Args:
        run: The run of the command.
        table: The table as the user typed it.
        first: The value of `--from`: a version or a time.
        last: The value of `--to`. None: the newest version.
        columns: The columns to show. None: all columns.
        where: A condition on the rows.
        row_ids: Whether row ids are shown.
        limit: The value of `--limit`.
    """
    begin = parse_range_end("--from", first, run.clock)
    end = parse_range_end("--to", last, run.clock)
    require_parquet_output(run)
    row_limit = choose_row_limit(run, limit)
    delta_table = run.open_table(table)
    row_changes = delta_table.changes(
        from_version=begin.version,
        from_timestamp_ms=begin.timestamp_ms,
        to_version=end.version,
        to_timestamp_ms=end.timestamp_ms,
        columns=columns,
        where=where,
        row_ids=row_ids,
        limit=_compute_read_limit(run, row_limit),
    )
    note_version_problems(run, row_changes.snapshot, None)
    check_omitted_columns(run, row_changes)

    versions = {"fromVersion": row_changes.from_version, "toVersion": row_changes.to_version}
    if run.directory is not None:
        write_directory(run, delta_table.uri, "changes", versions, row_changes.write_parquet, row_limit)
        _note_row_changes(run, row_changes, delta_table.address)
        return

    result = _make_changes_result(delta_table.uri, row_changes, versions, row_limit)
    run.write(result)
    _note_row_changes(run, row_changes, delta_table.address)
    note_omitted_content(run, result.written, row_limit)


def _note_row_changes(run: CommandContext, row_changes: Changes, table: str) -> None:
    """Note how commits were read. This is known only after the rows were read.

    Args:
        run: The run of the command.
        row_changes: The row changes.
        table: The address of the table, for suggested commands.
    """
    for note in row_changes.notes:
        run.note(f"note: {note}")
    note_rows(run, row_changes, table, row_changes.snapshot.problems)


def _make_changes_result(uri: str, row_changes: Changes, versions: Mapping[str, int], row_limit: int) -> RowsResult:
    """Return row changes as a result. The type of a change is the first column."""
    from deltacli.cli.render.data.rows import Rows, RowsResult

    fields = {**versions, "columns": _describe_columns(row_changes)}
    rows = Rows(
        "deltacli.changes",
        "change",
        uri,
        fields,
        row_changes.schema,
        row_changes,
        row_changes.left_out,
        first=("_change_type",),
    )
    return RowsResult(rows, row_limit)
