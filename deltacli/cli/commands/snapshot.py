"""`deltacli snapshot TABLE`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from deltacli.cli.options import (
    ColumnsOption,
    LimitOption,
    OutputFormat,
    Run,
    TableArgument,
    TimestampOption,
    VersionOption,
)
from deltacli.cli.output import open_sink
from deltacli.cli.render.file_list import FileListing, write_file_listing
from deltacli.cli.render.json import envelope, write_document, write_lines
from deltacli.cli.render.state import schema_tree, state_sections, write_sections
from deltacli.errors import UsageError
from deltacli.quantities import format_timestamp, parse_timestamp

if TYPE_CHECKING:
    from deltacli.operations.snapshot import SnapshotSummary
    from deltacli.operations.table import Snapshot

EXIT_CODES = (0, 2, 3, 7, 70)


def snapshot(
    run: Run,
    table: TableArgument,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    files: Annotated[bool, typer.Option("--files", help="List the live files instead.")] = False,
    tombstones: Annotated[
        bool, typer.Option("--tombstones", help="List the tombstones instead, expired ones too.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Show the schema as a tree instead.")] = False,
    counts: Annotated[
        bool, typer.Option("--counts", help="Show only the numbers of files, rows, bytes and tombstones.")
    ] = False,
    digest: Annotated[
        bool, typer.Option("--digest", help="Add SHA-256 digests of the live files and tombstones.")
    ] = False,
    limit: LimitOption = None,
    columns: ColumnsOption = None,
) -> None:
    """Show the state of a table at a version.

    \b
    Protocol, metadata, properties, files and rows, tombstones, transactions,
    domains, and the log files the state was rebuilt from.

    \b
    Examples:
      deltacli snapshot ./tbl
      deltacli snapshot ./tbl --version 12 --json
      deltacli snapshot ./tbl --timestamp 2026-01-09T08:00:00Z --schema
      deltacli snapshot ./tbl --files --format ndjson
      deltacli snapshot ./tbl --files --columns path,size --format csv
    """
    from deltacli.operations.snapshot import summarize
    from deltacli.operations.table import open_table

    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    if schema and (files or tombstones):
        raise UsageError("--schema and a list of files exclude each other")
    listing = FileListing.choose(columns, files=files, tombstones=tombstones)
    if columns is not None and listing is None:
        raise UsageError(
            "--columns belongs to --files or --tombstones",
            hint=f"deltacli snapshot {table} --files --columns {columns}",
        )
    timestamp_ms = parse_timestamp(timestamp) if timestamp is not None else None
    opened = open_table(table, storage_options=run.storage_options, clock=run.clock)
    if listing is not None:
        found = opened.snapshot(version=version, timestamp_ms=timestamp_ms)
        _note_time(run, found, timestamp_ms)
        with open_sink(run.output) as sink:
            cut = write_file_listing(sink, run, found, listing, limit=run.limit(limit))
        if cut:
            run.note(
                f"showing {run.limit(limit):,} items; all of them: deltacli snapshot {table} {listing.flags} --limit 0"
            )
        return
    if schema:
        found = opened.snapshot(version=version, timestamp_ms=timestamp_ms)
        _note_time(run, found, timestamp_ms)
        with open_sink(run.output) as sink:
            _write_schema(sink, run, found)
        return
    summary = summarize(opened, version=version, timestamp_ms=timestamp_ms, digest=digest)
    _note_time(run, summary.snapshot, timestamp_ms)
    with open_sink(run.output) as sink:
        _write_summary(sink, run, summary, only_counts=counts)
    _say_what_next(run, table, summary)


def _write_summary(sink: BinaryIO, run: Run, summary: SnapshotSummary, *, only_counts: bool) -> None:
    content = summary.as_json()
    if only_counts:
        content = {
            name: content[name]
            for name in ("version", "timestampMs", "timestamp", "timestampSource", "files", "tombstones")
        }
    uri = summary.snapshot.table.uri
    match run.format:
        case OutputFormat.JSON:
            write_document(
                sink, envelope("deltacli.snapshot", uri, complete=True) | content, indent=run.terminal.is_terminal
            )
        case OutputFormat.NDJSON:
            write_lines(sink, [{"table": uri, **content}], kind="snapshot")
        case OutputFormat.CSV:
            _write_flat(sink, {"table": uri, **content})
        case OutputFormat.TABLE:
            write_sections(sink, run.terminal, state_sections(summary, run.terminal, only_counts=only_counts))


def _write_flat(sink: BinaryIO, content: dict[str, Any]) -> None:
    """A document as two columns, `field` and `value`, nested fields with dots, arrays as JSON."""
    from deltacli.cli.render.columns import Column, write_csv

    columns: list[Column[tuple[str, object]]] = [
        Column("field", lambda row: row[0]),
        Column("value", lambda row: row[1]),
    ]
    write_csv(sink, columns, _flatten(content, ""))


def _flatten(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, dict) and name not in ("configuration", "options"):
            yield from _flatten(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


def _write_schema(sink: BinaryIO, run: Run, found: Snapshot) -> None:
    uri = found.table.uri
    schema = json.loads(found.metadata.schema_string or '{"type":"struct","fields":[]}')
    content = {"version": found.version, "partitionColumns": list(found.metadata.partition_columns), "schema": schema}
    match run.format:
        case OutputFormat.JSON:
            write_document(
                sink, envelope("deltacli.schema", uri, complete=True) | content, indent=run.terminal.is_terminal
            )
        case OutputFormat.NDJSON:
            write_lines(sink, schema["fields"], kind="field")
        case OutputFormat.CSV:
            from deltacli.cli.render.columns import write_csv
            from deltacli.cli.render.state import schema_columns, schema_rows

            write_csv(sink, schema_columns(), schema_rows(found))
        case OutputFormat.TABLE:
            sink.write(("\n".join(schema_tree(found, run.terminal)) + "\n").encode("utf-8", "surrogateescape"))


def _note_time(run: Run, found: Snapshot, timestamp_ms: int | None) -> None:
    """Say so when a moment lies after the newest version, and when only published versions of a catalog's table were seen."""
    if timestamp_ms is not None and found.time is not None:
        newest = found.segment.version == found.newest_version
        if newest and timestamp_ms > found.time.timestamp_ms:
            run.note(
                f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}"
            )
    if "catalog.unpublished-possible" in found.problems:
        run.note(
            "note: a catalog manages this table; this is the published state only, newer commits may exist in the catalog"
        )
    _note_problems(run, found)


def _note_problems(run: Run, found: Snapshot) -> None:
    from deltacli.cli.render.state import EXPLAINED

    for problem in found.problems:
        if problem != "catalog.unpublished-possible":
            run.note(f"note: {problem}: {EXPLAINED.get(problem, 'worked around')}")


def _say_what_next(run: Run, table: str, summary: SnapshotSummary) -> None:
    if run.terminal.is_terminal and run.format is OutputFormat.TABLE:
        columns = list(islice(summary.snapshot.schema.fields, 1))
        follow = f"deltacli snapshot {table} --schema" if columns else f"deltacli history {table}"
        what = "its columns" if columns else "how it came to be"
        run.note(f"{what}: {follow}")
