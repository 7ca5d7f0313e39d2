"""`deltacli read TABLE` and `deltacli changes TABLE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

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
from deltacli.cli.running.run import (
    CommandContext,
    judge_left_out,
    note_catalog,
    note_disputed,
    note_findings,
    note_rows,
    note_what_is_missing,
    require_file,
    settle_limit,
    write_directory,
)
from deltacli.core.errors import UsageError
from deltacli.core.units import format_count
from deltacli.delta.schema.to_arrow import read_columns
from deltacli.delta.schema.types import PrimitiveType, type_json
from deltacli.storage.optional_interfaces import SharedTableStore
from deltacli.table.scan import Scan
from deltacli.table.scan_requests import ChangesRequest, ScanRequest

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import FramedResult, RowsResult
    from deltacli.core.machine import Clock
    from deltacli.table.version import Snapshot

app = typer.Typer(add_completion=False)

_COUNTED_BYTES = 64 << 20
"""Of a checkpoint that is read once more to count its rows: a fraction of a second."""


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
    from deltacli.table.time_travel import find_snapshot

    run: CommandContext = context.obj
    at_ms = parse_moment_of(version, timestamp)
    if count and (explain or columns is not None or row_ids or limit is not None):
        raise UsageError("--count excludes --columns, --row-ids, --limit and --explain")
    if count and (run.format is PARQUET or run.directory is not None):
        raise UsageError("--count is not written as Parquet", facts={"expected": "--format json, csv or another one"})
    require_file(run)
    request = ScanRequest(columns=columns, where=where, row_ids=row_ids)
    most = settle_limit(run, limit)
    if explain and run.directory is not None:
        raise UsageError("--explain cannot be written to a directory", code="usage.output")
    opened = run.open_table(table)
    if where is not None and not explain and isinstance(opened.storage, SharedTableStore):
        opened = opened.replace_storage(opened.storage.expecting(where=where, version=version, at_ms=at_ms))
    found = find_snapshot(opened, version=version, timestamp_ms=at_ms)
    if count:
        note_catalog(run, found)
        _count(run, found, where)
        return
    # One row more than is shown, to find out whether there are more.
    more = 0 if run.directory is not None else 1
    scan = Scan(found, replace(request, limit=most + more if most and not explain else None))
    note_findings(run, found, at_ms)
    if not explain:
        judge_left_out(run, scan)
    if run.directory is not None:
        write_directory(run, opened.uri, "rows", {"version": scan.version}, scan.write_parquet, most)
    elif explain:
        from deltacli.cli.render.data.file_list import ScanResult

        _write(run, ScanResult(opened.uri, scan, most), most)
    else:
        _write(run, _rows_result(found, scan, where, most), most)
    note_rows(run, scan, opened.address, found.problems)


def _rows_result(snapshot: Snapshot, scan: Scan, where: str | None, most: int) -> RowsResult:
    from deltacli.cli.render.data.rows import Rows, RowsResult

    types = [{"name": column.name, "type": type_json(column.data_type)} for column in scan.columns]
    about = {"version": scan.version, "columns": types}
    in_all = partial(_count_rows, snapshot) if where is None else lambda: None
    rows = Rows("deltacli.read", "row", snapshot.table.uri, about, scan.schema, scan, scan.left_out, count=in_all)
    return RowsResult(rows, most)


def _write(run: CommandContext, result: FramedResult, most: int) -> None:
    run.write(result)
    note_what_is_missing(run, result.written, most)


def _count(run: CommandContext, snapshot: Snapshot, where: str | None) -> None:
    """Write the number of rows, by the log where that has it for all files, and by reading the rows otherwise."""
    from deltacli.operations.read.snapshot import count_rows
    from deltacli.table.repeated_files import deduplicate_live_files

    if where is None:
        snapshot = deduplicate_live_files(snapshot)
    note_disputed(run, snapshot)
    rows, is_from_log = count_rows(snapshot) if where is None else (None, False)
    if rows is None:
        is_from_log = False
        scan = snapshot.scan(columns=_narrowest(snapshot, where), where=where)
        rows = scan.count()
        note_rows(run, scan, snapshot.table.address, snapshot.problems)
    content = {"version": snapshot.version, "rows": rows, "countedFrom": "log" if is_from_log else "data"}
    said = [Section("rows", [format_count(rows)])]
    run.write(SingleResult("row-count", snapshot.table.uri, content, lambda: said, [content], ("version", "rows")))


def _narrowest(snapshot: Snapshot, where: str | None) -> list[str]:
    """Return one column that a count has to read: one of the condition, else a column without fields of its own."""
    from deltacli.delta.predicate import parse_predicate

    if where is not None and (used := parse_predicate(where, snapshot.schema).columns):
        return [next(iter(used))[0]]
    readable = read_columns(snapshot.schema.fields) or snapshot.schema.fields
    columns = sorted(readable, key=lambda column: not isinstance(column.data_type, PrimitiveType))
    return [column.name for column in columns[:1]]


def _count_rows(snapshot: Snapshot) -> int | None:
    """Return how many rows a version has by its log; None where the log does not say, or cannot be trusted."""
    from deltacli.operations.read.snapshot import doubts_of_rows
    from deltacli.table.repeated_files import deduplicate_live_files

    checkpoint = snapshot.segment.checkpoint
    size_bytes = 0 if checkpoint is None else sum(file.size_bytes for file in checkpoint.files)
    if size_bytes > _COUNTED_BYTES or snapshot.sidecars:
        return None
    snapshot = deduplicate_live_files(snapshot)
    counts = snapshot.counts()[0]
    return None if doubts_of_rows(snapshot, counts) else counts.rows


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
    from deltacli.operations.read.changes import read_changes

    ends = _end("from", first, run.clock) | ({} if last is None else _end("to", last, run.clock))
    require_file(run)
    request = ChangesRequest(columns=columns, where=where, row_ids=row_ids, **ends)
    most = settle_limit(run, limit)
    opened = run.open_table(table)
    extra = 0 if run.directory is not None else 1  # to find out whether there are more
    found = read_changes(opened, replace(request, limit=most + extra if most else None))
    note_findings(run, found.snapshot, None)
    judge_left_out(run, found)
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
    note_what_is_missing(run, result.written, most)


def _end(name: str, text: str, clock: Clock) -> dict[str, Any]:  # Any: fields of ChangesRequest
    end = parse_end(f"--{name}", text, clock)
    return {f"{name}_version": end} if isinstance(end, int) else {f"{name}_timestamp_ms": end.timestamp_ms}
