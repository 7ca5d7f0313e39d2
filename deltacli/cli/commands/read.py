"""`deltacli read TABLE`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.formats import PARQUET, RowFormat
from deltacli.cli.options.chosen_version import note_findings, parse_moment_of
from deltacli.cli.options.common_options import TableArgument, TimestampOption, VersionOption
from deltacli.cli.options.rows import (
    ColumnsOption,
    LimitOption,
    WhereOption,
    note_what_is_missing,
    require_file,
    settle_limit,
    split_columns,
    write_directory,
)
from deltacli.cli.options.run import Run
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot

EXIT_CODES = (0, 2, 3, 4, 7, 70)
FORMATS = RowFormat
RUNS_ON_CLUSTER = True
_COUNTED_BYTES = 64 << 20
"""Of a checkpoint that is read once more to count its rows: a fraction of a second."""


def read(
    run: Run,
    table: TableArgument,
    columns: ColumnsOption = None,
    where: WhereOption = None,
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
      deltacli read ./tbl --output rows/              (Parquet files, in parallel)
      deltacli read ./tbl --where "trip > 500 AND ride.city = 'Bern'" --explain
    """
    from deltacli.cli.render.data.rows import FramedResult, Rows, RowsResult
    from deltacli.delta.schema.types import type_json
    from deltacli.storage.base import StoreOfVersions

    at_ms = parse_moment_of(version, timestamp)
    if count and (explain or columns is not None or limit is not None):
        raise UsageError("--count excludes --columns, --limit and --explain")
    if count and (run.format is PARQUET or run.directory is not None):
        raise UsageError("--count is not written as Parquet", facts={"expected": "--format json, csv or another one"})
    require_file(run)
    chosen = split_columns(columns)
    most = settle_limit(run, limit)
    if explain and run.directory is not None:
        raise UsageError("--explain cannot be written to a directory", code="usage.output")
    opened = run.open_table(table)
    if where is not None and not explain and isinstance(opened.storage, StoreOfVersions):
        opened = opened.over(opened.storage.expecting(where=where, version=version, at_ms=at_ms))
    found = opened.snapshot(version=version, timestamp_ms=at_ms)
    if count:
        _count(run, found, where)
        return
    if run.directory is not None:
        scan = found.scan(columns=chosen, where=where, limit=most or None)
        note_findings(run, found, at_ms)
        write_directory(run, opened.uri, "rows", {"version": scan.version}, scan.write_parquet, most)
        return
    # One row more than is shown, to find out whether there are more.
    scan = found.scan(columns=chosen, where=where, limit=most + 1 if most and not explain else None)
    note_findings(run, found, at_ms)
    if explain:
        from deltacli.cli.render.data.scan_files import ScanResult

        result: FramedResult = ScanResult(opened.uri, scan, most)
    else:
        types = [{"name": column.name, "type": type_json(column.data_type)} for column in scan.columns]
        about = {"version": scan.version, "columns": types}
        in_all = partial(_count_rows, found) if where is None else lambda: None
        rows = Rows("deltacli.read", "row", opened.uri, about, scan.schema, scan, count=in_all)
        result = RowsResult(rows, most)
    run.write(result)
    note_what_is_missing(run, result.written, most)


def _count(run: Run, snapshot: Snapshot, where: str | None) -> None:
    """Write how many rows a version has, or how many match the condition."""
    from deltacli.cli.render.sections import Section
    from deltacli.cli.results import Outcome
    from deltacli.units import format_count

    rows = snapshot.counts()[0].rows if where is None else None
    is_from_log = rows is not None
    if rows is None:
        rows = snapshot.scan(columns=_narrowest(snapshot, where), where=where).count()
    content = {"version": snapshot.version, "rows": rows, "countedFrom": "log" if is_from_log else "data"}
    said = [Section("rows", [format_count(rows)])]
    run.write(Outcome("row-count", snapshot.table.uri, content, lambda: said, [content], ("version", "rows")))


def _narrowest(snapshot: Snapshot, where: str | None) -> list[str]:
    """Return one column that a count has to read: one of the condition, else a column without fields of its own."""
    from deltacli.delta.predicate import parse_predicate
    from deltacli.delta.schema.types import PrimitiveType

    if where is not None and (used := parse_predicate(where, snapshot.schema).columns):
        return [next(iter(used))[0]]
    columns = sorted(snapshot.schema.fields, key=lambda column: not isinstance(column.data_type, PrimitiveType))
    return [column.name for column in columns[:1]]


def _count_rows(snapshot: Snapshot) -> int | None:
    """Return how many rows a version has; None where the log does not say, or is too large to count for a footer."""
    checkpoint = snapshot.segment.checkpoint
    size_bytes = 0 if checkpoint is None else sum(file.size_bytes for file in checkpoint.files)
    if size_bytes > _COUNTED_BYTES or snapshot.sidecars:
        return None
    return snapshot.counts()[0].rows
