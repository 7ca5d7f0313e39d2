"""`deltacli snapshot TABLE`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from deltacli.cli.command_tree import HERE
from deltacli.cli.invocation import invocation
from deltacli.cli.options import declared
from deltacli.cli.output.formats import PARQUET, RowFormat
from deltacli.cli.running.run import Run, note_findings, require_file, settle_limit, write_directory
from deltacli.cli.running.table_formats import Handle, ask, require_one_point
from deltacli.cli.terminal.suggested_commands import repeat_command_with_flags, repeat_command_without_limit
from deltacli.core.errors import UsageError, quote_table
from deltacli.core.request_fields import OF_DELTA, option

if TYPE_CHECKING:
    from deltacli.api.table import Table

EXIT_CODES = (0, 2, 3, 4, 7, 70)
FORMATS = RowFormat
RUNS_ON_CLUSTER = True


@dataclass(frozen=True, eq=False, repr=False)
class SnapshotOptions:
    """The point of the table, and what of it is shown."""

    version: declared.VersionOption = None
    timestamp: declared.TimestampOption = None
    files: bool = option("List the live files instead.", default=False, table_format=OF_DELTA)
    tombstones: bool = option(
        "List the tombstones instead, including expired ones.", default=False, table_format=OF_DELTA
    )
    schema: bool = option("Show the schema as a tree instead.", default=False)
    mapping: bool = option(
        "Show the ids and physical names of column mapping; requires --schema.", default=False, table_format=OF_DELTA
    )
    counts: bool = option(
        "Show only the numbers of files, rows, bytes and tombstones.", default=False, table_format=OF_DELTA
    )
    digest: bool = option("Add SHA-256 digests of the live files and tombstones.", default=False, table_format=OF_DELTA)
    from_checksum: bool = option(
        "Take the state from the checksum of the version, without a replay, as far as the checksum has it.",
        default=False,
        table_format=OF_DELTA,
    )
    limit: Annotated[declared.LimitOption, OF_DELTA] = None
    columns: Annotated[declared.ColumnsOption, OF_DELTA] = None
    schema_id: declared.SchemaIdOption = None
    snapshot_id: declared.SnapshotIdOption = None
    tag: declared.TagOption = None
    branch: declared.BranchOption = None
    ddl: declared.DdlOption = False

    @property
    def lists_files(self) -> bool:
        return self.files or self.tombstones


def snapshot(run: Run, table: declared.TableHereArgument = HERE, *, wanted: SnapshotOptions) -> None:
    """Show the state of a table at a version.

    \b
    Protocol, metadata, properties, files and rows, tombstones, transactions,
    domains, and the log files the state was rebuilt from. Of a Paimon table:
    schema, keys, options, and the snapshot.

    \b
    Examples:
      deltacli snapshot ./tbl
      deltacli snapshot ./tbl --version 12 --json
      deltacli snapshot ./tbl --timestamp 2026-01-09T08:00:00Z --schema
      deltacli snapshot ./tbl --files --format ndjson
      deltacli snapshot ./tbl --files --columns path,size --format csv
      deltacli snapshot ./tbl --files --output files/  # Parquet, in parallel
      deltacli snapshot ./paimon_tbl --schema-id 3 --ddl
    """
    at_ms = declared.parse_moment_of(wanted.version, wanted.timestamp)
    _require_one_view(run, table, wanted)
    require_one_point(wanted.schema_id, wanted.snapshot_id, wanted.tag)

    def show(opened: Handle) -> None:
        if wanted.lists_files:
            _list_files(run, opened.table, wanted, at_ms)
            return
        if wanted.columns is not None or wanted.limit is not None:
            raise UsageError(
                "--columns and --limit require --files or --tombstones",
                hint=f"deltacli snapshot {quote_table(table)} --files",
            )
        result, following = opened.state(**vars(wanted))
        run.write(result)
        if following is not None:
            run.say_next(following.format(table=quote_table(table)))

    ask(run, table, show)


def _require_one_view(run: Run, table: str, wanted: SnapshotOptions) -> None:
    if wanted.mapping and not wanted.schema:
        raise UsageError(
            "--mapping requires --schema", hint=f"deltacli snapshot {quote_table(table)} --schema --mapping"
        )
    if sum([wanted.schema, wanted.lists_files, wanted.counts or wanted.digest]) > 1:
        raise UsageError("--schema, --files or --tombstones, and --counts or --digest exclude each other")
    if wanted.from_checksum and (wanted.schema or wanted.lists_files or wanted.digest):
        raise UsageError("--from-checksum excludes --schema, --files, --tombstones and --digest")
    if not wanted.lists_files and (run.format is PARQUET or run.directory is not None):
        what = "--format parquet" if run.directory is None else "--output DIR"
        output = ["--output", "files.parquet"] if run.directory is None else []
        raise UsageError(
            f"{what} requires --files or --tombstones",
            code="usage.output",
            hint=repeat_command_with_flags(invocation.arguments, ["--files", *output]),
        )
    require_file(run)


def _list_files(run: Run, table: Table, wanted: SnapshotOptions, at_ms: int | None) -> None:
    from deltacli.cli.render.data.file_list import FileListing, FilesResult
    from deltacli.table.output import write_actions

    listing = FileListing.choose(wanted.columns, files=wanted.files, tombstones=wanted.tombstones)
    most = settle_limit(run, wanted.limit)
    found = table.snapshot(version=wanted.version, timestamp_ms=at_ms)
    note_findings(run, found, at_ms)
    if run.directory is not None:
        write = partial(write_actions, found.file_actions, columns=listing.shape, limit=most or None)
        write_directory(run, found.table.uri, "files", {"version": found.version}, write, most)
        return
    result = FilesResult(found, listing, most)
    run.write(result)
    if result.was_cut:
        run.note(f"showing the first {most:,}; to show all: {repeat_command_without_limit(invocation.arguments)}")
