"""`deltacli snapshot TABLE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterRowsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import get_format_options
from deltacli.cli.options.moments import parse_timestamp_option
from deltacli.cli.options.paimon import BranchOption, SchemaIdOption, SnapshotIdOption, TagOption
from deltacli.cli.options.tables import ColumnsOption, LimitOption, TableHereArgument, TimestampOption, VersionOption
from deltacli.cli.output.formats import PARQUET
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_version_problems
from deltacli.cli.running.row_notes import choose_row_limit, require_parquet_output, write_directory
from deltacli.cli.running.table_formats import call_with_table, require_one_point
from deltacli.cli.terminal.suggested_commands import repeat_command_with_flags, repeat_command_without_limit
from deltacli.core.errors import UsageError, quote_table

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table

app = typer.Typer(add_completion=False)

_DELTA_OPTIONS = (
    "version",
    "timestamp",
    "files",
    "tombstones",
    "mapping",
    "counts",
    "digest",
    "from_checksum",
    "limit",
    "columns",
)
_PAIMON_OPTIONS = ("schema_id", "snapshot_id", "tag", "branch", "ddl")


@dataclass(frozen=True, eq=False, repr=False)
class SnapshotOptions:
    """The version to show, and the view of it.

    Attributes:
        version: The version of a Delta table. None: the newest version, or that of `timestamp`.
        timestamp: The time whose version is shown, as the user typed it.
        files: Whether the data files are listed.
        tombstones: Whether removed files are listed.
        schema: Whether the schema is shown as a tree.
        mapping: Whether the tree contains physical names and ids.
        counts: Whether only counts are shown.
        digest: Whether a digest of the state is computed.
        from_checksum: Whether the version checksum is read instead of the log.
        limit: How many files are listed.
        columns: The columns of the list of files, separated by commas.
        schema_id: The schema of a Paimon table.
        snapshot_id: The snapshot of a Paimon table.
        tag: The tag of a Paimon table.
        branch: The branch of a Paimon table.
        ddl: Whether the schema is shown as a CREATE TABLE statement.
    """

    version: int | None = None
    timestamp: str | None = None
    files: bool = False
    tombstones: bool = False
    schema: bool = False
    mapping: bool = False
    counts: bool = False
    digest: bool = False
    from_checksum: bool = False
    limit: int | None = None
    columns: str | None = None
    schema_id: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    branch: str | None = None
    ddl: bool = False

    @property
    def lists_files(self) -> bool:
        """True if files are listed instead of the state."""
        return self.files or self.tombstones


@app.command("snapshot", cls=ClusterRowsCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def snapshot(
    context: typer.Context,
    table: TableHereArgument = ".",
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    files: Annotated[bool, typer.Option("--files", help="List the live files instead.")] = False,
    tombstones: Annotated[
        bool, typer.Option("--tombstones", help="List the tombstones instead, including expired ones.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Show the schema as a tree instead.")] = False,
    mapping: Annotated[
        bool, typer.Option("--mapping", help="Show the ids and physical names of column mapping; requires --schema.")
    ] = False,
    counts: Annotated[
        bool, typer.Option("--counts", help="Show only the numbers of files, rows, bytes and tombstones.")
    ] = False,
    digest: Annotated[
        bool, typer.Option("--digest", help="Add SHA-256 digests of the live files and tombstones.")
    ] = False,
    from_checksum: Annotated[
        bool,
        typer.Option(
            "--from-checksum",
            help="Take the state from the checksum of the version, without a replay, as far as the checksum has it.",
        ),
    ] = False,
    limit: LimitOption = None,
    columns: ColumnsOption = None,
    schema_id: SchemaIdOption = None,
    snapshot_id: SnapshotIdOption = None,
    tag: TagOption = None,
    branch: BranchOption = None,
    ddl: Annotated[
        bool, typer.Option("--ddl", help="Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead.")
    ] = False,
) -> None:
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
    run: CommandContext = context.obj
    options = SnapshotOptions(
        version=version,
        timestamp=timestamp,
        files=files,
        tombstones=tombstones,
        schema=schema,
        mapping=mapping,
        counts=counts,
        digest=digest,
        from_checksum=from_checksum,
        limit=limit,
        columns=columns,
        schema_id=schema_id,
        snapshot_id=snapshot_id,
        tag=tag,
        branch=branch,
        ddl=ddl,
    )
    at_ms = parse_timestamp_option(version, timestamp)
    _require_one_view(run, table, options)
    require_one_point(schema_id, snapshot_id, tag)

    format_options = get_format_options(context, delta=_DELTA_OPTIONS, paimon=_PAIMON_OPTIONS)
    call_with_table(
        run,
        table,
        delta=lambda delta_table: _show_delta_table(run, table, delta_table, options, at_ms),
        paimon=lambda paimon_table: _show_paimon_table(run, table, paimon_table, options),
        options=format_options,
        branch=branch,
    )


def _require_one_view(run: CommandContext, table: str, options: SnapshotOptions) -> None:
    """Require that the options select one view of the table: its state, its schema, or its files.

    Raises:
        UsageError: If options of several views are combined, or the format of the output needs another view.
    """
    if options.mapping and not options.schema:
        raise UsageError(
            "--mapping requires --schema", hint=f"deltacli snapshot {quote_table(table)} --schema --mapping"
        )
    views = [options.schema, options.lists_files, options.counts or options.digest]
    if sum(views) > 1:
        raise UsageError("--schema, --files or --tombstones, and --counts or --digest exclude each other")
    if options.from_checksum and (options.schema or options.lists_files or options.digest):
        raise UsageError("--from-checksum excludes --schema, --files, --tombstones and --digest")

    if not options.lists_files and run.directory is not None:
        raise _make_no_files_error("--output DIR", ["--files"])
    if not options.lists_files and run.format is PARQUET:
        raise _make_no_files_error("--format parquet", ["--files", "--output", "files.parquet"])
    require_parquet_output(run)


def _make_no_files_error(output_option: str, missing_options: Sequence[str]) -> UsageError:
    return UsageError(
        f"{output_option} requires --files or --tombstones",
        code="usage.output",
        hint=repeat_command_with_flags(invocation.arguments, missing_options),
    )


def _require_no_row_options(table: str, options: SnapshotOptions) -> None:
    """Raise UsageError for `--columns` and `--limit` if no files are listed."""
    if options.columns is not None or options.limit is not None:
        raise UsageError(
            "--columns and --limit require --files or --tombstones",
            hint=f"deltacli snapshot {quote_table(table)} --files",
        )


def _show_delta_table(
    run: CommandContext, name: str, table: Table, options: SnapshotOptions, at_ms: int | None
) -> None:
    if options.lists_files:
        _list_files(run, table, options, at_ms)
        return
    _require_no_row_options(name, options)
    if options.schema:
        _show_schema(run, table, options, at_ms)
    else:
        _show_state(run, name, table, options, at_ms)


def _show_paimon_table(run: CommandContext, name: str, table: Paimon, options: SnapshotOptions) -> None:
    _require_no_row_options(name, options)
    from deltacli.cli.render.paimon import PaimonSchemaResult, PaimonSnapshotResult

    snapshot = table.snapshot(schema_id=options.schema_id, snapshot_id=options.snapshot_id, tag=options.tag)
    if options.schema or options.ddl:
        run.write(PaimonSchemaResult(snapshot, as_ddl=options.ddl))
    else:
        run.write(PaimonSnapshotResult(snapshot))
    run.suggest_command(f"deltacli history {quote_table(name)}")


def _show_schema(run: CommandContext, table: Table, options: SnapshotOptions, at_ms: int | None) -> None:
    from deltacli.cli.render.schemas.tree import SchemaResult

    snapshot = table.snapshot(version=options.version, timestamp_ms=at_ms)
    note_version_problems(run, snapshot, at_ms)
    run.write(SchemaResult(snapshot, with_mapping=options.mapping))


def _show_state(run: CommandContext, name: str, table: Table, options: SnapshotOptions, at_ms: int | None) -> None:
    """Write the state of a version.

    With `--from-checksum` it is read from the version checksum. If there is none that can be used, the log is replayed.
    """
    from deltacli.cli.render.snapshot import SnapshotResult

    show_schema = f"deltacli snapshot {quote_table(name)} --schema"
    if options.from_checksum:
        from deltacli.table.version_from_checksum import ReplayNeeded

        checksum = table.read_checksum(version=options.version, timestamp_ms=at_ms)
        if not isinstance(checksum, ReplayNeeded):
            note_version_problems(run, checksum, at_ms)
            run.write(SnapshotResult(checksum, name, only_counts=options.counts, source="checksum"))
            run.suggest_command(show_schema)
            return
        run.note(f"note: the log was replayed: {checksum.reason}")

    summary = table.summarize(version=options.version, timestamp_ms=at_ms, digest=options.digest)
    note_version_problems(run, summary.snapshot, at_ms)
    source = "replay" if options.from_checksum else None
    run.write(SnapshotResult(summary, name, only_counts=options.counts, source=source))
    run.suggest_command(f"deltacli validate {quote_table(name)}" if summary.snapshot.problems else show_schema)


def _list_files(run: CommandContext, table: Table, options: SnapshotOptions, at_ms: int | None) -> None:
    """Write the add and remove actions of a version, to the output directory if `--output` names one."""
    from deltacli.cli.render.data.file_list import FileListing, FilesResult
    from deltacli.table.output import write_actions

    listing = FileListing.choose(options.columns, files=options.files, tombstones=options.tombstones)
    limit = choose_row_limit(run, options.limit)
    snapshot = table.snapshot(version=options.version, timestamp_ms=at_ms)
    note_version_problems(run, snapshot, at_ms)
    if run.directory is not None:
        write = partial(write_actions, snapshot.file_actions, columns=listing.shape, limit=limit or None)
        write_directory(run, snapshot.table.uri, "files", {"version": snapshot.version}, write, limit)
        return

    result = FilesResult(snapshot, listing, limit)
    run.write(result)
    if result.was_cut:
        run.note(f"showing the first {limit:,}; to show all: {repeat_command_without_limit(invocation.arguments)}")
