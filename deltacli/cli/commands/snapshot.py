"""`deltacli snapshot TABLE`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterRowsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import given_options_of_one_format
from deltacli.cli.options.moments import parse_moment_of
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
    *("version", "timestamp", "files", "tombstones", "mapping", "counts", "digest", "from_checksum"),
    *("limit", "columns"),
)
_PAIMON_OPTIONS = ("schema_id", "snapshot_id", "tag", "branch", "ddl")


@dataclass(frozen=True, eq=False, repr=False)
class SnapshotOptions:
    """The point of the table, and what of it is shown."""

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
    wanted = SnapshotOptions(
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
    at_ms = parse_moment_of(wanted.version, wanted.timestamp)
    _require_one_view(run, table, wanted)
    require_one_point(wanted.schema_id, wanted.snapshot_id, wanted.tag)

    def require_rows_are_listed() -> None:
        if wanted.columns is not None or wanted.limit is not None:
            raise UsageError(
                "--columns and --limit require --files or --tombstones",
                hint=f"deltacli snapshot {quote_table(table)} --files",
            )

    def show_delta(opened: Table) -> None:
        if wanted.lists_files:
            _list_files(run, opened, wanted, at_ms)
            return
        require_rows_are_listed()
        if wanted.schema:
            _show_schema(run, opened, wanted, at_ms)
        else:
            _show_state(run, table, opened, wanted, at_ms)

    def show_paimon(opened: Paimon) -> None:
        require_rows_are_listed()
        from deltacli.cli.render.paimon import PaimonSchemaResult, PaimonSnapshotResult

        found = opened.snapshot(schema_id=schema_id, snapshot_id=snapshot_id, tag=tag)
        if schema or ddl:
            run.write(PaimonSchemaResult(found, as_ddl=ddl))
        else:
            run.write(PaimonSnapshotResult(found))
        run.suggest_command(f"deltacli history {quote_table(table)}")

    options = given_options_of_one_format(context, delta=_DELTA_OPTIONS, paimon=_PAIMON_OPTIONS)
    call_with_table(run, table, delta=show_delta, paimon=show_paimon, options=options, branch=branch)


def _require_one_view(run: CommandContext, table: str, wanted: SnapshotOptions) -> None:
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
    require_parquet_output(run)


def _show_schema(run: CommandContext, table: Table, wanted: SnapshotOptions, at_ms: int | None) -> None:
    from deltacli.cli.render.schemas.tree import SchemaResult

    snapshot = table.snapshot(version=wanted.version, timestamp_ms=at_ms)
    note_version_problems(run, snapshot, at_ms)
    run.write(SchemaResult(snapshot, with_mapping=wanted.mapping))


def _show_state(run: CommandContext, name: str, table: Table, wanted: SnapshotOptions, at_ms: int | None) -> None:
    """Write the state of a version, from its checksum if that is asked for and it has one that can be used."""
    from deltacli.cli.render.snapshot import SnapshotResult

    following = f"deltacli snapshot {quote_table(name)} --schema"
    if wanted.from_checksum:
        from deltacli.table.version_from_checksum import ReplayNeeded

        stated = table.read_checksum(version=wanted.version, timestamp_ms=at_ms)
        if not isinstance(stated, ReplayNeeded):
            note_version_problems(run, stated, at_ms)
            run.write(SnapshotResult(stated, name, only_counts=wanted.counts, source="checksum"))
            run.suggest_command(following)
            return
        run.note(f"note: the log was replayed: {stated.reason}")

    summary = table.summarize(version=wanted.version, timestamp_ms=at_ms, digest=wanted.digest)
    note_version_problems(run, summary.snapshot, at_ms)
    source = "replay" if wanted.from_checksum else None
    run.write(SnapshotResult(summary, name, only_counts=wanted.counts, source=source))
    run.suggest_command(f"deltacli validate {quote_table(name)}" if summary.snapshot.problems else following)


def _list_files(run: CommandContext, table: Table, wanted: SnapshotOptions, at_ms: int | None) -> None:
    from deltacli.cli.render.data.file_list import FileListing, FilesResult
    from deltacli.table.output import write_actions

    listing = FileListing.choose(wanted.columns, files=wanted.files, tombstones=wanted.tombstones)
    most = choose_row_limit(run, wanted.limit)
    found = table.snapshot(version=wanted.version, timestamp_ms=at_ms)
    note_version_problems(run, found, at_ms)
    if run.directory is not None:
        write = partial(write_actions, found.file_actions, columns=listing.shape, limit=most or None)
        write_directory(run, found.table.uri, "files", {"version": found.version}, write, most)
        return
    result = FilesResult(found, listing, most)
    run.write(result)
    if result.was_cut:
        run.note(f"showing the first {most:,}; to show all: {repeat_command_without_limit(invocation.arguments)}")
