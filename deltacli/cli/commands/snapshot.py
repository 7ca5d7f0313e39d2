"""`deltacli snapshot TABLE`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.chosen_version import note_findings, parse_moment_of
from deltacli.cli.options.shared import (
    ColumnsOption,
    LimitOption,
    OutputFormat,
    Run,
    TableArgument,
    TimestampOption,
    VersionOption,
)
from deltacli.cli.render.json import envelope, write_document, write_lines
from deltacli.cli.terminal.shell import again_without_limit, quoted_table
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.operations.read.snapshot import SnapshotSummary
    from deltacli.operations.table.version import Snapshot

EXIT_CODES = (0, 2, 3, 7, 70)

Files = Annotated[bool, typer.Option("--files", help="List the live files instead.")]
Tombstones = Annotated[bool, typer.Option("--tombstones", help="List the tombstones instead, expired ones too.")]
Schema = Annotated[bool, typer.Option("--schema", help="Show the schema as a tree instead.")]
Counts = Annotated[bool, typer.Option("--counts", help="Show only the numbers of files, rows, bytes and tombstones.")]
Digest = Annotated[bool, typer.Option("--digest", help="Add SHA-256 digests of the live files and tombstones.")]


def snapshot(
    run: Run,
    table: TableArgument,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    files: Files = False,
    tombstones: Tombstones = False,
    schema: Schema = False,
    counts: Counts = False,
    digest: Digest = False,
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
    from deltacli.operations.table.table import Table

    at_ms = parse_moment_of(version, timestamp)
    if sum([schema, files or tombstones, counts or digest]) > 1:
        raise UsageError("--schema, a list of files, and the numbers (--counts, --digest) exclude each other")
    opened = Table(run.open(table), clock=run.clock, progress=run.progress)
    if files or tombstones:
        rebuild = partial(opened.snapshot, version=version, timestamp_ms=at_ms)
        _list_files(run, rebuild, at_ms, columns, limit, files=files, tombstones=tombstones)
        return
    if columns is not None or limit is not None:
        raise UsageError(
            "--columns and --limit belong to a list of files", hint=f"deltacli snapshot {quoted_table(table)} --files"
        )
    if schema:
        _show_schema(run, opened.snapshot(version=version, timestamp_ms=at_ms), at_ms)
        return
    from deltacli.operations.read.snapshot import summarize

    summary = summarize(opened, version=version, timestamp_ms=at_ms, digest=digest)
    note_findings(run, summary.snapshot, at_ms)
    with run.sink() as sink:
        _write_summary(sink, run, summary, only_counts=counts)
    if run.terminal.is_terminal and run.format is OutputFormat.TABLE:
        run.note(f"next: deltacli snapshot {quoted_table(table)} --schema")


def _list_files(
    run: Run,
    rebuild: Callable[[], Snapshot],
    at_ms: int | None,
    columns: str | None,
    limit: int | None,
    *,
    files: bool,
    tombstones: bool,
) -> None:
    from deltacli.cli.render.data.file_list import FileListing, write_file_listing

    listing = FileListing.choose(columns, files=files, tombstones=tombstones)
    most = run.limit(limit)
    found = rebuild()
    note_findings(run, found, at_ms)
    with run.sink() as sink:
        was_cut = write_file_listing(sink, run, found, listing, limit=most)
    if was_cut:
        run.note(f"showing the first {most:,}; all of them: {again_without_limit(invocation.arguments)}")


def _show_schema(run: Run, found: Snapshot, at_ms: int | None) -> None:
    note_findings(run, found, at_ms)
    with run.sink() as sink:
        _write_schema(sink, run, found)


def _write_summary(sink: BinaryIO, run: Run, summary: SnapshotSummary, *, only_counts: bool) -> None:
    content = summary.as_json()
    if only_counts:
        kept = ("version", "timestampMs", "timestamp", "timestampSource", "files", "tombstones")
        content = {name: content[name] for name in kept}
    uri = summary.snapshot.table.uri
    match run.format:
        case OutputFormat.JSON:
            document = envelope("deltacli.snapshot", uri, complete=True) | content
            write_document(sink, document, indent=run.terminal.is_terminal)
        case OutputFormat.NDJSON:
            write_lines(sink, [{"table": uri, **content}], kind="snapshot")
        case OutputFormat.CSV:
            _write_flat(sink, {"table": uri, **content})
        case OutputFormat.TABLE:
            from deltacli.cli.render.state import state_sections, write_sections

            write_sections(sink, run.terminal, state_sections(summary, run.terminal, only_counts=only_counts))


def _write_flat(sink: BinaryIO, content: dict[str, Any]) -> None:
    """A document as two columns, `field` and `value`, nested fields with dots, arrays and maps as JSON."""
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
    match run.format:
        case OutputFormat.JSON | OutputFormat.NDJSON:
            _ = found.schema  # a schema that can't be parsed is refused here, as in the other formats
            schema = json.loads(found.metadata.schema_string or '{"type":"struct","fields":[]}')
            if run.format is OutputFormat.NDJSON:
                write_lines(sink, map(_field_line, schema["fields"]), kind="field")
                return
            document = envelope("deltacli.schema", uri, complete=True) | {
                "version": found.version,
                "partitionColumns": list(found.metadata.partition_columns),
                "schema": schema,
            }
            write_document(sink, document, indent=run.terminal.is_terminal)
        case OutputFormat.CSV:
            from deltacli.cli.render.columns import write_csv
            from deltacli.cli.render.schema import schema_columns, schema_rows

            write_csv(sink, schema_columns(), schema_rows(found))
        case OutputFormat.TABLE:
            from deltacli.cli.render.schema import schema_tree

            sink.write(("\n".join(schema_tree(found, run.terminal)) + "\n").encode("utf-8", "surrogateescape"))


def _field_line(field: dict[str, Any]) -> dict[str, Any]:  # Any: JSON values
    """A field as a line: its `type` is what the line is, so the column's own is `dataType`."""
    return {"dataType" if name == "type" else name: value for name, value in field.items()}
